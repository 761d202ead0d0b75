"""What ``trn3 new`` does: write a kernel to begin with."""

from __future__ import annotations

import keyword
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from trn3.cli.refusal import RefusedError


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def new(
        file: Annotated[Path, typer.Argument(help="The file to write: kernel.py.")],
        name: Annotated[
            str | None, typer.Option(help="Of the kernel.  [default: the file's]")
        ] = None,
    ) -> None:
        """Write a kernel to begin with: tiles in and out, inputs and a golden beside it.

        It runs as it is, with `trn3 profile FILE.py:NAME`; a file that is there is left alone.
        """
        chosen = file.stem if name is None else name
        if file.suffix != ".py" or not chosen.isidentifier() or keyword.iskeyword(chosen):
            message = f"{file}: write NAME.py, where NAME, or --name, can name a function of Python"
            raise RefusedError(message)
        text = resources.files("trn3.cli").joinpath("new_kernel.txt").read_text()
        try:
            with file.open("x", encoding="utf-8") as made:
                made.write(text.format(file=file.name, name=chosen))
        except FileExistsError as error:
            message = f"{file}: is there already; name another file"
            raise RefusedError(message) from error
        typer.echo(f"wrote {file}; next: trn3 profile {file}:{chosen}")
