"""Quantization to MX blocks and back, beside a memcpy of as many bytes.

Shows that scaling, rounding and packing hide behind memory: the rival is a memcpy that moves as
many bytes as the operation reads and writes together, on as many threads. Rows with `out=` write
memory that is already mapped on both sides; the others a fresh array on both sides, and pay for its
page faults. Speed of light: memory bandwidth.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from comparison import Comparison, Normal, Rival, Work, memcpy
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
    dtype: Any = FORMATS[name]
    out = numerics.quantize_mx(x, dtype, axis=axis) if reuse else None
    moved = x.nbytes + x.size + x.size // 32  # NumPy keeps an fp4 element in a byte
    compare(
        f"quantize_mx float32 -> {name}, [{side}, {side}], axis {axis}, "
        + ("out=" if reuse else "fresh"),
        lambda: numerics.quantize_mx(x, dtype, axis=axis, out=out),
        [
            Rival(
                "memcpy of the same bytes",
                memcpy(moved, compare.threads, fresh=not reuse),
                goal=0.9,
            )
        ],
        Work(1e-9 * moved, "GB/s", "memory"),
    )


@pytest.mark.parametrize("reuse", [False, True], ids=["fresh", "out"])
@pytest.mark.parametrize("axis", [-1, -2])
@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def bench_dequantize(
    compare: Comparison, normal: Normal, name: str, axis: int, reuse: bool, quick: bool
) -> None:
    side = QUICK if quick else SIDE
    quantized = numerics.quantize_mx(normal(side, side), FORMATS["e4m3fn"], axis=axis)
    dtype: Any = getattr(ml_dtypes, name, np.float32)
    out = quantized.dequantize(dtype) if reuse else None
    moved = quantized.nbytes + side * side * np.dtype(dtype).itemsize
    compare(
        f"dequantize e4m3fn -> {name}, [{side}, {side}], axis {axis}, "
        + ("out=" if reuse else "fresh"),
        lambda: quantized.dequantize(dtype, out=out),
        [
            Rival(
                "memcpy of the same bytes",
                memcpy(moved, compare.threads, fresh=not reuse),
                goal=0.9,
            )
        ],
        Work(1e-9 * moved, "GB/s", "memory"),
    )
