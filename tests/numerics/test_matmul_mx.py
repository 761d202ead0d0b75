"""`matmul_mx` equals the exact chain oracle over dequantized values: all elements and scales."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st

from oracle import matmul as oracle, operands
from oracle.arrays import layouts
from oracle.operands import BFLOAT16, E2M1FN, E4M3FN, E5M2, FLOAT32, MX_ELEMENTS
from support.checks import assert_bits, error
from trn3.numerics import MXArray, Xorwow, matmul_mx, quantize_mx

Array = npt.NDArray[Any]
Parts = tuple[Array, npt.NDArray[np.uint8]]

PAIRS = [*itertools.product(MX_ELEMENTS, MX_ELEMENTS)]
BLOCK = 32


def scale_bytes(
    random: operands.Random, shape: tuple[int, ...], low: int, high: int
) -> npt.NDArray[np.uint8]:
    return random.integers(low, high + 1, shape).astype(np.uint8)


def operand_a(
    random: operands.Random, shape: tuple[int, ...], dtype: Any, low: int = 120, high: int = 134
) -> Parts:
    """Elements of shape [..., M, K] of ordinary size, with scale bytes from low to high."""
    scales = scale_bytes(random, (*shape[:-1], shape[-1] // BLOCK), low, high)
    return operands.normal(random, shape, dtype), scales


def operand_b(
    random: operands.Random, shape: tuple[int, ...], dtype: Any, low: int = 120, high: int = 134
) -> Parts:
    """Elements of shape [..., K, N] of ordinary size, with scale bytes from low to high."""
    scales = scale_bytes(random, (*shape[:-2], shape[-2] // BLOCK, shape[-1]), low, high)
    return operands.normal(random, shape, dtype), scales


def mx_a(parts: Parts) -> MXArray:
    return MXArray.from_parts(*parts, axis=-1)


def mx_b(parts: Parts) -> MXArray:
    return MXArray.from_parts(*parts, axis=-2)


def product(a: Parts, b: Parts, **options: Any) -> Array:
    result: Array = matmul_mx(mx_a(a), mx_b(b), **options)
    return result


@pytest.mark.parametrize(("a_dtype", "b_dtype"), PAIRS, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("k", [32, 64, 480, 512, 544, 1024, 1056])
def test_every_pair_and_k_around_the_tiles(k: int, a_dtype: Any, b_dtype: Any) -> None:
    random = np.random.default_rng(k)
    a, b = operand_a(random, (5, k), a_dtype), operand_b(random, (k, 19), b_dtype)
    c = operands.normal(random, (5, 19), FLOAT32)
    assert_bits(product(a, b), oracle.matmul_mx(a, b))
    assert_bits(product(a, b, c=c), oracle.matmul_mx(a, b, c=c), "with c")


@pytest.mark.parametrize(("a_dtype", "b_dtype"), PAIRS, ids=lambda dtype: dtype.name)
def test_all_pairs_of_element_codes(a_dtype: Any, b_dtype: Any) -> None:
    """Every product of two element codes, at every position of a block."""
    a_codes = np.arange(16 if a_dtype == E2M1FN else 256, dtype=np.uint8)
    b_codes = np.arange(16 if b_dtype == E2M1FN else 256, dtype=np.uint8)
    positions = range(BLOCK) if len(a_codes) == len(b_codes) == 16 else (0, 1, 31)
    one = np.array(1.0, dtype=np.float32)
    for position in positions:
        a = np.zeros((len(a_codes), BLOCK), dtype=a_dtype)
        b = np.zeros((BLOCK, len(b_codes)), dtype=b_dtype)
        # A second product makes a sum of it.
        a[:, position - 1], b[position - 1] = one.astype(a_dtype), (1.5 * one).astype(b_dtype)
        a[:, position], b[position] = a_codes.view(a_dtype), b_codes.view(b_dtype)
        a_scales = np.full((len(a_codes), 1), 126, dtype=np.uint8)
        b_scales = np.full((1, len(b_codes)), 128, dtype=np.uint8)
        parts_a, parts_b = (a, a_scales), (b, b_scales)
        expected = oracle.matmul_mx(parts_a, parts_b)
        assert_bits(product(parts_a, parts_b), expected, f"position {position}")


@pytest.mark.parametrize("dtype", MX_ELEMENTS, ids=lambda dtype: dtype.name)
def test_all_scale_bytes(dtype: Any) -> None:
    """All 256 x 256 pairs of scales: overflow of a dequantized value, underflow, 255 is NaN."""
    random = np.random.default_rng(1)
    every = np.arange(256, dtype=np.uint8)
    a = (operands.with_zeros(random, operands.normal(random, (256, 32), dtype)), every[:, None])
    b = (operands.normal(random, (32, 256), dtype), every[None, :])
    assert_bits(product(a, b), oracle.matmul_mx(a, b))


@pytest.mark.parametrize(("a_dtype", "b_dtype"), PAIRS, ids=lambda dtype: dtype.name)
def test_any_codes_under_any_scales(a_dtype: Any, b_dtype: Any) -> None:
    """Random codes, NaN and infinities of e5m2 included, under scales that often keep it finite."""
    random = np.random.default_rng(2)
    for low, high in [(0, 255), (120, 134), (60, 70), (0, 2), (250, 254), (253, 255)]:
        a_scales = scale_bytes(random, (17, 3), low, high)
        b_scales = scale_bytes(random, (3, 50), max(0, 252 - high), min(255, 256 - low))
        a = (operands.codes(random, (17, 96), a_dtype), a_scales)
        b = (operands.codes(random, (96, 50), b_dtype), b_scales)
        assert_bits(product(a, b), oracle.matmul_mx(a, b), f"scales from {low} to {high}")
        quiet_a = (np.where(random.random((17, 96)) < 0.9, np.zeros((), a_dtype), a[0]), a_scales)
        assert_bits(product(quiet_a, b), oracle.matmul_mx(quiet_a, b), "mostly zeros")


def smallest_step(dtype: Any) -> int:
    """Return the exponent of a type's smallest number."""
    return {E4M3FN: -9, E5M2: -16, E2M1FN: -1}[np.dtype(dtype)]


