"""Views of tensors from Python; the examples of the language's description."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from support.core import get, put, run
from trn3 import nki

# T: value 100 p + f in SBUF; A, H: value = flat index in HBM.
T = (100 * np.arange(4)[:, None] + np.arange(12)[None]).astype(np.float32)
A = np.arange(60, dtype=np.float32).reshape(4, 3, 5)
H = np.arange(32, dtype=np.float32).reshape(8, 4)


def view(base: Any, function: Callable[[Any], Any]) -> Any:
    """Return a view's values, shape, strides and offset."""
    buffer = nl.sbuf if base is T else nl.shared_hbm

    def kernel() -> Any:
        seen = function(put(base, buffer, name="base"))
        return get(seen), seen.strides, seen.offset

    return run(kernel)


CASES: list[tuple[Any, Any, Any, Any, Any]] = [
    (T, lambda t: t[:, 2:10:3], T[:, 2:10:3], (12, 3), 2),
    (T, lambda t: t[1:3], T[1:3], (12, 1), 12),
    (T, lambda t: t[-1], T[3:4], (12, 1), 36),
    (T, lambda t: t[..., 5], T[:, 5:6], (12, 1), 5),
    (T, lambda t: t[:, nl.ds(4, 2)], T[:, 4:6], (12, 1), 4),
    (T, lambda t: t[slice(0, 2), slice(None)], T[0:2], (12, 1), 0),
    (A, lambda a: a[2], A[2], (5, 1), 30),
    (A, lambda a: a[:, 1, ::2], A[:, 1, ::2], (15, 2), 5),
    (A, lambda a: a[1, 2, 3], A[1, 2, 3:4], (1,), 28),
    (T, lambda t: t.reshape((4, 3, 4)).permute((0, 2, 1))[:, 1:3, :],
     T.reshape(4, 3, 4).transpose(0, 2, 1)[:, 1:3], (12, 1, 4), 1),
    (T, lambda t: t.reshape_dim(1, (3, 4)), T.reshape(4, 3, 4), (12, 4, 1), 0),
    (T, lambda t: t[:, 4:6].expand_dim(1).broadcast(1, 3),
     np.repeat(T[:, None, 4:6], 3, axis=1), (12, 0, 1), 4),
    (T, lambda t: t.rearrange(("p", ("h", "w")), ("p", "w", "h"), {"h": 3}),
     T.reshape(4, 3, 4).transpose(0, 2, 1), (12, 1, 4), 0),
    (T, lambda t: t.ap([[12, 4], [3, 4]], offset=1), T[:, 1:12:3], (12, 3), 1),
    (T, lambda t: t.ap([[12, 2], [1, 3], [3, 4]], offset=12),
     np.stack([T[1:3, i:12:3] for i in range(3)], axis=1), (12, 1, 3), 12),
    (T, lambda t: t.ap([[12, 4], [0, 3], [1, 2]], offset=4),
     np.repeat(T[:, None, 4:6], 3, axis=1), (12, 0, 1), 4),
    (T, lambda t: t.slice(1, 2, 9, 2), T[:, 2:9:2], (12, 2), 2),
    (T, lambda t: t.select(1, 3), T[:, 3:4], (12, 1), 3),
    (A, lambda a: a.select(1, 2), A[:, 2], (15, 1), 10),
    (A, lambda a: a.flatten_dims(0, 2), A.reshape(-1), (1,), 0),
    (A, lambda a: a.reshape((12, 5)), A.reshape(12, 5), (5, 1), 0),
]  # fmt: skip


@pytest.mark.parametrize(("base", "function", "expected", "strides", "offset"), CASES)
def test_view_shows_the_described_elements(
    base: Any, function: Any, expected: Any, strides: Any, offset: int
) -> None:
    values, got_strides, got_offset = view(base, function)
    np.testing.assert_array_equal(values, expected)
    assert (got_strides, got_offset) == (strides, offset)


@pytest.mark.parametrize(
    ("key", "shape"),
    [
        (np.s_[0, 0, 10], (1, 1)),
        (np.s_[:, 0], (64, 64)),
        (np.s_[:, 0, 10], (64, 1)),
        (np.s_[0:64, 0, 0:64], (64, 64)),
        (np.s_[:, :, ::2], (64, 64, 32)),
        (np.s_[0], (1, 64, 64)),
    ],
)
def test_index_on_chip_keeps_partitions_and_two_axes(key: Any, shape: Any) -> None:
    assert run(lambda: nl.ndarray((64, 64, 64), nl.float32)[key].shape) == shape


