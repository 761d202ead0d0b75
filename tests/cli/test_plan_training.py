"""``trn3 plan --train`` on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from support.command_line import Outcome

Run = Callable[..., Outcome]
LLAMA = ["plan", "llama-3-8b", "--train", "--global-batch", "1024", "--sequence", "8192"]


def test_plan_train_prints_one_screen(run: Run) -> None:
    outcome = run(*LLAMA, "--system", "gen2", "--chips", "128", "--price", "trainium_hour_list")
    assert outcome.code == 0, outcome.stderr
    for text in ("MFU (6PT)", "tokens/s", "optimizer states", "kW at 500 W", "USD a million"):
        assert text in outcome.stdout
    assert "assumed: " in outcome.stdout


def test_plan_train_meets_the_published_rate(run: Run) -> None:
    words = ["--system", "trn1", "--chips", "512", "--tp", "32", "--pp", "1", "--zero", "1"]
    words += ["--micro-batch", "1", "--recompute", "selective", "--json"]
    plan = json.loads(run(*LLAMA, *words).stdout)
    assert plan["chips"] == 512
    assert plan["sequences_per_second"] == pytest.approx(47.95, rel=0.01)
    assert plan["layout"]["dp"] == 32


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["plan", "llama-3-8b", "--train", "--sequence", "8192"], "--train needs --global-batch"),
        (["plan", "llama-3-8b", "--train", "--global-batch", "8"], "--train needs --sequence"),
        (["plan", "llama-3-8b", "--zero", "1"], "--zero has a meaning only with --train"),
        ([*LLAMA, "--batch", "8"], "--batch is for serving"),
        ([*LLAMA, "--system", "gen2"], "chips=128, or a batch of 1152, would work"),
        ([*LLAMA, "--system", "trn1", "--tp", "3"], "tp is 3"),
        ([*LLAMA, "--system", "gen2", "--price", "none"], "price 'none' is unknown"),
        ([*LLAMA, "--objective", "ttft"], "objective"),
    ],
)
def test_plan_train_refuses(run: Run, words: list[str], message: str) -> None:
    outcome = run(*words)
    assert (outcome.code, outcome.stdout) == (2, "")
    assert message in outcome.stderr
    assert outcome.stderr.count("\n") == 1


def test_plan_train_that_does_not_fit_shows_the_table(run: Run) -> None:
    words = ["plan", "llama-3.3-70b", "--train", "--global-batch", "1152", "--sequence", "8192"]
    words += ["--tp", "4", "--pp", "1", "--cp", "1", "--zero", "0", "--micro-batch", "1"]
    outcome = run(*words)
    assert outcome.code == 2
    first, *table = outcome.stderr.splitlines()
    assert "does not fit" in first
    assert "would fit" in first
    assert any(line.startswith("optimizer states") for line in table)
