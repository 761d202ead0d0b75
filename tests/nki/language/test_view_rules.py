"""Views, patterns and dynamic addresses: each rule of the language's description, with numbers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from support.core import get, put, run

T = (100 * np.arange(4)[:, None] + np.arange(12)[None]).astype(np.float32)
A = np.arange(60, dtype=np.float32).reshape(4, 3, 5)
H = np.arange(32, dtype=np.float32).reshape(8, 4)


def bases() -> tuple[Any, Any, Any]:
    return put(T, name="t"), put(A, nl.hbm, name="a"), put(H, nl.hbm, name="h")


def layout(tensor: Any) -> tuple[Any, ...]:
    return tensor.shape, tensor.strides, tensor.offset


VIEWS: list[tuple[Callable[[Any, Any, Any], Any], tuple[Any, ...]]] = [
    (lambda t, a, h: t[:, 2:10:3], ((4, 3), (12, 3), 2)),
    (lambda t, a, h: t[1:3], ((2, 12), (12, 1), 12)),
    (lambda t, a, h: t[-1], ((1, 12), (12, 1), 36)),
    (lambda t, a, h: a[2], ((3, 5), (5, 1), 30)),
    (lambda t, a, h: a[:, 1, ::2], ((4, 3), (15, 2), 5)),
    (lambda t, a, h: a[1, 2, 3], ((1,), (1,), 28)),
    (lambda t, a, h: a[..., 1, :], ((4, 5), (15, 1), 5)),
    (lambda t, a, h: t[:, nl.ds(start=2, size=4)], ((4, 4), (12, 1), 2)),
    (lambda t, a, h: t[nl.affine_range(4), nl.sequential_range(3)], ((4, 3), (12, 1), 0)),
    (lambda t, a, h: t[np.int64(1), np.int32(2) : np.int64(5)], ((1, 3), (12, 1), 14)),
    (lambda t, a, h: t[:, -4:-1], ((4, 3), (12, 1), 8)),
    (lambda t, a, h: t.slice(dim=1, start=2, end=10, step=3), ((4, 3), (12, 3), 2)),
    (lambda t, a, h: t.slice(-1, 2, 4), ((4, 2), (12, 1), 2)),
    (lambda t, a, h: t.select(1, 3), ((4, 1), (12, 1), 3)),
    (lambda t, a, h: t.select(0, 1), ((1, 12), (12, 1), 12)),
    (lambda t, a, h: a.select(-2, 2), ((4, 5), (15, 1), 10)),
    (lambda t, a, h: a.permute((2, 0, 1)), ((5, 4, 3), (1, 15, 5), 0)),
    (lambda t, a, h: a.permute(dims=[2, 0, 1]), ((5, 4, 3), (1, 15, 5), 0)),
    (lambda t, a, h: a.permute(-1, 0, 1), ((5, 4, 3), (1, 15, 5), 0)),
    (lambda t, a, h: a[:, 0:1].broadcast(dim=1, size=7), ((4, 7, 5), (15, 0, 1), 0)),
    (lambda t, a, h: a.expand_dim(1), ((4, 1, 3, 5), (15, 15, 5, 1), 0)),
    (lambda t, a, h: a.expand_dim(3), ((4, 3, 5, 1), (15, 5, 1, 1), 0)),
    (lambda t, a, h: a.expand_dim(-1), ((4, 3, 5, 1), (15, 5, 1, 1), 0)),
    (lambda t, a, h: a.expand_dim(-2), ((4, 3, 1, 5), (15, 5, 5, 1), 0)),
    (lambda t, a, h: a.expand_dim(1).squeeze_dim(1), ((4, 3, 5), (15, 5, 1), 0)),
    (lambda t, a, h: t.reshape_dim(1, (3, -1)), ((4, 3, 4), (12, 4, 1), 0)),
    (lambda t, a, h: a.permute((2, 0, 1)).reshape_dim(1, (2, 2)),
     ((5, 2, 2, 3), (1, 30, 15, 5), 0)),
    (lambda t, a, h: a.flatten_dims(start_dim=0, end_dim=-1), ((60,), (1,), 0)),
    (lambda t, a, h: t.reshape((4, 2, 6)), ((4, 2, 6), (12, 6, 1), 0)),
    (lambda t, a, h: a.reshape(shape=(12, 5)), ((12, 5), (5, 1), 0)),
    (lambda t, a, h: a.reshape(2, 2, -1), ((2, 2, 15), (30, 15, 1), 0)),
    (lambda t, a, h: a[:, 0:2].reshape((2, 2, 10)), ((2, 2, 10), (30, 15, 1), 0)),
    (lambda t, a, h: t.reshape((4, 3, 4)).permute((0, 2, 1))[:, 1:3, :],
     ((4, 2, 3), (12, 1, 4), 1)),
    (lambda t, a, h: t.rearrange(("p", ("h", "w")), ("p", "w", "h"), {"h": 3}),
     ((4, 4, 3), (12, 1, 4), 0)),
    (lambda t, a, h: t.view(nl.bfloat16), ((4, 24), (24, 1), 0)),
    (lambda t, a, h: t[:, 2:4].view(nl.uint8), ((4, 8), (48, 1), 8)),
    (lambda t, a, h: t[:, ::2].view(nl.uint32), ((4, 6), (12, 2), 0)),
    (lambda t, a, h: a.reinterpret_cast(nl.uint8), ((4, 3, 20), (60, 20, 1), 0)),
    (lambda t, a, h: t.ap(((12, 4), (3, 4)), offset=1), ((4, 4), (12, 3), 1)),
    (lambda t, a, h: t.ap([[999, 1], [1, 2]], offset=14), ((1, 2), (999, 1), 14)),
    (lambda t, a, h: t.ap([[24, 4], [1, 24]], dtype=nl.bfloat16), ((4, 24), (24, 1), 0)),
    (lambda t, a, h: a.ap([[1, 3], [1, 3], [0, 2]]), ((3, 3, 2), (1, 1, 0), 0)),
    (lambda t, a, h: a.permute((2, 0, 1)).ap([[1, 5]]), ((5,), (1,), 0)),
]  # fmt: skip


@pytest.mark.parametrize(("function", "expected"), VIEWS)
def test_view_has_layout(function: Any, expected: Any) -> None:
    def kernel() -> None:
        view = function(*bases())
        shape, strides, offset = layout(view)
        assert (shape, strides, offset) == expected
        assert view.get_pattern() == [list(pair) for pair in zip(strides, shape, strict=True)]

    run(kernel)


def test_pattern_of_a_view_gives_it_again() -> None:
    def kernel() -> None:
        t, a, _ = bases()
        for base, view in (
            (t, t[:, 2:10:3]), (t, t[1:3]), (a, a[:, 1, ::2]), (a, a.permute((2, 0, 1))), (a, a[1]),
        ):  # fmt: skip
            again = base.ap(view.get_pattern(), offset=view.offset)
            assert layout(again) == layout(view)
            assert np.array_equal(get(again), get(view))

    run(kernel)


REFUSALS: list[tuple[Callable[[Any, Any, Any], Any], str]] = [
    (lambda t, a, h: t[:, 0:13],
     (r"Out-of-bound access for tensor `t` on dimension 1: index range \[0, 12\] exceed dimension "
     "size of 12")),
    (lambda t, a, h: t[4], "Out-of-bound access for tensor `t` on dimension 0: index 4 exceed"),
    (lambda t, a, h: t[:, nl.ds(10, 3)], "Out-of-bound access for tensor `t` on dimension 1"),
    (lambda t, a, h: t[:, 4:3], "`t`"),
    (lambda t, a, h: t[:, ::-1], "step"),
    (lambda t, a, h: t[0, 0, 0], "3 indexes for 2 dimensions"),
    (lambda t, a, h: t[1.5], "indexed by float"),
    (lambda t, a, h: nl.ds(0, -2), "ds size is -2"),
    (lambda t, a, h: t.slice(1, 0, 13), "dimension 1"),
    (lambda t, a, h: t.slice(1, 4, 3), "dimension 1"),
    (lambda t, a, h: t.slice(-3, 0, 1), "slice dim of tensor `t` is -3; allowed: -2 to 1"),
    (lambda t, a, h: t.expand_dim(-4), "expand_dim dim of tensor `t` is -4; allowed: -3 to 2"),
    (lambda t, a, h: t.select(1, 12), "Out-of-bound access for tensor `t`"),
    (lambda t, a, h: t.permute((1, 0)), "partitions stay"),
    (lambda t, a, h: a.permute((0, 0, 1)), "permute"),
    (lambda t, a, h: a.permute(), "permute misses dims"),
    (lambda t, a, h: a.permute(0, dims=(0, 1, 2)), "permute got dims twice"),
    (lambda t, a, h: t[0:1].broadcast(0, 4), "partitions"),
    (lambda t, a, h: a.broadcast(1, 7), "length 3"),
    (lambda t, a, h: t.expand_dim(0), "partitions"),
    (lambda t, a, h: a.squeeze_dim(1), "has length 3"),
    (lambda t, a, h: t.reshape_dim(0, (2, 2)), "partitions"),
    (lambda t, a, h: t.flatten_dims(0, 1), "partitions"),
    (lambda t, a, h: a[:, 0:2].flatten_dims(0, 1), "flatten_dims"),
    (lambda t, a, h: t.reshape((2, 24)), "Partition dim size must be preserved, got 4 -> 2"),
    (lambda t, a, h: a.reshape((61,)), "60 elements"),
    (lambda t, a, h: a.reshape((60, "x")), "reshape shape is .*'x'.*; allowed: a tuple of int"),
    (lambda t, a, h: a.permute((2, 1, 0)).reshape((60,)), "reshape"),
    (lambda t, a, h: t[:, ::2].view(nl.uint8), "stride of the last dimension is 2"),
    (lambda t, a, h: t.ap([[6, 4], [1, 2]]),
     r"ap\(\) pattern has invalid partition stride. Partition step 6 must equal tensor free dim"),
    (lambda t, a, h: t.ap([[12, 4], [1, 13]]), "Out-of-bound"),
    (lambda t, a, h: t.ap([[12, 4], [-1, 2]], offset=3), "-1"),
    (lambda t, a, h: t.ap([12, 4]), r"ap pattern entry 12 is no pair; allowed: \[step, count\]"),
    (lambda t, a, h: t.ap([[12, 4], [1, 2.5]]), "is no pair"),
    (lambda t, a, h: t.ap([[12, 4], *[[1, 1]] * 5]), "5"),
    (lambda t, a, h: t.mean(), "'NkiTensor' object has no attribute 'mean'"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "message"), REFUSALS)
def test_refusal_names_what_came(function: Any, message: str) -> None:
    kinds = (ValueError, IndexError, TypeError, AttributeError, AssertionError)

    def kernel() -> None:
        with pytest.raises(kinds, match=message):
            function(*bases())

    run(kernel)


def test_pattern_on_a_view_counts_from_it_and_warns_once() -> None:
    def kernel() -> None:
        t, _, _ = bases()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert t[:, 2:4].ap([[12, 4], [1, 2]], offset=3).offset == 5
            assert t[:, 2:4].ap([[12, 4], [1, 2]]).offset == 2
        assert len(caught) == 1

    run(kernel)


def test_views_of_packed_types_both_ways() -> None:
    def kernel() -> None:
        bytes_ = nl.ndarray((128, 256), nl.uint8)
        assert bytes_.view(nl.float8_e4m3fn_x4).shape == (128, 64)
        assert bytes_.view(nl.float4_e2m1fn_x4).shape == (128, 128)
        assert bytes_.view(nl.float8_e5m2_x4).view(nl.float8_e5m2).shape == (128, 256)
        assert bytes_.ap([[64, 128], [1, 64]], dtype=nl.float8_e4m3fn_x4).shape == (128, 64)

    run(kernel)


@pytest.mark.parametrize(
    ("packed", "word"),
    [(nl.float8_e4m3fn_x4, nl.uint32), (nl.float8_e5m2_x4, nl.uint32),
     (nl.float4_e2m1fn_x4, nl.uint16)],
)  # fmt: skip
def test_dma_takes_words_in_place_of_packed_quads(packed: Any, word: Any) -> None:
    words = np.arange(8).reshape(2, 4).astype(word.dtype) + 0x3801

    def kernel() -> Any:
        tile = nl.ndarray((2, 4), packed)
        nisa.dma_copy(tile, put(words, nl.hbm))
        back = nl.ndarray((2, 4), word, nl.hbm)
        nisa.dma_copy(back, tile)
        with pytest.raises(nisa.NkiValidationError, match="packed types"):
            nisa.dma_copy(nl.ndarray((2, 4), nl.float32), tile)
        return get(back)

    assert np.array_equal(run(kernel), words)


def moved(view: Any) -> Any:
    out = nl.ndarray(view.shape if len(view.shape) > 1 else (1, *view.shape), nl.float32)
    nisa.dma_copy(out, view)
    return get(out)


INDEXES: list[Callable[[], Any]] = [
    lambda: put(np.array([[2]], np.int32)),
    lambda: put(np.array([[2]], np.uint32)),
    lambda: nisa.register_alloc(2),
    lambda: put(np.array([[9, 9, 9, 2]], np.int32))[0, 3],
    lambda: put(np.array([[9, 2]], np.int32)).ap([[1, 1], [1, 1]], offset=1),
]


@pytest.mark.parametrize("index", INDEXES)
def test_scalar_offset_counts_in_steps_of_its_axis(index: Any) -> None:
    def kernel() -> None:
        t, a, _ = bases()
        two = index()
        rows = a.ap([[5, 3], [1, 5]], scalar_offset=two)
        assert rows.is_indirect()
        assert np.array_equal(moved(rows), A[2])
        columns = a.ap([[15, 4], [1, 2]], offset=3, scalar_offset=two, indirect_dim=1)
        assert moved(columns).tolist() == [[13, 14], [28, 29], [43, 44], [58, 59]]
        last = a.ap([[15, 4], [5, 2]], scalar_offset=two, indirect_dim=2)
        assert np.array_equal(moved(last), A[:, 0:2, 2])
        flat = a.reshape((60,)).ap([[2, 1], [1, 2]], scalar_offset=two)
        assert moved(flat).tolist() == [[2, 3]]
        assert np.array_equal(moved(a.select(1, two)), A[:, 2])
        out = nl.ndarray((4, 2), nl.float32)
        nisa.tensor_copy(out, t.ap([[12, 4], [1, 2]], scalar_offset=two, indirect_dim=1))
        assert np.array_equal(get(out), T[:, 2:4])

    run(kernel)


def test_scalar_offset_is_read_when_it_is_used() -> None:
    def kernel() -> None:
        index = put(np.array([[1]], np.int32))
        view = bases()[1].ap([[5, 3], [1, 5]], scalar_offset=index)
        nisa.memset(index, value=3)
        assert np.array_equal(moved(view), A[3])

    run(kernel)


@pytest.mark.parametrize("lead", [4, 1, 999, 0])
def test_vector_offset_ignores_the_leading_step(lead: int) -> None:
    def kernel() -> None:
        h = bases()[2]
        index = put(np.array([[6], [1], [1]], np.int32))
        wide = put(np.array([[0, 6, 0], [0, 1, 0], [0, 1, 0]], np.int32))
        for offsets in (index, wide[:, 1:2], wide.ap([[3, 3], [1, 1]], offset=1)):
            view = h.ap([[lead, 3], [1, 2]], offset=1, vector_offset=offsets)
            assert moved(view).tolist() == [[25, 26], [5, 6], [5, 6]]
        flat = h.reshape((32,)).ap([[lead, 3], [1, 2]], offset=1, vector_offset=index)
        assert moved(flat).tolist() == [[7, 8], [2, 3], [2, 3]]
        with pytest.raises((ValueError, AssertionError)):
            h.ap([[4, 2], [1, 2]], vector_offset=index)
        with pytest.raises((ValueError, AssertionError)):
            h.ap([[4, 3], [1, 2]], vector_offset=index, indirect_dim=1)

    run(kernel)


@pytest.mark.parametrize(("dtype", "far"), [(np.int32, -1), (np.uint32, 2**32 - 1)])
def test_rows_out_of_bounds_are_skipped(dtype: Any, far: int) -> None:
    def kernel() -> None:
        index = put(np.array([[6], [far], [8]], dtype))
        skip = nisa.oob_mode.skip
        h = bases()[2]
        out = put(np.full((3, 4), -7, np.float32))
        nisa.dma_copy(out, h.ap([[4, 3], [1, 4]], vector_offset=index), oob_mode=skip)
        assert get(out).tolist() == [H[6].tolist(), [-7] * 4, [-7] * 4]
        nisa.dma_copy(h.ap([[4, 3], [1, 4]], vector_offset=index), put(-H[0:3]), oob_mode=skip)
        expected = H.copy()
        expected[6] = -H[0]
        assert np.array_equal(get(h), expected)
        with pytest.raises((IndexError, ValueError, AssertionError)):
            nisa.dma_copy(out, h.ap([[4, 3], [1, 4]], vector_offset=index))

    run(kernel)


def test_a_copy_onto_itself_changes_nothing() -> None:
    def kernel() -> None:
        h = bases()[2]
        nisa.dma_copy(dst=h, src=h)
        assert np.array_equal(get(h), H)

    run(kernel)
