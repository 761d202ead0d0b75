"""cast of float32: every place where rounding turns, every length, and a sweep of the range."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st

from oracle.arrays import (
    assert_same_bits,
    bits,
    edge_values,
    float32_specials,
    from_bits,
    strided_float32,
)
from oracle.formats import (
    BFLOAT16,
    CAST_TARGETS,
    E2M1,
    E3M4,
    E4M3,
    E4M3FN,
    E5M2,
    FLOAT16,
    FLOAT32,
    TFLOAT32,
    Format,
)
from oracle.rounding import (
    OVERFLOWS,
    ROUNDINGS,
    Overflow,
    Rounding,
    cast_codes,
    nearest_thresholds,
    overflow_code,
    round_code,
)
from support.casts import check_cast, draws_for, dtype_argument
from trn3 import numerics

# Sources and targets whose edges matter to a cast into the first: its own values and midpoints,
# and those of the formats beside it.
NARROW = [target for target in CAST_TARGETS if target is not FLOAT32]


@pytest.fixture(scope="module")
def edges() -> dict[str, npt.NDArray[np.float32]]:
    """Edge values of each target, once."""
    return {target.name: edge_values(target) for target in NARROW}


@pytest.mark.parametrize("overflow", OVERFLOWS)
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("target", CAST_TARGETS, ids=str)
def test_cast_at_every_edge(
    target: Format,
    rounding: Rounding,
    overflow: Overflow,
    edges: dict[str, npt.NDArray[np.float32]],
) -> None:
    """Values, quarter points and midpoints of every format with both neighbours, and specials."""
    x = np.concatenate([float32_specials(), *edges.values()])
    check_cast(x, target, rounding, overflow)


@pytest.mark.parametrize("overflow", OVERFLOWS)
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("target", CAST_TARGETS, ids=str)
def test_cast_over_the_range(target: Format, rounding: Rounding, overflow: Overflow) -> None:
    check_cast(strided_float32(1 << 17, offset=12345), target, rounding, overflow)


@given(
    patterns=st.lists(st.integers(0, (1 << 32) - 1), max_size=70),
    target=st.sampled_from(CAST_TARGETS),
    rounding=st.sampled_from(ROUNDINGS),
    overflow=st.sampled_from(OVERFLOWS),
    seed=st.integers(0, 1000),
)
def test_cast_equals_the_exact_definition(
    patterns: list[int], target: Format, rounding: Rounding, overflow: Overflow, seed: int
) -> None:
    """Any float32 bits, against the definition in exact rationals."""
    x = np.array(patterns, dtype=np.uint32).view(np.float32)
    draws = draws_for(x.shape, seed)
    got = numerics.cast(
        x,
        dtype_argument(target),
        rounding=rounding,
        overflow=overflow,
        rng=draws if rounding == "stochastic" else None,
    )
    expected = [
        round_code(pattern, FLOAT32, target, rounding, overflow=overflow, draw=draw)
        for pattern, draw in zip(patterns, draws.tolist(), strict=True)
    ]
    assert_same_bits(got, np.array(expected, dtype=np.int64), x)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("target", CAST_TARGETS, ids=str)
def test_cast_of_every_length_and_offset(target: Format, rounding: Rounding) -> None:
    """No element's result depends on where in a vector, a tail or a cache line it stands."""
    x = np.concatenate([float32_specials(), strided_float32(150, offset=77)])
    draws = draws_for(x.shape) if rounding == "stochastic" else None
    whole = bits(check_cast(x, target, rounding, draws=draws))
    for length in [*range(70), 127, 128, 129]:
        for offset in (0, 1, 2, 3, 5, 8, 13, 31):
            part = slice(offset, offset + length)
            rng = None if draws is None else draws[part]
            got = numerics.cast(x[part], dtype_argument(target), rounding=rounding, rng=rng)
            assert (bits(got) == whole[part]).all(), (length, offset)


