"""Patterns and slices that end exactly at the last element: where the last step lands counts.

The documentation checks the start and the count of steps. `start + step * count` lies a step behind
the last element, and may lie behind the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from support.core import Machine, get, put, run

#: The table of behaviours names tests of this file: they hold under every release.
pytestmark = pytest.mark.usefixtures("every_release")

#: In SBUF, 100 a partition and 1 a column; in HBM, numbered.
T = (100 * np.arange(4)[:, None] + np.arange(12)).astype(np.float32)
A = np.arange(60, dtype=np.float32).reshape(4, 3, 5)
H = np.arange(32, dtype=np.float32).reshape(8, 4)


def hbm(array: Any) -> Any:
    """Return a tensor in HBM that holds an array."""
    return put(array, nl.hbm)


def loaded(view: Any) -> Any:
    """Return what a transfer of a view of two axes reads."""
    tile = nl.ndarray(view.shape, nl.float32)
    nisa.dma_copy(tile, view)
    return get(tile)


def index(value: int) -> Any:
    """Return an index tile of one element."""
    tile = nl.ndarray((1, 1), nl.int32)
    nisa.memset(tile, value)
    return tile


SLICES = [
    # Odd columns, whose stop is start + step * count.
    (lambda t: t[:, 1:13:2], T[:, 1::2]),
    (lambda t: t[:, 2:14:3], T[:, 2::3]),
    (lambda t: t[:, 11:13:2], T[:, 11:]),
    (lambda t: t[:, 5:105:100], T[:, 5:6]),
    (lambda t: t[1:5:2], T[1::2]),
    (lambda t: t[:, range(1, 13, 2)], T[:, 1::2]),
    (lambda t: t[:, nl.ds(0, 12)], T),
    (lambda t: t[:, nl.ds(11, 1)], T[:, 11:]),
    (lambda t: t[:, -1:12], T[:, -1:]),
]


@pytest.mark.parametrize(("view", "wanted"), SLICES)
def test_slices_reach_the_last_element(view: Any, wanted: Any) -> None:
    np.testing.assert_array_equal(run(lambda: get(view(put(T)))), wanted)


@pytest.mark.parametrize(
    ("view", "text"),
    [
        (lambda t: t[:, 0:13], r"index range \[0, 12\] exceed dimension size of 12"),
        (lambda t: t[:, 0:13:2], r"index range \[0, 12\] exceed"),
        (lambda t: t[:, 2:15:3], r"index range \[2, 14\] exceed"),
        (lambda t: t[:, 12:13], r"index range \[12, 12\] exceed"),
        (lambda t: t[:, 13:13], r"index range \[13, 12\] exceed"),
        (lambda t: t[:, -13:4], "exceed"),
        (lambda t: t[:, nl.ds(1, 12)], r"index range \[1, 12\] exceed"),
        (lambda t: t[3:6:2], r"index range \[3, 5\] exceed dimension size of 4"),
    ],
)
def test_slices_that_land_behind_it_are_refused(view: Any, text: str) -> None:
    with pytest.raises(IndexError, match=text):
        run(lambda: view(put(T)))


PATTERNS = [
    (lambda a: a.ap([[5, 12], [1, 5]]), A.reshape(12, 5)),
    (lambda a: a.ap([[15, 4], [7, 3]]), A.reshape(4, 15)[:, ::7]),
    (lambda a: a.ap([[59, 2], [1, 1]]), np.array([[0], [59]])),
    (lambda a: a.ap([[1000, 1], [1, 5]], offset=55), A.reshape(12, 5)[11:]),
    (lambda a: a.ap([[0, 3], [1, 1]], offset=59), np.full((3, 1), 59)),
    (lambda a: a.ap([[0, 2], [2, 2], [0, 2]], offset=57),
     np.array([[[57, 57], [59, 59]]] * 2)),
    # Windows that overlap.
    (lambda a: a.ap([[1, 56], [1, 5]]), np.arange(56)[:, None] + np.arange(5)),
]  # fmt: skip


@pytest.mark.parametrize(("view", "wanted"), PATTERNS)
def test_patterns_end_at_the_last_element(view: Any, wanted: Any) -> None:
    def body() -> Any:
        found = view(hbm(A))
        tile = nl.ndarray((found.shape[0], int(np.prod(found.shape[1:]))), nl.float32)
        nisa.dma_copy(tile.reshape(found.shape), found)
        return get(tile)

    np.testing.assert_array_equal(run(body), wanted.reshape(wanted.shape[0], -1))


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a.ap([[5, 12], [1, 6]]),
        lambda a: a.ap([[5, 12], [1, 5]], offset=1),
        lambda a: a.ap([[59, 2], [1, 2]]),
        lambda a: a.ap([[0, 3], [1, 1]], offset=60),
        lambda a: a.ap([[1, 57], [1, 5]]),
    ],
)
def test_patterns_that_end_behind_it_are_refused(view: Any) -> None:
    with pytest.raises(IndexError, match="Out-of-bound"):
        run(lambda: view(hbm(A)))


def test_negative_strides_are_refused_wherever_they_end() -> None:
    for pattern, offset in (([[12, 4], [-1, 2]], 11), ([[-12, 4], [1, 2]], 36)):
        with pytest.raises(nisa.NkiValidationError, match=r"stride -\d+ of pair"):
            run(lambda: put(T).ap(pattern, offset=offset))  # noqa: B023


def test_patterns_on_chip_end_at_the_last_element_of_each_partition() -> None:
    def body() -> Any:
        t = put(T)
        return (
            get(t.ap([[12, 4], [11, 2]])),
            get(t.ap([[12, 2], [1, 6]], offset=2 * 12 + 6)),
            get(t.ap([[12, 4], [0, 3]], offset=11)),
            get(t.ap([[7, 1], [1, 12]], offset=36)),
        )

    ends, half, same, last = run(body)
    np.testing.assert_array_equal(ends, T[:, ::11])
    np.testing.assert_array_equal(half, T[2:, 6:])
    np.testing.assert_array_equal(same, np.repeat(T[:, 11:], 3, axis=1))
    np.testing.assert_array_equal(last, T[3:])
    for pattern, offset in (
        ([[12, 4], [11, 2]], 1),
        ([[12, 2], [1, 6]], 36),
        ([[12, 5], [1, 1]], 0),
    ):
        with pytest.raises(IndexError, match="Out-of-bound"):
            run(lambda: put(T).ap(pattern, offset=offset))  # noqa: B023


SCALARS = [
    # (pattern, offset, indirect_dim, the last value)
    ([[5, 3], [1, 5]], 0, 0, 3),
    ([[15, 2], [1, 15]], 0, 0, 2),
    ([[15, 4], [1, 5]], 0, 1, 2),
    ([[15, 4], [1, 2]], 3, 1, 2),
    ([[15, 4], [4, 4]], 0, 2, 2),
    ([[0, 3], [1, 1]], 0, 2, 59),
    ([[15, 4], [1, 1]], 14, 2, 0),
    ([[5, 1], [2, 3]], 0, 0, 3),
]


@pytest.mark.parametrize(("pattern", "offset", "dim", "last"), SCALARS)
@pytest.mark.parametrize("kind", ["tile", "register"])
def test_a_dynamic_offset_may_reach_the_last_element(
    pattern: Any, offset: int, dim: int, last: int, kind: str
) -> None:
    stride = (15, 5, 1)[dim]
    (outer, rows), (inner, columns) = pattern
    places = offset + outer * np.arange(rows)[:, None] + inner * np.arange(columns)

    def body(value: int) -> Any:
        where = index(value) if kind == "tile" else nisa.register_alloc(value)
        return loaded(hbm(A).ap(pattern, offset=offset, scalar_offset=where, indirect_dim=dim))

    for value in {0, last}:
        np.testing.assert_array_equal(run(lambda: body(value)), places + value * stride)  # noqa: B023
    for value in (last + 1, -1):
        with pytest.raises(IndexError, match="dynamic index"):
            run(lambda: body(value))  # noqa: B023


@pytest.mark.parametrize("size", [1, 5, 12])
def test_a_dynamic_slice_may_reach_the_last_element(size: int) -> None:
    def body(value: int) -> Any:
        return get(put(T)[:, nl.ds(index(value), size)])

    last = 12 - size
    np.testing.assert_array_equal(run(lambda: body(last)), T[:, last:])
    for value in (last + 1, -1):
        with pytest.raises(IndexError, match=f"dynamic index {value} exceed"):
            run(lambda: body(value))  # noqa: B023


@pytest.mark.parametrize(
    ("pattern", "offset", "last"),
    [
        ([[4, 3], [1, 4]], 0, 7),
        ([[999, 3], [1, 4]], 0, 7),
        ([[4, 3], [1, 2]], 2, 7),
        ([[4, 3], [3, 2]], 0, 7),
        ([[4, 3], [0, 4]], 3, 7),
        # A row that begins in the last one ends behind it.
        ([[4, 3], [1, 4]], 1, 6),
        ([[4, 3], [1, 8]], 0, 6),
        ([[4, 3], [4, 2]], 3, 6),
    ],
)
def test_rows_of_an_index_tile_may_reach_the_last_element(
    pattern: Any, offset: int, last: int
) -> None:
    _, (inner, columns) = pattern

    def body(values: list[int], mode: Any) -> Any:
        rows = nl.ndarray((3, 1), nl.int32)
        for row, value in enumerate(values):
            nisa.memset(rows[row : row + 1], value) if row == 0 else nisa.dma_copy(
                rows[row : row + 1], index(value)
            )
        tile = nl.ndarray((3, columns), nl.float32)
        nisa.memset(tile, -1.0)
        view = hbm(H).ap(pattern, offset=offset, vector_offset=rows)
        nisa.dma_copy(tile, view, oob_mode=mode)
        return get(tile)

    error, skip = nisa.oob_mode.error, nisa.oob_mode.skip
    places = offset + 4 * np.array([[last], [0], [last]]) + inner * np.arange(columns)
    np.testing.assert_array_equal(run(lambda: body([last, 0, last], error)), places)
    with pytest.raises(IndexError, match=f"row index {last + 1} exceed"):
        run(lambda: body([0, last + 1, 0], error))
    skipped = run(lambda: body([last, last + 1, -1], skip))
    np.testing.assert_array_equal(skipped[0], places[0])
    np.testing.assert_array_equal(skipped[1:], -1)


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(1, 40),
    start=st.integers(0, 39),
    step=st.integers(1, 9),
    count=st.integers(1, 40),
    past=st.integers(0, 8),
)
def test_what_counts_is_where_the_last_step_lands(
    size: int, start: int, step: int, count: int, past: int
) -> None:
    """Property: start + step * (count - 1) decides, by slice and by pattern alike."""
    assume(past < step)
    last = start + step * (count - 1)
    values = np.arange(2 * size, dtype=np.float32).reshape(2, size)
    with Machine() as m:
        tile = m.sbuf(values)
        views = (
            lambda: tile[:, start : last + 1 + past : step],
            lambda: tile.ap([[size, 2], [step, count]], offset=start),
        )
        for view in views:
            if last >= size:
                with pytest.raises(IndexError, match="Out-of-bound"):
                    view()
            else:
                np.testing.assert_array_equal(m.read(view()), values[:, start : last + 1 : step])
