"""What ``trn3 compare`` does: systems beside each other, with what is certain about each figure."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trn3.cli.refusal import RefusedError

if TYPE_CHECKING:
    from rich.console import Console

    from trn3.facts.comparison import Cell, Comparison


class Peaks(StrEnum):
    """Values of ``--peaks``."""

    PUBLISHED = "published"
    ARRAY = "array"


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def compare(
        systems: Annotated[
            list[str], typer.Argument(help="Two or more: trainium3, b300, gen2, mine.toml, ...")
        ],
        peaks: Annotated[
            Peaks,
            typer.Option(help="Published figures, or array x clock where the parts are known."),
        ] = Peaks.PUBLISHED,
        as_json: Annotated[
            bool, typer.Option("--json", help="Print JSON for machines instead of a table.")
        ] = False,
        as_csv: Annotated[
            bool, typer.Option("--csv", help="Print CSV instead of a table.")
        ] = False,
        plot: Annotated[
            Path | None,
            typer.Option(help="Draw the ratios to the first system: a .png, .svg or .pdf file."),
        ] = None,
    ) -> None:
        """Set systems beside each other, each figure exact, derived or conflicting.

        A derived figure follows from those of the system's parts; where sources conflict, the
        range of what they say is shown. Ratios are to the first system.
        """
        from trn3.cli.consoles import output
        from trn3.cli.plots import check_plot

        if as_json and as_csv:
            message = "--json and --csv exclude each other; give one"
            raise RefusedError(message)
        if plot is not None:
            check_plot(plot)
        comparison = _compare(systems, peaks)
        if plot is not None:
            from trn3.system.plots import plot_comparison

            plot_comparison(comparison, plot)
        if as_json:
            import trn3

            document = {"trn3_version": trn3.__version__, **comparison.as_json()}
            typer.echo(json.dumps(document, indent=2, allow_nan=False))
        elif as_csv:
            typer.echo(comparison.as_csv(), nl=False)
        else:
            _show(comparison, output())


def _compare(systems: list[str], peaks: Peaks) -> Comparison:
    from trn3.facts.comparison import compare

    try:
        return compare(*systems, peaks=peaks.value)
    except (ValueError, OSError) as error:
        raise RefusedError(str(error)) from error


def _show(comparison: Comparison, console: Console) -> None:
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("")
    for number, facts in enumerate(comparison.systems):
        table.add_column(facts.title, justify="right")
        if number:
            table.add_column("ratio", justify="right")
    for row in comparison.rows:
        cells = []
        for number, (cell, ratio) in enumerate(zip(row.cells, row.ratios, strict=True)):
            cells.append(_text(cell))
            if number:
                cells.append("" if ratio is None else f"{ratio:.2f}")
        table.add_row(row.title, *cells)
    console.print(table)
    console.print(
        "(d) derived from other figures; (c) sources conflict, with what they say; "
        "the others are exact: as published",
        style="dim",
    )


def _text(cell: Cell) -> str:
    from trn3.text import printable

    marks = {"derived": " (d)", "conflicting": " (c)"}
    text = cell.text + (marks.get(cell.status, "") if cell.status is not None else "")
    if cell.status == "conflicting" and cell.spread is not None:
        from trn3.facts import shown

        least, most = cell.spread
        text += f"\n{shown(least)} to {shown(most)}"
    return "\n".join(printable(line) for line in text.split("\n"))
