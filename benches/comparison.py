"""Measures a call of trn3 and its rivals side by side, and hands the rows to the report.

One round runs every rival once and then trn3 once, so that what the machine does meanwhile (other
processes, frequency, temperature) falls on both. A ratio is the rival's time over trn3's time in
the same round; the row keeps the median of the rounds. In test mode everything runs once, small.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Call = Callable[[], object]
Normal = Callable[..., NDArray[np.float32]]

BUDGET_SECONDS = 3.0
FEWEST_ROUNDS = 5
MOST_ROUNDS = 60
# A call that takes longer than this is not repeated to estimate it, and has but so many rounds.
LONG_SECONDS = 2.0
LONG_ROUNDS = 2
# Shorter calls are repeated inside a round until one round of them takes this long.
SHORTEST_ROUND = 2e-3


class Benchmark(Protocol):
    """What is used of pytest-benchmark's fixture."""

    enabled: bool
    extra_info: dict[str, Any]
    stats: Any

    def pedantic(self, target: Call, *, setup: Call, rounds: int, warmup_rounds: int) -> object:
        """Run `target` `rounds` times, each time after `setup`."""


@dataclass(frozen=True, slots=True)
class Rival:
    """Another way to the same result; `goal` is the ratio of times to reach, if there is one.

    With `seconds` it is a stand-in that takes exactly so long; nothing is called.
    """

    label: str
    call: Call
    goal: float | None = None
    seconds: float | None = None


def pace(count: int, rate: float, what: str = "") -> Rival:
    """Return a stand-in for a rival that does `count` things at a fixed rate a second: the goal."""
    return limit(count / rate, what or f"a pace of {rate:,}/s")


def limit(seconds: float, what: str = "") -> Rival:
    """Return a stand-in for a rival that takes so long: the goal."""
    return Rival(what or f"{seconds:g} s", nothing, goal=1.0, seconds=seconds)


def memcpy(moved: int, threads: int, *, fresh: bool = False) -> Call:
    """Return a copy that moves `moved` bytes on so many threads: half are read, half written.

    It writes memory that is mapped already; with `fresh` a new array each time, page faults and
    all, as an operation does that returns one.
    """
    half = max(1, moved // 2)
    source, mapped = np.ones(half, np.uint8), np.zeros(half, np.uint8)
    cuts = [half * part // threads for part in range(threads + 1)]
    parts = [slice(start, end) for start, end in itertools.pairwise(cuts)]
    pool = ThreadPoolExecutor(threads)

    def copy() -> object:
        target = np.empty_like(source) if fresh else mapped
        others = [pool.submit(np.copyto, target[part], source[part]) for part in parts[1:]]
        np.copyto(target[parts[0]], source[parts[0]])
        for other in others:
            other.result()
        return target

    return copy


@dataclass(frozen=True, slots=True)
class Work:
    """How much one call does, in `unit`, and the speed of light that bounds it, if one does.

    `limit` is ``"bf16_dot"``, ``"fma"`` (operations a second and core, from ``peaks.c``) or
    ``"memory"`` (bytes moved a second).
    """

    amount: float
    unit: str
    limit: str = ""
    #: The share of the limit to reach, if that is a goal.
    share: float | None = None


@dataclass
class Comparison:
    """The fixture ``compare``: call it once with everything that a row of the report needs."""

    benchmark: Benchmark
    threads: int
    level: str
    times: dict[str, list[float]] = field(default_factory=dict)

    def __call__(self, what: str, ours: Call, rivals: Sequence[Rival], work: Work) -> None:
        """Measure `ours` beside `rivals` and record the row `what`."""
        if not self.benchmark.enabled:
            for rival in rivals:
                rival.call()
            self.benchmark.pedantic(ours, setup=nothing, rounds=1, warmup_rounds=0)
            return
        if "TRN3_BENCH_ALONE" in os.environ:
            # What is set beside it is another build, in another process.
            rivals = []
        live = [rival for rival in rivals if rival.seconds is None]
        calls = [ours, *(rival.call for rival in live)]
        estimates = [estimate(call) for call in calls]
        repeats = [max(1, round(SHORTEST_ROUND / seconds)) for seconds in estimates]
        each_round = sum(s * n for s, n in zip(estimates, repeats, strict=True))
        fewest = FEWEST_ROUNDS if max(estimates) < LONG_SECONDS else LONG_ROUNDS
        rounds = min(MOST_ROUNDS, max(fewest, round(BUDGET_SECONDS / each_round)))

        def run_rivals() -> None:
            for rival in rivals:
                if rival.seconds is not None:
                    self.times.setdefault(rival.label, []).append(rival.seconds)
            for rival, count in zip(live, repeats[1:], strict=True):
                if count > 1:
                    rival.call()
                seconds = seconds_of(rival.call, count) / count
                self.times.setdefault(rival.label, []).append(seconds)
            if repeats[0] > 1:
                ours()

        def run_ours() -> None:
            seconds_of(ours, repeats[0])

        apart = self.handover()
        self.benchmark.pedantic(run_ours, setup=run_rivals, rounds=rounds, warmup_rounds=0)
        apart += self.handover()
        mine = [seconds / repeats[0] for seconds in self.benchmark.stats.stats.data]
        self.benchmark.extra_info.update(
            what=what,
            threads=self.threads,
            level=self.level,
            seconds=statistics.median(mine),
            rate=work.amount / statistics.median(mine),
            unit=work.unit,
            limit=work.limit,
            share=work.share,
            rounds=rounds,
            handover=max(apart, default=None),
            rivals=[
                {
                    "label": rival.label,
                    "goal": rival.goal,
                    "seconds": statistics.median(self.times[rival.label]),
                    "ratio": statistics.median(
                        theirs / own
                        for theirs, own in zip(self.times[rival.label], mine, strict=True)
                    ),
                }
                for rival in rivals
            ],
        )
        if rows := os.environ.get("TRN3_BENCH_ROWS"):
            # At once: what was measured is kept when the run is stopped.
            with Path(rows).open("a", encoding="utf-8") as file:
                file.write(json.dumps(self.benchmark.extra_info) + "\n")

    def handover(self) -> list[float]:
        """Return the nanoseconds of a cache line from core to core, where there are several.

        Cores of a guest are now of one last cache and now of two, as its host moves them.
        """
        program = os.environ.get("TRN3_BENCH_HANDOVER")
        if program is None or self.threads == 1:
            return []
        run = subprocess.run([program], capture_output=True, text=True, check=False)
        return [float(word) for word in run.stdout.split()]


def nothing() -> None:
    """Stand in for a round of rivals that ran already."""


def seconds_of(call: Call, count: int) -> float:
    """Return how long `count` calls take together."""
    start = time.perf_counter()
    for _ in range(count):
        call()
    return time.perf_counter() - start


def estimate(call: Call) -> float:
    """Return roughly how long a call takes once caches, pools and pages are warm."""
    first = seconds_of(call, 1)
    if first > LONG_SECONDS:
        return first
    return max(1e-7, min(seconds_of(call, 1) for _ in range(2)))
