"""Cutting an operation on a grid of elements into boxes that instructions can take.

A mask or an index expression that is no even pattern leaves several boxes; each is a rectangle of
the grid where the mask holds and every operand is one access pattern.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trn3._trn3 import machine

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
    found = machine.boxes(
        shape,
        None if mask is None else _over(shape, mask),
        [_over(shape, item) for item in numbers],
        [_over(shape, item) for item in constant],
    )
    return [tuple(slice(*sides) for sides in box) for box in found]


def _over(shape: tuple[int, ...], array: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.broadcast_to(array, shape), order="C")
