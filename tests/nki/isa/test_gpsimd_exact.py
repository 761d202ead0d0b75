"""GpSimdE's instructions against NumPy: exact integers, layouts, refusals, runs without values."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

from support.core import Machine
from support.engines import TYPES, assert_same, cast
from trn3.machine import NkiValidationError, VirtualRegister
from trn3.nki import isa as nisa

FP32_MIN = float(np.finfo(np.float32).min)
TARGETS = ["trn1", "trn2", "trn3"]

# A step and a length of each axis, and what else an affine function has.
PATTERNS = st.lists(
    st.tuples(st.integers(-(2**31), 2**31 - 1), st.integers(1, 5)), min_size=1, max_size=4
)
WORDS = st.integers(-(2**31), 2**31 - 1)


def affine(
    partitions: int, pattern: Any, offset: int, multiplier: int
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return [partitions, ...] of exact integers."""
    value = offset + multiplier * np.arange(partitions, dtype=np.int64)
    for step, num in pattern:
        value = value[..., None] + step * np.arange(num, dtype=np.int64)
    return value


def wrapped(values: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.int32]]:
    return values.astype(np.uint64).astype(np.uint32).view(np.int32)


@given(pattern=PATTERNS, offset=WORDS, multiplier=WORDS)
def test_iota_is_affine_in_wrapping_integers(
    pattern: list[tuple[int, int]], offset: int, multiplier: int
) -> None:
    expected = wrapped(affine(5, pattern, offset, multiplier))
    with Machine() as m:
        dst = m.empty(expected.shape, "int32")
        nisa.iota(dst, [list(axis) for axis in pattern], offset, multiplier)
        np.testing.assert_array_equal(m.get(dst), expected)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("target", TARGETS)
def test_iota_casts_to_its_type(dtype: str, target: str) -> None:
    values = affine(128, [(-7000003, 3), (1, 40)], 123456789, 31)
    if np.dtype(TYPES[dtype]).kind in "iu":
        limits = np.iinfo(TYPES[dtype])
        expected = values.clip(limits.min, limits.max).astype(TYPES[dtype])
    else:
        expected = cast(values.astype(np.float32), dtype)
    with Machine(target) as m:
        dst = m.empty((128, 120), dtype)
        nisa.iota(dst, pattern=[(-7000003, 3), (1, 40)], channel_multiplier=31, offset=123456789)
        assert_same(m.get(dst), expected)


def test_iota_and_affine_select_take_registers_as_offset() -> None:
    register = VirtualRegister(5)
    with Machine() as m:
        places = m.empty((4, 3), "int32")
        nisa.iota(places, [[2, 3]], register)
        np.testing.assert_array_equal(m.get(places), np.tile([5, 7, 9], (4, 1)))
        register.set(-2)
        kept = m.empty((4, 3), "int32")
        nisa.affine_select(kept, [[2, 3]], 0, places, -1, np.equal, register)
        np.testing.assert_array_equal(m.get(kept), np.tile([-1, 7, -1], (4, 1)))
        with pytest.raises(ValueError, match="read before anything was written"):
            nisa.iota(places, [[2, 3]], offset=VirtualRegister())


@pytest.mark.parametrize("pattern", [[1, 6], [[1.5, 6]], [["a", 6]], 6, None], ids=str)
def test_iota_refuses_what_holds_no_pairs_of_integers(pattern: Any) -> None:
    with Machine() as m, pytest.raises(TypeError) as caught:
        nisa.iota(m.empty((4, 6), "int32"), pattern)
    assert f"iota pattern is {pattern!r}; allowed: pairs [step, num] of integers" in str(
        caught.value
    )


