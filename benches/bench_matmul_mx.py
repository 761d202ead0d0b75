"""Products of MX operands, scales applied on the way, beside BLAS on values dequantized before.

Shows that block scales cost little: the rival, NumPy's sgemm, is spared all of the decoding and
reads float32. Speed of light: the rate of bfloat16 dot products where trn3 uses them, else that
of float32 multiply-adds.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import trn3
from comparison import Comparison, Normal, Rival, Work
from trn3 import numerics

# m, k, n
SIZES = [(2048, 2048, 2048), (4096, 1024, 4096)]
QUICK = (40, 576, 48)
FORMATS = {"MXFP8": ml_dtypes.float8_e4m3fn, "MXFP4": ml_dtypes.float4_e2m1fn}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("size", SIZES, ids=["2048", "4096x1024"])
def bench_matmul_mx(
    compare: Comparison,
    normal: Normal,
    name: str,
    size: tuple[int, int, int],
    quick: bool,
) -> None:
    m, k, n = QUICK if quick else size
    dtype: Any = FORMATS[name]
    a = numerics.quantize_mx(normal(m, k), dtype, axis=-1)
    b = numerics.quantize_mx(normal(k, n), dtype, axis=-2)
    a_float, b_float = a.dequantize(), b.dequantize()
    out, blas_out = np.empty((m, n), np.float32), np.empty((m, n), np.float32)
    limit = "bf16_dot" if trn3.simd_level() == "avx512bf16" else "fma"
    compare(
        f"matmul_mx {name} x {name}, {m}x{k}x{n}",
        lambda: numerics.matmul_mx(a, b, out=out),
        [
            Rival(
                "NumPy sgemm, dequantized before",
                lambda: np.matmul(a_float, b_float, out=blas_out),
                goal=1.6,
            )
        ],
        Work(2e-9 * m * k * n, "GFLOP/s", limit),
    )
