"""`import trn3`: how long it takes and what it brings along."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

# Each belongs to one feature and is loaded where that is used.
HEAVY = {"click", "hypothesis", "matplotlib", "pandas", "rich", "safetensors", "torch", "typer"}
EXTRA_SECONDS = 0.150
ROUNDS = 7


def seconds(code: str, cwd: Path) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], cwd=cwd, check=True)
    return time.perf_counter() - start


def test_import_is_quick(tmp_path: Path) -> None:
    """`import trn3` takes under 150 ms more than its two dependencies, rounds interleaved."""
    base, ours = "import numpy, ml_dtypes", "import numpy, ml_dtypes, trn3"
    seconds(ours, tmp_path)  # files into the cache, bytecode written
    extra = [seconds(ours, tmp_path) - seconds(base, tmp_path) for _ in range(ROUNDS)]
    assert statistics.median(extra) < EXTRA_SECONDS


def test_import_pulls_in_nothing_heavy(tmp_path: Path) -> None:
    """The command line's, the plots' and the front ends' packages stay out."""
    code = "import json, sys, trn3; print(json.dumps(sorted(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    loaded = {name.partition(".")[0] for name in json.loads(run.stdout)}
    assert "trn3" in loaded
    assert not loaded & HEAVY