@pytest.mark.parametrize("dtype", MX_ELEMENTS, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("offset", [-40, -24, -23, -12, -3, -2, -1, 0, 1, 2, 3, 12])
def test_results_around_the_smallest_normal_number(offset: int, dtype: Any) -> None:
    """Scales that put the least product just above and just below 2^-126, and below 2^-149."""
    random = np.random.default_rng(offset + 100)
    total = 254 - 126 + offset - 2 * smallest_step(dtype)
    a_byte = total // 2
    a_codes = random.integers(0, 7, (9, 64)).astype(np.uint8).view(dtype)
    b_codes = random.integers(0, 7, (64, 50)).astype(np.uint8).view(dtype)
    signs = np.where(random.random((9, 64)) < 0.5, -1.0, 1.0).astype(np.float32)
    signed_a = (a_codes.astype(np.float32) * signs).astype(dtype)
    a = (signed_a, np.full((9, 2), a_byte, dtype=np.uint8))
    b = (b_codes, np.full((2, 50), total - a_byte, dtype=np.uint8))
    expected = oracle.matmul_mx(a, b)
    if -23 <= offset < 0:
        assert np.any((np.abs(expected) < 2.0**-126) & (expected != 0))
    assert_bits(product(a, b), expected)


@pytest.mark.parametrize("place", [(0, 0, 0), (16, 31, 48), (8, 512, 16), (3, 575, 15)], ids=str)
@pytest.mark.parametrize("dtype", MX_ELEMENTS, ids=lambda dtype: dtype.name)
def test_one_small_block_among_ordinary_ones(dtype: Any, place: tuple[int, int, int]) -> None:
    """A subnormal product in one place only, in any K tile and at any edge of a register tile."""
    random = np.random.default_rng(11)
    row, k, column = place
    a, b = operand_a(random, (17, 576), dtype), operand_b(random, (576, 49), dtype)
    a[0][row], b[0][:, column] = 0, 0
    a[0][row, k], b[0][k, column] = 1, -1.5
    for total in (127 + 127 - 126, 127 + 127 - 127, 127 + 127 - 148, 127 + 127 - 150):
        a[1][row, k // BLOCK], b[1][k // BLOCK, column] = 40, total - 40
        expected = oracle.matmul_mx(a, b)
        assert expected[row, column] == np.float32(np.ldexp(-1.5, total - 254))
        assert_bits(product(a, b), expected, f"scale exponents {total - 254}")


@pytest.mark.parametrize("dtype", MX_ELEMENTS, ids=lambda dtype: dtype.name)
def test_values_beyond_float32(dtype: Any) -> None:
    """An element times its scale overflows to infinity before any product, even one with 0."""
    a_elements = np.zeros((2, 32), dtype=dtype)
    a_elements[0, 3] = np.array(4.0).astype(dtype)
    a_elements[1, 3] = np.array(-4.0).astype(dtype)
    b_elements = np.zeros((32, 3), dtype=dtype)
    b_elements[3] = np.array([1.0, -2.0, 0.0]).astype(dtype)
    a = (a_elements, np.full((2, 1), 254, dtype=np.uint8))
    b = (b_elements, np.full((1, 3), 0, dtype=np.uint8))
    expected = np.array([[np.inf, -np.inf, np.nan], [-np.inf, np.inf, np.nan]], dtype=np.float32)
    assert_bits(product(a, b), expected)


def test_scale_255_is_nan_even_over_zeros() -> None:
    a = (np.zeros((3, 64), dtype=E2M1FN), np.full((3, 2), 127, dtype=np.uint8))
    b = (np.zeros((64, 5), dtype=E4M3FN), np.full((2, 5), 127, dtype=np.uint8))
    a[1][1, 0] = 255
    b[1][1, 4] = 255
    expected = np.zeros((3, 5), dtype=np.float32)
    expected[1], expected[:, 4] = np.nan, np.nan
    assert_bits(product(a, b), expected)


@given(
    m=st.integers(1, 20),
    blocks=st.integers(1, 33),
    n=st.integers(1, 60),
    pair=st.sampled_from(PAIRS),
    with_c=st.sampled_from([None, BFLOAT16, FLOAT32]),
    bfloat16=st.booleans(),
    scales=st.sampled_from([(120, 134), (127, 127), (40, 90), (190, 200)]),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_shape_dtype_and_c(
    m: int,
    blocks: int,
    n: int,
    pair: Any,
    with_c: Any,
    bfloat16: bool,
    scales: tuple[int, int],
    seed: int,
) -> None:
    random = np.random.default_rng(seed)
    a = operand_a(random, (m, BLOCK * blocks), pair[0], *scales)
    b = operand_b(random, (BLOCK * blocks, n), pair[1], *scales)
    c = None if with_c is None else operands.normal(random, (m, n), with_c)
    got = product(a, b, c=c, out_dtype=BFLOAT16 if bfloat16 else FLOAT32)
    assert_bits(got, oracle.matmul_mx(a, b, c=c, bfloat16=bfloat16))


def test_large_product_on_sampled_rows_and_columns() -> None:
    random = np.random.default_rng(3)
    m, k, n = 901, 1056, 1013
    a, b = operand_a(random, (m, k), E4M3FN), operand_b(random, (k, n), E2M1FN)
    rows = np.unique(np.concatenate([[0, m - 1], random.integers(0, m, 30)]))
    columns = np.unique(np.concatenate([[0, n - 1], random.integers(0, n, 30)]))
    got = product(a, b)[np.ix_(rows, columns)]
    sample = (b[0][:, columns], b[1][:, columns])
    expected = oracle.matmul_mx((a[0][rows], a[1][rows]), sample)
    assert_bits(np.ascontiguousarray(got), expected)


def test_quantized_operands() -> None:
    """What quantize_mx returns goes straight in."""
    random = np.random.default_rng(4)
    x, w = operands.normal(random, (6, 640), FLOAT32), operands.normal(random, (640, 10), FLOAT32)
    a, b = quantize_mx(x, E4M3FN), quantize_mx(w, E2M1FN, axis=-2)
    a_parts = (a.elements, a.scales.view(np.uint8))
    b_parts = (b.elements, b.scales.view(np.uint8))
    assert_bits(matmul_mx(a, b), oracle.matmul_mx(a_parts, b_parts))


@pytest.mark.parametrize("rounding", ["nearest", "zero", "stochastic"])
@pytest.mark.parametrize("batch", [(), (3,)], ids=str)
@pytest.mark.parametrize("k", [64, 512, 1056])
def test_bfloat16_result(k: int, batch: tuple[int, ...], rounding: oracle.Rounding) -> None:
    """Rounded after every tile of 512, with one draw an element a tile."""
    random = np.random.default_rng(k)
    a, b = operand_a(random, (*batch, 5, k), E4M3FN), operand_b(random, (k, 23), E5M2)
    c = operands.normal(random, (*batch, 5, 23), BFLOAT16)
    rng = Xorwow.seed(9, lanes=6) if rounding == "stochastic" else None
    for start in (None, c):
        reference, draws = copy.copy(rng), None
        if reference is not None:
            shape = oracle.draws_shape(a[0], b[0], oracle.MATMUL_MX_TILE)
            count = int(np.prod(shape))
            draws = reference.uint32(-(-count // 6)).ravel()[:count].reshape(shape)
        options: Any = {"out_dtype": BFLOAT16, "rounding": rounding, "rng": rng}
        got = product(a, b, c=start, **options)
        expected = oracle.matmul_mx(a, b, c=start, bfloat16=True, rounding=rounding, draws=draws)
        assert_bits(got, expected)
        assert rng == reference


@pytest.mark.parametrize(
    ("a_batch", "b_batch"), [((), (3,)), ((3,), ()), ((2, 1), (3,)), ((0,), (1,))], ids=str
)
def test_batches_broadcast(a_batch: tuple[int, ...], b_batch: tuple[int, ...]) -> None:
    random = np.random.default_rng(5)
    a = operand_a(random, (*a_batch, 4, 64), E5M2)
    b = operand_b(random, (*b_batch, 64, 18), E4M3FN)
    assert_bits(product(a, b), oracle.matmul_mx(a, b))


def test_every_memory_layout() -> None:
    """Elements and scales of any strides are taken as they are."""
    random = np.random.default_rng(6)
    a, b = operand_a(random, (7, 96), E4M3FN), operand_b(random, (96, 21), E2M1FN)
    expected = oracle.matmul_mx(a, b)
    a_scales, b_scales = dict(layouts(a[1])), dict(layouts(b[1]))
    for layout, elements in layouts(a[0]):
        assert_bits(product((elements, a_scales[layout]), b), expected, f"a {layout}")
    for layout, elements in layouts(b[0]):
        assert_bits(product(a, (elements, b_scales[layout])), expected, f"b {layout}")


@pytest.mark.parametrize(("m", "k", "n"), [(0, 64, 3), (3, 64, 0), (3, 0, 4), (0, 0, 0)])
def test_empty_shapes(m: int, k: int, n: int) -> None:
    random = np.random.default_rng(7)
    a, b = operand_a(random, (m, k), E4M3FN), operand_b(random, (k, n), E2M1FN)
    c = operands.normal(random, (m, n), FLOAT32)
    assert_bits(product(a, b), oracle.matmul_mx(a, b))
    assert_bits(product(a, b, c=c), oracle.matmul_mx(a, b, c=c))
    got = product(a, b, c=c, out_dtype=BFLOAT16)
    assert_bits(got, oracle.matmul_mx(a, b, c=c, bfloat16=True))


def test_out_is_filled_and_returned() -> None:
    random = np.random.default_rng(8)
    a, b = operand_a(random, (7, 544), E4M3FN), operand_b(random, (544, 21), E4M3FN)
    for dtype in (FLOAT32, BFLOAT16):
        out = np.full((7, 21), np.nan, dtype=dtype)
        assert product(a, b, out_dtype=dtype, out=out) is out
        assert_bits(out, oracle.matmul_mx(a, b, bfloat16=dtype == BFLOAT16))


def test_blocks_lie_along_k() -> None:
    """`a` is blocked along its last axis and `b` along the one before: else the error says so."""
    square = (np.zeros((32, 32), dtype=E4M3FN), np.zeros((32, 1), dtype=np.uint8))
    across = (square[0], square[1].T)
    with error(ValueError, "a", "axis", "0", "-1"):
        matmul_mx(mx_b(across), mx_b(across))
    with error(ValueError, "b", "axis", "1", "-2"):
        matmul_mx(mx_a(square), mx_a(square))


def test_an_axis_counted_from_the_front_is_the_same_axis() -> None:
    random = np.random.default_rng(9)
    a, b = operand_a(random, (7, 64), E4M3FN), operand_b(random, (64, 21), E4M3FN)
    got = matmul_mx(MXArray.from_parts(*a, axis=1), MXArray.from_parts(*b, axis=0))
    assert_bits(got, oracle.matmul_mx(a, b))


def test_operands_are_mx_arrays() -> None:
    plain = np.zeros((32, 32), dtype=E4M3FN)
    mx = mx_b((plain, np.zeros((1, 32), dtype=np.uint8)))
    with error(TypeError, "a", "MXArray", "ndarray"):
        matmul_mx(plain, mx)  # type: ignore[arg-type]
    with error(TypeError, "b", "MXArray", "ndarray"):
        matmul_mx(mx_a((plain, np.zeros((32, 1), dtype=np.uint8))), plain)  # type: ignore[arg-type]


def test_shapes_that_do_not_fit() -> None:
    random = np.random.default_rng(10)
    a, b = operand_a(random, (3, 64), E4M3FN), operand_b(random, (96, 5), E4M3FN)
    with error(ValueError, "a", "b", "64", "96"):
        product(a, b)
    a3, b2 = operand_a(random, (2, 3, 64), E4M3FN), operand_b(random, (4, 64, 5), E4M3FN)
    with error(ValueError, "a", "b"):
        product(a3, b2)
    with error(ValueError, "c", "(3, 5)", "(1, 5)"):
        c = np.zeros((1, 5), dtype=np.float32)
        product(a, operand_b(random, (64, 5), E4M3FN), c=c)
