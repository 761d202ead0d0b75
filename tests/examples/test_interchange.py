"""What the page on interchange says of a job that is spread out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "interchange.md"
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)


def test_a_spread_job_is_slower(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (program,) = (each for each in PROGRAMS if "placement=" in each)
    exec(compile(program, "program", "exec"), {"__name__": "program"})
    planned, replayed, spread = map(float, re.findall(r"([\d.]+) ms", capsys.readouterr().out))
    assert replayed == pytest.approx(planned, rel=0.1)
    assert spread > replayed
