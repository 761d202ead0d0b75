"""Bounds of predictions: what every plan and collective says of how sure it is."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import trn3
from trn3 import collectives, systems
from trn3.__main__ import main

ROOT = Path(__file__).parents[2]
KEYS = {"class", "rows", "within", "width", "basis", "text"}


def test_the_widths_are_what_published_rows_give() -> None:
    script = ROOT / "scripts" / "plan_bands.py"
    checked = subprocess.run([sys.executable, str(script), "--check"], check=False)
    assert checked.returncode == 0, "run: python scripts/plan_bands.py, and build"


def test_width_holds_nine_of_ten_and_is_widened() -> None:
    width = runpy.run_path(str(ROOT / "scripts" / "plan_bands.py"))["width"]
    assert width([1.0] * 10) == 0.25
    assert width([1.2] * 9 + [9.0]) == pytest.approx(0.3)
    assert width([1.2] * 8 + [9.0] * 2) == pytest.approx(12.0)
    assert width([1.2, 1.4]) == pytest.approx(0.8)
    # A class of few rows is no narrower than its phase.
    assert width([1.01], [1.01] + [1.4] * 9) == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("batch", "speculation", "phase"),
    [
        (1, None, "decode b1"),
        (8, None, "decode bN"),
        (1, {"length": 3, "accepted": 2.0, "draft_share": 0.05}, "speculation"),
    ],
)
def test_plan_lies_in_the_band_of_its_class(
    batch: int, speculation: dict[str, float] | None, phase: str
) -> None:
    plan = trn3.plan(
        "llama-3-8b", "trn1", tp=32, batch=batch, input_tokens=512, speculation=speculation
    )
    assert set(plan.band) == set(plan.ttft_band) == KEYS
    assert plan.band["class"] == f"trn1 {phase}"
    assert plan.ttft_band["class"] == "trn1 prefill"
    assert plan.tpot_high / plan.tpot == pytest.approx(1 + plan.band["width"])
    assert plan.tpot / plan.tpot_low == pytest.approx(1 + plan.band["width"])
    assert plan.ttft_low < plan.ttft < plan.ttft_high
    assert plan.to_dict()["band"] == plan.band
    assert plan.to_dict()["tpot_low"] == plan.tpot_low


def test_trainium3_says_that_nobody_measured_it() -> None:
    plan = trn3.plan("llama-3-8b", "gen2", tp=4, batch=1, context=8_000)
    assert plan.band["class"] == "trn3 decode b1"
    assert plan.band["text"].endswith("no measured trn3 row exists")
    like = trn3.plan("llama-3-8b", "trn2", tp=4, batch=1, context=8_000)
    assert plan.band["width"] >= like.band["width"]


def test_peers_have_one_class() -> None:
    plan = trn3.plan("llama-3-8b", "h100", tp=1, batch=4, context=2_000)
    assert plan.band["class"] == plan.ttft_band["class"] == "gpu"


def test_training_has_bounds_of_time_and_rate() -> None:
    asked = trn3.Training(1024, 2048, tp=8, pp=1)
    plan = trn3.plan("llama-3-8b", "trn1", training=asked, uncertainty=20, seed=3)
    assert plan.band["class"] == "trn1 training"
    assert plan.step_time_low < plan.step_time < plan.step_time_high
    assert plan.sequences_per_second_low == pytest.approx(1024 / plan.step_time_high)
    figures = plan.uncertainty["figures"]
    assert set(figures) == {"step_time", "sequences_per_second", "tokens_per_second"}
    assert figures["step_time"]["p10"] < figures["step_time"]["p90"]


def test_collectives_have_bounds_by_what_they_cross() -> None:
    inside = collectives.time("all_reduce", 1e6, "trn1")
    assert inside.band["class"] == "trn1 collectives 1 node"
    assert inside.time_low < inside.time < inside.time_high
    two = systems.cluster(2, "trn1")
    across = collectives.time("all_reduce", 1e6, two, range(64))
    assert across.band["class"] == "trn1 collectives network"
    one_of_two = collectives.time("all_reduce", 1e6, two, range(32))
    assert one_of_two.band["class"] == "trn1 collectives 1 node"


def test_commands_print_one_line_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "llama-3-8b", "--system", "gen2", "--tp", "4", "--batch", "1"]) == 0
    [line] = [x for x in capsys.readouterr().out.splitlines() if x.startswith("expected")]
    assert "ms a token (within " in line
    assert "no measured trn3 row exists" in line
    assert main(["nccom-test", "allr", "--system", "trn2"]) == 0
    assert "bytes); times within " in capsys.readouterr().out
    assert main(["nccom-test", "allr", "--system", "trn2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    [row] = document["results"]
    assert row["time_low(us)"] < row["time(us)"] < row["time_high(us)"]
    assert set(document["band"]) == KEYS


def test_uncertainty_depends_on_the_seed_and_nothing_else() -> None:
    def drawn(seed: int) -> trn3.planner.Plan:
        return trn3.plan(
            "llama-3-8b", "gen2", tp=4, batch=1, context=8_000, uncertainty=300, seed=seed
        )

    first, again, other = drawn(1), drawn(1), drawn(2)
    assert first.uncertainty == again.uncertainty != other.uncertainty
    assert first.uncertainty is not None
    assert (first.uncertainty["samples"], first.uncertainty["seed"]) == (300, 1)
    for name in ("tpot", "ttft", "tokens_per_second_per_chip"):
        quantiles = first.uncertainty["figures"][name]
        assert quantiles["p10"] < quantiles["p50"] < quantiles["p90"]
        assert quantiles["p10"] < getattr(first, name) < quantiles["p90"]
    # What was drawn is forgotten: the plan itself is that of the constants.
    plain = trn3.plan("llama-3-8b", "gen2", tp=4, batch=1, context=8_000)
    assert (plain.tpot, plain.uncertainty) == (first.tpot, None)


def test_uncertainty_of_a_peak_is_nothing_that_was_fitted() -> None:
    plan = trn3.plan(
        "llama-3-8b", "h100", tp=1, batch=1, context=2_000, calibration="peak", uncertainty=50
    )
    assert plan.uncertainty is not None
    quantiles = plan.uncertainty["figures"]["tpot"]
    assert quantiles["p90"] / quantiles["p10"] < 1.02


def test_uncertainty_refuses_no_draws() -> None:
    with pytest.raises(ValueError, match="uncertainty is 0; allowed: 1 to 100000 draws"):
        trn3.plan("llama-3-8b", "gen2", tp=4, batch=1, uncertainty=0)


def test_uncertainty_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["plan", "llama-3-8b", "--tp", "4", "--batch", "1", "--uncertainty", "20"]
    assert main(asked) == 0
    [line] = [x for x in capsys.readouterr().out.splitlines() if x.startswith("20 draws")]
    assert "p10, p50, p90 of " in line
    assert main([*asked, "--seed", "4", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["uncertainty"]["seed"] == 4


def test_bounds_move_with_what_the_host_adds() -> None:
    here = collectives.time("all_reduce", 1e6, "trn1")
    host = collectives.time("all_reduce", 1e6, "trn1", launch="host")
    assert host.time_low > here.time_low
    assert host.time_high / host.time == pytest.approx(1 + host.band["width"])
