"""Rounding one format into another, once in exact rationals and once in NumPy integers.

`round_value` reads like the contract and is the definition. `cast_codes` is a second, independent
statement over 64-bit integers, fast enough for exhaustive runs; the tests of the oracle compare the
two, and both with ml_dtypes and gfloat. `nearest_thresholds` derives, again from the definition,
where the float32 line is cut.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from oracle.formats import (
    FLOAT32,
    Format,
    Value,
    decode,
    encode,
    floor_log2,
    magnitudes,
    power_of_two,
)

Rounding = Literal["nearest", "zero", "stochastic"]
Overflow = Literal["ieee", "saturate"]

ROUNDINGS: tuple[Rounding, ...] = ("nearest", "zero", "stochastic")
OVERFLOWS: tuple[Overflow, ...] = ("ieee", "saturate")


def neighbours(magnitude: Fraction, target: Format) -> tuple[Fraction, Fraction]:
    """Return lo <= magnitude < hi of the target, its exponents continued upward without end."""
    if magnitude == 0:
        return Fraction(0), target.smallest_subnormal
    exponent = max(floor_log2(magnitude), target.min_exponent)
    step = power_of_two(exponent - target.mantissa_bits)
    lo = magnitude // step * step
    return lo, lo + step


def rounds_up(
    magnitude: Fraction, lo: Fraction, hi: Fraction, rounding: Rounding, draw: int
) -> bool:
    """Whether a magnitude with lo <= magnitude < hi becomes hi."""
    if magnitude == lo or rounding == "zero":
        return False
    if rounding == "stochastic":
        distance = (magnitude - lo) / (hi - lo) * (1 << 32) // 1
        return distance + draw >= 1 << 32
    if magnitude - lo == hi - magnitude:
        return lo / (hi - lo) % 2 == 1
    return magnitude - lo > hi - magnitude


def overflow_code(sign: int, target: Format, overflow: Overflow) -> int:
    """Return the code for a result beyond the largest finite value, or for an infinite input."""
    sign_bit = target.sign_mask if sign else 0
    if overflow == "saturate" or target.specials == "none":
        return sign_bit | target.max_finite_code
    if target.has_infinity:
        return sign_bit | target.infinity_code
    return target.nan_code


def round_value(
    value: Value,
    target: Format,
    rounding: Rounding = "nearest",
    overflow: Overflow = "ieee",
    *,
    draw: int = 0,
) -> int:
    """Return the target's code for an exact value; `draw` is for stochastic rounding."""
    if value.kind == "nan":
        return target.nan_code if target.has_nan else 0
    if value.kind == "infinite":
        return overflow_code(value.sign, target, overflow)
    lo, hi = neighbours(value.magnitude, target)
    if rounding == "zero":
        # Truncation stops at the largest finite value, however far above it the input lies.
        rounded = min(lo, target.max_finite)
    else:
        rounded = hi if rounds_up(value.magnitude, lo, hi, rounding, draw) else lo
    if rounded > target.max_finite:
        return overflow_code(value.sign, target, overflow)
    return encode(target, Value(value.sign, "finite", rounded))


def round_code(
    code: int,
    source: Format,
    target: Format,
    rounding: Rounding = "nearest",
    *,
    overflow: Overflow = "ieee",
    draw: int = 0,
) -> int:
    """`round_value` of a source code."""
    return round_value(decode(source, code), target, rounding, overflow, draw=draw)


