"""Other people's libraries in this package's terms: gfloat's formats and rounding modes."""

from __future__ import annotations

import math
from typing import Any

import gfloat
import gfloat.formats

from oracle.formats import (
    BFLOAT16,
    E2M1,
    E3M4,
    E4M3,
    E4M3FN,
    E5M2,
    FLOAT16,
    FLOAT32,
    TFLOAT32,
    Format,
    Value,
)

# gfloat has no definition of these, so they are spelled out in its terms.
GFLOAT_TF32 = gfloat.FormatInfo(
    name="tf32",
    k=19,
    precision=11,
    bias=127,
    is_signed=True,
    domain=gfloat.Domain.Extended,
    has_nz=True,
    num_high_nans=2**10 - 1,
    has_subnormals=True,
    is_twos_complement=False,
)
GFLOAT_E4M3 = gfloat.FormatInfo(
    name="e4m3",
    k=8,
    precision=4,
    bias=7,
    is_signed=True,
    domain=gfloat.Domain.Extended,
    has_nz=True,
    num_high_nans=7,
    has_subnormals=True,
    is_twos_complement=False,
)
GFLOAT_E3M4 = gfloat.FormatInfo(
    name="e3m4",
    k=8,
    precision=5,
    bias=3,
    is_signed=True,
    domain=gfloat.Domain.Extended,
    has_nz=True,
    num_high_nans=15,
    has_subnormals=True,
    is_twos_complement=False,
)
GFLOAT: dict[Format, Any] = {
    FLOAT32: gfloat.formats.format_info_binary32,
    FLOAT16: gfloat.formats.format_info_binary16,
    BFLOAT16: gfloat.formats.format_info_bfloat16,
    TFLOAT32: GFLOAT_TF32,
    E5M2: gfloat.formats.format_info_ocp_e5m2,
    E4M3FN: gfloat.formats.format_info_ocp_e4m3,
    E4M3: GFLOAT_E4M3,
    E3M4: GFLOAT_E3M4,
    E2M1: gfloat.formats.format_info_ocp_e2m1,
}
GFLOAT_ROUNDING = {
    "nearest": gfloat.RoundMode.TiesToEven,
    "zero": gfloat.RoundMode.TowardZero,
    "stochastic": gfloat.RoundMode.StochasticFastest,
}


def to_float(value: Value) -> float:
    """Return a decoded number as a Python float, exact for every format here."""
    if value.kind == "nan":
        return math.nan
    magnitude = math.inf if value.kind == "infinite" else float(value.magnitude)
    return math.copysign(magnitude, -1.0 if value.sign else 1.0)


def same_number(left: float, right: float) -> bool:
    """Equal with the sign of zero; any NaN equals any NaN."""
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    return left == right and math.copysign(1, left) == math.copysign(1, right)
