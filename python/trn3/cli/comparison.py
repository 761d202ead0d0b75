"""What ``trn3 validate`` is asked for, and the command lines that give the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from trn3.cli.consoles import print_json

if TYPE_CHECKING:
    from trn3 import validation
    from trn3.validation import claims


@dataclass(frozen=True)
class Selection:
    """What to compare: measurements of kernels, and claims about systems."""

    rows: tuple[validation.Row, ...]
    claims: tuple[claims.Claim, ...]


def print_commands(selection: Selection, *, as_json: bool) -> None:
    """Print a command line for each row and figure; what follows its ``#`` says which one."""
    from trn3.validation import claims

    found: list[tuple[Any, ...]] = [
        (row.command or f"trn3 validate {row.id}", row.id, row.quantity, row.published, row.unit)
        for row in selection.rows
    ]
    found += [
        (
            command, claim.id, figure.name,
            None if figure.published is None else float(figure.published), figure.unit,
        )
        for claim in selection.claims
        for figure in claim.figures
        for command in claims.planner.commands_of(figure) or [f"trn3 validate {claim.id}"]
    ]  # fmt: skip
    if as_json:
        names = ("command", "id", "figure", "published", "unit")
        lines = [dict(zip(names, one, strict=True)) for one in found]
        print_json({"commands": lines}, versioned=True)
        return
    for command, name, figure, published, unit in found:
        said = "" if published is None else f" ({published:g} {unit})"
        typer.echo(f"{command}  # {name}: {figure}{said}")