def cast_codes(
    codes: npt.NDArray[Any],
    source: Format,
    target: Format,
    rounding: Rounding = "nearest",
    *,
    overflow: Overflow = "ieee",
    draws: npt.NDArray[np.uint32] | None = None,
    divisor_log2: npt.NDArray[np.int64] | int = 0,
) -> npt.NDArray[np.int64]:
    """Round every element, divided by 2^divisor_log2 first, to codes in 64-bit integers.

    A finite source is significand * 2^exponent with an integer significand of at most 24 bits. The
    target's spacing at that magnitude is 2^place, so `shift = place - exponent` low bits of the
    significand are to be rounded away.
    """
    raw = codes.astype(np.int64)
    sign = np.where(raw & source.sign_mask != 0, np.int64(target.sign_mask), np.int64(0))
    fields = (raw & ~np.int64(source.sign_mask)) >> source.padding
    field_exponent = fields >> source.mantissa_bits
    mantissa = fields & ((1 << source.mantissa_bits) - 1)
    top_exponent = (1 << source.exponent_bits) - 1

    is_normal = field_exponent > 0
    significand = mantissa + np.where(is_normal, np.int64(1 << source.mantissa_bits), np.int64(0))
    exponent = np.maximum(field_exponent, 1) - source.bias - source.mantissa_bits - divisor_log2
    # frexp on an integer below 2^53 is exact: its exponent is the integer's bit length.
    length = np.frexp(significand.astype(np.float64))[1].astype(np.int64)
    place = np.maximum(exponent + length - 1, target.min_exponent) - target.mantissa_bits
    shift = place - exponent

    # From 60 upward the whole significand lies below 2^-32 of the spacing: it keeps no bit that
    # could matter.
    right = np.clip(shift, 0, 60)
    kept = (significand >> right) << np.clip(-shift, 0, 60)
    rest = significand & ((np.int64(1) << right) - 1)
    if rounding == "nearest":
        half = np.where(right > 0, np.int64(1) << np.maximum(right - 1, 0), np.int64(0))
        up = (rest > half) | ((rest == half) & (rest > 0) & (kept & 1 == 1))
    elif rounding == "stochastic":
        if draws is None:
            raise ValueError("stochastic rounding needs draws")
        distance = np.where(
            right <= 32, rest << np.clip(32 - right, 0, 32), rest >> np.clip(right - 32, 0, 60)
        )
        up = (distance + draws.astype(np.int64) >= 1 << 32) & (rest > 0)
    else:
        up = np.zeros(raw.shape, dtype=np.bool_)
    kept = kept + up

    # The code counts places from zero: each binade above the subnormals adds one full mantissa
    # range.
    result = (place + target.mantissa_bits - target.min_exponent) * (
        1 << target.mantissa_bits
    ) + kept
    result = np.where(significand == 0, np.int64(0), result << target.padding)
    too_large = result > target.max_finite_code
    if rounding == "zero":
        result = np.minimum(result, target.max_finite_code)
        too_large = np.zeros(raw.shape, dtype=np.bool_)
    if source.specials == "ieee":
        is_infinite = (field_exponent == top_exponent) & (mantissa == 0)
        is_nan = (field_exponent == top_exponent) & (mantissa != 0)
    elif source.specials == "all_ones":
        is_infinite = np.zeros(raw.shape, dtype=np.bool_)
        is_nan = fields == (1 << (source.exponent_bits + source.mantissa_bits)) - 1
    else:
        is_infinite = is_nan = np.zeros(raw.shape, dtype=np.bool_)

    if overflow == "saturate" or target.specials == "none":
        beyond = sign | target.max_finite_code
    elif target.has_infinity:
        beyond = sign | target.infinity_code
    else:
        beyond = np.full(raw.shape, target.nan_code, dtype=np.int64)
    result = np.where(too_large | is_infinite, beyond, result | sign)
    return np.where(is_nan, np.int64(target.nan_code if target.has_nan else 0), result)


def first_float32_pattern(magnitude: Fraction, *, above: bool) -> int:
    """Return the smallest float32 pattern with a value >= (if `above`: >) a magnitude."""
    lo, _ = neighbours(magnitude, FLOAT32)
    if lo > FLOAT32.max_finite:
        return FLOAT32.infinity_code
    pattern = encode(FLOAT32, Value(0, "finite", lo))
    # Consecutive patterns are consecutive values, and the pattern after the largest finite one is
    # infinity.
    return pattern + 1 if above or lo < magnitude else pattern


@cache
def nearest_thresholds(target: Format) -> npt.NDArray[np.uint32]:
    """Entry c is the smallest float32 pattern that rounds to nearest on code number c + 1 or above.

    The last entry starts the patterns that overflow. Rounding is monotone, so these cuts describe
    all 2^32 casts.
    """
    values = magnitudes(target)
    cuts = []
    for number, (below, value) in enumerate(pairwise(values), start=1):
        cuts.append(first_float32_pattern((below + value) / 2, above=number % 2 == 1))
    _, beyond = neighbours(values[-1], target)
    largest_is_even = (len(values) - 1) % 2 == 0
    cuts.append(first_float32_pattern((values[-1] + beyond) / 2, above=largest_is_even))
    return np.array(cuts, dtype=np.uint32)


@cache
def zero_thresholds(target: Format) -> npt.NDArray[np.uint32]:
    """Return the same cuts for truncation, without the overflow one: no finite value reaches it."""
    return np.array(
        [first_float32_pattern(value, above=False) for value in magnitudes(target)[1:]],
        dtype=np.uint32,
    )
