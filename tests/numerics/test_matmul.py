"""`matmul` equals the exact chain oracle: dtypes, shapes, tiles, c, and every kind of number."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st

from oracle import matmul as oracle, operands
from oracle.operands import BFLOAT16, E2M1FN, E8M0FNU, FLOAT16, FLOAT32, FP8, NARROW
from support.checks import assert_bits, error
from trn3.numerics import cast, matmul, tfloat32

Array = npt.NDArray[Any]

PAIRS = [*itertools.product(NARROW, NARROW), (FLOAT32, FLOAT32)]


def name(value: Any) -> str:
    return value.name if isinstance(value, np.dtype) else str(value)


@pytest.mark.parametrize(("a_dtype", "b_dtype"), PAIRS, ids=name)
def test_every_allowed_pair_of_dtypes(a_dtype: Any, b_dtype: Any) -> None:
    random = np.random.default_rng(1)
    a = operands.normal(random, (7, 131), a_dtype)
    b = operands.normal(random, (131, 53), b_dtype)
    assert_bits(matmul(a, b), oracle.matmul(a, b))


@pytest.mark.parametrize(("a_dtype", "b_dtype"), PAIRS, ids=name)
def test_codes_of_every_kind(a_dtype: Any, b_dtype: Any) -> None:
    """Infinities, NaN with payloads, zeros, subnormals of each pair; NaN comes out canonical.

    With K = 1 and 2 not everything drowns in NaN.
    """
    random = np.random.default_rng(2)
    for k in (1, 2, 3, 33):
        a = operands.codes(random, (19, k), a_dtype)
        b = operands.codes(random, (k, 67), b_dtype)
        assert_bits(matmul(a, b), oracle.matmul(a, b), f"K={k}")


@pytest.mark.parametrize(("a_dtype", "b_dtype"), [*itertools.product(FP8, FP8)], ids=name)
def test_all_pairs_of_fp8_codes(a_dtype: Any, b_dtype: Any) -> None:
    """All 65,536 products of a pair of types, alone and then on top of another product."""
    every = np.arange(256, dtype=np.uint8)
    a, b = every.view(a_dtype)[:, None], every.view(b_dtype)[None, :]
    assert_bits(matmul(a, b), oracle.matmul(a, b))
    ones_a = np.ones((256, 1), dtype=a_dtype)
    thirds = np.full((1, 256), 0.34, dtype=np.float32).astype(b_dtype)
    a2, b2 = np.concatenate([ones_a, a], axis=1), np.concatenate([thirds, b], axis=0)
    assert_bits(matmul(a2, b2), oracle.matmul(a2, b2))


def test_tfloat32_values() -> None:
    """tfloat32 arrays are float32 arrays, by themselves and beside ordinary float32."""
    random = np.random.default_rng(3)
    plain_a = operands.normal(random, (9, 200), FLOAT32)
    plain_b = operands.normal(random, (200, 21), FLOAT32)
    a, b = cast(plain_a, tfloat32), cast(plain_b, tfloat32)
    for left, right in [(a, b), (a, plain_b), (plain_a, b)]:
        assert_bits(matmul(left, right), oracle.matmul(left, right))


REFUSED_PAIRS = [(FLOAT32, dtype) for dtype in NARROW] + [(dtype, FLOAT32) for dtype in NARROW]


@pytest.mark.parametrize(("a_dtype", "b_dtype"), REFUSED_PAIRS, ids=name)
def test_float32_goes_only_with_float32(a_dtype: Any, b_dtype: Any) -> None:
    a, b = np.zeros((2, 3), dtype=a_dtype), np.zeros((3, 2), dtype=b_dtype)
    with error(TypeError, "a", "b", a_dtype.name, b_dtype.name):
        matmul(a, b)


@pytest.mark.parametrize(
    "dtype", ["float64", "int32", "uint8", "bool", "complex64", "object", E2M1FN, E8M0FNU], ids=str
)
def test_refused_dtypes(dtype: Any) -> None:
    dtype = np.dtype(dtype)
    good = np.zeros((3, 3), dtype=BFLOAT16)
    with error(TypeError, "a", dtype.name, "bfloat16", "float32"):
        matmul(np.ones((3, 3), dtype=dtype), good)
    with error(TypeError, "b", dtype.name, "bfloat16", "float32"):
        matmul(good, np.ones((3, 3), dtype=dtype))


K_LENGTHS = [1, 2, 3, 31, 64, 127, 128, 129, 255, 256, 257, 300, 384, 513]


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT16, FLOAT32, FP8[0]], ids=name)
@pytest.mark.parametrize("k", K_LENGTHS)
def test_k_around_the_tiles(k: int, dtype: Any) -> None:
    """Odd tails within a tile, and tiles of 128 joined by one addition each."""
    random = np.random.default_rng(k)
    a = operands.normal(random, (5, k), dtype)
    b = operands.normal(random, (k, 19), dtype)
    c = operands.normal(random, (5, 19), FLOAT32)
    assert_bits(matmul(a, b), oracle.matmul(a, b))
    assert_bits(matmul(a, b, c=c), oracle.matmul(a, b, c=c), "with c")


M_AND_N = [(1, 1), (1, 97), (97, 1), (2, 15), (7, 16), (8, 17), (9, 47), (8, 48), (9, 49), (33, 95)]
M_AND_N += [(65, 129), (131, 65)]


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT32], ids=name)
@pytest.mark.parametrize(("m", "n"), M_AND_N)
def test_m_and_n_around_register_tiles(m: int, n: int, dtype: Any) -> None:
    random = np.random.default_rng(m * 1000 + n)
    a = operands.normal(random, (m, 141), dtype)
    b = operands.normal(random, (141, n), dtype)
    assert_bits(matmul(a, b), oracle.matmul(a, b))


@given(
    m=st.integers(1, 20),
    k=st.integers(1, 300),
    n=st.integers(1, 60),
    pair=st.sampled_from(PAIRS),
    with_c=st.sampled_from([None, BFLOAT16, FLOAT32]),
    bfloat16=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_shape_dtype_and_c(
    m: int, k: int, n: int, pair: Any, with_c: Any, bfloat16: bool, seed: int
) -> None:
    random = np.random.default_rng(seed)
    a = operands.with_zeros(random, operands.normal(random, (m, k), pair[0]))
    b = operands.with_zeros(random, operands.normal(random, (k, n), pair[1]))
    c = None if with_c is None else operands.normal(random, (m, n), with_c)
    out_dtype = BFLOAT16 if bfloat16 else FLOAT32
    assert_bits(matmul(a, b, c=c, out_dtype=out_dtype), oracle.matmul(a, b, c=c, bfloat16=bfloat16))


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT32, FP8[1]], ids=name)
def test_large_product_on_sampled_rows_and_columns(dtype: Any) -> None:
    """Big enough for every level of blocking; a sample of rows and columns is compared."""
    random = np.random.default_rng(11)
    m, k, n = 1301, 1100, 1213
    a, b = operands.normal(random, (m, k), dtype), operands.normal(random, (k, n), dtype)
    c = operands.normal(random, (m, n), FLOAT32)
    rows = np.unique(np.concatenate([[0, m - 1], random.integers(0, m, 40)]))
    columns = np.unique(np.concatenate([[0, n - 1], random.integers(0, n, 40)]))
    got = matmul(a, b, c=c)[np.ix_(rows, columns)]
    expected = oracle.matmul(a[rows], b[:, columns], c=c[np.ix_(rows, columns)])
    assert_bits(np.ascontiguousarray(got), expected)


@pytest.mark.parametrize("c_dtype", [None, FLOAT32, BFLOAT16], ids=name)
@pytest.mark.parametrize("shape", [(0, 5, 4), (3, 5, 0), (0, 0, 0), (3, 0, 4), (1, 0, 1)], ids=str)
def test_empty_shapes(shape: tuple[int, int, int], c_dtype: Any) -> None:
    """M = 0 and N = 0 give empty results; K = 0 gives zeros or c, NaN canonical."""
    m, k, n = shape
    a, b = np.zeros((m, k), dtype=BFLOAT16), np.zeros((k, n), dtype=BFLOAT16)
    c = None
    if c_dtype is not None:
        c = operands.codes(np.random.default_rng(1), (m, n), c_dtype)
    assert_bits(matmul(a, b, c=c), oracle.matmul(a, b, c=c))
    got = matmul(a, b, c=c, out_dtype=BFLOAT16)
    assert_bits(got, oracle.matmul(a, b, c=c, bfloat16=True))


@pytest.mark.parametrize("c_dtype", [FLOAT32, BFLOAT16], ids=name)
def test_c_of_every_code(c_dtype: Any) -> None:
    """Infinities, NaN, -0 and subnormals of c are added to the first tile in float32."""
    random = np.random.default_rng(4)
    c = operands.codes(random, (64, 65), c_dtype)
    for k in (1, 130):
        a = operands.with_zeros(random, operands.normal(random, (64, k), BFLOAT16), 0.6)
        b = operands.with_zeros(random, operands.normal(random, (k, 65), BFLOAT16), 0.6)
        assert_bits(matmul(a, b, c=c), oracle.matmul(a, b, c=c), f"K={k}")
        got = matmul(a, b, c=c, out_dtype=BFLOAT16)
        assert_bits(got, oracle.matmul(a, b, c=c, bfloat16=True), f"K={k}, bfloat16")


def test_c_joins_before_the_second_tile() -> None:
    """(c + first) + second, not c + (first + second)."""
    a = np.ones((1, 256), dtype=BFLOAT16)
    b = np.zeros((256, 1), dtype=BFLOAT16)
    b[0], b[128] = -(2.0**30), 2.0**30
    c = np.array([[1.0]], dtype=np.float32)
    assert matmul(a, b, c=c)[0, 0] == 0.0
    assert matmul(a, b)[0, 0] == 0.0
    b[0], b[128] = 1.0, -1.0
    c[0, 0] = 2.0**24
    assert matmul(a, b, c=c)[0, 0] == 2.0**24 - 1


# The exponents of a are -60 and up, so products reach down to 2^(-60 + b); below b = -52 the last
# bit of a product, 14 places lower, is a float32 subnormal, and below b = -66 products themselves.
B_EXPONENTS = [-90, -89, -76, -75, -74, -73, -68, -67, -66, -65, -60, -54, -53, -52, -51, -50, -40]


@pytest.mark.parametrize("b_exponent", B_EXPONENTS)
def test_results_around_the_smallest_normal_number(b_exponent: int) -> None:
    """Products, partial sums and results that are subnormal are never flushed."""
    random = np.random.default_rng(-b_exponent)
    for dtype in (BFLOAT16, FLOAT32):
        for k in (2, 3, 64, 129):
            a = operands.with_zeros(random, operands.between(random, (9, k), dtype, -60, -58))
            b = operands.between(random, (k, 50), dtype, b_exponent, b_exponent + 2)
            assert_bits(matmul(a, b), oracle.matmul(a, b), f"{dtype} K={k}")
    for k in (2, 3, 50, 128):
        a, b = operands.tiny(random, k, b_exponent)
        expected = oracle.matmul(a, b)
        assert np.all(np.abs(expected) == np.ldexp(1.0, max(b_exponent - 74, -200)).astype("f4"))
        assert_bits(matmul(a, b), expected, f"cancelling, K={k}")


@pytest.mark.parametrize("b_exponent", [-66, -60, -53, -52])
@pytest.mark.parametrize("place", [(0, 0, 0), (32, 126, 96), (8, 128, 48), (17, 298, 50)], ids=str)
def test_one_small_row_and_column_among_ordinary_ones(
    place: tuple[int, int, int], b_exponent: int
) -> None:
    """A subnormal result in one place only, in any K tile and at any edge of a register tile."""
    random = np.random.default_rng(13)
    row, k, column = place
    a, b = (operands.normal(random, shape, BFLOAT16) for shape in ((33, 300), (300, 97)))
    small_a, small_b = operands.tiny(random, 2, b_exponent)
    a[row], b[:, column] = 0, 0
    a[row, k : k + 2], b[k : k + 2, column] = small_a[0], small_b[:, 0]
    expected = oracle.matmul(a, b)
    assert abs(expected[row, column]) == np.ldexp(1.0, b_exponent - 74)
    assert_bits(matmul(a, b), expected)


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT16, FLOAT32], ids=name)
def test_subnormal_inputs(dtype: Any) -> None:
    """Subnormal operands count: one among ordinary ones, and nothing but subnormals."""
    random = np.random.default_rng(6)
    bits = 10 if dtype == FLOAT16 else (7 if dtype == BFLOAT16 else 23)
    unsigned = np.uint32 if dtype == FLOAT32 else np.uint16
    few = random.integers(1, 1 << bits, (11, 70)).astype(unsigned).view(dtype)
    large = operands.between(random, (70, 49), dtype, 8, 15)
    assert_bits(matmul(few, large), oracle.matmul(few, large), "a subnormal")
    assert_bits(matmul(large.T, few.T), oracle.matmul(large.T, few.T), "b subnormal")
    mixed = operands.normal(random, (11, 70), dtype)
    mixed[3, 7] = few[0, 0]
    assert_bits(matmul(mixed, large), oracle.matmul(mixed, large), "one subnormal")
    only = few[:, :32]
    assert_bits(matmul(only, few.T[:32]), oracle.matmul(only, few.T[:32]), "both subnormal")


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT32], ids=name)
def test_overflow_of_partial_sums(dtype: Any) -> None:
    """A partial sum may overflow and stay infinite, or meet the other infinity and be NaN."""
    random = np.random.default_rng(8)
    a = operands.with_zeros(random, operands.between(random, (16, 140), dtype, 61, 63))
    b = operands.between(random, (140, 51), dtype, 61, 64)
    expected = oracle.matmul(a, b)
    assert np.isinf(expected).any()
    assert_bits(matmul(a, b), expected)
    got = matmul(a, b, out_dtype=BFLOAT16)
    assert_bits(got, oracle.matmul(a, b, bfloat16=True))


@pytest.mark.parametrize("dtype", [*NARROW, FLOAT32], ids=name)
def test_signs_of_zero(dtype: Any) -> None:
    """The chain starts at +0: sums of -0 are +0, and -0 comes only from c or an underflow."""
    a, b = np.full((2, 3), -0.0, dtype=dtype), np.ones((3, 17), dtype=dtype)
    assert_bits(matmul(a, b), np.zeros((2, 17), dtype=np.float32))
    minus = np.full((2, 17), -0.0, dtype=np.float32)
    assert_bits(matmul(a, b, c=minus), np.zeros((2, 17), dtype=np.float32))
    assert_bits(matmul(a[:, :0], b[:0], c=minus), minus)


def test_products_that_vanish_keep_their_sign() -> None:
    small = np.full((1, 1), 2.0**-100, dtype=BFLOAT16)
    assert_bits(matmul(-small, small), np.array([[-0.0]], dtype=np.float32))
    assert_bits(matmul(small, small), np.array([[0.0]], dtype=np.float32))
