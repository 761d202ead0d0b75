"""``trn3 power``, ``trn3 tco`` and ``trn3 cost`` on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from support.command_line import Outcome

Run = Callable[..., Outcome]
TCO = [
    *("tco", "--capex", "3e6", "--years", "4", "--kw", "180", "--pue", "1.15"),
    *("--price-kwh", "0.07", "--utilisation", "0.6"),
]


def test_power_shows_both_tdps_and_racks(run: Run) -> None:
    outcome = run("power", "gen2", "--against", "trainium2")
    assert outcome.code == 0
    for text in ("500 W", "1000 W", "36 kW", "72 kW", "liquid", "0.97", "1.94", "3.77", "4.00"):
        assert text in outcome.stdout
    assert "assumed: TDP of trainium3 taken as 1000 W" in outcome.stdout


def test_power_json_is_for_machines(run: Run) -> None:
    document = json.loads(run("power", "--json").stdout)
    assert round(document["watts"]) == 1011
    assert document["variants"].keys() == {"500.0", "1000.0"}


def test_tco_prints_inputs_and_omissions(run: Run) -> None:
    outcome = run(*TCO, "--system", "gen2")
    assert outcome.code == 0
    assert "USD for a PFLOP-hour" in outcome.stdout
    assert "not included" in outcome.stdout
    assert json.loads(run(*TCO, "--json").stdout)["per_million_tokens"] is None


def test_cost_of_named_prices(run: Run) -> None:
    words = ["--prices", "facts-2026-08", "--price", "h100_hour", "--tokens-per-second", "1000"]
    outcome = run("cost", *words)
    assert outcome.code == 0
    assert "0.8333 USD for a million tokens" in outcome.stdout
    assert "trainium_hour_contract" in run("cost").stdout
    assert "0.77x" in run("cost", "--claim", "0.30").stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["power", "trn9"], "is unknown"),
        (["power", "--utilisation", "2"], "utilisation is 2"),
        (["power", "--against", "trainium1"], "no published TDP"),
        ([*TCO, "--pflops", "-1"], "pflops is -1"),
        (["cost", "--price", "h100_hour"], "or --prices with its name (facts-2026-08)"),
        (["cost", "--price", "h1", "--prices", "facts-2026-08"], "has no price 'h1'"),
        (["cost", "--price", "1", "--claim", "0.3"], "different questions"),
        (["cost", "--claim", "3"], "claim is 3"),
    ],
)
def test_power_and_cost_refuse(run: Run, words: list[str], message: str) -> None:
    outcome = run(*words)
    assert (outcome.code, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith("trn3: error: ")
    assert message in outcome.stderr
    assert outcome.stderr.count("\n") == 1
