"""Plans a second: searches for layouts beside closed forms for one layout at a time.

The best known closed-form model of training, Calculon, is no package of the index (the one of that
name is another program), so the peer is a closed form of our own in plain Python, with less in it:
products, ring all-reduces of tensor and data parallelism, the bubble of 1F1B, and 18 bytes a
weight. It sees the same layouts.
"""

from __future__ import annotations

import math

import pytest

from comparison import Comparison, Rival, Work, pace
from trn3.planner.training import Training, plan_training, search_training

ALONE = pytest.mark.parametrize("threads", [1], ids=["1-thread"], indirect=True)
RECOMPUTE = {"none": 0.0, "selective": 0.05, "full": 1.0}


def closed_form(
    tp: int, pp: int, dp: int, micro_batch: int, recompute: str, batch: int, sequence: int
) -> float:
    """Return the seconds of a step of Llama 3 8B, or infinity if it does not fit."""
    layers, width, hidden, vocabulary, kv = 32, 4096, 14336, 128256, 1024
    weights = layers * (2 * width * (width + kv) + 3 * width * hidden) + 2 * vocabulary * width
    peak, memory, link, latency = 157e12, 36e9, 64e9, 1.5e-6
    micro_batches = batch // (dp * micro_batch)
    tokens = micro_batch * sequence
    kept = 2 * width if recompute == "full" else 34 * width
    used = 18 * weights / (tp * pp) + kept / tp * tokens * layers
    if used > memory:
        return math.inf
    flops = 2 * weights * tokens + 2 * layers * tokens * sequence * width
    compute = flops * (3 + RECOMPUTE[recompute]) / (tp * pp * peak * 0.5)
    ring = 2 * (tp - 1) / tp * (tokens * width * 2) / link + 2 * (tp - 1) * latency
    one = compute + 4 * layers / pp * (ring if tp > 1 else 0.0)
    gradients = 2 * (dp - 1) / dp * (4 * weights / (tp * pp)) / link if dp > 1 else 0.0
    return one * (micro_batches + pp - 1) + gradients


def grid(ranks: int, batch: int) -> list[tuple[int, int, int, int, str]]:
    """Return the layouts that divide."""
    return [
        (tp, pp, ranks // (tp * pp), micro_batch, recompute)
        for tp in (1, 2, 4, 8, 16, 32)
        for pp in (1, 2, 4, 8, 16, 32)
        if ranks % (tp * pp) == 0 and batch % (ranks // (tp * pp)) == 0
        for micro_batch in (1, 2, 4, 8, 16)
        if batch % (ranks // (tp * pp) * micro_batch) == 0
        for recompute in RECOMPUTE
    ]


@ALONE
def bench_search_of_training_layouts(compare: Comparison, quick: bool) -> None:
    batch = 576 if quick else 1152 * 16
    layouts = grid(576, batch)
    asked = Training(batch, 8192)
    found = search_training("llama-3-8b", "gen2", asked, keep=1)

    def peer() -> float:
        # As many layouts as our search weighs.
        times = -(-found.evaluated // len(layouts))
        best = math.inf
        for _ in range(times):
            best = min(best, *(closed_form(*layout, batch, 8192) for layout in layouts))
        return best

    compare(
        f"search, {found.evaluated} layouts of Llama 8B in training",
        lambda: search_training("llama-3-8b", "gen2", asked, keep=1),
        [
            Rival("closed form in Python", peer),
            pace(found.evaluated, 2000),
        ],
        Work(found.evaluated, "layouts"),
    )


@ALONE
def bench_plan_of_a_million_chips(compare: Comparison) -> None:
    asked = Training(142_848, 8192, tp=32, pp=14, dp=8928, cp=1, zero=1, micro_batch=1)
    compare(
        "plan, a step of Llama 405B on 999,936 chips",
        lambda: plan_training("llama-3.1-405b", "gen2", asked),
        [],
        Work(1, "plans"),
    )
