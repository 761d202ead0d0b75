"""The ``trn3`` command, as typer has it; its exit codes are in `trn3.cli.ending`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from trn3.cli.commands import CommandTable
from trn3.cli.ending import ended, usage_error
from trn3.cli.front_page import ABOUT

UsageError = usage_error()

app = typer.Typer(
    name="trn3",
    cls=CommandTable,
    help=ABOUT,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from trn3.cli.version import version

        typer.echo(f"trn3 {version()}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Take what stands before a command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    arguments
        The words after ``trn3``; by default those of the process.
    """
    words = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    return ended(lambda: app(args=words, prog_name="trn3", standalone_mode=False))
