"""``trn3 plan --train`` on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import typer

from support.command_line import Outcome
from trn3.cli import app, plan

Run = Callable[..., Outcome]
LLAMA = ["plan", "llama-3-8b", "--train", "--global-batch", "1024", "--sequence", "8192"]


def test_plan_train_prints_one_screen(run: Run) -> None:
    outcome = run(*LLAMA, "--system", "gen2", "--chips", "128", "--price", "trainium_hour_list")
    assert outcome.code == 0, outcome.stderr
    for text in ("MFU (6PT)", "tokens/s", "optimizer states", "kW at 500 W", "USD a million"):
        assert text in outcome.stdout
    assert "assumed: " in outcome.stdout
    for text in (
        "pipeline        ",
        "bubble",
        "recompute       ",
        "bytes a weight: ",
        "attention fused",
    ):
        assert text in outcome.stdout


def test_plan_train_meets_the_published_rate(run: Run) -> None:
    words = ["--system", "trn1", "--chips", "512", "--tp", "32", "--pp", "1", "--zero", "1"]
    words += ["--micro-batch", "1", "--recompute", "selective", "--json"]
    plan = json.loads(run(*LLAMA, *words).stdout)
    assert plan["chips"] == 512
    assert plan["sequences_per_second"] == pytest.approx(47.95, rel=0.08)
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


# A value of every option that serving or training alone has.
SERVING = {
    "--in": "100",
    "--out": "0",
    "--batch": "8",
    "--replicas": "1",
    "--slo-ttft": "1s",
    "--slo-tpot": "1s",
    "--times": "roofline",
    "--calibration": "fitted",
    "--draft": "0.05",
    "--draft-tokens": "5",
    "--accepted": "2",
    "--plot": "plan.png",
}
TRAINING = {
    "--global-batch": "8",
    "--sequence": "128",
    "--micro-batch": "1",
    "--zero": "0",
    "--interleave": "1",
    "--recompute": "none",
    "--optimizer": "master",
}


# Those of operators alone; a flag has no value.
OPERATORS = {"--image-size": "224", "--frames": "100"}


def options_of_plan() -> set[str]:
    """Return every option of ``trn3 plan``, as it is written."""
    command = typer.main.get_command(app.app).commands["plan"]  # type: ignore[attr-defined]
    return {one.opts[0] for one in command.params if one.opts[0].startswith("--")}


def test_every_option_of_plan_is_of_serving_or_training_or_both() -> None:
    both = {f"--{name.replace('_', '-')}" for name in plan.BOTH - {"model", "as_json"}}
    alone = options_of_plan() - both - {"--json", "--train", "--ops", "--help"}
    # Another option has its place here and a value of its own, or is one of both.
    assert alone == SERVING.keys() | TRAINING.keys() | OPERATORS.keys()


@pytest.mark.parametrize("name", SERVING)
def test_training_refuses_every_option_of_serving(run: Run, name: str) -> None:
    outcome = run(*LLAMA, name, SERVING[name])
    assert (outcome.code, outcome.stdout) == (2, "")
    assert outcome.stderr == f"trn3: error: {name} is for serving: it has no meaning with --train\n"


@pytest.mark.parametrize("name", TRAINING)
def test_serving_refuses_every_option_of_training(run: Run, name: str) -> None:
    outcome = run("plan", "llama-3-8b", "--tp", "4", name, TRAINING[name])
    assert (outcome.code, outcome.stdout) == (2, "")
    assert outcome.stderr == f"trn3: error: {name} has a meaning only with --train\n"


@pytest.mark.parametrize("words", [["--draft-tokens", "5"], ["--accepted", "2"]])
def test_words_of_drafts_need_a_draft(run: Run, words: list[str]) -> None:
    outcome = run("plan", "llama-3-8b", "--tp", "4", *words)
    assert (outcome.code, outcome.stdout) == (2, "")
    assert outcome.stderr == f"trn3: error: {words[0]} has a meaning only with --draft\n"
