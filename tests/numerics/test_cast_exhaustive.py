"""cast of every 16-bit, 8-bit and 4-bit code to every format, in every rounding and overflow."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from gfloat import round_float

from oracle.arrays import all_codes, bits
from oracle.formats import (
    BFLOAT16,
    CAST_TARGETS,
    E2M1,
    FLOAT16,
    FP8,
    STORAGE,
    Format,
    decode,
    decode_table,
)
from oracle.rounding import OVERFLOWS, ROUNDINGS, Overflow, Rounding
from oracle.second_opinion import GFLOAT, GFLOAT_ROUNDING, same_number, to_float
from support.casts import check_cast, dtype_argument
from trn3 import numerics

SOURCES = (BFLOAT16, FLOAT16, *FP8, E2M1)


@pytest.mark.parametrize("target", CAST_TARGETS, ids=str)
@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_cast_of_every_code(source: Format, target: Format) -> None:
    x = all_codes(source)
    for rounding in ROUNDINGS:
        for overflow in OVERFLOWS:
            check_cast(x, target, rounding, overflow)


@pytest.mark.parametrize("target", STORAGE, ids=str)
@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_every_code_agrees_with_ml_dtypes(source: Format, target: Format) -> None:
    """Nearest and "ieee" are what astype does, but for NaN.

    ml_dtypes keeps the sign of a NaN, and of an overflow to NaN; here NaN is positive and
    canonical. Into e2m1, which has no NaN, ml_dtypes turns NaN into a zero of either sign; here it
    is +0.
    """
    x = all_codes(source)
    with np.errstate(over="ignore", invalid="ignore"):
        theirs = x.astype(target.dtype)
        source_is_nan = np.isnan(x.astype(np.float32))
        is_nan = np.isnan(theirs.astype(np.float32)) | source_is_nan
    got = numerics.cast(x, target.dtype)
    assert (bits(got)[is_nan] == (target.nan_code if target.has_nan else 0)).all()
    assert (bits(got)[~is_nan] == bits(theirs)[~is_nan]).all()


@pytest.mark.parametrize("overflow", OVERFLOWS)
@pytest.mark.parametrize("rounding", ["nearest", "zero"])
@pytest.mark.parametrize("target", CAST_TARGETS, ids=str)
@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_codes_agree_with_gfloat(
    source: Format, target: Format, rounding: Rounding, overflow: Overflow
) -> None:
    """All 8-bit and 4-bit codes, every 331st of the 16-bit ones; gfloat refuses NaN into e2m1."""
    step = 331 if source.storage_bits == 16 else 1
    x = all_codes(source)[::step]
    saturate = overflow == "saturate" or target is E2M1
    got = numerics.cast(x, dtype_argument(target), rounding=rounding, overflow=overflow)
    for value, code in zip(decode_table(source)[::step], bits(got).tolist(), strict=True):
        number = to_float(value)
        if target is E2M1 and math.isnan(number):
            continue
        theirs = round_float(GFLOAT[target], number, GFLOAT_ROUNDING[rounding], saturate)
        assert same_number(theirs, to_float(decode(target, code))), number


@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_widening_and_back_is_the_identity(source: Format) -> None:
    x = all_codes(source)
    wide = numerics.cast(x, np.float32)
    back = numerics.cast(wide, source.dtype)
    is_number = ~np.isnan(wide)
    assert (bits(back)[is_number] == bits(x)[is_number]).all()


def test_fp4_arrays_keep_their_high_nibble_clear() -> None:
    """A float4 array holds one code a byte; what ml_dtypes reads must not depend on stray bits."""
    got = numerics.cast(all_codes(BFLOAT16), ml_dtypes.float4_e2m1fn)
    assert not (bits(got) & 0xF0).any()
