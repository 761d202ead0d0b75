"""What commands print: tables as wide as the terminal, or JSON for machines."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
    from rich.table import Table

#: Letters of a cell that stay in one line.
_UNBROKEN = 24
#: Where a heading may break.
_PARTS = re.compile(r" |(/)(?=\w\w)|(?=\()")
#: A pipe or a file has no width to fit into.
UNLIMITED_WIDTH = 10_000


def output(width: int = UNLIMITED_WIDTH) -> Console:
    """Return the console of the standard output; `width` is that of what is no terminal."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else width, highlight=False)


def table(*headings: str, right: Collection[str] = (), fixed: bool = False, **style: Any) -> Table:
    """Return an empty table without lines, of which nothing is cut off.

    Where the terminal is too narrow, texts and headings break into lines; numbers, and names of up
    to 24 letters in tables that are `fixed`, do not.

    Parameters
    ----------
    headings
        Of its columns.
    right
        Those of columns of numbers.
    fixed
        Whether no cell may be broken into lines.
    style
        What else `rich.table.Table` takes.
    """
    from rich.table import Table

    class Fitting(Table):
        """Breaks lines where cells have words."""

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            whole = options.update(max_width=UNLIMITED_WIDTH)
            if console.measure(self, options=whole).maximum > options.max_width:
                for column in self.columns:
                    sizes = [console.measure(cell, options=whole) for cell in column.cells]
                    # Of texts the longest word.
                    longest = max((of.maximum if fixed else of.minimum for of in sizes), default=1)
                    if len(str(column.header)) > longest:
                        column.header = _PARTS.sub(r"\1\n", str(column.header))
                    if fixed or column.justify == "right":
                        parts = str(column.header).split("\n")
                        column.min_width = min(max(longest, *map(len, parts)), _UNBROKEN)
                    column.no_wrap = column.no_wrap and not fixed
            yield from super().__rich_console__(console, options)

    made = Fitting(box=None, header_style="bold", **style)
    for heading in headings:
        side: JustifyMethod = "right" if heading in right else "left"
        made.add_column(heading, justify=side, no_wrap=fixed, overflow="fold")
    return made


def print_json(document: Mapping[str, Any], *, versioned: bool = False) -> None:
    """Print a document for machines; `versioned` puts the version of trn3 first."""
    if versioned:
        import trn3

        document = {"trn3_version": trn3.__version__, **document}
    typer.echo(json.dumps(document, indent=2, allow_nan=False))


def quantile_lines(uncertainty: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Return the lines of a plan that say what other constants would make of it.

    >>> figures = {"tpot": {"p10": 0.5, "p50": 1.0, "p90": 2.0}}
    >>> quantile_lines({"samples": 9, "seed": 1, "figures": figures})
    [('9 draws', 'p10, p50, p90 of tpot: 0.5, 1, 2')]
    """
    if uncertainty is None:
        return []
    said = (
        f"{name}: {', '.join(f'{value:,.4g}' for value in of.values())}"
        for name, of in uncertainty["figures"].items()
    )
    return [(f"{uncertainty['samples']:,} draws", f"p10, p50, p90 of {'; '.join(said)}")]
