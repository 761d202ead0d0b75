"""Tables on a terminal of 80 columns: nothing is cut, and numbers and names stay whole."""

from __future__ import annotations

import contextlib
import io
import re

import pytest

from trn3.cli.app import app
from trn3.cli.consoles import output, table


class Terminal(io.StringIO):
    """A standard output that says it is a terminal, and drops colours."""

    def isatty(self) -> bool:
        return True

    def getvalue(self) -> str:
        return re.sub(r"\x1b\[[0-9;]*m", "", super().getvalue())


def shown(monkeypatch: pytest.MonkeyPatch, columns: int, *words: str) -> str:
    """Return what a command prints on a terminal, whose lines are no longer than it is wide."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    with contextlib.redirect_stdout(Terminal()) as terminal:
        app(args=list(words), prog_name="trn3", standalone_mode=False)
    text = terminal.getvalue()
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= columns
    return text


COMMANDS = {
    "ls gen2": ("144 GiB", "server/0/0, rack/0, 72", "1/17/3"),
    "spec gen2": ("chips_per_server = 36", "conflicting", "NeuronSwitch-v1", "362.39 PFLOPS"),
    "spec": ("nvidia_b300", "communication"),
    "compare trainium3 b300 h100": ("2,517 TFLOPS", "5,000 TFLOPS"),
    "examples list": ("flash_attention", "unsteady_norm"),
    "power gen2": ("part of one chip",),
    "route gen2 0/0/0 1/17/3": ("1/17/3", "128 GB/s"),
    "cost": ("value",),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_tables_fit(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    text = shown(monkeypatch, 80, *command.split())
    flat = " ".join(text.split())
    wide = " ".join(shown(monkeypatch, 1000, *command.split()).split())
    for part in COMMANDS[command]:
        assert all(word in wide for word in part.split()), part
        # Cells of texts break between words only, and stand beside other cells.
        assert all(word in flat for word in part.split()), part


def test_numbers_of_collectives_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("nccom-test", "allg,allr", "--system", "gen2", "-b", "1kb", "-e", "1gb", "-f", "64")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    with contextlib.redirect_stdout(Terminal()) as terminal:
        app(args=list(words), prog_name="trn3", standalone_mode=False)
    lines = terminal.getvalue().splitlines()
    rows = [line for line in lines if re.match(r" ?all_(gather|reduce) ", line)]
    assert rows
    assert all(len(row) <= 80 and len(row.split()) == 7 for row in rows)
    assert "(elems)" in terminal.getvalue()


def test_a_table_breaks_headings_before_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "24")
    monkeypatch.setenv("TERM", "xterm")
    rows = table("a rather long heading", "count(of things)", right=("count(of things)",))
    rows.add_row("one two three four five", "1,234,567")
    with contextlib.redirect_stdout(Terminal()) as terminal:
        output().print(rows)
    text = terminal.getvalue()
    assert max(map(len, text.splitlines())) <= 24
    assert "1,234,567" in text
    assert {"rather", "heading", "three", "five"} <= set(text.split())
