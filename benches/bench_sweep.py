"""Sweeps: what a point costs besides its function.

The rival is a pool of the standard library, which has no checkpoint and cannot say which call ended
its process.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from itertools import count
from multiprocessing import get_context
from pathlib import Path

import pytest

import trn3
from comparison import Comparison, Rival, Work, pace

WORKERS = 2
ALONE = pytest.mark.parametrize("threads", [1], ids=["1-thread"], indirect=True)


@ALONE
def bench_empty_points_on_processes(compare: Comparison, quick: bool) -> None:
    exponents = range(100 if quick else 20_000)

    def pool() -> list[int]:
        with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as executor:
            return list(executor.map(pow, [1] * len(exponents), exponents))

    compare(
        f"sweep of {len(exponents):,} empty points, {WORKERS} processes and their start",
        lambda: trn3.sweep(pow, {"base": [1], "exp": exponents}, workers=WORKERS),
        [Rival("ProcessPoolExecutor.map", pool)],
        Work(len(exponents), "points"),
    )


@ALONE
def bench_points_into_a_checkpoint(compare: Comparison, quick: bool, tmp_path: Path) -> None:
    exponents = range(100 if quick else 20_000)
    files = (tmp_path / f"{number}.sqlite" for number in count())
    grid = {"base": [1], "exp": exponents}
    compare(
        f"sweep of {len(exponents):,} empty points in this process, each a transaction",
        lambda: trn3.sweep(pow, grid, workers=0, checkpoint=next(files)),
        [pace(len(exponents), 5000)],
        Work(len(exponents), "points"),
    )