def test_iota_refuses_what_does_not_fit() -> None:
    with Machine() as m:
        dst = m.empty((4, 6), "int32")
        with pytest.raises(ValueError, match=r"iota pattern holds \[1, 2, 3\]; allowed: pairs"):
            nisa.iota(dst, [[1, 2, 3]])
        with pytest.raises(NkiValidationError, match="iota dst must be in"):
            nisa.iota(m.empty((4, 6), "int32", "psum"), [[1, 6]])
        with pytest.raises(TypeError, match="iota offset is of type float; allowed: an int"):
            nisa.iota(dst, [[1, 6]], offset=1.5)  # type: ignore[arg-type]


COMPARISONS: dict[str, Any] = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "greater_equal": np.greater_equal,
    "greater": np.greater,
    "less_equal": np.less_equal,
    "less": np.less,
}


@pytest.mark.parametrize("op", COMPARISONS)
@pytest.mark.parametrize(
    ("source", "result"),
    [("float32", "float32"), ("int32", "int32"), ("float32", "bfloat16"), ("bfloat16", "float32"),
     ("int32", "float16"), ("uint8", "int16"), ("float8_e5m2", "float8_e5m2")],
)  # fmt: skip
def test_affine_select_keeps_where_the_comparison_holds(op: str, source: str, result: str) -> None:
    rng = np.random.default_rng(3)
    data = cast(rng.integers(-(2**31), 2**31, (128, 4, 15)).astype(np.float64), source)
    mask = COMPARISONS[op](affine(128, [(60, 4), (-1, 15)], -64, 1), 0)
    kept = data if source == result else cast(data.astype(np.float32), result)
    expected = np.where(mask, kept, cast(np.float32(3.5).reshape(1), result))
    with Machine() as m:
        tile, dst = m.tile(data, source), m.empty((128, 60), result)
        nisa.affine_select(dst, [[60, 4], [-1, 15]], 1, tile, 3.5, COMPARISONS[op], -64)
        assert_same(m.get(dst), expected)


def test_affine_select_makes_a_causal_mask_in_place() -> None:
    scores = np.random.default_rng(4).standard_normal((128, 512)).astype(ml_dtypes.bfloat16)
    first_query, first_key = 256, 128
    query = first_query + np.arange(128)[:, None]
    key = first_key + np.arange(512)
    expected = np.where(query >= key, scores, ml_dtypes.bfloat16(-np.inf))
    with Machine() as m:
        tile = m.tile(scores, "bfloat16")
        nisa.affine_select(
            dst=tile,
            pattern=[[-1, 512]],
            offset=first_query - first_key,
            channel_multiplier=1,
            on_true_tile=tile,
            on_false_value=FP32_MIN,
            cmp_op="greater_equal",
            name="mask",
        )
        assert_same(m.get(tile), expected)


def test_affine_select_refuses() -> None:
    with Machine() as m:
        tile = m.empty((128, 4))
        with pytest.raises(NkiValidationError, match="affine_select cmp_op is add; equal"):
            nisa.affine_select(tile, [[1, 4]], 0, tile, 0.0, np.add)
        with pytest.raises(NkiValidationError, match="on_true_tile has 5 elements per partition"):
            nisa.affine_select(tile, [[1, 4]], 0, m.empty((128, 5)), 0.0)
        with pytest.raises(NkiValidationError, match="on_true_tile must be in"):
            nisa.affine_select(tile, [[1, 4]], 0, m.empty((128, 4), buffer="psum"), 0.0)


