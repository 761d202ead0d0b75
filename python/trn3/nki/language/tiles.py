"""What the functions of `nki.language` share: operands made to fit, results made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trn3._trn3.machine import NkiTensor
from trn3.nki import isa
from trn3.nki.language.creation import ndarray
from trn3.nki.values.element_types import DType, canonicalise
from trn3.nki.values.memory_regions import is_on_chip, is_psum

#: A tile or a number.
Operand = NkiTensor | float


def number(value: Any) -> float | None:
    """Return a number as Python's, or None if it is none."""
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        plain: Any = value.item()
        return plain if isinstance(plain, (bool, int, float)) else None
    return None


def require_tile(function: str, argument: str, value: Any) -> NkiTensor:
    """Return a tile in SBUF or PSUM.

    Raises
    ------
    TypeError
        If it is no tensor.
    ValueError
        If it lies in HBM.
    """
    if not isinstance(value, NkiTensor):
        message = f"nl.{function} {argument} is of type {type(value).__name__}; allowed: a tile"
        raise TypeError(message)
    if not is_on_chip(value):
        message = (
            f"nl.{function} {argument} lies in {value.buffer}; allowed: SBUF or PSUM, "
            "as nl.load gives it"
        )
        raise ValueError(message)
    return value


def result_like(tile: NkiTensor, dtype: Any, default: DType) -> NkiTensor:
    """Return a new SBUF tile of another's shape."""
    return ndarray(tile.shape, default if dtype is None else dtype)


def common_shape(function: str, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape that tiles have together; free axes of length 1 stretch.

    Raises
    ------
    ValueError
        If partitions or free axes differ otherwise.
    """
    rank = max(map(len, shapes))
    first = shapes[0]
    fits = all(len(shape) == rank and shape[0] == first[0] for shape in shapes)
    lengths = list(first)
    for axis in range(1, rank) if fits else ():
        wide = {shape[axis] for shape in shapes} - {1}
        fits = fits and len(wide) <= 1
        lengths[axis] = max(wide, default=1)
    if not fits:
        listed = " and ".join(map(str, shapes))
        message = (
            f"nl.{function} tiles have shapes {listed}; allowed: equal shapes, or free axes of "
            f"length 1{_of_a_row(shapes)}"
        )
        raise ValueError(message)
    return tuple(lengths)


def _of_a_row(shapes: Sequence[tuple[int, ...]]) -> str:
    """Say what a kernel writes where one tile is a row and another one has more partitions."""
    whole = max(shapes, key=lambda shape: (shape[0], len(shape)))
    if whole[0] == 1 or all(shape[0] != 1 for shape in shapes):
        return ""
    return f"; nl.broadcast_to(row, {whole}) repeats a row in every partition"


def stretch(tile: NkiTensor, shape: tuple[int, ...]) -> NkiTensor:
    """Return a view with free axes of length 1 repeated."""
    for axis in range(1, len(shape)):
        if tile.shape[axis] != shape[axis]:
            tile = tile.broadcast(axis, shape[axis])
    return tile


def in_sbuf(tile: NkiTensor) -> NkiTensor:
    """Return a tile itself, or a copy in SBUF of one in PSUM."""
    if not is_psum(tile):
        return tile
    copied = ndarray(tile.shape, tile.dtype)
    isa.tensor_copy(copied, tile)
    return copied


def converted(tile: NkiTensor, dtype: Any) -> NkiTensor:
    """Return a tile itself, or a copy in SBUF of another element type."""
    wanted = canonicalise(dtype)
    if tile.dtype == wanted:
        return tile
    result = ndarray(tile.shape, wanted)
    isa.tensor_copy(result, tile)
    return result
