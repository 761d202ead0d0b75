"""Which recipe ends below which other one, where several seeds can tell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

# The gap that counts, in spreads over seeds.
SPREADS = 2.0


@dataclass(frozen=True)
class PublishedOrdering:
    """A statement: `better` ends lower than `worse`, or, where `is_same`, no differently.

    With `repaired`, `better` ends lower than half-way from `worse` down to that one: most of what
    was lost is back.
    """

    text: str
    better: str
    worse: str
    is_same: bool = False
    repaired: str | None = None


PUBLISHED = (
    PublishedOrdering(
        "E4M3 everywhere with scales rounded up matches bf16", "bf16", "mxfp8", is_same=True
    ),
    PublishedOrdering("E5M2 gradients are worse than E4M3 ones", "mxfp8", "mxfp8_e5m2"),
    PublishedOrdering("naive MXFP4 backward lags behind bf16", "bf16", "mxfp4_naive"),
    PublishedOrdering(
        "Hadamard and stochastic rounding repair MXFP4", "mxfp4_hadamard", "mxfp4_naive"
    ),
    PublishedOrdering(
        "most of what it lost behind bf16", "mxfp4_hadamard", "mxfp4_naive", repaired="bf16"
    ),
    PublishedOrdering(
        "bf16 without masters needs stochastic rounding", "bf16_stochastic", "bf16_nearest"
    ),
    PublishedOrdering(
        "with it, bf16 without masters matches masters", "bf16", "bf16_stochastic", is_same=True
    ),
)


@dataclass(frozen=True)
class JudgedOrdering:
    """What our runs say of a statement.

    `gap` is how much higher the second ends, in nats, and `spread` the greater standard deviation
    of the two over seeds. `verdict` is ``agrees``, ``disagrees`` or ``not separated``.
    """

    published: PublishedOrdering
    gap: float
    spread: float
    verdict: str


def judge(
    losses: Mapping[str, Sequence[float]], published: Sequence[PublishedOrdering] = PUBLISHED
) -> list[JudgedOrdering]:
    """Judge every statement whose two recipes were run, on at least two seeds each.

    The losses are those at the end, one a seed; infinite where a run diverged.
    """
    found = []
    for ordering in published:
        pair = [losses.get(name, ()) for name in (ordering.better, ordering.worse)]
        if ordering.repaired:
            both = zip(pair[1], losses.get(ordering.repaired, ()), strict=False)
            pair[1] = [(worse + best) / 2 for worse, best in both]
        if min(map(len, pair)) < 2:
            continue
        found.append(_judged(ordering, *pair))
    return found


def _judged(
    ordering: PublishedOrdering, better: Sequence[float], worse: Sequence[float]
) -> JudgedOrdering:
    diverged = [not all(map(math.isfinite, losses)) for losses in (better, worse)]
    if any(diverged):
        gap = math.nan if all(diverged) else math.inf if diverged[1] else -math.inf
        spread = 0.0
    else:
        gap, spread = mean(worse) - mean(better), max(stdev(better), stdev(worse))
    is_separate = abs(gap) > SPREADS * spread
    if ordering.is_same:
        verdict = "disagrees" if is_separate else "agrees"
    elif not is_separate:
        verdict = "not separated"
    else:
        verdict = "agrees" if gap > 0 else "disagrees"
    return JudgedOrdering(ordering, gap, spread, verdict)
