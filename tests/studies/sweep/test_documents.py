"""The scripts of the page about sweeps run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import trn3
from support.checks import TESTS

PAGE = TESTS.parent / "docs" / "how-to" / "sweep.md"
SCRIPTS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
PRINTED = [
    "{'rows': 128, 'columns': 512} 1.0",
    "<SweepResult: 199 points of batch, 199 from the checkpoint; ",
    "[0, 1, 4, 9, 16, 25, 36, 49, 64, 81]",
]


@pytest.mark.parametrize("number", range(len(PRINTED)))
def test_scripts_run_and_print_what_they_should(number: int, tmp_path: Path) -> None:
    assert len(SCRIPTS) == len(PRINTED)
    if "distributed" in SCRIPTS[number]:
        pytest.importorskip("distributed")
    (tmp_path / "study.py").write_text(SCRIPTS[number], encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(Path(trn3.__file__).parents[1])}
    finished = subprocess.run(
        [sys.executable, "study.py"],
        cwd=tmp_path,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert finished.returncode == 0, finished.stderr
    assert PRINTED[number] in finished.stdout
