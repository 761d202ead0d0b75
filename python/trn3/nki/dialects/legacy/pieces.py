"""Cutting an operation on a grid of elements into boxes that instructions can take.

A mask or an index expression that is no even pattern leaves several boxes; each is a rectangle of
the grid where the mask holds and every operand is one access pattern.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Box: TypeAlias = tuple[slice, ...]


def whole(shape: Sequence[int]) -> Box:
    """Return the box that holds a whole grid."""
    return tuple(slice(0, length) for length in shape)


def is_whole(box: Box, shape: Sequence[int]) -> bool:
    """Return whether a box is the whole grid."""
    return all(
        part.start == 0 and part.stop == length for part, length in zip(box, shape, strict=True)
    )


def part_of(array: NDArray[Any], box: Box) -> NDArray[Any]:
    """Return an array's part in a box; its axes of length 1 stretch over the grid."""
    return array[
        tuple(
            slice(None) if length == 1 else part
            for part, length in zip(box, array.shape, strict=True)
        )
    ]


def boxes(
    shape: tuple[int, ...],
    mask: NDArray[np.bool_] | None,
    numbers: Sequence[NDArray[np.int64]] = (),
    constant: Sequence[NDArray[np.int64]] = (),
) -> list[Box]:
    """Return boxes that together hold the grid's elements where the mask is true.

    Parameters
    ----------
    shape : tuple of int
        Of the grid.
    mask : array of bool or None
        Of the grid's shape.
    numbers : arrays
        Index expressions that must be affine within each box, with steps from 0.
    constant : arrays
        Those that must be constant within each box.
    """
    if mask is None:
        mask = np.broadcast_to(np.True_, shape)
    full = [np.broadcast_to(item, shape) for item in numbers]
    fixed = [np.broadcast_to(item, shape) for item in constant]
    return list(_split(whole(shape), mask, full, fixed))


def _split(
    box: Box,
    mask: NDArray[np.bool_],
    numbers: list[NDArray[np.int64]],
    constant: list[NDArray[np.int64]],
) -> Iterator[Box]:
    inside = mask[box]
    if not inside.any():
        return
    tight = []
    for axis, part in enumerate(box):
        others = tuple(i for i in range(len(box)) if i != axis)
        hit = np.flatnonzero(inside.any(axis=others))
        tight.append(slice(part.start + int(hit[0]), part.start + int(hit[-1]) + 1))
    box = tuple(tight)
    inside = mask[box]
    uneven = [item for item in numbers if not _is_affine(item[box])]
    varying = [item for item in constant if np.ptp(item[box]) != 0]
    if inside.all() and not uneven and not varying:
        yield box
        return
    for axis, part in enumerate(box):
        cuts = _cuts(axis, inside, [i[box] for i in uneven], [i[box] for i in varying])
        if cuts:
            bounds = [0, *cuts, part.stop - part.start]
            break
    else:
        # Coupled along several axes: one by one along the longest.
        axis = max(range(len(box)), key=lambda i: box[i].stop - box[i].start)
        bounds = list(range(box[axis].stop - box[axis].start + 1))
    start = box[axis].start
    for low, high in itertools.pairwise(bounds):
        part = slice(start + low, start + high)
        yield from _split((*box[:axis], part, *box[axis + 1 :]), mask, numbers, constant)


def _is_affine(array: NDArray[np.int64]) -> bool:
    """Return whether an array's steps along each axis are the same, and none runs backwards."""
    for axis in range(array.ndim):
        if array.shape[axis] > 1:
            steps = np.diff(array, axis=axis)
            if np.ptp(steps) != 0 or steps.flat[0] < 0:
                return False
    return True


def _cuts(
    axis: int,
    inside: NDArray[np.bool_],
    uneven: list[NDArray[np.int64]],
    varying: list[NDArray[np.int64]],
) -> list[int]:
    """Return where an axis must be cut: the mask or an operand's pattern changes there."""
    length = inside.shape[axis]
    rows = np.moveaxis(inside, axis, 0).reshape(length, -1)
    change = (rows[1:] != rows[:-1]).any(axis=1)
    for item in varying:
        values = np.moveaxis(item, axis, 0).reshape(length, -1)
        change |= (values[1:] != values[:-1]).any(axis=1)
    found = set((np.flatnonzero(change) + 1).tolist())
    for item in uneven:
        steps = np.diff(np.moveaxis(item, axis, 0).reshape(length, -1), axis=0)
        # Access patterns run forwards.
        found.update((np.flatnonzero((steps < 0).any(axis=1)) + 1).tolist())
        start = 0
        for place in range(1, len(steps)):
            if place > start and (steps[place] != steps[place - 1]).any():
                # A new run begins after the last element of this one.
                start = place + 1
                found.add(start if start < length else place)
    return sorted(cut for cut in found if 0 < cut < length)
