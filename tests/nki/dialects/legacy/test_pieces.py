"""How operations are cut, and what index expressions are made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from trn3.nki.dialects.legacy.indices import LoopRange, affine, arange, mgrid
from trn3.nki.dialects.legacy.pieces import boxes

SHAPES = array_shapes(min_dims=1, max_dims=3, max_side=6)


@given(SHAPES.flatmap(lambda shape: arrays(np.bool_, shape)))
def test_boxes_cover_a_mask_once(mask: Any) -> None:
    covered = np.zeros(mask.shape, int)
    for box in boxes(mask.shape, mask):
        covered[box] += 1
    assert np.array_equal(covered, mask.astype(int))


@given(SHAPES.flatmap(lambda shape: arrays(np.int64, shape, elements=st.integers(0, 3))))
def test_boxes_are_even_and_constant(numbers: Any) -> None:
    covered = np.zeros(numbers.shape, int)
    for box in boxes(numbers.shape, None, [numbers]):
        covered[box] += 1
        assert affine(numbers[box]) is not None
    assert (covered == 1).all()
    for box in boxes(numbers.shape, None, (), [numbers]):
        assert np.ptp(numbers[box]) == 0


def test_few_boxes_for_a_regular_pattern() -> None:
    halves = np.broadcast_to(np.arange(12) // 3, (4, 12))
    assert len(boxes((4, 12), None, [halves])) == 4
    row, column = np.arange(6)[:, None], np.arange(6)[None, :]
    assert len(boxes((6, 6), row >= column)) == 6
    assert len(boxes((6, 6), (row < 3) & (column < 2))) == 1


@given(
    st.integers(-5, 5),
    st.lists(st.tuples(st.integers(-3, 3), st.integers(1, 4)), min_size=1, max_size=4),
)
def test_affine_finds_start_and_steps(start: int, axes: list[tuple[int, int]]) -> None:
    numbers: Any = start
    for axis, (step, length) in enumerate(axes):
        shape = [1] * len(axes)
        shape[axis] = length
        numbers = numbers + (arange(length) * step).reshape(shape)
    wanted = [step if length > 1 else 0 for step, length in axes]
    assert affine(numbers) == (start, wanted)
    if numbers.size > 2:
        broken = numbers.copy()
        broken.flat[-1] += 1
        if sum(length > 1 for _, length in axes) > 1 or numbers.size > 2:
            assert affine(broken) != (start, wanted)


def test_mgrid_names_its_axes() -> None:
    grid = mgrid[0:4, 0:3, 2:6:2]
    p, x, y = grid
    assert p is grid.p
    assert x is grid.x
    assert (p + x * 10 + y * 100).shape == (4, 3, 2)
    assert grid.y.ravel().tolist() == [2, 4]
    with pytest.raises(AttributeError, match="allowed: pxy"):
        _ = grid.z
    with pytest.raises(TypeError, match="slices with a stop"):
        _ = mgrid[0:4, 3]


def test_comparisons_remember_what_they_compared() -> None:
    p, f = mgrid[0:4, 0:3]
    both = (p >= f) & (f > 1)
    assert both.comparisons is not None
    assert [each.operator for each in both.comparisons] == ["greater_equal", "greater"]
    assert np.array_equal(both.comparisons[0].difference, np.arange(4)[:, None] - np.arange(3))
    assert (both | (p < f)).comparisons is None


def test_loop_variables_know_their_start() -> None:
    assert [(int(i), i.is_first) for i in LoopRange(1, 7, 3)] == [(1, True), (4, False)]
    assert LoopRange(4).as_slice() == slice(0, 4, 1)
    assert list(LoopRange(0)) == []
