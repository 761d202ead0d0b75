"""Computes claims and compares them with what was published."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from functools import partial
from typing import Literal, TypeAlias

from trn3.validation.claims import facts
from trn3.validation.claims._registry import Figures, Function, functions
from trn3.validation.claims.table import STATUS_TEXTS, Figure, PublishedClaim, table
from trn3.validation.rows import RowError

Verdict: TypeAlias = Literal["exact", "within", "fit", "refuted", "shown", "miss", "explained miss"]


@dataclass(frozen=True, slots=True)
class FigureResult:
    """A figure of a claim and what was computed for it, in the figure's unit."""

    claim: PublishedClaim
    figure: Figure
    computed: float

    @property
    def name(self) -> str:
        """What the figure is of."""
        return self.figure.name

    @property
    def published(self) -> float | None:
        """The published number; None for a figure that is only shown."""
        return None if self.figure.published is None else float(self.figure.published)

    @property
    def ratio(self) -> float | None:
        """Computed over published; None where nothing is published."""
        return None if not self.published else self.computed / self.published

    @property
    def error(self) -> float | None:
        """Distance of the ratio from one; of a bound, how far the computed figure exceeds it."""
        if self.ratio is None:
            return None
        return max(self.ratio - 1.0, 0.0) if self.claim.is_bound else abs(self.ratio - 1.0)

    @property
    def agrees_in_all_digits(self) -> bool:
        """Whether the computed figure rounds to what is printed."""
        if self.figure.published is None:
            return False
        printed = Decimal(self.figure.published)
        # Through repr, so that 0.15 is what is written and not the binary fraction below it.
        return Decimal(repr(self.computed)).quantize(printed, ROUND_HALF_EVEN) == printed

    @property
    def verdict(self) -> Verdict:
        """What became of the figure.

        ``exact``: arithmetic of which all printed digits agree; ``within`` the tolerance of
        anything else; ``fit``: so, but a constant was read off this figure; ``refuted``: the claim
        does not hold, and the table says why; ``shown``: nothing is published to compare with;
        ``miss``, or ``explained miss`` where the table says why.
        """
        if self.figure.published is None:
            return "shown"
        is_same = self.agrees_in_all_digits and not self.claim.is_bound
        if self.claim.refuted is not None:
            # What was refuted holds after all: the table is wrong.
            return "miss" if is_same else "refuted"
        if is_same and self.claim.status == "arithmetic":
            return "exact"
        tolerance = self.figure.tolerance
        if self.claim.is_bound:
            tolerance = 0.0
        if tolerance is not None and self.error is not None and self.error <= tolerance:
            return "fit" if self.figure.is_fitted else "within"
        return "miss" if self.figure.miss is None else "explained miss"


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """A claim and what was computed for each of its figures."""

    claim: PublishedClaim
    figures: tuple[FigureResult, ...]

    @property
    def is_miss(self) -> bool:
        """Whether a figure is off and nothing says why."""
        return any(figure.verdict == "miss" for figure in self.figures)


#: Its name in earlier releases.
Result = ClaimResult


@dataclass(frozen=True, slots=True)
class StatusSummary:
    """The claims of one status.

    ``median`` and ``worst`` are the errors of figures that are not exact, as parts of the published
    values; ``worst_unexplained`` is the worst without a written reason; ``held_median`` is the
    median of those that nothing was fitted to. None where there are none.
    """

    status: str
    claims: int
    figures: int
    exact: int
    refuted: int
    explained: int
    misses: int
    fitted: int
    median: float | None
    worst: float | None
    worst_figure: str | None
    worst_unexplained: float | None
    held_median: float | None


def known() -> Mapping[str, Function]:
    """Return what computes the figures of claims, in base units, by the claims' ids."""
    claims = {claim.id: claim for claim in table()}
    from_table = [
        claim.id
        for claim in claims.values()
        if any("formula" in figure.inputs for figure in claim.figures)
    ]
    names = dict.fromkeys([*functions(), *from_table])
    return {name: partial(_compute, name, claims.get(name)) for name in names}


def _compute(name: str, claim: PublishedClaim | None) -> Figures:
    found = dict(functions()[name]()) if name in functions() else {}
    if claim is None:
        return found
    for figure in claim.figures:
        if "formula" in figure.inputs:
            by = figure.inputs.get("by", "")
            found[figure.name] = facts.computed(figure.inputs["formula"], by)
    return found


def run(claims: Iterable[PublishedClaim]) -> Iterator[ClaimResult]:
    """Give the results of claims as they come.

    Raises
    ------
    trn3.validation.RowError
        If nothing computes a claim, or it computes other figures than the table has.
    """
    computing = known()
    for claim in claims:
        if claim.id not in computing:
            message = f"claim {claim.id}: nothing computes it; known: {', '.join(computing)}"
            raise RowError(message)
        computed = computing[claim.id]()
        names = [figure.name for figure in claim.figures]
        if set(computed) != set(names):
            message = (
                f"claim {claim.id}: computed are {sorted(computed)}, published {sorted(names)}"
            )
            raise RowError(message)
        yield ClaimResult(
            claim,
            tuple(
                # Twelve digits: what a binary fraction adds to 705.6 is no digit of it.
                FigureResult(claim, figure, float(f"{computed[figure.name] / figure.scale:.12g}"))
                for figure in claim.figures
            ),
        )


def summarise(results: Iterable[ClaimResult]) -> list[StatusSummary]:
    """Return what became of the claims of each status."""
    results = list(results)
    summaries = []
    for status, text in STATUS_TEXTS.items():
        mine = [result for result in results if result.claim.status == status]
        if not mine:
            continue
        figures = [figure for result in mine for figure in result.figures]
        counted = {figure: figure.error for figure in figures if figure.verdict in _COUNTED}
        errors = {figure: error for figure, error in counted.items() if error is not None}
        held = [error for figure, error in errors.items() if figure.verdict != "fit"]
        others = [error for figure, error in errors.items() if figure.verdict != "explained miss"]
        worst = max(errors, key=lambda figure: errors[figure], default=None)
        summaries.append(
            StatusSummary(
                status=text,
                claims=len(mine),
                figures=len(figures),
                exact=_count(figures, "exact"),
                refuted=_count(figures, "refuted"),
                explained=_count(figures, "explained miss"),
                misses=_count(figures, "miss"),
                fitted=_count(figures, "fit"),
                median=statistics.median(errors.values()) if errors else None,
                worst=None if worst is None else errors[worst],
                worst_figure=None if worst is None else f"{worst.claim.id}: {worst.name}",
                worst_unexplained=max(others, default=None),
                held_median=statistics.median(held) if held else None,
            )
        )
    return summaries


# What is exact is off by the rounding of the printed figure, which says nothing.
_COUNTED = frozenset({"within", "fit", "miss", "explained miss"})


def _count(figures: Iterable[FigureResult], verdict: Verdict) -> int:
    return sum(figure.verdict == verdict for figure in figures)
