"""Power: the figures that the parameters were chosen for, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

import trn3
from trn3 import power


def test_power_of_full_load_closes_on_the_tdp() -> None:
    busy = power.power("trainium3")
    parts = {name: round(watts) for name, watts in busy.parts.items()}
    assert parts == {"static": 300, "mxfp8": 554, "hbm": 157, "link": 0, "sbuf": 0}
    assert round(busy.watts) == 1011
    assert {tdp: round(watts) for tdp, watts in busy.variants.items()} == {500: 505, 1000: 1011}
    assert "500 W and 1000 W" in busy.assumptions[0]
    assert "with a TDP of 500 W: 505 W" in str(busy)


def test_power_scales_with_the_tdp() -> None:
    load = {"dtype": "bf16", "utilisation": 0.4, "hbm": 0.7, "link": 1e11}
    full, half = power.power(**load), power.power(**load, tdp=500)  # type: ignore[arg-type]
    assert half.watts == pytest.approx(full.watts / 2)
    assert half.variants == pytest.approx(full.variants)


def test_power_of_systems_counts_chips_and_racks() -> None:
    gen2 = power.power("gen2", utilisation=0, hbm=0)
    assert (gen2.system, gen2.chip, gen2.chips) == ("trn3_gen2", "trainium3", 144)
    assert gen2.watts == pytest.approx(144 * 300)
    low, high = gen2.racks
    assert (low.watts_per_rack, low.cooling) == (36e3, "air")
    assert (high.watts, high.watts_per_rack, high.cooling) == (144e3, 72e3, "liquid")
    assert power.rack_power("gen1", tdp=1000)[0].watts_per_rack == 32e3


def test_perf_per_watt_has_four_readings() -> None:
    table = trn3.perf_per_watt("trainium3", "trainium2")
    assert [round(ratio, 2) for ratio in table.ratios] == [0.97, 1.94, 3.77, 4.0]
    assert "1000 W, trainium2 500 W" in table[0].assumption
    assert "both draw 500 W" in table[1].assumption
    assert all(reading.assumption for reading in table)
    assert str(table).count("x  ") == 4


amounts = st.floats(0, 1e18)


@given(a=amounts, b=amounts, c=amounts, d=amounts, seconds=st.floats(1e-3, 1e6))
def test_energy_is_additive(a: float, b: float, c: float, d: float, seconds: float) -> None:
    def of(flops: float, hbm: float, seconds: float) -> float:
        return power.energy(flops={"bf16": flops}, hbm_bytes=hbm, seconds=seconds).joules

    both = of(a, b, seconds) + of(c, d, seconds)
    assert of(a + c, b + d, 2 * seconds) == pytest.approx(both, rel=1e-9)


def test_energy_counts_every_chip() -> None:
    one = power.energy(flops={"mxfp8": 1e15, "fp32": 1e12}, seconds=1)
    many = power.energy(flops={"mxfp8": 1e15, "fp32": 1e12}, seconds=1, chips=16)
    assert many.joules == pytest.approx(16 * one.joules)
    assert one.joules == pytest.approx(300 + 220 + 2.64)
    assert sum(many.parts.values()) == pytest.approx(many.joules)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seconds": 0}, "seconds is 0"),
        ({"seconds": 1, "hbm_bytes": -1}, "hbm bytes is -1"),
        ({"seconds": 1, "flops": {"bf17": 1}}, "bf16"),
        ({"seconds": 1, "flops": {"bf16": -1.0}}, "flops is -1"),
        ({"seconds": 1, "chips": 0}, "chips is 0"),
        ({"seconds": 1, "tdp": 0}, "tdp is 0"),
        ({"seconds": 1, "chip": "trainium1"}, "no published TDP"),
        ({"seconds": 1, "chip": "measured"}, "needed: a chip"),
        ({"seconds": 1, "chip": "trainium33"}, "the nearest is 'trainium3'"),
    ],
)
def test_energy_refuses(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        power.energy(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"utilisation": 1.1}, "utilisation is 1.1"),
        ({"hbm": -0.1}, "hbm is -0.1"),
        ({"dtype": "fp16"}, "it has mxfp8, mxfp4, bf16, fp32"),
        ({"link": -1.0}, "link bytes is -1"),
    ],
)
def test_power_refuses(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        power.power("trainium3", **arguments)  # type: ignore[arg-type]