def test_local_gather_example_of_four_elements_an_index() -> None:
    rng = np.random.default_rng(5)
    source = rng.integers(0, 2**16, (128, 512, 4)).astype(np.uint16)
    index = 4 * rng.integers(0, 512, (128, 4)).astype(np.uint16)
    with Machine() as m:
        # Into every other element of a tile, which is what a view of a larger one may be.
        whole = m.empty((128, 64, 8), "uint16")
        nisa.memset(whole, 0)
        nisa.local_gather(
            whole[:, :, 0:8:2], m.tile(source, "uint16"), m.tile(index, "uint16"), 4, 64
        )
        expected = np.zeros((128, 64, 8), np.uint16)
        for core in range(8):
            rows = slice(16 * core, 16 * core + 16)
            places = index[rows].flatten(order="F")[:64, None] + np.arange(4)
            expected[rows, :, ::2] = source.reshape(128, 2048)[rows][:, places]
        np.testing.assert_array_equal(m.get(whole), expected)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_gathers_keep_bits(dtype: str) -> None:
    rng = np.random.default_rng(6)
    limits = np.iinfo(TYPES[dtype])
    data = rng.integers(limits.min, limits.max, (32, 10), TYPES[dtype], endpoint=True)
    places = rng.integers(0, 10, (32, 3, 5))
    with Machine() as m:
        dst = m.empty((32, 15), dtype)
        nisa.nc_n_gather(dst, m.tile(data, dtype), m.tile(places, "uint32"))
        assert_same(m.get(dst), np.take_along_axis(data, places.reshape(32, 15), 1))


def test_counts_below_zero_are_refused_by_name() -> None:
    with Machine() as m:
        values, places = m.empty((16, 4), "bfloat16"), m.empty((16, 4), "uint32")
        with pytest.raises(NkiValidationError, match="topk n is -1; a number from 0"):
            nisa.topk(values, places, m.empty((16, 4), "bfloat16"), -1)
        index = m.empty((16, 1), "uint16")
        with pytest.raises(NkiValidationError, match="local_gather num_elem_per_idx is -2"):
            nisa.local_gather(values, values, index, num_elem_per_idx=-2)
        with pytest.raises(NkiValidationError, match="local_gather num_valid_indices is -3"):
            nisa.local_gather(values, values, index, num_valid_indices=-3)


@pytest.mark.parametrize("op", ["add", "maximum", "average"])
@pytest.mark.parametrize(
    ("source", "result"),
    [("int32", "int32"), ("uint32", "uint32"), ("int32", "uint8"), ("int8", "int8"),
     ("uint8", "int16"), ("uint16", "int32")],
)  # fmt: skip
def test_partition_reduce_of_integers_is_exact(op: str, source: str, result: str) -> None:
    limits = np.iinfo(TYPES[source])
    rng = np.random.default_rng(7)
    data = rng.integers(limits.min, limits.max, (37, 50), TYPES[source], endpoint=True)
    data[:, :25] //= 37  # sums that do not wrap
    wide = data.astype(np.int64)
    if op == "add":
        word = np.int32 if limits.min < 0 else np.uint32
        total = wide.sum(0).astype(np.uint64).astype(np.uint32).view(word).astype(np.int64)
    elif op == "maximum":
        total = wide.max(0)
    else:
        total = np.rint(wide.sum(0) / 37).astype(np.int64)
    bounds = np.iinfo(TYPES[result])
    expected = total.clip(bounds.min, bounds.max).astype(TYPES[result])
    with Machine() as m:
        dst = m.empty((1, 50), result)
        nisa.tensor_partition_reduce(dst, op, m.tile(data, source))
        assert_same(m.get(dst), expected)


def test_partition_reduce_of_integers_into_floats_is_float32() -> None:
    with Machine() as m:
        dst = m.empty((1, 1))
        nisa.tensor_partition_reduce(dst, np.add, m.tile([[2**24], [1], [1]], "int32"))
        assert m.get(dst).item() == np.float32(2**24)


def runs(ids: list[int]) -> list[list[int]]:
    """Return starts and ends, searched from each element outwards."""
    starts, ends = [], []
    for place, key in enumerate(ids):
        first = last = place
        while first > 0 and ids[first - 1] == key:
            first -= 1
        while last + 1 < len(ids) and ids[last + 1] == key:
            last += 1
        starts.append(first if key else len(ids))
        ends.append(last + 1 if key else -1)
    return [starts, ends]


@given(
    ids=st.lists(st.sampled_from([0, 1, 2, 2**24, 2**24 + 1, 2**31 - 1]), min_size=1, max_size=20)
)
def test_sequence_bounds_tells_all_ids_apart(ids: list[int]) -> None:
    with Machine() as m:
        dst = m.empty((1, 2, len(ids)), "int32")
        nisa.sequence_bounds(dst, m.tile([ids], "int32"))
        assert m.get(dst)[0].tolist() == runs(ids)


