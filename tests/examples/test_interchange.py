"""The programs and commands in the document about interchange work."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from trn3.__main__ import main

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "interchange.md"
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
COMMANDS = [line[2:] for line in PAGE.read_text().splitlines() if line.startswith("$ trn3 ")]


@pytest.mark.parametrize("program", range(len(PROGRAMS)))
def test_programs_work(program: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(PROGRAMS[program], f"program {program}", "exec"), {"__name__": "program"})


def test_commands_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(PROGRAMS[0], "program 0", "exec"), {"__name__": "program"})
    for command in COMMANDS:
        assert main(shlex.split(command)[1:]) == 0, capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} > {"job.json", "network.yml", "system.json"}


def test_a_spread_job_is_slower(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (program,) = (each for each in PROGRAMS if "placement=" in each)
    exec(compile(program, "program", "exec"), {"__name__": "program"})
    planned, replayed, spread = map(float, re.findall(r"([\d.]+) ms", capsys.readouterr().out))
    assert replayed == pytest.approx(planned, rel=0.1)
    assert spread > replayed
