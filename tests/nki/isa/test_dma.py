"""dma_copy, dma_transpose and dma_compute."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from support.checks import assert_bits
from support.core import Machine

SKIP = nisa.oob_mode.skip


def numbers(*shape: int, dtype: Any = np.float32) -> Any:
    """0, 1, 2, ... in a shape."""
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32, np.float32], ids=str)
def test_copy_moves_bits_in_every_direction(dtype: Any) -> None:
    kind = np.dtype(dtype)
    array = np.random.default_rng(71).integers(0, 256, (6, 10 * kind.itemsize), np.uint8).view(kind)
    unsigned = f"u{kind.itemsize}"
    with Machine() as m:
        source = m.hbm(array)
        first, second = m.tensor(array.shape, kind), m.tensor(array.shape, kind)
        middle, last = (m.tensor(array.shape, kind, nl.shared_hbm) for _ in range(2))
        for dst, src in [(first, source), (second, first), (middle, second), (last, middle)]:
            nisa.dma_copy(dst, src)
            np.testing.assert_array_equal(m.read(dst).view(unsigned), array.view(unsigned))


def test_copy_takes_elements_in_order_whatever_the_shapes() -> None:
    array = numbers(4, 6)
    with Machine() as m:
        tile = m.tensor((2, 3, 4), nl.float32)
        nisa.dma_copy(tile, m.hbm(array))
        np.testing.assert_array_equal(m.read(tile).ravel(), array.ravel())
        strided = m.tensor((3, 8), nl.float32)
        nisa.dma_copy(strided[:, 0:8:2], m.hbm(array)[1:3].reshape((3, 4)))
        np.testing.assert_array_equal(m.read(strided)[:, 0:8:2], array[1:3].reshape(3, 4))


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (np.float32, ml_dtypes.bfloat16),
        (ml_dtypes.bfloat16, np.float32),
        (np.float32, ml_dtypes.float8_e5m2),
        (np.int32, np.float32),
        (np.float32, np.int8),
        (np.int32, np.uint8),
    ],
    ids=str,
)
def test_copy_casts_through_float32(source: Any, target: Any) -> None:
    array = np.array([[0, 1, -3, 2.5, 3.5, 300, -300, 100.25]]).astype(source)
    with Machine() as m:
        tile = m.tensor(array.shape, np.dtype(target))
        nisa.dma_copy(tile, m.hbm(array))
        wide = array.astype(np.float32)
        kind = np.dtype(target)
        if kind.kind in "iu":
            limits = np.iinfo(kind)
            wide = np.clip(np.rint(wide), limits.min, limits.max)
        np.testing.assert_array_equal(m.read(tile), wide.astype(kind))


def test_copy_of_wide_integers_keeps_every_bit_but_a_cast_rounds() -> None:
    array = np.array([[16777217, -16777217]], np.int32)
    with Machine() as m:
        same, other = m.tensor((1, 2), nl.int32), m.tensor((1, 2), nl.float32)
        nisa.dma_copy(same, m.hbm(array))
        nisa.dma_copy(other, m.hbm(array))
        np.testing.assert_array_equal(m.read(same), array)
        np.testing.assert_array_equal(m.read(other), np.float32([[16777216, -16777216]]))


def test_copy_gathers_rows() -> None:
    array, index = numbers(8, 4), np.array([[6], [1], [1]], np.int32)
    with Machine() as m:
        source, rows = m.hbm(array), m.sbuf(index)
        tile = m.tensor((3, 4), nl.float32)
        nisa.dma_copy(tile, source.vector_select(0, rows))
        np.testing.assert_array_equal(m.read(tile), array[[6, 1, 1]])
        # The leading stride of the pattern means nothing.
        part = m.tensor((3, 2), nl.float32)
        nisa.dma_copy(part, source.ap([[99, 3], [1, 2]], offset=1, vector_offset=rows))
        np.testing.assert_array_equal(m.read(part), [[25, 26], [5, 6], [5, 6]])


def test_copy_scatters_rows_and_the_last_duplicate_stays() -> None:
    array, index = numbers(3, 4), np.array([[6], [1], [1]], np.uint32)
    with Machine() as m:
        target = m.hbm(np.zeros((8, 4), np.float32))
        nisa.dma_copy(target.vector_select(0, m.sbuf(index)), m.sbuf(array))
        expected = np.zeros((8, 4), np.float32)
        expected[6], expected[1] = array[0], array[2]
        np.testing.assert_array_equal(m.read(target), expected)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16], ids=str)
def test_copy_skips_rows_outside_or_raises(dtype: Any) -> None:
    array, index = numbers(8, 4), np.array([[2], [-1], [8], [7]], np.int32)
    with Machine() as m:
        view = m.hbm(array).vector_select(0, m.sbuf(index))
        tile = m.sbuf(np.full((4, 4), 9).astype(dtype))
        with pytest.raises(IndexError, match="-1"):
            nisa.dma_copy(tile, view)
        nisa.dma_copy(tile, view, oob_mode=SKIP)
        expected = np.full((4, 4), 9).astype(dtype)
        expected[[0, 3]] = array[[2, 7]].astype(dtype)
        np.testing.assert_array_equal(m.read(tile), expected)
        assert len(m.findings()) == 1
        scattered = m.hbm(array)
        nisa.dma_copy(scattered.vector_select(0, m.sbuf(index)), tile, oob_mode="skip")
        changed = array.copy()
        changed[[2, 7]] = expected[[0, 3]].astype(np.float32)
        np.testing.assert_array_equal(m.read(scattered), changed)


def test_copy_follows_a_register_and_a_one_element_tile() -> None:
    array = numbers(4, 3, 5)
    with Machine() as m:
        source = m.hbm(array)
        at = nisa.register_alloc(2)
        tile = m.tensor((3, 5), nl.float32)
        nisa.dma_copy(tile, source.ap([[5, 3], [1, 5]], scalar_offset=at))
        np.testing.assert_array_equal(m.read(tile), array[2])
        index = m.sbuf(np.array([[1]], np.int32))
        nisa.dma_copy(tile, source.ap([[5, 3], [1, 5]], scalar_offset=index))
        np.testing.assert_array_equal(m.read(tile), array[1])
        nisa.register_move(at, 4)
        view = source.ap([[5, 3], [1, 5]], scalar_offset=at)
        with pytest.raises(IndexError):
            nisa.dma_copy(tile, view)
        nisa.dma_copy(tile, view, oob_mode=SKIP)
        np.testing.assert_array_equal(m.read(tile), array[1])


@pytest.mark.parametrize(
    ("arch", "options", "words"),
    [
        ("trn2", {"priority": 1}, "priority on trn2 (gen3); available from gen4 on"),
        ("trn3", {"priority": 4}, "priority is 4; 0 to 3"),
        ("trn1", {"dge_mode": nisa.dge_mode.hwdge}, "available from gen3 on"),
        ("trn3", {"engine": nisa.scalar_engine}, "engine is scalar without dge_mode hwdge"),
        ("trn3", {"engine": nisa.vector_engine, "dge_mode": nisa.dge_mode.hwdge}, "sync or scalar"),
    ],
)
def test_copy_refuses_options(arch: str, options: Any, words: str) -> None:
    with Machine(arch) as m:
        tile = m.tensor((4, 4), nl.float32)
        with pytest.raises(nisa.NkiValidationError) as caught:
            nisa.dma_copy(tile, m.hbm(numbers(4, 4)), **options)
        assert words in str(caught.value)


def test_copy_refuses_operands() -> None:
    with Machine() as m:
        source, tile = m.hbm(numbers(4, 4)), m.tensor((4, 4), nl.float32)
        psum = m.tensor((4, 4), nl.float32, nl.psum)
        text = "dma_copy requires HBM or SBUF tensors, got src=MemoryRegion.psum, dst=MemoryRegion"
        with pytest.raises(nisa.NkiValidationError, match=text):
            nisa.dma_copy(tile, psum)
        text = "dma_copy requires src and dst to have the same number of elements"
        with pytest.raises(nisa.NkiValidationError, match=text):
            nisa.dma_copy(tile, source[0:3])
        half = m.tensor((4, 4), nl.bfloat16)
        with pytest.raises(nisa.NkiValidationError, match="equal dtypes with dge_mode hwdge"):
            nisa.dma_copy(half, source, dge_mode=nisa.dge_mode.hwdge)
        with pytest.raises(nisa.NkiValidationError, match="packed types"):
            nisa.dma_copy(m.tensor((4, 4), nl.float8_e5m2_x4), source)
        view = source.vector_select(0, m.sbuf(np.zeros((4, 1), np.int32)))
        with pytest.raises(nisa.NkiValidationError, match="unknown or swdge"):
            nisa.dma_copy(tile, view, dge_mode=nisa.dge_mode.hwdge)


@pytest.mark.parametrize("shape", [(16, 24), (5, 3, 7), (4, 3, 5, 6)])
@pytest.mark.parametrize("dtype", [np.uint16, np.float32], ids=str)
def test_transpose_exchanges_the_outer_axes(shape: Any, dtype: Any) -> None:
    axes = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}[len(shape)]
    array = numbers(*shape, dtype=dtype)
    with Machine() as m:
        for source in (m.hbm(array), m.sbuf(array)):
            tile = m.tensor(array.transpose(axes).shape, dtype)
            nisa.dma_transpose(tile, source)
            np.testing.assert_array_equal(m.read(tile), array.transpose(axes))
            nisa.dma_transpose(tile, source, axes)


def test_transpose_gathers_rows_column_by_column_of_the_index_and_skips() -> None:
    array = numbers(40, 8, dtype=np.uint16)
    index = np.random.default_rng(72).integers(0, 40, (16, 1)).astype(np.uint32)
    index[3] = 1000
    with Machine("trn2") as m:
        view = m.hbm(array).vector_select(0, m.sbuf(index))
        tile = m.sbuf(np.full((8, 16), 7, np.uint16))
        nisa.dma_transpose(tile, view, oob_mode=SKIP)
        rows = index[:, 0].astype(np.int64)
        expected = np.full((8, 16), 7, np.uint16)
        inside = rows < 40
        expected[:, inside] = array[rows[inside]].T
        np.testing.assert_array_equal(m.read(tile), expected)


def test_transpose_takes_indices_of_several_columns_column_by_column() -> None:
    array = numbers(300, 8, dtype=np.uint16)
    index = np.random.default_rng(74).integers(0, 300, (128, 2)).astype(np.uint32)
    with Machine() as m:
        view = m.hbm(array).ap([[8, 256], [1, 8]], vector_offset=m.sbuf(index))
        tile = m.tensor((8, 256), nl.uint16)
        nisa.dma_transpose(tile, view)
        np.testing.assert_array_equal(m.read(tile), array[index.T.ravel()].T)


@pytest.mark.parametrize(
    ("shape", "dtype", "options", "words"),
    [
        ((16, 8), np.uint8, {}, "a dtype of 2 or 4 bytes"),
        ((15, 8), np.uint16, {"dge_mode": "hwdge"}, "16 rows with dge_mode hwdge"),
        ((16, 8), np.float32, {"dge_mode": "hwdge"}, "a dtype of 2 bytes"),
        ((3, 16, 8), np.uint16, {"dge_mode": "hwdge"}, "shape[0] 1, 2, 4, 8 or 16"),
        ((16, 8), np.uint16, {"axes": (0, 1)}, "axes is [0, 1]"),
        ((8,), np.uint16, {}, "2, 3 or 4 axes"),
        ((16, 8), np.uint16, {"oob_mode": SKIP}, "static addresses"),
    ],
)
def test_transpose_refuses(shape: Any, dtype: Any, options: Any, words: str) -> None:
    with Machine() as m:
        tile = m.tensor(shape[::-1] if len(shape) > 1 else (8, 1), dtype)
        with pytest.raises(nisa.NkiValidationError) as caught:
            nisa.dma_transpose(tile, m.hbm(numbers(*shape, dtype=dtype)), **options)
        assert words in str(caught.value)


def test_transpose_refuses_other_shapes_and_types() -> None:
    with Machine() as m:
        source = m.hbm(numbers(16, 8))
        with pytest.raises(nisa.NkiValidationError, match=r"\[8, 16\], src's permuted"):
            nisa.dma_transpose(m.tensor((16, 8), nl.float32), source)
        with pytest.raises(nisa.NkiValidationError, match="that of src, float32"):
            nisa.dma_transpose(m.tensor((8, 16), nl.int32), source)


def test_compute_adds_in_the_order_of_the_list() -> None:
    rng = np.random.default_rng(73)
    arrays = [rng.standard_normal((4, 6)).astype(np.float32) * 10.0**at for at in range(5)]
    with Machine() as m:
        sources = [m.hbm(array) if at % 2 else m.sbuf(array) for at, array in enumerate(arrays)]
        total = arrays[0]
        for array in arrays[1:]:
            total = total + array
        for dst in (m.tensor((4, 6), nl.float32), m.tensor((4, 6), nl.float32, nl.shared_hbm)):
            nisa.dma_compute(dst, sources, nl.add, scales=[1.0] * 5)
            assert_bits(m.read(dst), total)
        half = m.tensor((4, 6), nl.bfloat16)
        nisa.dma_compute(half, sources, nl.add)
        np.testing.assert_array_equal(m.read(half), total.astype(ml_dtypes.bfloat16))


def test_compute_adds_in_place_in_sbuf() -> None:
    with Machine() as m:
        one, other = m.sbuf(numbers(4, 6)), m.sbuf(numbers(4, 6))
        nisa.dma_compute(one, [one, other], nl.add)
        np.testing.assert_array_equal(m.read(one), 2 * numbers(4, 6))


def test_compute_scatters_and_gathers_sums() -> None:
    table, rows = numbers(8, 4), np.array([[5], [0], [99]], np.int32)
    with Machine() as m:
        target, index = m.hbm(table), m.sbuf(rows)
        view, tile = target.vector_select(0, index), m.sbuf(np.full((3, 4), 100, np.float32))
        nisa.dma_compute(tile, [tile, view], nl.add, oob_mode=SKIP)
        expected = np.full((3, 4), 100, np.float32)
        expected[:2] += table[[5, 0]]
        np.testing.assert_array_equal(m.read(tile), expected)
        nisa.dma_compute(view, [view, tile], nl.add, oob_mode=SKIP)
        table[[5, 0]] += expected[:2]
        np.testing.assert_array_equal(m.read(target), table)


def test_compute_refuses() -> None:
    def refused(words: str, *arguments: Any, **options: Any) -> None:
        with pytest.raises(nisa.NkiValidationError) as caught:
            nisa.dma_compute(*arguments, **options)
        assert words in str(caught.value)

    with Machine() as m:
        tile, table = m.sbuf(numbers(3, 4)), m.hbm(numbers(8, 4))
        view = table.vector_select(0, m.sbuf(np.zeros((3, 1), np.int32)))
        refused("reduce_op is multiply; add", tile, [tile], nl.multiply)
        refused("has 17 sources", tile, [tile] * 17, nl.add)
        refused("scales is [2.0]", tile, [tile], nl.add, scales=[2.0])
        refused("exactly 2 with a vector_offset", tile, [tile, tile, view], nl.add)
        refused("unique_indices is False", tile, [tile, view], nl.add, unique_indices=False)
        refused("with a vector_offset one source is dst itself", tile, [view, view], nl.add)
        refused("must be in", tile, [m.tensor((3, 4), nl.float32, nl.psum)], nl.add)
