"""``trn3 run``: scripts for the vendor's package, unmodified."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
import numpy as np
import nki
import nki.language as nl
import nki.isa as nisa

@nki.jit
def double(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nisa.tensor_scalar(tile, tile, op0=nl.multiply, operand0=2.0)
    nl.store(out, tile)
    return out

if __name__ == "__main__":
    x = np.full((128, 4), float(sys.argv[1]), np.float32)
    print(double(x)[0, 0], sys.argv[1:])
"""


def trn3(*words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trn3", "run", *map(str, words)],
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
    )


def test_script_runs_with_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    outcome = trn3("script.py", "1.5", "--flag", cwd=tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout == "3.0 ['1.5', '--flag']\n"


def test_script_imports_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("import nki\nword = nki.__name__\n")
    (tmp_path / "script.py").write_text("import neighbour\nprint(neighbour.word)\n")
    outcome = trn3(tmp_path / "script.py", cwd=tmp_path.parent)
    assert outcome.returncode == 0, outcome.stderr
    assert "nki" in outcome.stdout


def test_exit_code_is_the_scripts(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import sys\nsys.exit(7)\n")
    assert trn3("script.py", cwd=tmp_path).returncode == 7


def test_exception_shows_the_scripts_frames_alone(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("def deep():\n    raise KeyError('here')\n\ndeep()\n")
    outcome = trn3("script.py", cwd=tmp_path)
    assert outcome.returncode == 1
    assert 'File "script.py", line 4' in outcome.stderr
    assert "KeyError: 'here'" in outcome.stderr
    assert "runpy" not in outcome.stderr


def test_missing_script_is_refused(tmp_path: Path) -> None:
    outcome = trn3("nowhere.py", cwd=tmp_path)
    assert outcome.returncode == 2
    assert outcome.stderr == "trn3: error: nowhere.py: there is no such file\n"
