"""Fleets that fail: closed forms computed here, what never hurts, and what is refused."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

import pytest

import trn3
from trn3.__main__ import main
from trn3.planner import capacity, fleet


def test_the_counted_fleet_is_interrupted_as_often_as_counted() -> None:
    """Rates come of the table of causes: its sum comes out again, and grows with chips and days."""
    found = trn3.goodput("h100", 16_384, 54, model="llama-3.1-405b", checkpoint_bandwidth=2e12)
    assert found.interruptions_expected == pytest.approx(419)
    assert found.interruptions == pytest.approx(419, abs=4 * math.sqrt(419 / found.runs))
    assert found.effective_time > 0.9
    assert found.effective_time_low < found.effective_time < found.effective_time_high
    half = trn3.goodput("h100", 8_192, 27, runs=2)
    assert half.interruptions_expected == pytest.approx(419 / 4)


def test_checkpoints_are_those_of_the_formulas() -> None:
    """Young: sqrt(2 w M). Daly: sqrt(2 w (M + R)) - w. Both of the job's own mean time."""
    found = trn3.goodput(
        "h100", 16_384, 54, checkpoint_bytes=2e13, checkpoint_bandwidth=1e12, runs=1
    )
    write, mean = 20.0, 54 * 86_400 / 419
    assert found.checkpoint.write_seconds == write
    assert found.checkpoint.young == pytest.approx(math.sqrt(2 * write * mean))
    ratio = write / (2 * mean)
    higher = math.sqrt(2 * write * mean) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - write
    assert found.checkpoint.interval == found.checkpoint.daly_higher_order == pytest.approx(higher)
    best = max(found.curve, key=lambda point: point[1])[0]
    assert best == pytest.approx(higher, rel=0.15)
    given = trn3.goodput("h100", 16_384, 54, checkpoint_interval="10s", runs=1)
    assert given.checkpoint.interval == 10
    assert not given.checkpoint.is_automatic


def test_a_checkpoint_is_weights_and_what_the_optimizer_keeps() -> None:
    weights = trn3.planner.model("llama-3-8b").parameters
    by_optimizer = {
        kind: fleet.goodput("gen2", 144, 1, model="llama-3-8b", optimizer=kind, runs=1)
        for kind in ("master", "stochastic_rounding", "all_bf16")
    }
    bytes_each = {kind: found.checkpoint.bytes / weights for kind, found in by_optimizer.items()}
    assert bytes_each == {"master": 14, "stochastic_rounding": 10, "all_bf16": 6}


def test_shares_are_the_whole_time() -> None:
    found = trn3.goodput("gen2", 14_400, 30, runs=4)
    assert sum(found.shares.values()) == pytest.approx(1)
    assert found.shares["training"] == pytest.approx(found.goodput)
    assert found.shares["training"] + found.shares["slower steps"] == pytest.approx(
        found.effective_time
    )
    assert found.effective_chips == pytest.approx(found.goodput * 14_400)


def test_nothing_fails_and_only_checkpoints_cost() -> None:
    never = dict.fromkeys(
        ("chip", "hbm", "link", "switch", "network_link", "network_switch", "host", "software",
         "planned", "straggler"),
        math.inf,
    )  # fmt: skip
    found = trn3.goodput("gen2", 144, 10, mtbf=never, checkpoint_interval=100, jitter=0, runs=2)
    write = found.checkpoint.write_seconds
    assert found.effective_time == pytest.approx(100 / (100 + write), abs=1e-3)
    assert (found.interruptions, found.mtbi_hours, found.parts) == (0, None, ())
    assert found.goodput == found.effective_time
    json.dumps(found.to_dict(), allow_nan=False)


def test_one_seed_is_one_answer_and_another_is_another() -> None:
    def run(seed: int) -> fleet.Goodput:
        return trn3.goodput("gen2", 14_400, 30, runs=2, seed=seed)

    assert run(1) == run(1)
    assert run(1).effective_time != run(2).effective_time


def test_a_million_chips_take_seconds() -> None:
    """What a run costs grows with failures and checkpoints, not with chips."""
    start = time.perf_counter()
    found = trn3.goodput("gen2", 1_000_000, 28, runs=4)
    assert time.perf_counter() - start < 20
    assert found.interruptions > 10_000
    assert found.effective_time < 0.5


@pytest.mark.parametrize("needed", [1, 20, 200])
def test_spares_are_those_of_the_binomial(needed: int) -> None:
    """With replicas larger than hosts all failures are of one replica, and counts are binomial."""
    never = dict.fromkeys(("network_switch",), math.inf)
    found = capacity("gen2", needed, 16, 0.9999, mtbf=never)
    up = found.replica_availability
    for row in found.table:
        total = needed + row.spares
        enough = sum(
            math.comb(total, down) * up ** (total - down) * (1 - up) ** down
            for down in range(row.spares + 1)
        )
        assert row.availability == pytest.approx(enough, abs=1e-9)
    hours = found.replica_mtbf_hours, found.replica_repair_hours
    assert None not in hours
    assert up == pytest.approx(1 / (1 + hours[1] / hours[0]))  # type: ignore[operator]


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    path = tmp_path / "fleet.svg"
    assert trn3.goodput("gen2", 1440, 10, runs=2).plot(path) == path
    assert "lost work" in path.read_text()


@pytest.mark.parametrize(
    ("given", "needle"),
    [
        ({"chips": 0}, "chips is 0"),
        ({"days": -1.0}, "days is -1"),
        ({"mtbf": {"chp": 1.0}}, "chip"),
        ({"mtbf": {"chip": -1.0}}, "mtbf of chip is -1"),
        ({"checkpoint_interval": "soon"}, "checkpoint_interval is 'soon'"),
        ({"jitter": -0.1}, "jitter is -0.1"),
        ({"system": "gen9"}, "gen9"),
    ],
)
def test_what_cannot_be_is_refused_by_name(given: dict[str, Any], needle: str) -> None:
    with pytest.raises((ValueError, KeyError), match=needle):
        trn3.goodput(**{"system": "gen2", "chips": 144, "days": 1, "runs": 1, **given})


def test_the_command_prints_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["goodput", "--chips", "1440", "--days", "5", "--runs", "2", "--seed", "3", "--json"]
    assert main(words) == 0
    first = capsys.readouterr().out
    assert main(words) == 0
    assert capsys.readouterr().out == first
    assert json.loads(first)["seed"] == 3


@pytest.mark.parametrize(
    ("words", "needle"),
    [
        (["--replicas", "4"], "--replicas is for --serving"),
        (["--serving", "--replicas", "4", "--chips", "9"], "--chips is for training"),
        (["--serving"], "--serving needs --replicas"),
        ([], "--chips is missing"),
        (["--chips", "9", "--mtbf", "chip"], "--mtbf is 'chip'"),
        (["--chips", "9", "--plot", "x.gif"], "x.gif"),
    ],
)
def test_the_command_refuses_by_name(
    words: list[str], needle: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["goodput", *words]) == 2
    assert needle in capsys.readouterr().err