def test_index_in_hbm_drops_axes() -> None:
    def kernel() -> Any:
        tensor = nl.ndarray((128, 64, 32), nl.float32, buffer=nl.hbm)
        one = nl.ndarray((1, 1), nl.float32, buffer=nl.hbm)
        return tensor[0].shape, tensor[0, 1].shape, one[0].shape

    assert run(kernel) == ((64, 32), (32,), (1,))


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (
            lambda t: t[:, 0:13],
            r"Out-of-bound access for tensor `base` on dimension 1: index range",
        ),
        (lambda t: t[4], "exceed dimension size of 4"),
        (lambda t: t[:, 4:3], "ends before it begins"),
        (lambda t: t.reshape((2, 24)), "Partition dim size must be preserved, got 4 -> 2"),
        (lambda t: t.ap([[6, 4], [1, 3]]), "ap.* pattern"),
        (lambda t: t.ap([[12, 4], [1, 13]]), "Out-of-bound"),
        (lambda t: t.permute((1, 0)), "permute"),
        (lambda t: t.broadcast(0, 2), "broadcast"),
        (lambda t: t["x"], "indexed by str"),
    ],
)
def test_view_refuses_what_the_memory_cannot_show(function: Any, text: str) -> None:
    with pytest.raises((AssertionError, ValueError, IndexError, TypeError), match=text):
        view(T, function)


def test_single_partition_patterns_take_any_partition_stride() -> None:
    assert view(T, lambda t: t.ap([[1, 1], [1, 1]], offset=14))[0].tolist() == [[102.0]]


def test_pattern_round_trips_through_ap() -> None:
    def kernel() -> Any:
        tile = put(T)[:, 2:11:4]
        again = put(T).ap(tile.get_pattern(), offset=tile.offset)
        pattern = tile.get_pattern()
        pattern[0][0] = 99
        return tile.get_pattern(), again.get_pattern(), get(again)

    first, second, values = run(kernel)
    assert first == second == [[12, 4], [4, 3]]
    np.testing.assert_array_equal(values, T[:, 2:11:4])


def test_ap_on_a_view_adds_to_its_offset_and_says_so() -> None:
    def kernel() -> Any:
        tile = put(T)
        with pytest.warns(UserWarning, match="starts at element 2"):
            shifted = tile[:, 2:6].ap([[12, 4], [1, 2]], offset=1)
        tile[:, 3:5].ap([[12, 4], [1, 2]])
        return get(shifted)

    np.testing.assert_array_equal(run(kernel), T[:, 3:5])


@pytest.mark.parametrize(("dtype", "shape"), [
    ("uint32", (1, 2)), ("uint16", (1, 4)), ("uint8", (1, 8)), ("float8_e4m3fn_x4", (1, 2)),
    ("float4_e2m1fn_x4", (1, 4)),
])  # fmt: skip
def test_view_reinterprets_bytes(dtype: str, shape: tuple[int, int]) -> None:
    source = np.array([[1.0, -2.0]], np.float32)

    def kernel() -> Any:
        seen = put(source).view(getattr(nl, dtype))
        assert seen.dtype == getattr(nl, dtype)
        assert str(seen.dtype) == dtype
        assert seen.reinterpret_cast(np.float32).shape == (1, 2)
        return get(seen)

    result = run(kernel)
    assert result.shape == shape
    assert result.tobytes() == source.tobytes()


@pytest.mark.parametrize(
    ("dtype", "columns"), [("float8_e4m3fn_x4", 64), ("float4_e2m1fn_x4", 128)]
)
def test_view_of_bytes_as_packed(dtype: str, columns: int) -> None:
    shape = run(lambda: nl.ndarray((128, 256), nl.uint8).view(getattr(nl, dtype)).shape)
    assert shape == (128, columns)


@pytest.mark.parametrize(("spelling", "name"), [("float8e4", "float8_e4m3"), ("bool_", "bool")])
def test_views_take_element_types_as_kernels_spell_them(spelling: str, name: str) -> None:
    def kernel() -> list[str]:
        tile = nl.ndarray((4, 8), nl.uint8)
        seen = [tile.view(spelling), tile.ap([[8, 4], [1, 8]], dtype=spelling)]
        return [str(view.dtype) for view in seen]

    assert run(kernel) == [name, name]
    with pytest.raises(TypeError, match="dtype is 'float9'"):
        run(lambda: nl.ndarray((4, 8), nl.uint8).view("float9"))


