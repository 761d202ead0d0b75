"""A product with a 4:16 sparse operand, beside our own dense products of the same matrix.

Shows what skipping zeros gains: a quarter of the multiply-adds, at the price of gathering. Rivals:
the dense bfloat16 product, and the dense float32 one, which takes the multiply-add path. Speed of
light: the rate of float32 multiply-adds; only the kept positions are counted as work.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from comparison import Comparison, Normal, Rival, Work
from trn3 import numerics

# m, k, n
SIZE = (2048, 2048, 2048)
QUICK = (48, 160, 40)


def bench_matmul_sparse_4_16(compare: Comparison, normal: Normal, quick: bool) -> None:
    m, k, n = QUICK if quick else SIZE
    a = normal(m, k).astype(ml_dtypes.bfloat16)
    dense = numerics.prune(normal(k, n).astype(ml_dtypes.bfloat16), "4:16", axis=-2)
    w = numerics.compress(dense, "4:16", axis=-2)
    a_float, dense_float = a.astype(np.float32), dense.astype(np.float32)
    out, dense_out = np.empty((m, n), np.float32), np.empty((m, n), np.float32)
    compare(
        f"matmul_sparse 4:16, {m}x{k}x{n}",
        lambda: numerics.matmul_sparse(a, w, out=out),
        [
            Rival(
                "own dense bf16",
                lambda: numerics.matmul(a, dense, out=dense_out),
                goal=1.7,
            ),
            Rival(
                "own dense float32 (FMA path)",
                lambda: numerics.matmul(a_float, dense_float, out=dense_out),
                goal=3.0,
            ),
        ],
        Work(2e-9 * m * k * n / 4, "GFLOP/s", "fma"),
    )
