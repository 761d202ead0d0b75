"""What ``trn3 export`` does: systems as inputs of other simulators."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from trn3.cli.refusal import refusing


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def export(
        target: Annotated[
            Literal["astra-sim", "astra-sim-system", "astra-sim-memory", "calculon", "llmcompass"],
            typer.Argument(help="The simulator to write for."),
        ],
        system: Annotated[str, typer.Argument(help="gen2, trn2, ... or a .toml file.")],
        out: Annotated[
            Path | None, typer.Option("--out", "-o", help="The file.  [default: standard output]")
        ] = None,
    ) -> None:
        """Write a system's fabric and chips for another simulator.

        What the other's format cannot say, and numbers that nobody has published, are listed on the
        standard error.
        """
        from trn3 import interchange

        functions: dict[str, Callable[[str], interchange.ExportDocument]] = {
            "astra-sim": interchange.astra_sim,
            "astra-sim-system": partial(interchange.astra_sim, part="system"),
            "astra-sim-memory": partial(interchange.astra_sim, part="memory"),
            "calculon": interchange.calculon,
            "llmcompass": interchange.llmcompass,
        }
        with refusing(ValueError, ImportError):
            document = functions[target](system)
            text = document.text()
        for note in document.notes:
            typer.echo(f"note: {note}", err=True)
        if out is None:
            typer.echo(text, nl=False)
        else:
            document.write(out)
            typer.echo(f"wrote {out}", err=True)
