"""``trn3 diff``: the table, JSON, and refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Refused = Callable[..., str]
Run = Callable[..., Any]
FOLDER = Path(__file__).resolve().parents[2] / "examples" / "kernels"
SOFTMAX = f"{FOLDER / 'softmax.py'}:softmax"
NORM = f"{FOLDER / 'norms.py'}:rmsnorm"


def test_diff_shows_machines_side_by_side(run: Run) -> None:
    outcome = run(
        "diff", SOFTMAX, "--arch", "trn2", "--arch", "trn3", "--arch", "trn3:vector_clock_mhz=+20%"
    )
    assert (outcome.code, outcome.stderr) == (0, "")
    for part in ["trn3:vector_clock_mhz=1440", "latency", "vector busy", "HBM read", "1.00 x"]:
        assert part in outcome.stdout
    assert "trn2: refused: NkiValidationError" in outcome.stdout


def test_diff_json_holds_every_machine(run: Run) -> None:
    outcome = run("diff", NORM, "--json", "--timing-only")
    document = json.loads(outcome.stdout)
    assert [row["arch"] for row in document["archs"]] == ["trn2", "trn3"]
    assert all(row["latency_us"] > 0 and row["equal"] is None for row in document["archs"])


def test_profile_takes_the_same_machines(run: Run, refused: Refused) -> None:
    arch = "trn3:vector_clock_mhz=-50%,psum_banks=4"
    outcome = run("profile", NORM, "--timing-only", "--json", "--arch", arch)
    found = json.loads(outcome.stdout)
    slow = json.loads(run("profile", NORM, "--timing-only", "--json").stdout)
    assert found["arch"] == "trn3:vector_clock_mhz=600,psum_banks=4"
    assert found["latency_us"] > slow["latency_us"]
    wrong = refused("profile", NORM, "--arch", "trn3:vector=1")
    assert "nearest: vector_" in wrong


def test_diff_refuses_in_one_line(refused: Refused, tmp_path: Path) -> None:
    assert refused("diff", NORM, "--arch", "trn9").startswith("--arch: arch is 'trn9'; allowed")
    profiled = refused("profile", NORM, "--arch", "trn9")
    assert profiled.startswith("--arch trn9: arch is trn9; allowed")
    assert "nearest: vector_clock_mhz" in refused("diff", NORM, "--arch", "trn3:vector_clk=1")
    assert "no machine runs it; trn2: " in refused("diff", SOFTMAX, "--arch", "trn2")
    assert "there is no such file" in refused("diff", tmp_path / "none.py")
    assert "there is no y" in refused("diff", NORM, "--shape", "y=3")
