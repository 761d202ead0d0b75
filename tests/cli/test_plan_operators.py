"""``trn3 plan --ops``: the table of operators, JSON, refusals."""

from __future__ import annotations

import json

import pytest

from trn3.__main__ import main


def test_screen_has_every_operator(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "openai/whisper-large-v3", "--ops", "--batch", "8"]) == 0
    out = capfd.readouterr().out
    for word in (
        "whisper-large-v3", "encoder", "decoder", "conv1", "cross_attention", "GFLOP", "FLOP/B",
        "bound", "compute", "memory", "total", "recordings a second at most", "Assumed:",
    ):  # fmt: skip
        assert word in out, word


def test_json_is_the_table(capfd: pytest.CaptureFixture[str]) -> None:
    words = [
        "plan",
        "llama-3-8b",
        "--ops",
        "--in",
        "512",
        "--chips",
        "2",
        "--system",
        "trn2",
        "--json",
    ]
    assert main(words) == 0
    found = json.loads(capfd.readouterr().out)
    assert [one["name"] for one in found["passes"]] == ["prompt", "token"]
    assert (found["chips"], found["model"]["name"]) == (2, "llama-3-8b")
    row = found["passes"][0]["operators"][1]
    assert row["name"] == "qkv"
    assert row["shape"] == [512.0, 4096.0, 6144.0]
    assert row["flops"] == 32 * 2 * 512 * 4096 * 6144
    assert row["bound"] == "compute"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["vit-base"], "trn3 plan vit-base --ops"),
        (["vit-base", "--ops", "--tp", "2"], "--tp has no meaning with --ops"),
        (["vit-base", "--ops", "--train"], "--train has no meaning with --ops"),
        (["llama-3-8b", "--image-size", "224"], "--image-size has a meaning only with --ops"),
        (["llama-3-8b", "--ops", "--frames", "224"], "reads tokens alone"),
        (["vit-bose", "--ops"], 'nearest is "vit-base"'),
    ],
)
def test_refusals(words: list[str], said: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *words]) == 2
    assert said in capfd.readouterr().err.replace("\n", " ")


@pytest.mark.parametrize(
    "words",
    [
        ["--replicas", "1"], ["--slo-ttft", "1s"], ["--times", "roofline"], ["--draft", "0.05"],
        ["--draft-tokens", "5"], ["--global-batch", "8"], ["--optimizer", "master"],
        ["--lnc", "2"], ["--objective", "tpot"], ["--tdp", "900"], ["--price", "1"],
        ["--collectives", "levels"], ["--plot", "plan.png"],
    ],
)  # fmt: skip
def test_options_of_plans_are_refused(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "vit-base", "--ops", *words]) == 2
    assert f"{words[0]} has no meaning with --ops" in capfd.readouterr().err


@pytest.mark.parametrize("mode", [[], ["--train"]])
@pytest.mark.parametrize("name", ["--image-size", "--frames"])
def test_options_of_operators_need_them(
    mode: list[str], name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "llama-3-8b", *mode, name, "224"]) == 2
    assert f"{name} has a meaning only with --ops" in capfd.readouterr().err
