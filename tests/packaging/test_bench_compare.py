"""``make bench-compare``: ratios of pairs, and what is said of rows that only one build has."""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

import bench_compare
from bench_compare import PairedRatio
from support.commands import ROOT


def test_drift_that_both_see_is_no_difference() -> None:
    """Each pair drifts by its own factor; the ratio and its interval do not see it."""
    drift = [1.0, 3.0, 0.2, 7.0]
    found = PairedRatio.of([2.0 * each for each in drift], drift)
    assert [round(each, 9) for each in (found.ratio, found.low, found.high)] == [2.0] * 3
    assert found.verdict == "faster"


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    generator = random.Random(20251202)
    held = 0
    for _ in range(2000):
        base = [math.exp(generator.gauss(0.1, 0.05)) for _ in range(5)]
        head = [math.exp(generator.gauss(0.0, 0.05)) for _ in range(5)]
        found = PairedRatio.of(base, head)
        held += found.low <= math.exp(0.1) <= found.high
    assert 0.935 < held / 2000 < 0.965


def test_what_both_orders_say_is_the_same() -> None:
    base, head = [1.0, 1.1, 1.3], [1.2, 1.0, 1.1]
    one, other = PairedRatio.of(base, head), PairedRatio.of(head, base)
    assert one.ratio == pytest.approx(1 / other.ratio)
    assert one.low == pytest.approx(1 / other.high)
    assert one.verdict == other.verdict == ""


def test_rows_of_one_build_are_named() -> None:
    both, new = ("cast", 1, "avx2"), ("new", 1, "avx2")
    base = [{both: 2.0}, {both: 2.1}, {both: 2.2}]
    head = [{both: 4.0, new: 1.0}, {both: 4.2, new: 1.0}, {both: 4.4, new: 1.0}]
    lines = bench_compare.table(base, head)
    assert lines[0].split()[-4:] == ["0.500", "[0.500,", "0.500]", "SLOWER"]
    assert lines[1].split() == ["new", *["not", "measured", "with", "both", "builds"]]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--base", "HEAD", "--pairs", "2"], "--pairs is 2; allowed: 3 and more"),
        (["--base", "no-such-revision"], "BASE is 'no-such-revision'; it must name a commit"),
    ],
)
def test_what_is_refused(words: list[str], said: str) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "bench_compare.py", *words],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert said in done.stderr


def test_a_build_is_measured_without_rivals(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    # A run inside a worker of pytest-xdist would measure nothing.
    outside = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "benches/bench_start.py", "-q", "-k", "version",
            "--benchmark-enable", "--timeout", "0",
        ],
        cwd=ROOT,
        env={**outside, "TRN3_BENCH_ALONE": "1", "TRN3_BENCH_ROWS": str(rows)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert '"rivals": []' in rows.read_text()
