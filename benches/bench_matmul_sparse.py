"""A product with a sparse operand, beside our own dense product of the same matrix.

Shows what skipping zeros gains: a quarter of the multiply-adds, at the price of gathering. The
dense product takes the path that it takes by itself: dot products where they are fast. Speed of
light: the rate of float32 multiply-adds; only the kept positions are counted as work.
"""

from __future__ import annotations

from typing import Literal

import ml_dtypes
import numpy as np
import pytest

from comparison import Comparison, Normal, Rival, Work
from trn3 import numerics

# m, k, n
SIZE = (2048, 2048, 2048)
QUICK = (48, 160, 40)
#: How much less time than the dense product it is to take.
GOALS: dict[Literal["4:16", "1:4"], float] = {"4:16": 2.0, "1:4": 1.7}


@pytest.mark.parametrize("pattern", GOALS)
def bench_matmul_sparse(
    compare: Comparison, normal: Normal, quick: bool, pattern: Literal["4:16", "1:4"]
) -> None:
    m, k, n = QUICK if quick else SIZE
    a = normal(m, k).astype(ml_dtypes.bfloat16)
    dense = numerics.prune(normal(k, n).astype(ml_dtypes.bfloat16), pattern, axis=-2)
    w = numerics.compress(dense, pattern, axis=-2)
    out, dense_out = np.empty((m, n), np.float32), np.empty((m, n), np.float32)
    compare(
        f"matmul_sparse {pattern}, {m}x{k}x{n}",
        lambda: numerics.matmul_sparse(a, w, out=out),
        [
            Rival(
                "own dense bf16",
                lambda: numerics.matmul(a, dense, out=dense_out),
                goal=GOALS[pattern],
            ),
        ],
        Work(2e-9 * m * k * n / 4, "GFLOP/s", "fma"),
    )
