"""`matmul_sparse` equals the exact chain oracle with every stored zero left out."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st

from oracle import matmul as dense_oracle, operands, sparse as oracle
from oracle.arrays import layouts
from oracle.operands import BFLOAT16, E2M1FN, E4M3FN, FLOAT32, NARROW
from oracle.sparse import PATTERNS, Pattern
from support.checks import assert_bits, error
from trn3.numerics import SparseArray, Xorwow, compress, matmul, matmul_sparse

Array = npt.NDArray[Any]

PAIRS = [*itertools.product(NARROW, NARROW), (FLOAT32, FLOAT32)]


def sparse_operand(
    random: operands.Random, groups: int, n: int, pattern: Pattern, dtype: Any = BFLOAT16
) -> tuple[SparseArray, Array]:
    """Build a compressed right operand with some unused slots, and its dense form."""
    length = groups * oracle.pattern_numbers(pattern)[1]
    dense = oracle.prune(operands.normal(random, (length, n), dtype), pattern)
    dense = operands.with_zeros(random, dense, 0.1)
    return compress(dense, pattern), dense


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT32, E4M3FN], ids=lambda dtype: dtype.name)
def test_every_pattern_over_several_tiles(pattern: Pattern, dtype: Any) -> None:
    """Tiles are 128 dense positions long; groups of 12 lie across their ends."""
    random = np.random.default_rng(1)
    size = oracle.pattern_numbers(pattern)[1]
    for length in (size, 96, 144, 288, 528):
        w, dense = sparse_operand(random, length // size, 37, pattern, dtype)
        a = operands.normal(random, (7, len(dense)), dtype)
        c = operands.normal(random, (7, 37), FLOAT32)
        assert_bits(matmul_sparse(a, w), oracle.matmul_sparse(a, dense), f"K={length}")
        expected = oracle.matmul_sparse(a, dense, c=c)
        assert_bits(matmul_sparse(a, w, c=c), expected, f"K={length} with c")


@pytest.mark.parametrize("pattern", ["4:12", "4:16", "1:2"])
@pytest.mark.parametrize(("a_dtype", "w_dtype"), PAIRS, ids=lambda dtype: dtype.name)
def test_every_allowed_pair_of_dtypes(a_dtype: Any, w_dtype: Any, pattern: Pattern) -> None:
    random = np.random.default_rng(2)
    w, dense = sparse_operand(
        random, 144 // oracle.pattern_numbers(pattern)[1], 53, pattern, w_dtype
    )
    a = operands.normal(random, (9, 144), a_dtype)
    assert_bits(matmul_sparse(a, w), oracle.matmul_sparse(a, dense))


def test_float32_goes_only_with_float32() -> None:
    random = np.random.default_rng(3)
    narrow, _ = sparse_operand(random, 2, 3, "4:16")
    wide, _ = sparse_operand(random, 2, 3, "4:16", FLOAT32)
    with error(TypeError, "a", "w", "float32", "bfloat16"):
        matmul_sparse(np.zeros((2, 32), dtype=np.float32), narrow)
    with error(TypeError, "a", "w", "float32", "bfloat16"):
        matmul_sparse(np.zeros((2, 32), dtype=BFLOAT16), wide)
    for dtype in ("float64", "int32", "object", E2M1FN):
        with error(TypeError, "a", np.dtype(dtype).name, "bfloat16"):
            matmul_sparse(np.zeros((2, 32), dtype=dtype), narrow)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT32, E4M3FN], ids=lambda dtype: dtype.name)
def test_infinities_at_pruned_places_do_nothing(pattern: Pattern, dtype: Any) -> None:
    """A dense product would be NaN there; a skipped slot is not even inf * 0."""
    random = np.random.default_rng(4)
    size = oracle.pattern_numbers(pattern)[1]
    w, dense = sparse_operand(random, 240 // size, 5, pattern, dtype)
    plain = operands.normal(random, (5, len(dense)), dtype)
    bad = np.array([np.nan] if dtype == E4M3FN else [np.inf, -np.inf, np.nan])
    for column in range(5):
        unused = dense[:, column].astype(np.float32) == 0
        a = plain.copy()
        a[:, unused] = random.choice(bad, (5, int(unused.sum()))).astype(dtype)
        got = matmul_sparse(a, w)
        assert_bits(got, oracle.matmul_sparse(a, dense))
        assert np.isfinite(got[:, column]).all()


def test_stored_zeros_do_nothing() -> None:
    """An unused slot skips, whatever the place it names; a NaN in a slot is not a zero."""
    values = np.array([[1.0, 0.0, -0.0], [0.0, -0.0, np.nan]], dtype=np.float32)
    tags = np.array([[0x31, 0x31, 0x31]], dtype=np.uint16)
    w = SparseArray.from_tags(values, tags, "2:4")
    a = np.array([[np.inf, 2.0, np.inf, np.inf]], dtype=np.float32)
    assert_bits(matmul_sparse(a, w), np.array([[2.0, 0.0, np.nan]], dtype=np.float32))


def test_codes_of_every_kind() -> None:
    """Infinities, NaN with payloads and subnormals on both sides."""
    random = np.random.default_rng(5)
    for pattern in PATTERNS:
        size = oracle.pattern_numbers(pattern)[1]
        for dtype in (BFLOAT16, FLOAT32):
            raw = operands.codes(random, (size * 2, 40), dtype)
            dense = oracle.prune(operands.with_zeros(random, raw), pattern)
            a = operands.with_zeros(random, operands.codes(random, (20, size * 2), dtype), 0.5)
            expected = oracle.matmul_sparse(a, dense)
            assert_bits(matmul_sparse(a, compress(dense, pattern)), expected, pattern)


@pytest.mark.parametrize("b_exponent", [-90, -75, -73, -67, -60, -53, -52, -51, -40])
def test_results_around_the_smallest_normal_number(b_exponent: int) -> None:
    """Products, partial sums and results that are subnormal are never flushed."""
    random = np.random.default_rng(-b_exponent)
    for dtype in (BFLOAT16, FLOAT32):
        raw = operands.between(random, (144, 50), dtype, b_exponent, b_exponent + 2)
        dense = oracle.prune(raw, "4:16")
        a = operands.with_zeros(random, operands.between(random, (9, 144), dtype, -60, -58))
        assert_bits(matmul_sparse(a, compress(dense, "4:16")), oracle.matmul_sparse(a, dense))
    for dense_length in (8, 128):
        a, b = operands.tiny(random, dense_length, b_exponent)
        got = matmul_sparse(a, compress(b, "4:8"))
        assert_bits(got, oracle.matmul_sparse(a, b), f"cancelling, K={dense_length}")


@given(
    m=st.integers(1, 20),
    groups=st.integers(1, 24),
    n=st.integers(1, 60),
    pattern=st.sampled_from(PATTERNS),
    pair=st.sampled_from(PAIRS),
    with_c=st.sampled_from([None, BFLOAT16, FLOAT32]),
    bfloat16=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_shape_dtype_and_c(
    m: int,
    groups: int,
    n: int,
    pattern: Pattern,
    pair: Any,
    with_c: Any,
    bfloat16: bool,
    seed: int,
) -> None:
    random = np.random.default_rng(seed)
    w, dense = sparse_operand(random, groups, n, pattern, pair[1])
    a = operands.with_zeros(random, operands.normal(random, (m, len(dense)), pair[0]))
    c = None if with_c is None else operands.normal(random, (m, n), with_c)
    got = matmul_sparse(a, w, c=c, out_dtype=BFLOAT16 if bfloat16 else FLOAT32)
    assert_bits(got, oracle.matmul_sparse(a, dense, c=c, bfloat16=bfloat16))


def test_equals_the_dense_product_for_finite_values() -> None:
    random = np.random.default_rng(6)
    w, _ = sparse_operand(random, 60, 301, "4:16")
    a = operands.normal(random, (203, 960), BFLOAT16)
    got, dense = matmul_sparse(a, w), matmul(a, w.to_dense())
    # Adding +0 turns -0 into +0: the sign of a zero is the one thing that may differ.
    assert_bits(got + np.float32(0), dense + np.float32(0))


@pytest.mark.parametrize("rounding", ["nearest", "zero", "stochastic"])
@pytest.mark.parametrize("batch", [(), (3,), (2, 2)], ids=str)
def test_bfloat16_result(batch: tuple[int, ...], rounding: dense_oracle.Rounding) -> None:
    """Rounded after every tile of 128 dense positions, with one draw an element a tile."""
    random = np.random.default_rng(7)
    w, dense = sparse_operand(random, 24, 23, "4:12")
    a = operands.normal(random, (*batch, 5, 288), BFLOAT16)
    c = operands.normal(random, (*batch, 5, 23), BFLOAT16)
    rng = Xorwow.seed(9, lanes=6) if rounding == "stochastic" else None
    for start in (None, c):
        reference, draws = copy.copy(rng), None
        if reference is not None:
            shape = dense_oracle.draws_shape(a, dense)
            assert shape[0] == 3
            count = int(np.prod(shape))
            draws = reference.uint32(-(-count // 6)).ravel()[:count].reshape(shape)
        options: Any = {"out_dtype": BFLOAT16, "rounding": rounding, "rng": rng}
        expected = oracle.matmul_sparse(
            a, dense, c=start, bfloat16=True, rounding=rounding, draws=draws
        )
        assert_bits(matmul_sparse(a, w, c=start, **options), expected)
        assert rng == reference


def test_every_memory_layout() -> None:
    random = np.random.default_rng(8)
    for dtype in (BFLOAT16, FLOAT32):
        w, dense = sparse_operand(random, 9, 21, "4:16", dtype)
        a = operands.normal(random, (2, 7, 144), dtype)
        c = operands.normal(random, (2, 7, 21), FLOAT32)
        expected = oracle.matmul_sparse(a, dense, c=c)
        for layout, view in layouts(a):
            assert_bits(matmul_sparse(view, w, c=c), expected, f"a {layout}")
        for layout, view in layouts(c):
            assert_bits(matmul_sparse(a, w, c=view), expected, f"c {layout}")


@pytest.mark.parametrize(("m", "k", "n"), [(0, 32, 3), (3, 32, 0), (3, 0, 4), (0, 0, 0)])
def test_empty_shapes(m: int, k: int, n: int) -> None:
    dense = np.zeros((k, n), dtype=BFLOAT16)
    a, w = np.ones((m, k), dtype=BFLOAT16), compress(dense, "4:16")
    c = operands.codes(np.random.default_rng(9), (m, n), FLOAT32)
    assert_bits(matmul_sparse(a, w), oracle.matmul_sparse(a, dense))
    assert_bits(matmul_sparse(a, w, c=c), oracle.matmul_sparse(a, dense, c=c))
    got = matmul_sparse(a, w, c=c, out_dtype=BFLOAT16)
    assert_bits(got, oracle.matmul_sparse(a, dense, c=c, bfloat16=True))


def test_out_is_filled_and_returned() -> None:
    random = np.random.default_rng(10)
    w, dense = sparse_operand(random, 20, 21, "4:16")
    a = operands.normal(random, (7, 320), BFLOAT16)
    for dtype in (FLOAT32, BFLOAT16):
        out = np.full((7, 21), np.nan, dtype=dtype)
        assert matmul_sparse(a, w, out_dtype=dtype, out=out) is out
        assert_bits(out, oracle.matmul_sparse(a, dense, bfloat16=dtype == BFLOAT16))


def test_w_is_compressed_along_k() -> None:
    """An operand compressed along its last axis belongs on the other side."""
    w = compress(np.zeros((16, 16), dtype=BFLOAT16), "4:16", axis=-1)
    with error(ValueError, "w", "axis", "-1", "-2"):
        matmul_sparse(np.zeros((2, 16), dtype=BFLOAT16), w)


def test_an_axis_counted_from_the_front_is_the_same_axis() -> None:
    random = np.random.default_rng(11)
    _, dense = sparse_operand(random, 3, 5, "4:16")
    a = operands.normal(random, (4, 48), BFLOAT16)
    got = matmul_sparse(a, compress(dense, "4:16", axis=0))
    assert_bits(got, oracle.matmul_sparse(a, dense))


def test_operands_that_do_not_fit() -> None:
    w = compress(np.zeros((32, 5), dtype=BFLOAT16), "4:16")
    with error(ValueError, "a", "w", "48", "32"):
        matmul_sparse(np.zeros((2, 48), dtype=BFLOAT16), w)
    with error(ValueError, "a", "(32)"):
        matmul_sparse(np.zeros(32, dtype=BFLOAT16), w)
    with error(ValueError, "c", "(2, 5)", "(5)"):
        c = np.zeros(5, dtype=np.float32)
        matmul_sparse(np.zeros((2, 32), dtype=BFLOAT16), w, c=c)
    with error(TypeError, "w", "SparseArray", "ndarray"):
        dense = np.zeros((32, 5), dtype=BFLOAT16)
        matmul_sparse(np.zeros((2, 32), dtype=BFLOAT16), dense)  # type: ignore[arg-type]
