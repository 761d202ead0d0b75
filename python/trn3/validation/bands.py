"""How often the hardware's latency lies between the bounds that profiles give."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trn3.validation.rows import LEVELS
from trn3.validation.run import RowResult


@dataclass(frozen=True, slots=True)
class BandSummary:
    """The held-back latencies of whole kernels, and how many lie within their bounds.

    Of a measurement with rows of several levels, the last counts: the one that is nearest to what
    the hardware ran.
    """

    rows: int
    within: int
    outside: tuple[str, ...]

    @property
    def share(self) -> float:
        """Rows within their bounds, as a part of all."""
        return self.within / self.rows


def summarise_band(results: Iterable[RowResult]) -> BandSummary | None:
    """Return how many of the latencies off which nothing was read lie within their bounds.

    None where no result has bounds.
    """
    latencies: dict[str, RowResult] = {}
    for level in LEVELS:
        for result in results:
            row = result.row
            if row.class_ == "hold" and row.level == level and result.band is not None:
                latencies[row.measurement] = result
    if not latencies:
        return None
    outside = tuple(result.row.id for result in latencies.values() if not result.is_within_band)
    return BandSummary(len(latencies), len(latencies) - len(outside), outside)
