"""Quantization to MX blocks, beside copying the input.

Shows that scaling, rounding and packing hide behind memory: the rival is memcpy of the float32
input into memory that is already mapped (`np.copyto`), on one thread, since one core saturates the
memory. Speed of light: memory bandwidth. A fresh result also pays for its page faults, hence two
rows for each format and axis.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from comparison import Comparison, Normal, Rival, Work
from trn3 import numerics

SIDE = 4096
QUICK = 64
FORMATS = {"e4m3fn": ml_dtypes.float8_e4m3fn, "e2m1fn": ml_dtypes.float4_e2m1fn}


@pytest.mark.parametrize("reuse", [False, True], ids=["fresh", "out"])
@pytest.mark.parametrize("axis", [-1, -2])
@pytest.mark.parametrize("name", FORMATS)
def bench_quantize_mx(
    compare: Comparison, normal: Normal, name: str, axis: int, reuse: bool, quick: bool
) -> None:
    side = QUICK if quick else SIDE
    x = normal(side, side)
    copy = np.zeros_like(x)
    dtype: Any = FORMATS[name]
    out = numerics.quantize_mx(x, dtype, axis=axis) if reuse else None
    moved = x.nbytes + x.size + x.size // 32  # NumPy keeps an fp4 element in a byte
    compare(
        f"quantize_mx float32 -> {name}, [{side}, {side}], axis {axis}, "
        + ("out=" if reuse else "fresh"),
        lambda: numerics.quantize_mx(x, dtype, axis=axis, out=out),
        [Rival("memcpy of the input", lambda: np.copyto(copy, x), goal=0.8 if reuse else 0.4)],
        Work(1e-9 * moved, "GB/s", "memory"),
    )
