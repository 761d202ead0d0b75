"""Every number format as data, and the exact value of every code.

A format is a sign bit, an exponent field and a mantissa field; what differs is the widths, the bias
and which codes stand for infinity and NaN. Decoding gives a `Value` whose magnitude is an exact
`fractions.Fraction`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, Literal

import ml_dtypes
import numpy as np

Kind = Literal["finite", "infinite", "nan"]

# Which codes are not numbers. "ieee": the highest exponent field holds infinity (mantissa 0) and
# NaN (the rest). "all_ones": only the code with every exponent and mantissa bit set is NaN, and
# there is no infinity. "none": every code is a number.
Specials = Literal["ieee", "all_ones", "none"]


@dataclass(frozen=True, slots=True)
class Value:
    """One decoded number; the sign is kept apart, because zeros and NaN have signs too."""

    sign: int
    kind: Kind
    magnitude: Fraction = Fraction(0)

    def as_fraction(self) -> Fraction:
        """Return the signed value of a finite number."""
        if self.kind != "finite":
            raise ValueError(f"{self} has no rational value")
        return -self.magnitude if self.sign else self.magnitude


@dataclass(frozen=True)
class Format:
    """A binary floating-point format.

    `storage_bits` differs from the sum of the fields for tfloat32 alone, which lives in the high
    bits of a float32: `padding` is then the number of unused low bits.
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    bias: int
    specials: Specials
    dtype: Any
    padding: int = 0
    signed: bool = True

    @property
    def storage_bits(self) -> int:
        """Bits of one code, unused low ones included."""
        return int(self.signed) + self.exponent_bits + self.mantissa_bits + self.padding

    @property
    def sign_mask(self) -> int:
        """The code's sign bit; 0 in an unsigned format."""
        return 1 << (self.storage_bits - 1) if self.signed else 0

    @property
    def min_exponent(self) -> int:
        """Exponent of the smallest normal number, and of every subnormal's leading place."""
        return 1 - self.bias

    @property
    def smallest_subnormal(self) -> Fraction:
        """Spacing of the values next to zero."""
        return power_of_two(self.min_exponent - self.mantissa_bits)

    @property
    def max_finite_code(self) -> int:
        """Code of the largest positive finite value."""
        exponent_and_mantissa = self.exponent_bits + self.mantissa_bits
        largest = (1 << exponent_and_mantissa) - 1
        if self.specials == "ieee":
            largest -= 1 << self.mantissa_bits
        elif self.specials == "all_ones":
            largest -= 1
        return largest << self.padding

    @property
    def max_finite(self) -> Fraction:
        """The largest finite value."""
        return decode(self, self.max_finite_code).magnitude

    @property
    def has_infinity(self) -> bool:
        """Whether some code stands for infinity."""
        return self.specials == "ieee"

    @property
    def has_nan(self) -> bool:
        """Whether some code is not a number."""
        return self.specials != "none"

    @property
    def infinity_code(self) -> int:
        """Code of positive infinity."""
        if not self.has_infinity:
            raise ValueError(f"{self.name} has no infinity")
        return ((1 << self.exponent_bits) - 1) << (self.mantissa_bits + self.padding)

    @property
    def nan_code(self) -> int:
        """The canonical NaN: positive, quiet (leading mantissa bit set), no payload."""
        if self.specials == "ieee":
            return self.infinity_code | 1 << (self.mantissa_bits - 1 + self.padding)
        if self.specials == "all_ones":
            return ((1 << (self.exponent_bits + self.mantissa_bits)) - 1) << self.padding
        raise ValueError(f"{self.name} has no NaN")

    def __str__(self) -> str:
        return self.name


BFLOAT16 = Format("bfloat16", 8, 7, 127, "ieee", ml_dtypes.bfloat16)
FLOAT16 = Format("float16", 5, 10, 15, "ieee", np.float16)
FLOAT32 = Format("float32", 8, 23, 127, "ieee", np.float32)
TFLOAT32 = Format("tfloat32", 8, 10, 127, "ieee", np.float32, padding=13)
E5M2 = Format("float8_e5m2", 5, 2, 15, "ieee", ml_dtypes.float8_e5m2)
E4M3FN = Format("float8_e4m3fn", 4, 3, 7, "all_ones", ml_dtypes.float8_e4m3fn)
E4M3 = Format("float8_e4m3", 4, 3, 7, "ieee", ml_dtypes.float8_e4m3)
E3M4 = Format("float8_e3m4", 3, 4, 3, "ieee", ml_dtypes.float8_e3m4)
E2M1 = Format("float4_e2m1fn", 2, 1, 1, "none", ml_dtypes.float4_e2m1fn)
# Not a cast target: a power of two without sign or zero, the scale of an MX block.
E8M0 = Format("float8_e8m0fnu", 8, 0, 127, "all_ones", ml_dtypes.float8_e8m0fnu, signed=False)

