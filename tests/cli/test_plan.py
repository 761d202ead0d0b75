"""``trn3 plan``: one screen, JSON, pictures, refusals."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

SPECS = Path(__file__).parents[2] / "rust" / "facts" / "specs"


def trn3(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trn3", "plan", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_screen_answers_everything() -> None:
    done = trn3("openai/gpt-oss-120b", "--system", "gen2", "--in", 10000, "--out", 3000)
    assert done.returncode == 0, done.stderr
    for word in (
        "fits", "yes:", "time to first token", "time per token", "tokens/s a chip", "W a chip",
        "USD a million tokens", "bound by", "Assumed:", "layer overhead", "replicas, LNC=2",
    ):  # fmt: skip
        assert word in done.stdout, word


def test_json_is_the_plan(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(
        json.dumps(
            {
                "model_type": "llama",
                "hidden_size": 2048,
                "num_hidden_layers": 16,
                "num_attention_heads": 32,
                "num_key_value_heads": 8,
                "intermediate_size": 8192,
                "vocab_size": 128256,
                "tie_word_embeddings": True,
            }
        ),
        "utf-8",
    )
    options = ("--tp", 2, "--batch", 4, "--in", 1000, "--json", "--slo-ttft", "1s")
    done = trn3(config, *options)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["layout"]["tp"] == 2
    assert found["fits"] is True
    assert found["tpot"] > 0
    assert found["model"]["parameters"] == 1235814400


def test_plan_that_does_not_fit_prints_the_table() -> None:
    done = trn3("gpt-oss-120b", "--system", "trn2", "--tp", 8, "--in", 10000)
    assert done.returncode == 2
    assert "does not fit" in done.stderr
    assert "tensors (weights)" in done.stderr
    assert "3 chips" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("words", "needle"),
    [
        (("llama-3-8b", "--tp", 3), "tp is 3"),
        (("llama-3-9b",), "llama-3-8b"),
        (("nowhere.json",), "nowhere.json"),
        (("llama-3-8b", "--system", "gen3"), "gen3"),
        (("llama-3-8b", "--slo-tpot", "1ns"), "tpot"),
        (("llama-3-8b", "--draft", "llama-3.2-1b"), "--accepted"),
        (("llama-3-8b", "--plot", "plan.txt"), "plan.txt"),
        (("llama-3-8b", "--dtype", "experts=mxfp9"), "mxfp9"),
    ],
)
def test_wrong_words_are_refused_in_a_line(words: tuple[object, ...], needle: str) -> None:
    done = trn3(*words)
    assert done.returncode == 2
    assert needle in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr


def test_picture_is_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "plan.png"
    done = trn3("llama-3-8b", "--tp", 4, "--batch", 8, "--in", 1000, "--plot", path)
    assert done.returncode == 0, done.stderr
    assert path.stat().st_size > 10_000
    assert f"wrote {path}" in done.stdout


@pytest.mark.parametrize("joined", [("--instances", 2), ("--links", "headline")])
def test_spec_files_of_ones_own_are_joined_like_others(
    tmp_path: Path, joined: tuple[object]
) -> None:
    path = tmp_path / "mine.toml"
    text = (SPECS / "trn3_gen2.toml").read_text(encoding="utf-8")
    path.write_text(re.sub(r"^(\[+)trn3_gen2", r"\1mine", text, flags=re.MULTILINE), "utf-8")
    words = ("llama-3.2-1b", "--tp", 2, "--batch", 1, *joined, "--json", "--system")
    mine, ours = (json.loads(trn3(*words, system).stdout) for system in (path, "gen2"))
    for key in ("chips", "tpot", "ttft"):
        assert mine[key] == ours[key]
