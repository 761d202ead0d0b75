"""GpSimdE's instructions against loops in Python."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from support.core import Machine

FP32_MIN = float(np.finfo(np.float32).min)


def affine(partitions: int, pattern: Any, offset: int, multiplier: int) -> Any:
    """Compute the values of iota in 32 bits, [P, product of nums]."""
    counts = [count for _, count in pattern]
    rows = []
    for partition in range(partitions):
        for places in np.ndindex(*counts):
            steps = sum(place * step for place, (step, _) in zip(places, pattern, strict=True))
            value = offset + partition * multiplier + steps
            rows.append((value + 2**31) % 2**32 - 2**31)
    return np.array(rows, np.int64).reshape(partitions, -1)


@given(
    st.lists(st.tuples(st.integers(-40, 40), st.integers(1, 4)), min_size=1, max_size=4),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-100, 100),
)
def test_iota_wraps_around_in_32_bits(pattern: Any, offset: int, multiplier: int) -> None:
    expected = affine(5, pattern, offset, multiplier)
    with Machine() as m:
        tile = m.tensor(expected.shape, nl.int32)
        nisa.iota(tile, pattern, offset, multiplier)
        np.testing.assert_array_equal(m.read(tile), expected)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "uint32", "float32", "bfloat16"])
def test_iota_fits_its_values_into_the_type(dtype: str) -> None:
    expected = affine(3, [[60, 9]], -200, 7)
    with Machine() as m:
        tile = m.tensor((3, 9), dtype)
        nisa.iota(tile, [[60, 9]], offset=-200, channel_multiplier=7)
        kind = np.dtype(tile.dtype)
        if kind.kind in "iu":
            expected = np.clip(expected, np.iinfo(kind).min, np.iinfo(kind).max)
        np.testing.assert_array_equal(m.read(tile), expected.astype(np.float32).astype(kind))


def test_iota_takes_its_offset_from_a_register() -> None:
    with Machine() as m:
        register = nisa.register_alloc(40)
        tile = m.tensor((2, 3), nl.int32)
        nisa.iota(tile, [[1, 3]], register, 10)
        np.testing.assert_array_equal(m.read(tile), [[40, 41, 42], [50, 51, 52]])


def test_iota_refuses() -> None:
    with Machine() as m:
        tile = m.tensor((2, 3), nl.int32)
        for pattern, words in [([[1, 4]], "product is 3"), ([[1, 1]] * 5, "1 to 4 pairs")]:
            with pytest.raises(nisa.NkiValidationError, match=words):
                nisa.iota(tile, pattern)
        with pytest.raises(nisa.NkiValidationError, match="got psum"):
            nisa.iota(m.tensor((2, 3), nl.int32, nl.psum), [[1, 3]])
        with pytest.raises(ValueError, match="pairs"):
            nisa.iota(tile, [[1, 3, 2]])


COMPARISONS = [
    (nl.equal, np.equal), (nl.not_equal, np.not_equal), (nl.greater, np.greater),
    (nl.greater_equal, np.greater_equal), (nl.less, np.less), (nl.less_equal, np.less_equal),
]  # fmt: skip


@pytest.mark.parametrize(("comparison", "reference"), COMPARISONS)
@pytest.mark.parametrize("target", [np.float32, ml_dtypes.bfloat16], ids=str)
def test_affine_select_keeps_where_the_comparison_holds(
    comparison: Any, reference: Any, target: Any
) -> None:
    data = np.random.default_rng(81).standard_normal((6, 12)).astype(np.float32)
    condition = reference(affine(6, [[-1, 12]], 2, 1), 0)
    with Machine() as m:
        tile = m.tensor((6, 12), np.dtype(target))
        nisa.affine_select(
            tile, pattern=[[-1, 12]], offset=2, channel_multiplier=1, on_true_tile=m.sbuf(data),
            on_false_value=FP32_MIN, cmp_op=comparison,
        )  # fmt: skip
        with np.errstate(over="ignore"):
            expected = np.where(condition, data, np.float32(FP32_MIN)).astype(target)
        np.testing.assert_array_equal(m.read(tile), expected)


def test_affine_select_copies_bits_of_equal_types() -> None:
    data = np.full((2, 4), 0x7FC12345, np.uint32).view(np.float32)
    with Machine() as m:
        tile = m.tensor((2, 4), nl.float32)
        nisa.affine_select(tile, [[1, 4]], 0, m.sbuf(data), 0.5, nl.greater_equal)
        np.testing.assert_array_equal(m.read(tile, np.uint32), data.view(np.uint32))


@pytest.mark.parametrize("run", [1, 4, 32])
@pytest.mark.parametrize("count", [None, 20])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.uint8], ids=str)
def test_local_gather_reads_a_list_for_each_processor(run: int, count: Any, dtype: Any) -> None:
    rng = np.random.default_rng(82)
    source = rng.integers(0, 100, (48, 64)).astype(dtype)
    index = rng.integers(0, 64 // run, (48, 3)).astype(np.uint16) * run
    total = 48 if count is None else count
    expected = np.empty((48, total, run), dtype)
    for partition in range(48):
        group = partition // 16 * 16
        listed = index[group : group + 16].flatten(order="F")[:total]
        for place, start in enumerate(listed):
            expected[partition, place] = source[partition, start : start + run]
    with Machine() as m:
        tile = m.tensor((48, total, run), np.dtype(dtype))
        nisa.local_gather(tile, m.sbuf(source), m.sbuf(index), run, count)
        np.testing.assert_array_equal(m.read(tile), expected)


def test_local_gather_refuses() -> None:
    with Machine() as m:
        source, index = (
            m.sbuf(np.zeros((32, 8), np.float32)),
            m.sbuf(np.full((32, 1), 8, np.uint16)),
        )
        tile = m.tensor((32, 16), nl.float32)
        with pytest.raises(IndexError, match="index 8 exceed size of 8"):
            nisa.local_gather(tile, source, index)
        with pytest.raises(nisa.NkiValidationError, match="1, 2, 4, 8, 16 or 32"):
            nisa.local_gather(tile, source, index, 3)
        with pytest.raises(nisa.NkiValidationError, match="32: 16 indices of 2 elements"):
            nisa.local_gather(tile, source, index, 2)
        with pytest.raises(nisa.NkiValidationError, match="num_valid_indices is 17"):
            nisa.local_gather(tile, source, index, 1, 17)
        with pytest.raises(nisa.NkiValidationError, match="a multiple of 16"):
            nisa.local_gather(tile[0:8], source[0:8], index[0:8])


def test_n_gather_reads_by_partition() -> None:
    rng = np.random.default_rng(83)
    data = rng.standard_normal((20, 5, 6)).astype(np.float32)
    indices = rng.integers(0, 30, (20, 700)).astype(np.uint32)
    with Machine() as m:
        tile = m.tensor((20, 700), nl.float32)
        nisa.nc_n_gather(tile, m.sbuf(data), m.sbuf(indices))
        expected = np.take_along_axis(data.reshape(20, 30), indices.astype(np.int64), 1)
        np.testing.assert_array_equal(m.read(tile), expected)
        with pytest.raises(IndexError, match="index 30 exceed size of 30"):
            nisa.nc_n_gather(tile, m.sbuf(data), m.sbuf(np.full((20, 700), 30, np.uint32)))


def test_partition_reduce_goes_up_the_partitions() -> None:
    data = np.random.default_rng(84).standard_normal((37, 3, 4)).astype(np.float32)
    total = data[0]
    for row in data[1:]:
        total = total + row
    cases = [(nl.add, total), (nl.max, data.max(axis=0)), ("average", total / np.float32(37))]
    with Machine() as m:
        source = m.sbuf(data)
        for op, expected in cases:
            tile = m.tensor((1, 3, 4), nl.float32)
            nisa.tensor_partition_reduce(tile, op, source)
            np.testing.assert_array_equal(m.read(tile)[0], expected)
        bits = np.random.default_rng(85).integers(0, 2**16, (9, 5)).astype(np.uint16)
        tile = m.tensor((1, 5), nl.uint16)
        for op, reduce in [(nl.bitwise_or, np.bitwise_or), (nl.bitwise_and, np.bitwise_and)]:
            nisa.tensor_partition_reduce(tile, op, m.sbuf(bits))
            np.testing.assert_array_equal(m.read(tile)[0], reduce.reduce(bits))
        with pytest.raises(nisa.NkiValidationError, match="op is multiply"):
            nisa.tensor_partition_reduce(tile, nl.multiply, source)
        with pytest.raises(nisa.NkiValidationError, match="one partition of 12 elements"):
            nisa.tensor_partition_reduce(tile, nl.add, source)


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_sequence_bounds_of_the_documented_example(dtype: Any) -> None:
    ids = np.array([[0, 1, 1, 2, 2, 2, 0, 3, 3]]).astype(dtype)
    with Machine() as m:
        tile = m.tensor((1, 2, 9), np.dtype(dtype))
        nisa.sequence_bounds(tile, m.sbuf(ids))
        start = [9, 1, 1, 3, 3, 3, 9, 7, 7]
        end = [-1, 3, 3, 6, 6, 6, -1, 9, 9]
        np.testing.assert_array_equal(m.read(tile)[0], [start, end])
        with pytest.raises(nisa.NkiValidationError, match=r"\[1, 2, 9\]"):
            nisa.sequence_bounds(m.tensor((1, 18), np.dtype(dtype)), m.sbuf(ids))


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_nonzero_with_count_of_the_documented_example(dtype: Any) -> None:
    data = np.ones((33, 8), dtype)
    data[0] = [0, 1, 1, 0, 0, 1, 0, 0]
    data[16] = 0
    with Machine() as m:
        tile = m.sbuf(np.full((33, 9), 77, np.int32))
        nisa.nonzero_with_count(tile, m.sbuf(data), index_offset=16)
        result = m.read(tile)
        np.testing.assert_array_equal(result[0], [17, 18, 21, -1, -1, -1, -1, -1, 3])
        np.testing.assert_array_equal(result[16], [-1] * 8 + [0])
        np.testing.assert_array_equal(result[32], [*range(16, 24), 8])
        assert (result[1:16] == 77).all()
    with Machine("trn1") as m, pytest.raises(nisa.NkiValidationError, match="gen3"):
        nisa.nonzero_with_count(m.tensor((1, 9), nl.int32), m.tensor((1, 8), np.dtype(dtype)))
    with Machine() as m, pytest.raises(nisa.NkiValidationError, match="9: one for each of src"):
        nisa.nonzero_with_count(m.tensor((1, 8), nl.int32), m.tensor((1, 8), np.dtype(dtype)))


@pytest.mark.parametrize(("n", "k"), [(42, 5), (8, 8), (48, 1)])
def test_topk_reads_the_snake_and_gives_ascending_values(n: int, k: int) -> None:
    rng = np.random.default_rng(86)
    columns = -(-n // 16)
    source = rng.integers(-20, 20, (32, columns)).astype(ml_dtypes.bfloat16)
    with Machine(strict=True) as m:
        # What lies beyond n was never written.
        tile = m.tensor((32, columns), nl.bfloat16)
        for element in range(n):
            partition, column = element % 16, element // 16
            for group in (0, 16):
                at = (slice(group + partition, group + partition + 1), slice(column, column + 1))
                nisa.dma_copy(tile[at], m.hbm(source[at]))
        values, places = m.tensor((32, k), nl.bfloat16), m.tensor((32, k), nl.uint32)
        nisa.topk(values, places, tile, n)
        for group in (0, 16):
            listed = source[group : group + 16].flatten(order="F")[:n].astype(np.float32)
            order = sorted(range(n), key=lambda e: (listed[e], -e))[-k:]
            for partition in range(group, group + 16):
                np.testing.assert_array_equal(m.read(places)[partition], order)
                np.testing.assert_array_equal(m.read(values)[partition], listed[order])


@pytest.mark.parametrize(
    ("n", "k", "words"),
    [(7, 4, "n is 7; 8 to 65535"), (16, 17, "at most n = 16"), (33, 4, "at least 3 for n = 33")],
)
def test_topk_refuses(n: int, k: int, words: str) -> None:
    with Machine() as m:
        source = m.tensor((16, 2), nl.bfloat16)
        values, places = m.tensor((16, k), nl.bfloat16), m.tensor((16, k), nl.uint32)
        with pytest.raises(nisa.NkiValidationError, match=words):
            nisa.topk(values, places, source, n)
