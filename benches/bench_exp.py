"""The exponent unit, beside numpy.exp.

Shows that 1 ulp everywhere and right subnormals cost no more than NumPy's exponential, which may be
2.5 ulp off and runs on one thread. Both write into memory that is already mapped. Speed of light:
memory bandwidth, for arrays that no cache holds.
"""

from __future__ import annotations

import numpy as np
import pytest

from comparison import Comparison, Normal, Rival, Work
from trn3 import numerics

SIZES = {"4 MiB": 1 << 20, "64 MiB": 1 << 24}
QUICK = 1 << 10
GOALS = {1: 1.0, 2: 1.6}


@pytest.mark.parametrize("size", SIZES)
def bench_exp(compare: Comparison, normal: Normal, threads: int, size: str, quick: bool) -> None:
    count = QUICK if quick else SIZES[size]
    x = normal(count)
    out, numpy_out = np.zeros_like(x), np.zeros_like(x)
    compare(
        f"exp float32, {size}",
        lambda: numerics.exp(x, out=out),
        [Rival("numpy.exp, 1 thread", lambda: np.exp(x, out=numpy_out), goal=GOALS[threads])],
        Work(1e-9 * count, "Gelement/s"),
    )
