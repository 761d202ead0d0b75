"""What ``trn3 validate`` found, for machines, and the command lines that give it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import typer

from trn3.cli.consoles import print_json

if TYPE_CHECKING:
    from trn3 import validation
    from trn3.validation import claims
    from trn3.validation.claims import FigureResult


@dataclass(frozen=True)
class Selection:
    """What to compare: measurements of kernels, and claims about systems."""

    rows: tuple[validation.Row, ...]
    claims: tuple[claims.Claim, ...]


@dataclass(frozen=True)
class Compared:
    """What came out."""

    rows: list[validation.Result]
    claims: list[claims.Result]

    @property
    def parted(self) -> tuple[list[validation.Result], list[validation.Result]]:
        """Results of kernels, and those of command lines."""
        of_kernels = [result for result in self.rows if result.row.command is None]
        return of_kernels, [result for result in self.rows if result.row.command is not None]

    @property
    def has_miss(self) -> bool:
        """Whether something is off and nothing says why."""
        rows = any(result.verdict == "miss" for result in self.rows)
        return rows or any(result.is_miss for result in self.claims)


def plain(comparison: Compared) -> dict[str, Any]:
    """Return the comparison for machines: one list of rows, of which `kind` says what they are."""
    from trn3 import validation
    from trn3.validation import claims

    rows: list[dict[str, Any]] = [
        {
            "kind": "measurement",
            "id": result.row.id,
            "hardware": result.row.hardware,
            "what": result.row.what,
            "class": result.row.class_,
            "level": result.row.level,
            "measurement": result.row.measurement,
            "status": "model",
            "unit": result.row.unit,
            "predicted": finite(result.predicted),
            "computed": finite(result.predicted),
            "published": result.row.published,
            "ratio": finite(result.ratio),
            "low": None if result.band is None else result.band[0],
            "high": None if result.band is None else result.band[1],
            "tolerance": result.row.tolerance,
            "verdict": result.verdict,
            "reason": None if result.verdict == "within" else result.row.miss or result.refusal,
            "source": result.row.source,
            "group": result.row.group,
            "command": result.row.command,
        }
        for result in comparison.rows
    ]
    rows += [_figure(figure) for result in comparison.claims for figure in result.figures]
    of_kernels, of_commands = comparison.parted
    summaries: list[dict[str, Any]] = [
        {key.rstrip("_"): value for key, value in asdict(summary).items()}
        for summary in validation.summarise(of_kernels)
    ]
    summaries += [asdict(summary) for summary in claims.summarise(comparison.claims)]
    levels = [
        {**asdict(summary), "rank_correlation": finite(summary.rank_correlation)}
        for summary in validation.summarise_levels(of_kernels)
    ]
    band = validation.summarise_band(of_kernels)
    bounds = None if band is None else {**asdict(band), "share": band.share}
    groups = [asdict(summary) for summary in validation.summarise_groups(of_commands)]
    return {
        "rows": rows,
        "summary": summaries,
        "levels": levels,
        "band": bounds,
        "groups": groups,
    }


def finite(value: float) -> float | None:
    """Return a number, or None for what JSON cannot write."""
    return value if math.isfinite(value) else None


def _figure(entry: FigureResult) -> dict[str, Any]:
    from trn3.validation import claims

    claim = entry.claim
    return {
        "kind": "claim",
        "id": claim.id,
        "number": claim.number,
        "what": claim.claim,
        "figure": entry.name,
        "class": claim.area,
        "status": claims.STATUS_TEXTS[claim.status],
        "unit": entry.figure.unit,
        "predicted": entry.computed,
        "computed": entry.computed,
        "published": entry.published,
        "printed": entry.figure.published,
        "ratio": entry.ratio,
        "tolerance": entry.figure.tolerance,
        "fitted": entry.figure.is_fitted,
        "verdict": entry.verdict,
        "reason": entry.figure.miss if entry.verdict == "explained miss" else claim.refuted,
        "remarks": list(claim.remarks),
        "source": entry.figure.source or claim.source,
    }


def print_commands(selection: Selection, *, as_json: bool) -> None:
    """Print a command line for each row and figure; what follows its ``#`` says which one."""
    from trn3.validation import claims

    lines: list[dict[str, Any]] = [
        {
            "id": row.id,
            "command": row.command or f"trn3 validate {row.id}",
            "figure": row.quantity,
            "published": row.published,
            "unit": row.unit,
        }
        for row in selection.rows
    ]
    lines += [
        {
            "id": claim.id,
            "command": command,
            "figure": figure.name,
            "published": None if figure.published is None else float(figure.published),
            "unit": figure.unit,
        }
        for claim in selection.claims
        for figure in claim.figures
        for command in claims.planner.commands_of(figure) or [f"trn3 validate {claim.id}"]
    ]
    if as_json:
        print_json({"commands": lines}, versioned=True)
        return
    for line in lines:
        published = "" if line["published"] is None else f" ({line['published']:g} {line['unit']})"
        typer.echo(f"{line['command']}  # {line['id']}: {line['figure']}{published}")
