"""``--compile`` and ``TRN3_COMPILE``: which commands take a level, and whose word counts."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
Refused = Callable[..., str]

KERNELS = """
import neuronxcc.nki as older
import neuronxcc.nki.language as older_language
import nki
import nki.language as nl
import numpy as np

@nki.jit
def double(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), 2.0))
    return out

@older.jit
def old(x):
    out = older_language.ndarray(x.shape, dtype=x.dtype, buffer=older_language.shared_hbm)
    tile = older_language.load(x)
    older_language.store(out, value=tile + tile)
    return out

timed = older.benchmark(old)
pinned = nki.simulate(double, compile="as-written")

def inputs():
    return {"x": np.ones((128, 8), np.float32)}

def golden(x):
    return 2 * x

if __name__ == "__main__":
    import sys
    import trn3.nki
    levels = []
    with trn3.nki.observing(lambda launched: levels.append(launched.level)):
        for kernel in (double, old, timed, pinned):
            kernel(**inputs())
        trn3.nki.profile(old, **inputs(), compile="nki")
    print(*levels)
    sys.exit(int(sys.argv[1]) if sys.argv[1:] else 0)
"""
ALLOWED = "allowed: as-written, nki, neuronx-cc"


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRN3_COMPILE", raising=False)


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS)
    return path


def level(run: Run, *words: object) -> str:
    """Return the level of a profile."""
    outcome = run("profile", *words, "--json")
    assert (outcome.code, outcome.stderr) == (0, "")
    found: str = json.loads(outcome.stdout)["compile"]["level"]
    return found


def test_profile_takes_the_level_of_the_command_line_before_that_of_the_environment(
    run: Run, kernels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    double, old, pinned = (f"{kernels}:{name}" for name in ("double", "old", "pinned"))
    assert level(run, double) == "as-written"
    assert level(run, old) == "neuronx-cc"
    assert level(run, f"{kernels}:timed") == "neuronx-cc"
    assert level(run, double, "--compile", "neuronx-cc") == "neuronx-cc"
    assert level(run, old, "--compile", "as-written", "--timing-only") == "as-written"
    monkeypatch.setenv("TRN3_COMPILE", "nki")
    assert level(run, double) == level(run, old) == "nki"
    assert level(run, double, "--compile", "as-written") == "as-written"
    # What the file itself says of its kernel comes first.
    assert level(run, pinned) == level(run, pinned, "--compile", "nki") == "as-written"
    assert os.environ["TRN3_COMPILE"] == "nki"


def test_profile_shows_and_writes_what_the_compiler_did(
    run: Run, kernels: Path, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    outcome = run("profile", f"{kernels}:old", "--out", out)
    assert outcome.code == 0
    assert "compiled at neuronx-cc: " in outcome.stdout
    assert " bound " in outcome.stdout
    document = json.loads((out / "profile.json").read_text())
    assert document["figures"]["compile"]["level"] == "neuronx-cc"
    assert document["data"]["compile"] == document["figures"]["compile"]
    assert "compiled" not in run("profile", f"{kernels}:double").stdout


def test_an_unknown_level_is_one_line(
    refused: Refused, kernels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    double = f"{kernels}:double"
    wanted = f"--compile is 'fast'; {ALLOWED}"
    assert refused("profile", double, "--compile", "fast") == wanted
    assert refused("diff", double, "--compile", "fast") == wanted
    assert refused("diff", double, "--compile", "nki", "--compile", "fast") == wanted
    assert refused("run", "--compile", "fast", kernels) == wanted
    assert refused("record", double, "-o", tmp_path / "a.json", "--compile", "fast") == wanted
    assert "TRN3_COMPILE" not in os.environ
    monkeypatch.setenv("TRN3_COMPILE", "quick")
    wanted = f"TRN3_COMPILE is 'quick'; {ALLOWED}"
    assert refused("profile", double) == wanted
    assert refused("diff", double) == wanted
    assert refused("run", kernels) == wanted


def test_run_lets_the_scripts_own_words_count(run: Run, kernels: Path) -> None:
    assert run("run", kernels).stdout == "as-written neuronx-cc neuronx-cc as-written nki\n"
    outcome = run("run", "--compile", "nki", kernels, "3")
    assert outcome.stdout == "nki nki nki as-written nki\n"
    # What follows the script is the script's.
    assert (outcome.code, run("run", kernels, "4", "--compile", "fast").code) == (3, 4)
    assert "TRN3_COMPILE" not in os.environ


def test_record_writes_what_the_level_makes(run: Run, kernels: Path, tmp_path: Path) -> None:
    texts = {}
    for level in ("as-written", "neuronx-cc", ""):
        path = tmp_path / f"{level}.json"
        words = ("--compile", level) if level else ()
        assert run("record", f"{kernels}:old", "-o", path, *words).code == 0
        texts[level] = path.read_text()
    assert texts[""] == texts["neuronx-cc"] != texts["as-written"]


def test_diff_sets_levels_side_by_side(run: Run, kernels: Path) -> None:
    words = ("diff", f"{kernels}:old", "--compile", "as-written", "--compile", "nki")
    outcome = run(*words)
    assert outcome.code == 0
    for part in ("trn3, as-written", "trn3, nki", "latency", "golden"):
        assert part in outcome.stdout
    rows = json.loads(run(*words, "--arch", "trn2", "--json").stdout)["archs"]
    assert [(row["arch"], row["level"]) for row in rows] == [
        ("trn2", "as-written"),
        ("trn2", "nki"),
    ]
    rows = json.loads(run("diff", f"{kernels}:old", "--json").stdout)["archs"]
    assert [(row["arch"], row["level"]) for row in rows] == [
        ("trn2", "neuronx-cc"),
        ("trn3", "neuronx-cc"),
    ]
    one = run("diff", f"{kernels}:old", "--compile", "nki", "--json").stdout
    assert [row["level"] for row in json.loads(one)["archs"]] == ["nki", "nki"]
    two = run("diff", f"{kernels}:old", f"{kernels}:double", "--arch", "trn3")
    assert "old on trn3, neuronx-cc" in two.stdout
    assert "double on trn3, as-written" in two.stdout
