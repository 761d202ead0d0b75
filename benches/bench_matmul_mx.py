"""Products of MX operands, scales applied on the way, beside BLAS on values dequantized before.

Shows that block scales cost little: the rivals, our own bfloat16 product and NumPy's sgemm, are
spared all of the decoding. Speed of light: the rate of bfloat16 dot products where trn3 uses them,
else that of float32 multiply-adds.
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
#: What decoding and scales may cost: a twentieth.
BESIDE_BF16 = 0.95
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
    a_bf16, b_bf16 = a_float.astype(ml_dtypes.bfloat16), b_float.astype(ml_dtypes.bfloat16)
    out, blas_out = np.empty((m, n), np.float32), np.empty((m, n), np.float32)
    limit = "bf16_dot" if trn3.simd_level() == "avx512bf16" else "fma"
    compare(
        f"matmul_mx {name} x {name}, {m}x{k}x{n}",
        lambda: numerics.matmul_mx(a, b, out=out),
        [
            Rival(
                "own bf16 product",
                lambda: numerics.matmul(a_bf16, b_bf16, out=out),
                goal=BESIDE_BF16,
            ),
            Rival(
                "NumPy sgemm, dequantized before", lambda: np.matmul(a_float, b_float, out=blas_out)
            ),
        ],
        Work(2e-9 * m * k * n, "GFLOP/s", limit),
    )
