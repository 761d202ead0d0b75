"""What the README prints and the commands it names, about systems."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from trn3.__main__ import main

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()
SECTION = README.split("## A model on a system")[1].split("\n## ")[0]
COMMANDS = [
    line.split("#")[0].strip() for line in SECTION.splitlines() if line.startswith("    trn3 ")
]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_work(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(command)[1:]) == 0, capsys.readouterr().err
    assert len(capsys.readouterr().out.splitlines()) > 5


def test_the_program_prints_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    (source,) = re.findall(r"```python\n(.*?)```", SECTION, flags=re.DOTALL)
    (printed,) = re.findall(r"prints\n\n```\n(.*?)```", SECTION, flags=re.DOTALL)
    exec(compile(source, "README.md", "exec"), {"__name__": "readme"})
    assert capsys.readouterr().out == printed
