"""Operands for matrix products: random codes, and exponents where products turn subnormal."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from oracle.arrays import UNSIGNED

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOAT16 = np.dtype(np.float16)
FLOAT32 = np.dtype(np.float32)
E4M3FN = np.dtype(ml_dtypes.float8_e4m3fn)
E5M2 = np.dtype(ml_dtypes.float8_e5m2)
E4M3 = np.dtype(ml_dtypes.float8_e4m3)
E3M4 = np.dtype(ml_dtypes.float8_e3m4)
E2M1FN = np.dtype(ml_dtypes.float4_e2m1fn)
E8M0FNU = np.dtype(ml_dtypes.float8_e8m0fnu)

FP8 = (E4M3FN, E5M2, E4M3, E3M4)
NARROW = (BFLOAT16, FLOAT16, *FP8)
MX_ELEMENTS = (E4M3FN, E5M2, E2M1FN)

Random = np.random.Generator
Shape = tuple[int, ...]


def normal(random: Random, shape: Shape, dtype: Any) -> npt.NDArray[Any]:
    """Draw standard normal values, which make ordinary sums with many rounding steps."""
    return random.standard_normal(shape).astype(np.float32).astype(dtype)


def codes(random: Random, shape: Shape, dtype: Any) -> npt.NDArray[Any]:
    """Draw every code with equal chance: infinities, NaN with payloads, subnormals, both zeros."""
    dtype = np.dtype(dtype)
    limit = 16 if dtype == E2M1FN else 1 << (8 * dtype.itemsize)
    unsigned = UNSIGNED[dtype.itemsize]
    return random.integers(0, limit, shape, dtype=np.uint64).astype(unsigned).view(dtype)


def between(random: Random, shape: Shape, dtype: Any, low: int, high: int) -> npt.NDArray[Any]:
    """Draw full-length significands with exponents from low to high inclusive, in both signs."""
    significand = random.choice([-1.0, 1.0], shape) * (1 + random.random(shape))
    with np.errstate(all="ignore"):
        return np.ldexp(significand, random.integers(low, high + 1, shape)).astype(dtype)


def with_zeros(random: Random, values: npt.NDArray[Any], share: float = 0.3) -> npt.NDArray[Any]:
    """Make a share of the values +0 or -0."""
    zeros = np.where(random.random(values.shape) < 0.5, 0.0, -0.0).astype(values.dtype)
    return np.where(random.random(values.shape) < share, zeros, values)


def tiny(random: Random, k: int, b_exponent: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Build bfloat16 rows and columns whose chain cancels to the last bit of a product.

    (1 + 2^-7)^2 - (1 + 2^-6) = 2^-14, times 2^(exponents of a and b): the smallest number a sum of
    products of such operands can leave. Exponents of `a` are -60.
    """
    a = np.zeros((4, k))
    b = np.zeros((k, 5))
    start = int(random.integers(0, k - 1))
    a[:, start], a[:, start + 1] = 1 + 2.0**-7, -1.0
    b[start], b[start + 1] = 1 + 2.0**-7, 1 + 2.0**-6
    a[1:3] *= -1
    scaled_b = np.ldexp(b, b_exponent).astype(BFLOAT16)
    return np.ldexp(a, -60).astype(BFLOAT16), scaled_b
