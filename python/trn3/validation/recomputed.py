"""What published measurements and claims came to when they were computed again."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from trn3.offers import Reported
from trn3.validation.bands import summarise_band
from trn3.validation.run import RowResult, summarise, summarise_levels

if TYPE_CHECKING:
    from trn3.validation.claims.check import ClaimResult, FigureResult

#: What of a row stands in the JSON as it is.
OF_A_ROW = (
    "id", "hardware", "what", "level", "measurement", "unit", "published", "tolerance", "source",
    "group", "command",
)  # fmt: skip


@dataclass(frozen=True)
class Compared(Reported):
    """What came out of measurements of kernels, of command lines, and of claims about systems.

    Attributes
    ----------
    rows : list[RowResult]
        Of kernels and of command lines.
    claims : list[trn3.validation.claims.ClaimResult]
        Of claims.

    Examples
    --------
    >>> from trn3 import validation
    >>> rows = validation.run(validation.select(["exp-128-trn2"]))
    >>> found = validation.Compared(list(rows), [])
    >>> found.has_miss, found.to_plain()["rows"][0]["verdict"]
    (False, 'within')
    """

    rows: list[RowResult]
    claims: list[ClaimResult]

    @property
    def parted(self) -> tuple[list[RowResult], list[RowResult]]:
        """Results of kernels, and those of command lines."""
        of_kernels = [result for result in self.rows if result.row.command is None]
        return of_kernels, [result for result in self.rows if result.row.command is not None]

    @property
    def has_miss(self) -> bool:
        """Whether something is off and nothing says why."""
        rows = any(result.verdict == "miss" for result in self.rows)
        return rows or any(result.is_miss for result in self.claims)

    def to_plain(self) -> dict[str, Any]:
        """Return it for machines: one list of rows, of which `kind` says what they are."""
        from trn3.validation import claims

        rows: list[dict[str, Any]] = [
            {
                "kind": "measurement",
                **{name: getattr(result.row, name) for name in OF_A_ROW},
                "class": result.row.class_,
                "status": "model",
                "predicted": _finite(result.predicted),
                "computed": _finite(result.predicted),
                "ratio": _finite(result.ratio),
                "low": None if result.band is None else result.band[0],
                "high": None if result.band is None else result.band[1],
                "verdict": result.verdict,
                "reason": None if result.verdict == "within" else result.row.miss or result.refusal,
            }
            for result in self.rows
        ]
        rows += [_figure(figure) for result in self.claims for figure in result.figures]
        of_kernels, of_commands = self.parted
        summaries, groups = (
            [{key.rstrip("_"): value for key, value in asdict(one).items()} for one in of]
            for of in (summarise(of_kernels), summarise(of_commands, "group"))
        )
        summaries += [asdict(summary) for summary in claims.summarise(self.claims)]
        levels = [
            {**asdict(summary), "rank_correlation": _finite(summary.rank_correlation)}
            for summary in summarise_levels(of_kernels)
        ]
        band = summarise_band(of_kernels)
        bounds = None if band is None else {**asdict(band), "share": band.share}
        names = ("rows", "summary", "levels", "band", "groups")
        return dict(zip(names, (rows, summaries, levels, bounds, groups), strict=True))


def _finite(value: float) -> float | None:
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