FP8 = (E5M2, E4M3FN, E4M3, E3M4)
STORAGE = (FLOAT32, FLOAT16, BFLOAT16, *FP8, E2M1)
CAST_TARGETS = (*STORAGE, TFLOAT32)


def power_of_two(exponent: int) -> Fraction:
    """2^exponent, exact for either sign of the exponent."""
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


def floor_log2(magnitude: Fraction) -> int:
    """Return the largest e with 2^e <= magnitude, for a positive magnitude."""
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    return exponent if power_of_two(exponent) <= magnitude else exponent - 1


def decode(source: Format, code: int) -> Value:
    """Return the exact value of one code."""
    if not 0 <= code < 1 << source.storage_bits:
        raise ValueError(f"code {code:#x} does not fit {source}")
    sign = int(bool(code & source.sign_mask))
    fields = (code & ~source.sign_mask) >> source.padding
    mantissa = fields & ((1 << source.mantissa_bits) - 1)
    exponent = fields >> source.mantissa_bits
    top_exponent = (1 << source.exponent_bits) - 1
    if source is E8M0:
        return (
            Value(0, "nan")
            if exponent == top_exponent
            else Value(0, "finite", power_of_two(exponent - source.bias))
        )
    if source.specials == "ieee" and exponent == top_exponent:
        return Value(sign, "nan" if mantissa else "infinite")
    if (
        source.specials == "all_ones"
        and exponent == top_exponent
        and mantissa == (1 << source.mantissa_bits) - 1
    ):
        return Value(sign, "nan")
    if exponent == 0:
        magnitude = mantissa * source.smallest_subnormal
    else:
        significand = 1 + Fraction(mantissa, 1 << source.mantissa_bits)
        magnitude = significand * power_of_two(exponent - source.bias)
    return Value(sign, "finite", magnitude)


def encode(target: Format, value: Value) -> int:
    """Return the code of a value that the format holds exactly, or raise `ValueError`."""
    sign = target.sign_mask if value.sign else 0
    if value.kind == "nan":
        return target.nan_code
    if value.kind == "infinite":
        return sign | target.infinity_code
    if value.magnitude == 0:
        return sign
    exponent = max(floor_log2(value.magnitude), target.min_exponent)
    places = value.magnitude / power_of_two(exponent - target.mantissa_bits)
    if places.denominator != 1:
        raise ValueError(f"{value} lies between two values of {target}")
    # `places` holds the hidden bit of a normal number, which the exponent field already counts.
    fields = ((exponent - target.min_exponent) << target.mantissa_bits) + int(places)
    code = fields << target.padding
    if code > target.max_finite_code:
        raise ValueError(f"{value} is beyond the largest value of {target}")
    return sign | code


@cache
def decode_table(source: Format) -> tuple[Value, ...]:
    """All codes of a format of at most 16 bits, decoded."""
    if source.storage_bits > 16:
        raise ValueError(f"{source} has too many codes for a table")
    return tuple(decode(source, code) for code in range(1 << source.storage_bits))


@cache
def magnitudes(target: Format) -> tuple[Fraction, ...]:
    """Return the finite magnitudes of a format of at most 19 value bits, ascending from zero."""
    last = target.max_finite_code >> target.padding
    return tuple(decode(target, code << target.padding).magnitude for code in range(last + 1))


def format_of(dtype: Any) -> Format:
    """Return the storage format of a NumPy dtype."""
    wanted = np.dtype(dtype).newbyteorder("=")
    for candidate in (*STORAGE, E8M0):
        if np.dtype(candidate.dtype) == wanted:
            return candidate
    raise ValueError(f"no format for {dtype}")


def by_name(formats: tuple[Format, ...]) -> dict[str, Any]:
    """Keyword arguments for `pytest.mark.parametrize`: the formats and their names as test ids."""
    name: Callable[[Format], str] = str
    return {"argvalues": formats, "ids": name}
