"""The exponential in mpmath: its value, its correctly rounded code, and a distance in ulp."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import mpmath

from oracle.formats import FLOAT32, Format, Value, floor_log2, power_of_two
from oracle.rounding import round_value

# exp of a nonzero rational is irrational, so it is never a rounding boundary; 200 bits keep it far
# enough from every boundary of a 24-bit format for the rounding to be decided, which `exp_value`
# asserts in each case.
PRECISION_BITS = 200

# Beyond these inputs no format here tells results apart: e^104 > 2^149 and e^-120 < 2^-172.
LARGEST_INPUT = Fraction(104)
SMALLEST_INPUT = Fraction(-120)


@lru_cache(maxsize=1 << 18)
def exp_value(x: Fraction) -> Fraction:
    """Return e^x to a relative error below 2^-190, x clamped to where results differ."""
    clamped = min(max(x, SMALLEST_INPUT), LARGEST_INPUT)
    with mpmath.workprec(PRECISION_BITS):
        result = mpmath.exp(mpmath.mpf(clamped.numerator) / clamped.denominator)
        sign, mantissa, exponent, _ = result._mpf_
    assert sign == 0
    return int(mantissa) * power_of_two(int(exponent))


def exp_code(value: Value, target: Format) -> int:
    """Return the correctly rounded code of exp of a decoded number."""
    if value.kind == "nan":
        return target.nan_code
    if value.kind == "infinite":
        return 0 if value.sign else target.infinity_code
    x = value.as_fraction()
    if x == 0:
        return round_value(Value(0, "finite", Fraction(1)), target)
    exact = exp_value(x)
    slack = exact * power_of_two(-190)
    code = round_value(Value(0, "finite", exact - slack), target)
    above = round_value(Value(0, "finite", exact + slack), target)
    assert code == above, f"exp({x}) is too close to a rounding boundary"
    return code


def ulp(magnitude: Fraction, target: Format = FLOAT32) -> Fraction:
    """Return the target's spacing at a positive magnitude."""
    exponent = max(floor_log2(magnitude), target.min_exponent)
    return power_of_two(exponent - target.mantissa_bits)


def error_in_ulp(result: Value, x: Fraction) -> Fraction:
    """Return how far a float32 result is from e^x, in ulp of e^x; infinity counts as 2^128."""
    if result.kind == "nan" or result.sign:
        raise ValueError(f"{result} is no possible value of exp")
    exact = exp_value(x)
    if result.kind == "infinite":
        overflow = power_of_two(FLOAT32.bias + 1)
        return max(Fraction(0), overflow - exact) / ulp(exact)
    if exact > power_of_two(FLOAT32.bias + 1):
        return (exact - result.magnitude) / ulp(power_of_two(FLOAT32.bias))
    return abs(exact - result.magnitude) / ulp(exact)