# The contract's own numbers, in float32 bits or values, with the codes written out by hand.
BY_HAND: list[tuple[Format, Rounding, Overflow, float, int]] = [
    (E4M3FN, "nearest", "ieee", 448.0, 0x7E),
    (E4M3FN, "nearest", "ieee", 464.0, 0x7E),
    (E4M3FN, "nearest", "ieee", float(np.nextafter(np.float32(464), np.float32(500))), 0x7F),
    (E4M3FN, "nearest", "ieee", -1e30, 0x7F),
    (E4M3FN, "nearest", "saturate", -1e30, 0xFE),
    (E4M3FN, "nearest", "ieee", float("-inf"), 0x7F),
    (E4M3FN, "nearest", "saturate", float("-inf"), 0xFE),
    (E4M3FN, "zero", "ieee", 1e30, 0x7E),
    (E4M3FN, "zero", "ieee", float("inf"), 0x7F),
    (E4M3, "nearest", "ieee", 240.0, 0x77),
    (E4M3, "nearest", "ieee", 248.0, 0x78),
    (E4M3, "nearest", "saturate", float("inf"), 0x77),
    (E4M3, "zero", "ieee", -255.0, 0xF7),
    (E3M4, "nearest", "ieee", 15.5, 0x6F),
    (E3M4, "nearest", "ieee", 15.75, 0x70),
    (E3M4, "nearest", "ieee", float("nan"), 0x78),
    (E5M2, "nearest", "ieee", 61439.0, 0x7B),
    (E5M2, "nearest", "ieee", 61440.0, 0x7C),
    (E5M2, "zero", "ieee", float("inf"), 0x7C),
    (E2M1, "nearest", "ieee", 5.0, 0x6),
    (E2M1, "nearest", "ieee", 7.0, 0x7),
    (E2M1, "nearest", "ieee", float("-inf"), 0xF),
    (E2M1, "nearest", "ieee", float("nan"), 0x0),
    (E2M1, "nearest", "ieee", -0.25, 0x8),
    (E2M1, "nearest", "ieee", -0.2500001, 0x9),
    (FLOAT16, "nearest", "ieee", 65519.996, 0x7BFF),
    (FLOAT16, "nearest", "ieee", 65520.0, 0x7C00),
    (FLOAT16, "nearest", "ieee", 2.0**-25, 0x0000),
    (FLOAT16, "nearest", "ieee", 3 * 2.0**-25, 0x0002),
    (BFLOAT16, "nearest", "ieee", 1 + 2.0**-8, 0x3F80),
    (BFLOAT16, "nearest", "ieee", 1 + 3 * 2.0**-8, 0x3F82),
    (BFLOAT16, "nearest", "ieee", 2.0**-133, 0x0001),
    (BFLOAT16, "zero", "ieee", -(2.0**-134), 0x8000),
    (TFLOAT32, "nearest", "ieee", 1 + 2.0**-11, 0x3F800000),
    (TFLOAT32, "nearest", "ieee", 1 + 3 * 2.0**-11, 0x3F804000),
    (TFLOAT32, "nearest", "ieee", 3.4028234663852886e38, 0x7F800000),
    (TFLOAT32, "nearest", "saturate", 3.4028234663852886e38, 0x7F7FE000),
    (TFLOAT32, "zero", "ieee", 3.4028234663852886e38, 0x7F7FE000),
]


@pytest.mark.parametrize(("target", "rounding", "overflow", "value", "code"), BY_HAND)
def test_cast_by_hand(
    target: Format, rounding: Rounding, overflow: Overflow, value: float, code: int
) -> None:
    x = np.array([value], dtype=np.float32)
    got = numerics.cast(x, dtype_argument(target), rounding=rounding, overflow=overflow)
    assert int(bits(got)[0]) == code


@pytest.mark.parametrize("target", [t for t in CAST_TARGETS if t.has_nan], ids=str)
def test_every_nan_becomes_the_canonical_one(target: Format) -> None:
    """Sign, payload and signalling bit all go, also when the format does not change."""
    payloads = np.array([1, 2, 0x1FFF, 0x2000, 0x3FFFFF, 0x400000, 0x7FFFFF], dtype=np.uint32)
    nans = np.concatenate([payloads | 0x7F800000, payloads | 0xFF800000]).view(np.float32)
    for rounding in ROUNDINGS:
        for overflow in OVERFLOWS:
            got = check_cast(nans, target, rounding, overflow)
            assert (bits(got) == target.nan_code).all()


def test_float32_to_float32_changes_nothing_but_nan() -> None:
    x = np.concatenate([float32_specials(), strided_float32(10_000)])
    got = numerics.cast(x, np.float32)
    finite = ~np.isnan(x)
    assert (bits(got)[finite] == bits(x)[finite]).all()
    assert (bits(got)[~finite] == 0x7FC00000).all()