def loaded(tensor: Any) -> Any:
    tile = nl.ndarray(tensor.shape if tensor.ndim > 1 else (1, *tensor.shape), tensor.dtype)
    nisa.dma_copy(tile, tensor)
    return get(tile)


@pytest.mark.parametrize("register", [False, True])
def test_scalar_offset_scales_by_the_indirect_axis(register: bool) -> None:
    def kernel() -> Any:
        a = put(A, nl.shared_hbm)
        two = nisa.VirtualRegister(2) if register else put(np.array([[2]], np.int32))
        return (
            loaded(a.ap([[5, 3], [1, 5]], scalar_offset=two)),
            loaded(a.ap([[15, 4], [1, 2]], offset=3, scalar_offset=two, indirect_dim=1)),
            loaded(a.select(1, two)),
            loaded(a[nl.ds(two, 1)].reshape((3, 5))),
        )

    rows, columns, selected, sliced = run(kernel)
    np.testing.assert_array_equal(rows, A[2])
    assert columns.tolist() == [[13, 14], [28, 29], [43, 44], [58, 59]]
    np.testing.assert_array_equal(selected, A[:, 2])
    np.testing.assert_array_equal(sliced, A[2])


def test_index_is_read_when_the_instruction_runs() -> None:
    def kernel() -> Any:
        a, index = put(A, nl.shared_hbm), put(np.array([[0]], np.int32))
        seen = a.ap([[5, 3], [1, 5]], scalar_offset=index)
        before = loaded(seen)
        nisa.memset(index, 3)
        return before, loaded(seen)

    before, after = run(kernel)
    np.testing.assert_array_equal(before, A[0])
    np.testing.assert_array_equal(after, A[3])


def test_vector_offset_ignores_the_leading_stride() -> None:
    def kernel() -> Any:
        h, index = put(H, nl.shared_hbm), put(np.array([[6], [1], [1]], np.int32))
        wide = put(np.array([[9, 6], [9, 1], [9, 1]], np.int32))
        return (
            loaded(h.ap([[4, 3], [1, 2]], offset=1, vector_offset=index)),
            loaded(
                h.ap(
                    [[999, 3], [1, 2]], offset=1, vector_offset=wide.ap([[2, 3], [1, 1]], offset=1)
                )
            ),
            loaded(h.reshape((32,)).ap([[4, 3], [1, 2]], vector_offset=index)),
            loaded(h.vector_select(0, index)),
        )

    first, second, flat, rows = run(kernel)
    assert first.tolist() == second.tolist() == [[25, 26], [5, 6], [5, 6]]
    assert flat.tolist() == [[6, 7], [1, 2], [1, 2]]
    np.testing.assert_array_equal(rows, H[[6, 1, 1]])


@pytest.mark.parametrize("outside", [-1, 8, 1000])
def test_scatter_skips_rows_outside(outside: int) -> None:
    @nki.jit
    def kernel(out: Any, index: Any, rows: Any) -> Any:
        places, values = nl.load(index), nl.load(rows)
        nisa.dma_copy(
            out.ap([[4, 3], [1, 4]], vector_offset=places), values, oob_mode=nisa.oob_mode.skip
        )
        return out

    out = np.zeros((8, 4), np.float32)
    kernel(out, np.array([[6], [outside], [1]], np.int32), H[:3])
    expected = np.zeros((8, 4), np.float32)
    expected[6], expected[1] = H[0], H[2]
    np.testing.assert_array_equal(out, expected)


def test_gather_outside_is_an_error_unless_skipped() -> None:
    def kernel(mode: Any) -> Any:
        h, index = put(H, nl.shared_hbm), put(np.array([[6], [-1]], np.int32))
        tile = nl.full((2, 4), 7, nl.float32)
        nisa.dma_copy(tile, h.ap([[4, 2], [1, 4]], vector_offset=index), oob_mode=mode)
        return get(tile)

    assert run(lambda: kernel(nisa.oob_mode.skip)).tolist() == [H[6].tolist(), [7.0] * 4]
    with pytest.raises(IndexError, match=r"test_views.py"):
        run(lambda: kernel(nisa.oob_mode.error))


def test_copy_of_a_tensor_onto_itself_changes_nothing() -> None:
    def kernel() -> Any:
        h = put(H, nl.shared_hbm)
        nisa.dma_copy(dst=h, src=h)
        return get(h)

    np.testing.assert_array_equal(run(kernel), H)
