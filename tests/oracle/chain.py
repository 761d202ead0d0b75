"""The chain of a systolic column: `s = +0`, then `s = fma(a_k, b_k, s)` in float32, k ascending.

It stands here twice. `fma_exact` is the definition, in Python fractions. `fma` does whole arrays,
and is exact too:

* a float32 times a float32 fits a float64 (48 mantissa bits, exponents from -298 to 255);
* the float64 sum of that and `s` leaves an error which Knuth's two-sum gives exactly;
* moving a sum whose error is not zero to the neighbour with an odd last bit (rounding to odd)
  leaves 53 bits that round to any format of at most 51 bits, subnormals included, as the unrounded
  sum would (Boldo and Melquiond).

The two share nothing but the rule, and `test_oracle_chain.py` compares them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

Float32Array = npt.NDArray[np.float32]

FLOAT32_MANTISSA_BITS = 23
FLOAT32_MIN_EXPONENT = -126
FLOAT32_LIMIT = Fraction(2) ** 128
CANONICAL_NAN = np.uint32(0x7FC00000).view(np.float32)


def round_to_float32(exact: Fraction) -> float:
    """Round a nonzero rational to the nearest float32, ties to even, returned as a Python float.

    Overflow gives infinity. What rounds to nothing keeps its sign: -2^-200 becomes -0.0.
    """
    magnitude = abs(exact)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    quantum = Fraction(2) ** (max(exponent, FLOAT32_MIN_EXPONENT) - FLOAT32_MANTISSA_BITS)
    # Python's round of a Fraction takes ties to the even integer.
    rounded = round(magnitude / quantum) * quantum
    result = math.inf if rounded >= FLOAT32_LIMIT else float(rounded)
    return -result if exact < 0 else result


def fma_exact(a: float, b: float, s: float) -> float:
    """Round `a * b + s` once to float32; all four are Python floats with float32 values."""
    if math.isnan(a) or math.isnan(b) or math.isnan(s):
        return math.nan
    product_negative = math.copysign(1.0, a) * math.copysign(1.0, b) < 0
    if math.isinf(a) or math.isinf(b):
        if a == 0 or b == 0:
            return math.nan
        product = -math.inf if product_negative else math.inf
        return math.nan if s == -product else product
    if math.isinf(s):
        return s
    exact = Fraction(a) * Fraction(b) + Fraction(s)
    if exact != 0:
        return round_to_float32(exact)
    # An exact zero is negative only as the sum of two negative zeros.
    product_is_zero = a == 0 or b == 0
    both_negative = product_is_zero and product_negative and math.copysign(1.0, s) < 0
    return -0.0 if both_negative else 0.0


def chain_exact(pairs: Iterable[tuple[float, float]]) -> float:
    """Compute the chain over (a_k, b_k) pairs in the order given."""
    s = 0.0
    for a, b in pairs:
        s = fma_exact(a, b, s)
    return s


def canonical(values: Float32Array) -> Float32Array:
    """Make every NaN the positive quiet one without payload."""
    return np.where(np.isnan(values), CANONICAL_NAN, values)


def fma(a: Float32Array, b: Float32Array, s: Float32Array) -> Float32Array:
    """Round `a * b + s` once to float32, element by element with broadcasting.

    NaN payloads are left as they fall.
    """
    with np.errstate(all="ignore"):
        product = a.astype(np.float64) * b.astype(np.float64)
        addend = s.astype(np.float64)
        total = product + addend
        rest = total - product
        error = (product - (total - rest)) + (addend - rest)
        is_even = (total.view(np.int64) & 1) == 0
        moves = np.isfinite(total) & (error != 0) & is_even
        odd = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
        rounded: Float32Array = np.where(moves, odd, total).astype(np.float32)
    return rounded


def chain(
    a: Float32Array, b: Float32Array, skip: npt.NDArray[np.bool_] | None = None
) -> Float32Array:
    """Compute the chains of `a` [..., M, K] with `b` [..., K, N]: [..., M, N], canonical NaN.

    `skip` is of b's shape: where it is true that step is left out for every row of `a`.
    """
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    s: Float32Array = np.zeros((*batch, a.shape[-2], b.shape[-1]), dtype=np.float32)
    for k in range(a.shape[-1]):
        step = fma(a[..., :, k, None], b[..., k, None, :], s)
        s = step if skip is None else np.where(skip[..., k, None, :], s, step)
    return canonical(s)


def add(a: Float32Array, b: Float32Array) -> Float32Array:
    """Add in float32, canonical NaN."""
    with np.errstate(all="ignore"):
        return canonical(a + b)


def to_float32(array: npt.NDArray[Any]) -> Float32Array:
    """Widen to float32, which holds every value of each narrower format."""
    return np.ascontiguousarray(array.astype(np.float32))