def test_tfloat32_is_a_float32_array_with_low_bits_zero() -> None:
    got = numerics.cast(strided_float32(10_000), numerics.tfloat32)
    assert got.dtype == np.float32
    assert got.dtype.isnative
    assert not (bits(got) & 0x1FFF).any()


@pytest.mark.parametrize(
    "dtype",
    [
        ml_dtypes.bfloat16,
        np.dtype(ml_dtypes.bfloat16),
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float4_e2m1fn,
        np.float16,
        np.dtype(np.float16),
        "float16",
        np.float32,
    ],
    ids=repr,
)
def test_dtype_may_be_named_as_numpy_names_it(dtype: Any) -> None:
    got = numerics.cast(np.ones(3, dtype=np.float32), dtype)
    assert got.dtype == np.dtype(dtype)
    assert (got.astype(np.float32) == 1).all()


@pytest.mark.parametrize("target", [t for t in NARROW if t is not TFLOAT32], ids=str)
def test_cast_agrees_with_ml_dtypes(
    target: Format, edges: dict[str, npt.NDArray[np.float32]]
) -> None:
    """The second opinion on finite float32; ml_dtypes keeps the sign of an overflow to NaN."""
    x = np.concatenate([edges[target.name], strided_float32(1 << 16)])
    x = x[np.isfinite(x)]
    with np.errstate(over="ignore"):
        theirs = x.astype(target.dtype)
    got = numerics.cast(x, target.dtype)
    is_nan = np.isnan(got.astype(np.float32))
    assert (np.isnan(theirs.astype(np.float32)) == is_nan).all()
    assert (bits(got)[~is_nan] == bits(theirs)[~is_nan]).all()


def nearest_run(target: Format, start: int, size: int) -> tuple[Any, Any]:
    """Return `size` consecutive float32 patterns and the codes that the thresholds give them.

    The run may not cross from finite magnitudes to NaN: it starts at a multiple of its size.
    """
    patterns = np.arange(start, start + size, dtype=np.uint32)
    sign, magnitude = start >> 31, start & 0x7FFFFFFF
    unsigned = bits(np.zeros(1, dtype=target.dtype)).dtype
    if magnitude > FLOAT32.infinity_code - size:
        # The top binade: infinity, then NaN, which have no thresholds.
        expected = cast_codes(patterns, FLOAT32, target).astype(unsigned)
        return patterns.view(np.float32), expected
    cuts = nearest_thresholds(target)
    sign_bit = target.sign_mask if sign else 0
    codes = np.arange(len(cuts) + 1, dtype=np.int64) << target.padding | sign_bit
    codes[-1] = overflow_code(sign, target, "ieee")
    first, last = np.searchsorted(cuts, [magnitude, magnitude + size - 1], side="right")
    bounds = np.concatenate([[magnitude], cuts[first:last], [magnitude + size]]).astype(np.int64)
    lengths = bounds[1:] - bounds[:-1]
    expected = np.repeat(codes[first : last + 1].astype(unsigned), lengths)
    return patterns.view(np.float32), expected


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("target", NARROW, ids=str)
def test_cast_of_every_float32(target: Format) -> None:
    """All 2^32 patterns, nearest: the exact thresholds tell each one's code."""
    size = 1 << 23
    out = np.empty(size, dtype=target.dtype)
    for start in range(0, 1 << 32, size):
        x, expected = nearest_run(target, start, size)
        got = bits(numerics.cast(x, dtype_argument(target), out=out))
        if not np.array_equal(got, expected):
            assert_same_bits(out, expected, x)


@pytest.mark.parametrize("target", [BFLOAT16, FLOAT16, E4M3FN, E5M2, E2M1], ids=str)
def test_runs_by_thresholds_agree_with_the_integer_oracle(target: Format) -> None:
    """What the exhaustive run expects, tried on a few short runs; and the library on them."""
    size = 1 << 12
    for start in range(0, 1 << 32, (1 << 26) + (5 << 12)):
        x, expected = nearest_run(target, start, size)
        assert_same_bits(from_bits(expected, target), cast_codes(bits(x), FLOAT32, target), x)
        assert_same_bits(numerics.cast(x, target.dtype), expected, x)
