"""Cost: arithmetic by hand, claims solved and put back, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import trn3
from trn3 import cost

GIVEN: dict[str, Any] = {
    "capex": 3_000_000,
    "years": 4,
    "kW": 180,
    "pue": 1.15,
    "price_kwh": 0.07,
    "utilisation": 0.6,
}


def test_tco_is_capital_and_electricity() -> None:
    found = trn3.tco(**GIVEN, pflops=362.448, tokens_per_second=1e6)
    hour = 3_000_000 / (4 * 8760) + 180 * 1.15 * 0.07
    assert found.per_hour == pytest.approx(hour)
    assert found.total == pytest.approx(hour * 4 * 8760)
    assert found.total == pytest.approx(found.capital + found.electricity)
    assert found.per_pflop_hour == pytest.approx(hour / 362.448 / 0.6)
    assert found.per_million_tokens == pytest.approx(hour / 3600 / 0.6)
    by_name = trn3.tco(**GIVEN, system="gen2", tokens_per_second=1e6)
    assert by_name.per_pflop_hour == found.per_pflop_hour


def test_tco_lists_what_is_missing() -> None:
    found = trn3.tco(**GIVEN)
    assert (found.per_pflop_hour, found.per_million_tokens) == (None, None)
    text = str(found)
    assert "not included: cost of a PFLOP-hour" in text
    assert "not included: staff" in text
    assert "given: price_kwh 0.07" in text


def test_tco_has_no_defaults() -> None:
    for name in GIVEN:
        rest = {key: value for key, value in GIVEN.items() if key != name}
        with pytest.raises(TypeError, match=name):
            trn3.tco(**rest)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("utilisation", 0, "utilisation is 0"),
        ("utilisation", 1.5, "utilisation is 1.5"),
        ("capex", -1, "capex is -1"),
        ("years", 0, "years is 0"),
        ("kW", -2, "kW is -2"),
        ("kW", float("nan"), "kW is nan"),
        ("pue", 0.9, "pue is 0.9"),
        ("price_kwh", float("inf"), "price_kwh is inf"),
        ("pflops", 0, "pflops is 0"),
        ("tokens_per_second", -5, "tokens_per_second is -5"),
        ("system", "trn1_32xlarge", "no published 8-bit peak"),
    ],
)
def test_tco_refuses(name: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        trn3.tco(**{**GIVEN, name: value})


def test_tco_refuses_two_peaks_and_wrong_units() -> None:
    with pytest.raises(ValueError, match="needed: one of them"):
        trn3.tco(**GIVEN, pflops=1.0, system="gen2")
    chip = cost.prices("facts-2026-08")["b200_capex"]
    with pytest.raises(ValueError, match="b200_capex in USD/chip"):
        trn3.tco(**{**GIVEN, "capex": chip})


def test_rental_uses_named_prices() -> None:
    price = cost.prices("facts-2026-08")["trainium1_hour_reserved"]
    assert price.value * 16 == pytest.approx(8.197)
    found = cost.rental(price, chips=16, utilisation=1.0, tokens_per_second=47.95 * 8192)
    assert found.per_million_tokens == pytest.approx(8.197 / 3600 / (47.95 * 8192) * 1e6)
    assert "2026-08" in str(found)
    with pytest.raises(ValueError, match="chips is 0"):
        cost.rental(price, chips=0, utilisation=1.0)


def test_implied_capex_reads_the_claim_twice() -> None:
    found = trn3.implied_capex(claim=0.30)
    assert [round(ratio, 2) for ratio in found.ratios] == [0.77, 0.70]
    assert found.ratio == float(found)
    assert found.capex is None
    with_price = trn3.implied_capex(claim=0.30, peer_capex=72 * 37_500)
    assert with_price.capex == pytest.approx(72 * 37_500 * found.ratio)


def test_implied_capex_with_electricity_makes_the_claim_true() -> None:
    running = {"years": 4, "kilowatts": 144, "peer_kilowatts": 132, "pue": 1.2, "price_kwh": 0.1}
    found = trn3.implied_capex(peer_capex=3.5e6, running=running)
    shared = {"years": 4, "pue": 1.2, "price_kwh": 0.1, "utilisation": 1.0}
    peer = trn3.tco(3.5e6, kW=132, system="gb300_nvl72", **shared).per_pflop_hour
    assert found.capex is not None
    own = trn3.tco(found.capex, kW=144, system="gen2", **shared).per_pflop_hour
    assert peer is not None
    assert own is not None
    assert peer / own == pytest.approx(1.3)


@pytest.mark.parametrize("claim", [0, -0.3, 1, 30, float("nan")])
def test_implied_capex_refuses_claims(claim: float) -> None:
    with pytest.raises(ValueError, match="it is a share"):
        trn3.implied_capex(claim=claim)


def test_implied_capex_refuses_electricity_without_a_price() -> None:
    with pytest.raises(ValueError, match="give peer_capex"):
        trn3.implied_capex(
            running={"years": 4, "kilowatts": 1, "peer_kilowatts": 1, "pue": 1, "price_kwh": 1}
        )
    with pytest.raises(ValueError, match="missing field"):
        trn3.implied_capex(peer_capex=1.0, running={"years": 4})


def test_prices_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        '[mine]\n[[mine.price]]\nname = "rack"\nvalue = 3e6\nunit = "USD"\n'
        'date = "2026-11"\nsource = "offer"\n',
        encoding="utf-8",
    )
    rack = cost.prices(path)["rack"]
    assert "rack = 3e+06 USD (2026-11; offer)" in str(trn3.tco(**{**GIVEN, "capex": rack}))
    path.write_text("[a]\n[b]\n", encoding="utf-8")
    with pytest.raises(ValueError, match="holds 2 sets"):
        cost.prices(path)
    with pytest.raises(ValueError, match="facts-2026-08"):
        cost.prices("facts-2026")
