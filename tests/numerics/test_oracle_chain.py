"""The vectorised chain equals the one in fractions, and both equal numbers worked out by hand."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

from oracle import matmul
from oracle.chain import (
    Float32Array,
    canonical,
    chain,
    chain_exact,
    fma,
    fma_exact,
    round_to_float32,
)
from oracle.formats import BFLOAT16, FLOAT32
from oracle.rounding import cast_codes

EXTREMES = [
    0x00000000,  # zero
    0x00000001,  # smallest subnormal
    0x007FFFFF,  # largest subnormal
    0x00800000,  # smallest normal
    0x00800001,
    0x3F7FFFFF,  # the number below one
    0x3F800000,  # one
    0x3F800001,
    0x40490FDB,
    0x1F800000,  # 2^-64: squares to the smallest numbers
    0x1A800000,  # 2^-74
    0x5F800000,  # 2^64: squares to overflow
    0x7F7FFFFF,  # largest finite
    0x7F800000,  # infinity
    0x7FC00000,  # NaN
]


def codes_to_float32(codes: list[int]) -> Float32Array:
    return np.array(codes, dtype=np.uint32).view(np.float32)


def float32(value: float) -> Float32Array:
    return np.array([value], dtype=np.float32)


def same(left: Float32Array, right: Float32Array) -> bool:
    return bool(np.array_equal(canonical(left).view(np.uint32), canonical(right).view(np.uint32)))


def fma_by_fractions(a: Float32Array, b: Float32Array, s: Float32Array) -> Float32Array:
    results = [fma_exact(float(x), float(y), float(z)) for x, y, z in zip(a, b, s, strict=True)]
    return np.array(results, dtype=np.float32)


def test_extremes_in_every_combination() -> None:
    """All triples of the extremes in both signs: zeros, subnormals, overflow, infinity and NaN."""
    values = codes_to_float32(EXTREMES + [code | 0x80000000 for code in EXTREMES])
    a, b, s = (grid.ravel() for grid in np.meshgrid(values, values, values))
    assert same(fma(a, b, s), fma_by_fractions(a, b, s))


float32_codes = st.integers(0, 2**32 - 1)


@given(st.lists(st.tuples(float32_codes, float32_codes, float32_codes), min_size=1, max_size=20))
def test_any_codes(triples: list[tuple[int, int, int]]) -> None:
    a, b, s = (codes_to_float32(list(column)) for column in zip(*triples, strict=True))
    assert same(fma(a, b, s), fma_by_fractions(a, b, s))


@pytest.mark.parametrize("product_exponent", [-150, -149, -140, -126, -125, 0, 126, 127, 128])
def test_addend_close_to_the_product(product_exponent: int) -> None:
    """Addends within a few units of the rounded product (cancellation), or far below it (ties)."""
    random = np.random.default_rng(product_exponent % 1000)
    count = 3000
    a_exponent = product_exponent // 2
    with np.errstate(all="ignore"):
        a = np.ldexp(1 + random.random(count), a_exponent).astype(np.float32)
        b = np.ldexp(1 + random.random(count), product_exponent - a_exponent).astype(np.float32)
        product = a.astype(np.float64) * b.astype(np.float64)
        shift = random.integers(0, 60, count)
        near = -product + np.ldexp(random.choice([-1.0, 0.0, 1.0], count), product_exponent - shift)
        far = np.ldexp(random.choice([-1.0, 1.0], count), product_exponent - shift)
        s = np.where(random.random(count) < 0.5, near, far).astype(np.float32)
    assert same(fma(a, b, s), fma_by_fractions(a, b, s))


def test_midpoint_that_float64_would_hide() -> None:
    """A rest of 2^-80 decides a tie between two float32 numbers; a float64 sum would lose it."""
    one, above_one = codes_to_float32([0x3F800000]), codes_to_float32([0x3F800001])
    # (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24: a tie that goes to even unless something is added.
    factor = float32(1 + 2.0**-12)
    tie = fma(factor, factor, float32(0.0))
    pushed = fma(factor, factor, float32(2.0**-80))
    assert tie[0] == np.float32(1 + 2.0**-11)
    assert pushed[0] == np.float32(1 + 2.0**-11 + 2.0**-23)
    assert fma(one, one, float32(2.0**-24))[0] == one[0]
    assert fma(one, above_one, float32(2.0**-24))[0] == np.float32(1 + 2.0**-22)


def test_rounding_by_hand() -> None:
    assert round_to_float32(Fraction(1, 3)) == float(np.float32(1 / 3))
    assert round_to_float32(Fraction(2) ** -149) == 2.0**-149
    assert math.copysign(1, round_to_float32(-(Fraction(2) ** -150))) == -1
    assert round_to_float32(Fraction(2) ** -150) == 0.0
    assert round_to_float32(Fraction(3, 2) * Fraction(2) ** -149) == 2.0**-148
    assert round_to_float32(Fraction(2) ** 128 - Fraction(2) ** 103) == math.inf
    assert round_to_float32(Fraction(2) ** 128 - Fraction(2) ** 103 - 1) == float(
        np.float32(3.4028235e38)
    )


def test_signs_of_zero() -> None:
    """A chain starts at +0, so -0 comes only from a product that underflows."""
    tiny = 2.0**-100
    assert math.copysign(1, chain_exact([(-0.0, 1.0)])) == 1
    assert math.copysign(1, chain_exact([(1.0, 1.0), (-1.0, 1.0)])) == 1
    assert math.copysign(1, chain_exact([(-tiny, tiny)])) == -1
    assert math.copysign(1, chain_exact([(-tiny, tiny), (0.0, 1.0)])) == 1
    assert math.copysign(1, chain_exact([(-tiny, tiny), (-0.0, 1.0)])) == -1


def test_whole_chains() -> None:
    """`chain` is `chain_exact` on each element, `skip` leaves steps out, and batches broadcast."""
    random = np.random.default_rng(3)
    a = random.standard_normal((2, 1, 3, 40)).astype(np.float32)
    b = random.standard_normal((5, 40, 4)).astype(np.float32)
    skip = np.broadcast_to(random.random((40, 4)) < 0.3, b.shape)
    plain, skipping = chain(a, b), chain(a, b, skip)
    assert plain.shape == (2, 5, 3, 4)
    for i, j, m, n in np.ndindex(*plain.shape):
        steps = [(float(a[i, 0, m, k]), float(b[j, k, n])) for k in range(40)]
        assert plain[i, j, m, n] == chain_exact(steps)
        kept = [step for k, step in enumerate(steps) if not skip[j, k, n]]
        assert skipping[i, j, m, n] == chain_exact(kept)


@pytest.mark.parametrize("rounding", ["nearest", "zero", "stochastic"])
def test_bfloat16_rounding_agrees_with_the_general_one(rounding: matmul.Rounding) -> None:
    """The bfloat16 rounding is the format-independent one of `oracle.rounding`, and ml_dtypes'."""
    random = np.random.default_rng(5)
    anywhere = random.integers(0, 2**32, 4000, dtype=np.uint32)
    ends = np.array(
        [0x7F7FFFFF, 0x7F7F8000, 0x7F7F7FFF, 0x00000001, 0x0000FFFF, 0x80008000], dtype=np.uint32
    )
    values = canonical(np.concatenate([anywhere, ends]).view(np.float32))
    draws = random.integers(0, 2**32, values.size, dtype=np.uint32)
    got = matmul.to_bfloat16(values, rounding, draws).view(np.uint32) >> 16
    codes = values.view(np.uint32)
    expected = cast_codes(codes, FLOAT32, BFLOAT16, rounding=rounding, draws=draws)
    assert np.array_equal(got, expected)
    if rounding == "nearest":
        with np.errstate(all="ignore"):
            theirs = values.astype(ml_dtypes.bfloat16).astype(np.float32)
        assert same(matmul.to_bfloat16(values, rounding), theirs)


def test_tiles_join_after_the_chain() -> None:
    """Two tiles differ from one long chain, and c comes before the first."""
    random = np.random.default_rng(7)
    a = random.standard_normal((1, 200)).astype(np.float32)
    b = random.standard_normal((200, 1)).astype(np.float32)
    c = np.array([[100.0]], dtype=np.float32)
    pairs = [(float(x), float(y)) for x, y in zip(a[0], b[:, 0], strict=True)]
    first, second = np.float32(chain_exact(pairs[:128])), np.float32(chain_exact(pairs[128:]))
    assert matmul.matmul(a, b)[0, 0] == first + second
    assert matmul.matmul(a, b, c=c)[0, 0] == (c[0, 0] + first) + second
    assert matmul.matmul(a, b, tile=512)[0, 0] == np.float32(chain_exact(pairs))