def test_sequence_bounds_example_in_other_types() -> None:
    ids = [0, 1, 1, 2, 2, 2, 0, 3, 3]
    for source, result in [("float32", "int32"), ("int32", "float32")]:
        with Machine() as m:
            dst = m.empty((1, 2, 9), result)
            nisa.sequence_bounds(segment_ids=m.tile([ids], source), dst=dst)
            assert m.get(dst)[0].tolist() == [
                [9, 1, 1, 3, 3, 3, 9, 7, 7],
                [-1, 3, 3, 6, 6, 6, -1, 9, 9],
            ]


@pytest.mark.parametrize(
    ("ids", "dtype", "words"),
    [([1, -2], "int32", "holds -2 at 1"), ([np.nan], "float32", "holds NaN at 0")],
)
def test_sequence_bounds_refuses_ids_below_zero(ids: list[float], dtype: str, words: str) -> None:
    with Machine() as m, pytest.raises(NkiValidationError, match=words):
        nisa.sequence_bounds(m.empty((1, 2, len(ids)), "int32"), m.tile([ids], dtype))


@given(
    rows=st.lists(st.lists(st.sampled_from([0, 0, 1, -5, 2**31 - 1]), min_size=6, max_size=6),
                  min_size=8, max_size=8),
    offset=st.integers(-1000, 1000),
    padding=st.integers(-(2**31), 2**31 - 1),
)  # fmt: skip
def test_nonzero_with_count_reads_one_partition_a_processor(
    rows: list[list[int]], offset: int, padding: int
) -> None:
    # The other partitions of src were never written, which a strict run would report.
    with Machine(strict=True) as m:
        src, dst = m.empty((128, 6), "int32"), m.tile(np.full((128, 7), 3), "int32")
        expected = np.full((128, 7), 3)
        for processor, row in enumerate(rows):
            at = slice(16 * processor, 16 * processor + 1)
            m.put(src[at], np.array([row], np.int32))
            found = [offset + place for place, value in enumerate(row) if value]
            expected[at] = found + [padding] * (6 - len(found)) + [len(found)]
        nisa.nonzero_with_count(dst, src, index_offset=offset, padding_val=padding)
        np.testing.assert_array_equal(m.get(dst), expected)


def test_nonzero_with_count_is_known_without_values() -> None:
    with Machine(values=False) as m:
        src, dst = m.empty((1, 4), "int32"), m.empty((1, 5), "int32")
        nisa.iota(src, [[1, 4]])
        nisa.nonzero_with_count(dst, src)
        assert m.get(dst).tolist() == [[1, 2, 3, -1, 3]]


def test_topk_example_of_42_elements() -> None:
    rng = np.random.default_rng(8)
    listed = rng.permutation(np.arange(-100, 100))[:42].astype(ml_dtypes.bfloat16)
    tile = np.zeros((16, 3), ml_dtypes.bfloat16)
    for element, value in enumerate(listed):
        tile[element % 16, element // 16] = value
    tile[10:, 2] = 1000  # beyond the 42
    order = np.argsort(listed.astype(np.float32))[-6:]
    with Machine() as m:
        values, places = m.empty((16, 6), "bfloat16"), m.empty((16, 6), "uint32")
        nisa.topk(values, places, m.tile(tile, "bfloat16"), 42)
        np.testing.assert_array_equal(m.get(places), np.tile(order, (16, 1)))
        assert_same(m.get(values), np.tile(listed[order], (16, 1)))


def test_topk_is_not_on_gen2() -> None:
    with Machine("trn1") as m:
        values, places = m.empty((16, 1), "bfloat16"), m.empty((16, 1), "uint32")
        with pytest.raises(NkiValidationError, match="available from gen3"):
            nisa.topk(values, places, values, 8)
