"""What ``trn3 report`` does: write the report of a saved run anew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trn3.cli.progress import working
from trn3.cli.refusal import refusing


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def report(
        folder: Annotated[Path, typer.Argument(help="The folder that `trn3 profile --out` wrote.")],
    ) -> None:
        """Write report.html anew into the folder of a run, from its profile.json.

        The report of a run that an older version saved shows what that version recorded.
        """
        from trn3 import report

        with working(f"writing the report of {folder}"), refusing(ValueError, FileNotFoundError):
            written = report.rebuild(folder)
        typer.echo(f"wrote {written}")
