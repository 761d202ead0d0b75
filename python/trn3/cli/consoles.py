"""What commands print: tables as wide as the terminal, or JSON for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

#: A pipe or a file has no width to fit into.
UNLIMITED_WIDTH = 10_000


def output(width: int = UNLIMITED_WIDTH) -> Console:
    """Return the console of the standard output; `width` is that of what is no terminal."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else width, highlight=False)


def table(*headings: str, right: Collection[str] = (), fixed: bool = False, **style: Any) -> Table:
    """Return an empty table without lines.

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

    made = Table(box=None, header_style="bold", **style)
    for heading in headings:
        made.add_column(heading, justify="right" if heading in right else "left", no_wrap=fixed)
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
