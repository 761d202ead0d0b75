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


#: What of a row stands in the JSON as it is.
OF_A_ROW = (
    "id", "hardware", "what", "level", "measurement", "unit", "published", "tolerance", "source",
    "group", "command",
)  # fmt: skip


def plain(comparison: Compared) -> dict[str, Any]:
    """Return the comparison for machines: one list of rows, of which `kind` says what they are."""
    from trn3 import validation
    from trn3.validation import claims

    rows: list[dict[str, Any]] = [
        {
            "kind": "measurement",
            **{name: getattr(result.row, name) for name in OF_A_ROW},
            "class": result.row.class_,
            "status": "model",
            "predicted": finite(result.predicted),
            "computed": finite(result.predicted),
            "ratio": finite(result.ratio),
            "low": None if result.band is None else result.band[0],
            "high": None if result.band is None else result.band[1],
            "verdict": result.verdict,
            "reason": None if result.verdict == "within" else result.row.miss or result.refusal,
        }
        for result in comparison.rows
    ]
    rows += [_figure(figure) for result in comparison.claims for figure in result.figures]
    of_kernels, of_commands = comparison.parted
    summaries, groups = (
        [{key.rstrip("_"): value for key, value in asdict(one).items()} for one in of]
        for of in (validation.summarise(of_kernels), validation.summarise(of_commands, "group"))
    )
    summaries += [asdict(summary) for summary in claims.summarise(comparison.claims)]
    levels = [
        {**asdict(summary), "rank_correlation": finite(summary.rank_correlation)}
        for summary in validation.summarise_levels(of_kernels)
    ]
    band = validation.summarise_band(of_kernels)
    bounds = None if band is None else {**asdict(band), "share": band.share}
    names = ("rows", "summary", "levels", "band", "groups")
    return dict(zip(names, (rows, summaries, levels, bounds, groups), strict=True))


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
