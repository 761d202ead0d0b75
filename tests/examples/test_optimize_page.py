"""The page on faster kernels: its commands run, and print what it says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from trn3.__main__ import main

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "optimize.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(sh|text)\n(.*?)```", PAGE, re.DOTALL)


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def test_every_command_prints_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    shown, commands = "", 0
    for kind, text in BLOCKS:
        if kind == "text":
            lines = {plain(line) for line in shown.splitlines()}
            assert {plain(line) for line in text.splitlines()} <= lines
            continue
        for line in text.splitlines():
            command, *words = shlex.split(line)
            assert command == "trn3"
            capsys.readouterr()
            assert main(words) == 0
            shown = capsys.readouterr().out
            commands += 1
    assert commands == 4
