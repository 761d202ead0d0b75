"""Runs the experiments behind the rows and compares."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from trn3.validation import commands, experiments
from trn3.validation.rows import COMMAND_UNITS, LEVELS, UNITS, Level, PublishedRow, RowError

Verdict = Literal["within", "miss", "explained miss"]


@dataclass(frozen=True, slots=True)
class RowResult:
    """A row and what the model says of it.

    Attributes
    ----------
    row
        The published measurement.
    predicted
        The model's figure, in the row's unit.
    band
        Of a whole kernel's latency, the bounds between which the model expects the hardware's.
    refusal
        Why there is no figure, which then is not a number: the command was refused.
    """

    row: PublishedRow
    predicted: float
    band: tuple[float, float] | None = None
    refusal: str | None = None

    @property
    def ratio(self) -> float:
        """Predicted over published."""
        return self.predicted / self.row.published

    @property
    def error(self) -> float:
        """Distance of the ratio from one; one where there is no figure."""
        return 1.0 if self.refusal is not None else abs(self.ratio - 1.0)

    @property
    def is_within_band(self) -> bool:
        """Whether the published latency lies between the bounds."""
        return self.band is not None and self.band[0] <= self.row.published <= self.band[1]

    @property
    def verdict(self) -> Verdict:
        """Whether the prediction is within the row's tolerance, and if not whether it says why."""
        if self.error <= self.row.tolerance:
            return "within"
        return "miss" if self.row.miss is None else "explained miss"


#: Its name in earlier releases.
Result = RowResult


@dataclass(frozen=True, slots=True)
class ClassSummary:
    """The errors of one class of rows, as parts of the published values.

    ``worst`` and ``median`` are those of all rows, ``worst_unexplained`` that of the rows without
    a written reason.
    """

    class_: str
    rows: int
    median: float
    worst: float
    worst_row: str
    explained: int
    worst_unexplained: float


def run(rows: Iterable[PublishedRow]) -> Iterator[RowResult]:
    """Give the results of rows as they come; a run that several rows read is made once.

    Raises
    ------
    RowError
        If a row asks for an experiment or a figure that does not exist.
    """
    for row in rows:
        if row.command is not None:
            yield _answered(row, row.command)
            continue
        figures = experiments.figures(row.experiment, row.hardware, dict(row.parameters))
        if row.quantity not in figures:
            message = (
                f"row {row.id}: {row.experiment} has no {row.quantity}; "
                f"allowed: {', '.join(figures)}"
            )
            raise RowError(message)
        unit = UNITS[row.unit]
        low, high = (figures.get(f"{row.quantity}_{bound}") for bound in ("low", "high"))
        band = None if low is None or high is None else (low / unit, high / unit)
        yield RowResult(row, figures[row.quantity] / unit, band)


def _answered(row: PublishedRow, command: str) -> RowResult:
    try:
        return RowResult(row, commands.compute(command, row.quantity) / COMMAND_UNITS[row.unit])
    except RowError:
        raise
    except ValueError as error:
        return RowResult(row, math.nan, refusal=str(error))


def summarise(
    results: Iterable[RowResult], by: Literal["class_", "group"] = "class_"
) -> list[ClassSummary]:
    """Return the errors of each class, or of each group of rows that command lines compute."""
    found: dict[str, list[RowResult]] = {}
    for result in results:
        found.setdefault(getattr(result.row, by), []).append(result)
    summaries = []
    for class_, mine in sorted(found.items()):
        worst = max(mine, key=lambda result: result.error)
        explained = [result for result in mine if result.verdict == "explained miss"]
        others = [result.error for result in mine if result.verdict != "explained miss"]
        summaries.append(
            ClassSummary(
                class_=class_,
                rows=len(mine),
                median=statistics.median(result.error for result in mine),
                worst=worst.error,
                worst_row=worst.row.id,
                explained=len(explained),
                worst_unexplained=max(others, default=0.0),
            )
        )
    return summaries


@dataclass(frozen=True, slots=True)
class LevelSummary:
    """The errors of the rows of one level off which no constant was read.

    ``rank_correlation`` is Spearman's, over the rows that are times; NaN where fewer than two are.
    """

    level: Level
    rows: int
    median: float
    worst: float
    worst_row: str
    rank_correlation: float


def summarise_levels(results: Iterable[RowResult]) -> list[LevelSummary]:
    """Return the errors of each level; the headline is that of ``as-written``.

    Examples
    --------
    >>> from trn3 import validation
    >>> rows = validation.select(["matmul-spacing-trn2", "matmul-load-trn2"])
    >>> [headline] = summarise_levels(run(rows))
    >>> headline.level, headline.rows, headline.rank_correlation
    ('as-written', 2, 1.0)
    """
    held = [result for result in results if result.row.class_ == "hold"]
    summaries = []
    for level in LEVELS:
        mine = [result for result in held if result.row.level == level]
        if not mine:
            continue
        worst = max(mine, key=lambda result: result.error)
        times = [result for result in mine if result.row.unit in {"ns", "us", "ms"}]
        pairs = [(r.predicted * UNITS[r.row.unit], r.row.published * UNITS[r.row.unit])
                 for r in times]  # fmt: skip
        summaries.append(
            LevelSummary(
                level=level,
                rows=len(mine),
                median=statistics.median(result.error for result in mine),
                worst=worst.error,
                worst_row=worst.row.id,
                rank_correlation=rank_correlation(pairs),
            )
        )
    return summaries


def rank_correlation(pairs: Iterable[tuple[float, float]]) -> float:
    """Return Spearman's coefficient; equal values share the mean of their ranks.

    Examples
    --------
    >>> rank_correlation([(1, 10), (2, 20), (3, 15)])
    0.5
    """
    both = np.array(list(pairs), dtype=float).reshape(-1, 2)
    if len(both) < 2:
        return float("nan")
    ranks: list[Any] = []
    for column in (both[:, 0], both[:, 1]):
        _, where, counts = np.unique(column, return_inverse=True, return_counts=True)
        # The last rank of a value, less half of how many share it.
        shared: Any = np.cumsum(counts) - (counts - 1) / 2
        ranks.append(shared[where])
    spread = [float(np.std(rank)) for rank in ranks]
    if 0.0 in spread:
        return float("nan")
    return round(float(np.corrcoef(ranks)[0, 1]), 12)
