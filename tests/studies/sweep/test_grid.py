"""Grids: which points, in which order, and what is refused."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import trn3
from support.checks import error
from support.sweeps import add, square
from trn3.studies.sweep.grid import ProductGrid, make_grid

AXES = st.dictionaries(
    st.text(min_size=1, max_size=4),
    st.lists(st.integers() | st.text(max_size=2) | st.none(), max_size=5),
    max_size=4,
)


@given(AXES)
def test_product_has_every_combination_the_last_axis_fastest(axes: dict[str, list[Any]]) -> None:
    grid = make_grid(axes)
    expected = [
        dict(zip(axes, chosen, strict=True)) for chosen in itertools.product(*axes.values())
    ]
    assert list(grid) == expected
    assert grid.size == len(expected)
    assert [grid.point(index) for index in range(len(expected))] == expected
    if axes:
        assert list(make_grid(list(axes.items()))) == expected


@given(st.lists(st.dictionaries(st.text(min_size=1, max_size=3), st.integers(), max_size=3)))
def test_listed_points_come_as_they_are(points: list[dict[str, int]]) -> None:
    for source in (points, iter(points)):
        grid = make_grid(source)
        assert list(grid) == points
        assert [grid.point(index) for index in range(len(points))] == points


def test_product_takes_no_memory_for_its_points() -> None:
    grid = ProductGrid({name: range(10**6) for name in "xyz"})
    assert grid.size == 10**18
    assert grid.point(10**18 - 1) == {"x": 999_999, "y": 999_999, "z": 999_999}
    assert next(iter(grid)) == {"x": 0, "y": 0, "z": 0}


@pytest.mark.parametrize("values", [(1, 2), range(1, 3), np.array([1, 2])])
def test_axes_may_be_any_sequence(values: Any) -> None:
    assert trn3.sweep(square, {"x": values}, workers=0).values == [1, 4]


def test_pandas_columns_are_axes_whatever_their_index() -> None:
    pandas = pytest.importorskip("pandas")
    column = pandas.Series([3, 4], index=[1, 0])
    assert trn3.sweep(square, {"x": column}, workers=0).values == [9, 16]


@pytest.mark.parametrize(
    ("grid", "kind", "words"),
    [
        ({"x": "12"}, TypeError, ("axis", "x", "text", "sequence")),
        ({"x": b"12"}, TypeError, ("axis", "x", "sequence")),
        ({"x": 3}, TypeError, ("axis", "x", "3", "sequence")),
        ({"x": {1, 2}}, TypeError, ("axis", "x", "set", "order", "sorted")),
        ({"x": {1: 2}}, TypeError, ("axis", "x", "dict")),
        ({"x": iter([1])}, TypeError, ("axis", "x", "iterator", "list")),
        ({"x": np.ones((2, 2))}, ValueError, ("axis", "x", "shape", "(2, 2)")),
        ({1: [2]}, TypeError, ("axis", "name", "1")),
        ({"": [2]}, ValueError, ("axis", "name")),
        ([("x", [1]), ("x", [2])], ValueError, ("two", "axes", "x")),
        ([{"x": 1}, 5], TypeError, ("point", "1", "5", "mapping")),
        ([{1: 1}], TypeError, ("point", "0", "name")),
        ("x", TypeError, ("grid", "mapping")),
        (None, TypeError, ("grid", "None", "mapping")),
        ({"z": [1]}, TypeError, ("square", "z", "x")),
        ({"x": [1], "y": [1]}, TypeError, ("square", "y", "x", "partial")),
        ({}, TypeError, ("square", "x")),
    ],
)
def test_grid_refuses(grid: Any, kind: type[Exception], words: tuple[str, ...]) -> None:
    with error(kind, *words):
        trn3.sweep(square, grid, workers=0)


def test_axis_that_a_partial_binds_is_refused() -> None:
    with error(ValueError, "x", "axis", "bound"):
        trn3.sweep(functools.partial(add, x=1), {"x": [1], "y": [2]}, workers=0)
    assert trn3.sweep(functools.partial(add, x=1), {"y": [2]}, workers=0).values == [12]


def test_empty_grids() -> None:
    grids: list[Any] = [{"x": []}, [], iter(())]
    for grid in grids:
        result = trn3.sweep(square, grid)
        assert (len(result), result.values, result.errors, list(result)) == (0, [], (), [])
        assert result.to_rows() == []
        assert "0 points" in repr(result)
        result.raise_errors()
    assert trn3.sweep(dict, {}, workers=0).values == [{}]


def test_iterables_are_read_as_points_are_needed() -> None:
    drawn = []

    def points() -> Any:
        for x in range(100):
            drawn.append(x)
            yield {"x": x}

    ahead = []
    trn3.sweep(
        square, points(), workers=0, progress=lambda done, total: ahead.append(len(drawn) - done)
    )
    assert max(ahead) <= 1


def test_iterables_that_fail_end_the_sweep() -> None:
    def points() -> Any:
        yield {"x": 1}
        message = "no more"
        raise LookupError(message)

    with error(LookupError, "no more"):
        trn3.sweep(square, points(), workers=1)
