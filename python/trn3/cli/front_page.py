"""What ``trn3 --help`` and ``trn3 --version`` print, without loading what reads command lines.

A test holds the page equal to what the command itself would print.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

from trn3.cli.ending import ended
from trn3.cli.help_panels import PanelEntry, entries_of_table, help_text

ABOUT: Final = "An open simulator of AWS Trainium3."
_USAGE: Final = "Usage: trn3 [OPTIONS] COMMAND [ARGS]..."
_OPTIONS: Final = (
    PanelEntry("Options", "--version", "Show the version and exit."),
    PanelEntry("Options", "--install-completion", "Install completion for the current shell."),
    PanelEntry(
        "Options",
        "--show-completion",
        "Show completion for the current shell, to copy it or customize the installation.",
    ),
    PanelEntry("Options", "-h, --help", "Show this message and exit."),
)


def has(words: Sequence[str]) -> bool:
    """Return whether these words of a command line are all about the front page."""
    # A shell that wants completions says so here.
    return "_TRN3_COMPLETE" not in os.environ and (
        not words or list(words) in (["-h"], ["--help"], ["--version"])
    )


def show(words: Sequence[str]) -> int:
    """Print what the words ask for and return the exit code."""
    return ended(lambda: _show(words))


def _show(words: Sequence[str]) -> None:
    if list(words) == ["--version"]:
        from trn3.cli.version import version

        text = f"trn3 {version()}"
    else:
        text = help_text(_USAGE, ABOUT, [*_OPTIONS, *entries_of_table()])
    sys.stdout.write(f"{text.rstrip()}\n")
