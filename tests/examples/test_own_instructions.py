"""Programs of the pages on own functions and on stochastic rounding run as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

HOW_TO = Path(__file__).resolve().parents[2] / "docs" / "how-to"
OWN = (HOW_TO / "own-instructions.md").read_text()
ROUNDING = (HOW_TO / "porting.md").read_text().partition("## Stochastic rounding")[2]
PROGRAMS = [
    *re.findall(r"```python\n(.*?)```", OWN, re.DOTALL),
    *re.findall(r"```python\n(.*?)```", ROUNDING, re.DOTALL),
]


def test_there_are_programs() -> None:
    assert len(PROGRAMS) == 3


@pytest.mark.parametrize("program", PROGRAMS, ids=["python", "c", "rounding"])
def test_programs_run(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "page.py"
    file.write_text(program)
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(program, file, "exec"), names)
    shown = re.findall(r"print\(.*\)  # (.*)", program)
    assert capsys.readouterr().out.split() == shown
