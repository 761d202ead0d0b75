"""Structured sparsity: prune, compress and back, tags, sizes, and the errors of each."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st

from oracle import operands, sparse as oracle
from oracle.arrays import bits, layouts
from oracle.operands import BFLOAT16, E4M3FN, E5M2, FLOAT16, FLOAT32
from oracle.sparse import PATTERNS, Pattern
from support.checks import error
from trn3.numerics import SparseArray, compress, prune

Array = npt.NDArray[Any]

DTYPES = (FLOAT32, BFLOAT16, FLOAT16, E4M3FN, E5M2)
AXES = (-1, -2)


def shape_for(pattern: Pattern, axis: int, groups: int = 9, columns: int = 7) -> tuple[int, int]:
    length = groups * oracle.pattern_numbers(pattern)[1]
    return (length, columns) if axis == -2 else (columns, length)


def sparse_input(random: operands.Random, pattern: Pattern, axis: int, dtype: Any) -> Array:
    """Build an array whose groups hold from no to M nonzeros, with -0.0 among the zeros."""
    shape = shape_for(pattern, axis)
    w = oracle.prune(operands.normal(random, shape, dtype), pattern, axis)
    return operands.with_zeros(random, w)


def assert_same_values(got: Any, expected: Array) -> None:
    """Compare bits, but let +0 and -0 be the same: a place that holds nothing has no sign."""
    assert isinstance(got, np.ndarray)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    sign = 1 << (8 * got.dtype.itemsize - 1)
    got_bits, expected_bits = bits(got), bits(expected)
    both_zero = (got_bits & ~np.array(sign, got_bits.dtype) == 0) & (
        expected_bits & ~np.array(sign, got_bits.dtype) == 0
    )
    differs = np.argwhere((got_bits != expected_bits) & ~both_zero)
    assert not len(differs), f"first difference at {tuple(differs[0])}"


def assert_sound(sparse: SparseArray, pattern: Pattern, axis: int, w: Array) -> None:
    """Check what holds for every SparseArray, and that it stands for `w`."""
    keep, size = oracle.pattern_numbers(pattern)
    shape = list(w.shape)
    shape[axis] = shape[axis] // size * keep
    assert sparse.values.shape == sparse.indices.shape == tuple(shape)
    assert sparse.values.dtype == w.dtype
    assert sparse.indices.dtype == np.uint8
    assert sparse.pattern == pattern
    assert sparse.axis % 2 == axis % 2
    assert np.all(sparse.indices < size)
    columns = np.moveaxis(sparse.indices, axis, -1)
    positions = columns.reshape(*columns.shape[:-1], columns.shape[-1] // keep, keep)
    assert np.all(np.diff(positions.astype(int), axis=-1) > 0), "ascending and distinct"
    assert_same_values(oracle.to_dense(sparse.values, sparse.indices, pattern, axis), w)
    assert_same_values(sparse.to_dense(), w)
    assert sparse.nbytes == oracle.stored_bytes(sparse.values, pattern)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_compress_and_back(pattern: Pattern, axis: int, dtype: Any) -> None:
    w = sparse_input(np.random.default_rng(1), pattern, axis, dtype)
    assert_sound(compress(w, pattern, axis=axis), pattern, axis, w)


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_full_and_empty_groups(pattern: Pattern, axis: int) -> None:
    """Nothing at all, and every slot of every group in use."""
    shape = shape_for(pattern, axis)
    nothing = np.zeros(shape, dtype=np.float32)
    assert_sound(compress(nothing, pattern, axis=axis), pattern, axis, nothing)
    full = oracle.prune(
        np.random.default_rng(2).random(shape).astype(np.float32) + 1, pattern, axis
    )
    assert_sound(compress(full, pattern, axis=axis), pattern, axis, full)


def test_stored_bits_are_the_input_bits() -> None:
    """Infinities, subnormals, NaN and the sign of every number survive."""
    w = np.zeros((8, 1), dtype=np.float32)
    w[[0, 3, 5, 7], 0] = [-np.inf, 2.0**-149, np.nan, -1.0]
    sparse = compress(w, "4:8")
    assert sparse.indices[:, 0].tolist() == [0, 3, 5, 7]
    assert bits(sparse.values[:, 0]).tolist() == [0xFF800000, 1, 0x7FC00000, 0xBF800000]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_minus_zero_takes_no_slot(pattern: Pattern) -> None:
    keep, size = oracle.pattern_numbers(pattern)
    w = np.full((size, 2), -0.0, dtype=np.float32)
    w[:keep] = 3.0
    assert_sound(compress(w, pattern), pattern, -2, w)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_prune(pattern: Pattern, axis: int, dtype: Any) -> None:
    random = np.random.default_rng(3)
    w = operands.normal(random, shape_for(pattern, axis), dtype)
    got = prune(w, pattern, axis=axis)
    assert_same_values(got, oracle.prune(w, pattern, axis))
    assert_sound(compress(got, pattern, axis=axis), pattern, axis, got)


@given(
    pattern=st.sampled_from(PATTERNS),
    axis=st.sampled_from(AXES),
    seed=st.integers(0, 2**32 - 1),
    levels=st.integers(1, 4),
)
def test_prune_with_many_ties(pattern: Pattern, axis: int, seed: int, levels: int) -> None:
    """Few distinct magnitudes, both signs, zeros, infinities and NaN: ties go to lower indices."""
    random = np.random.default_rng(seed)
    choices = np.concatenate([np.arange(levels + 1), [np.inf, np.nan]])
    shape = shape_for(pattern, axis, groups=4)
    signs = np.where(random.random(shape) < 0.5, -1.0, 1.0)
    w = np.abs(random.choice(choices, shape) * signs) * signs
    w = np.where(np.isnan(w), np.nan, w).astype(np.float32)
    assert_same_values(prune(w, pattern, axis=axis), oracle.prune(w, pattern, axis))


def test_prune_by_hand() -> None:
    """NaN goes before infinity, and of equal magnitudes the lower index stays."""
    w = np.array([[1.0, -2.0, 2.0, 2.0, np.inf, np.nan, -0.0, np.nan]], dtype=np.float32)
    kept = prune(w, "4:8", axis=-1)
    expected = [[0, -2.0, 0, 0, np.inf, np.nan, 0, np.nan]]
    assert np.array_equal(kept, np.array(expected, dtype=np.float32), equal_nan=True)


@pytest.mark.parametrize("function", [prune, compress])
@pytest.mark.parametrize("axis", AXES)
def test_every_memory_layout(function: Any, axis: int) -> None:
    for dtype in (FLOAT32, BFLOAT16, E4M3FN):
        w = sparse_input(np.random.default_rng(4), "4:12", axis, dtype)
        for layout, view in layouts(w):
            before = view.tobytes()
            result = function(view, "4:12", axis=axis)
            dense = result if isinstance(result, np.ndarray) else result.to_dense()
            assert_same_values(dense, w)
            assert view.tobytes() == before, layout


@pytest.mark.parametrize(("axis", "same"), [(0, -2), (1, -1)])
def test_axis_from_the_front(axis: int, same: int) -> None:
    w = sparse_input(np.random.default_rng(5), "2:4", same, FLOAT32)
    assert_same_values(compress(w, "2:4", axis=axis).to_dense(), w)
    dense = operands.normal(np.random.default_rng(6), w.shape, FLOAT32)
    assert_same_values(prune(dense, "2:4", axis=axis), oracle.prune(dense, "2:4", same))


@pytest.mark.parametrize("function", [prune, compress])
def test_the_default_axis_is_the_one_of_a_right_operand(function: Any) -> None:
    w = sparse_input(np.random.default_rng(7), "2:8", -2, FLOAT32)
    result = function(w, "2:8")
    assert_same_values(result if isinstance(result, np.ndarray) else result.to_dense(), w)


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_first_offending_group_is_named(pattern: Pattern, axis: int) -> None:
    """Several groups hold too many; the error names the first in C order of the array of groups."""
    keep, size = oracle.pattern_numbers(pattern)
    shape = shape_for(pattern, axis)
    w = np.zeros(shape, dtype=np.float32)
    for group, column in [(7, 1), (3, 5), (4, 2), (3, 6)]:
        places = slice(group * size, group * size + keep + 1)
        w[(places, column) if axis == -2 else (column, places)] = 1.0
    first = oracle.first_offender(w, pattern, axis)
    assert first == ((3, 5) if axis == -2 else (1, 7))
    with error(ValueError, "w", pattern, str(keep + 1), str(keep), *map(str, first)):
        compress(w, pattern, axis=axis)


def test_nan_counts_as_nonzero() -> None:
    w = np.full((2, 1), np.nan, dtype=np.float32)
    with error(ValueError, "w", "1:2"):
        compress(w, "1:2")


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("groups", [1, 3, 4])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_tags_there_and_back(pattern: Pattern, groups: int, axis: int) -> None:
    """Four 4-bit positions a tag, first in the low bits, zeros at the end."""
    random = np.random.default_rng(8)
    shape = shape_for(pattern, axis, groups=groups)
    w = oracle.prune(operands.normal(random, shape, BFLOAT16), pattern, axis)
    sparse = compress(w, pattern, axis=axis)
    tags = sparse.to_tags()
    assert tags.dtype == np.uint16
    assert np.array_equal(tags, oracle.tags(sparse.indices, axis))
    for view in (tags, np.asfortranarray(tags), tags.astype(">u2")):
        back = SparseArray.from_tags(sparse.values, view, pattern, axis=axis)
        assert_sound(back, pattern, axis, w)
        assert np.array_equal(back.indices, sparse.indices)


def test_tags_by_hand() -> None:
    w = np.zeros((16, 1), dtype=np.float32)
    w[[1, 5, 6, 15], 0] = 1.0
    assert compress(w, "4:16").to_tags().tolist() == [[0xF651]]
    assert compress(w[:, 0].reshape(1, 16), "4:16", axis=-1).to_tags().tolist() == [[0xF651]]


@pytest.mark.parametrize("pattern", [p for p in PATTERNS if not p.endswith(":16")])
def test_a_tag_beyond_the_group(pattern: Pattern) -> None:
    """A position of N or more is refused, even where the value stored there is zero."""
    keep, size = oracle.pattern_numbers(pattern)
    for value in (1.0, 0.0):
        values = np.zeros((keep, 2), dtype=np.float32)
        values[0, 1] = value
        tags = np.zeros((1, 2), dtype=np.uint16)
        tags[0, 1] = size
        with error(ValueError, "tags", str(size)):
            SparseArray.from_tags(values, tags, pattern)


def test_one_position_twice() -> None:
    """Twice with nonzero values is refused; a zero there is an unused slot and does no harm."""
    values = np.array([[1.0], [2.0]], dtype=np.float32)
    tags = np.array([[0x22]], dtype=np.uint16)
    with error(ValueError, "tags", "2"):
        SparseArray.from_tags(values, tags, "2:4")
    for keep in (0, 1):
        one = values * np.array([[keep], [1 - keep]], dtype=np.float32)
        expected = np.zeros((4, 1), dtype=np.float32)
        expected[2] = one.sum()
        assert_sound(SparseArray.from_tags(one, tags, "2:4"), "2:4", -2, expected)


def test_tags_in_any_order() -> None:
    """The indices of a SparseArray ascend, whatever the order of the tags."""
    values = np.array([[1.0], [2.0], [3.0], [0.0]], dtype=np.float32)
    tags = np.array([[0x5107]], dtype=np.uint16)
    expected = np.zeros((8, 1), dtype=np.float32)
    expected[[7, 0, 1], 0] = [1.0, 2.0, 3.0]
    assert_sound(SparseArray.from_tags(values, tags, "4:8"), "4:8", -2, expected)


def test_tags_of_wrong_shape_or_dtype() -> None:
    values = np.zeros((8, 3), dtype=np.float32)
    with error(ValueError, "tags", "(2, 3)", "(3, 3)"):
        SparseArray.from_tags(values, np.zeros((3, 3), dtype=np.uint16), "4:16")
    with error(ValueError, "tags", "(2, 3)", "(2, 2)"):
        SparseArray.from_tags(values, np.zeros((2, 2), dtype=np.uint16), "4:16")
    with error(TypeError, "tags", "uint16", "int32"):
        tags = np.zeros((2, 3), dtype=np.int32)
        SparseArray.from_tags(values, tags, "4:16")  # type: ignore[arg-type]
    with error(ValueError, "values", "4", "6"):
        short = np.zeros((6, 3), dtype=np.float32)
        SparseArray.from_tags(short, np.zeros((2, 3), dtype=np.uint16), "4:16")


@pytest.mark.parametrize("function", [prune, compress])
def test_the_axis_holds_whole_groups(function: Any) -> None:
    w = np.zeros((20, 3), dtype=np.float32)
    with error(ValueError, "w", "20", "16"):
        function(w, "4:16")


@pytest.mark.parametrize("function", [prune, compress])
@pytest.mark.parametrize("pattern", ["4:15", "3:4", "16:4", "4/16", "", "4:16 "])
def test_unknown_patterns(function: Any, pattern: str) -> None:
    """The error lists the seven patterns."""
    with error(ValueError, "pattern", *PATTERNS):
        function(np.zeros((240, 2), dtype=np.float32), pattern)


@pytest.mark.parametrize("function", [prune, compress])
@pytest.mark.parametrize("axis", [2, -3, 100])
def test_axis_out_of_range(function: Any, axis: int) -> None:
    with error(ValueError, "axis", str(axis)):
        function(np.zeros((16, 16), dtype=np.float32), "4:16", axis=axis)


@pytest.mark.parametrize("function", [prune, compress])
@pytest.mark.parametrize("dtype", ["float64", "int8", "object", "complex64"])
def test_refused_dtypes(function: Any, dtype: str) -> None:
    with error(TypeError, "w", dtype, "float32", "bfloat16"):
        function(np.zeros((16, 16), dtype=dtype), "4:16")


def test_compress_takes_two_dimensions() -> None:
    for shape in ((), (16,), (2, 16, 16)):
        with error(ValueError, "w", str(shape)):
            compress(np.zeros(shape, dtype=np.float32), "4:16")


@pytest.mark.parametrize("shape", [(0, 5), (16, 0), (0, 0)], ids=str)
def test_empty_arrays(shape: tuple[int, int]) -> None:
    w = np.zeros(shape, dtype=np.float32)
    sparse = compress(w, "4:16")
    assert sparse.values.shape == (shape[0] // 4, shape[1])
    assert sparse.to_dense().shape == prune(w, "4:16").shape == shape
    assert sparse.to_tags().shape == (shape[0] // 16, shape[1])
    assert sparse.nbytes == 0
