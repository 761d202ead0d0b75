"""Masks of any shape on instructions that combine elements: reductions, products, transposes.

A rectangle of the grid is a part of the operands. Any other mask is emulated: operands are copied
with what leaves the operation as it is in place of the elements that take no part, or the rows are
taken together that have the same elements in them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trn3._trn3.machine import NkiTensor
from trn3.nki import isa
from trn3.nki.dialects.legacy.indices import Index
from trn3.nki.dialects.legacy.issuing import error, flush
from trn3.nki.dialects.legacy.lowering import (
    Stretched,
    as_mask,
    cut,
    first_to_last,
    put_where,
    starts_well,
)
from trn3.nki.dialects.legacy.pieces import boxes
from trn3.nki.dialects.legacy.views import Tensor, View, require
from trn3.nki.dialects.legacy.waiting import WaitingTile
from trn3.nki.language.creation import new_tensor, shared_constant
from trn3.nki.language.tiles import in_sbuf
from trn3.nki.values.element_types import DType, canonicalise, float32
from trn3.nki.values.memory_regions import is_psum, sbuf
from trn3.nki.values.operators import op_name

_NEUTRAL: Final = {
    "add": 0, "multiply": 1, "logical_and": 1, "logical_or": 0, "logical_xor": 0, "bitwise_or": 0,
    "bitwise_xor": 0,
}  # fmt: skip


def neutral(function: str, op: Any, dtype: DType) -> float:
    """Return the number of an element type that leaves a reduction as it is.

    Raises
    ------
    NotImplementedError
        If the operator has none.

    Examples
    --------
    >>> from trn3.nki.values.element_types import int8
    >>> neutral("nl.max", "maximum", int8), neutral("nl.sum", "add", int8)
    (-128, 0)
    """
    name = op_name(op)
    if name in _NEUTRAL:
        return _NEUTRAL[name]
    if name in ("maximum", "minimum", "bitwise_and"):
        if not dtype.is_integer:
            return float("-inf") if name == "maximum" else float("inf")
        limits = np.iinfo(np.uint8 if dtype.name == "bool" else dtype.dtype)
        if name == "bitwise_and":
            return -1 if limits.min < 0 else int(limits.max)
        return int(limits.min if name == "maximum" else limits.max)
    message = (
        f"{function} of {name} with a mask that is no rectangle; allowed: add, multiply, maximum, "
        "minimum, logical_and, logical_or, logical_xor, bitwise_and, bitwise_or, bitwise_xor"
    )
    raise error(NotImplementedError, message)


def without(operand: Tensor, mask: Any, value: float) -> Tensor:
    """Return a copy of a tile in SBUF with a number where a mask does not hold.

    What lies there is not read; an index may lie outside there.
    """
    truth = as_mask(mask, operand.shape)
    if truth is True:
        return operand
    flush()
    shape = operand.shape
    stretched = Stretched(operand, shape)
    made = new_tensor(shape, operand.dtype)
    isa.memset(made, value)
    found = cut(shape, truth, [stretched])
    if all(starts_well(box[0].start, box[0].stop - box[0].start) for box in found):
        for box in found:
            isa.tensor_copy(made[box], stretched.resolve(box))
        return View(made)
    region = first_to_last(found)
    try:
        source = in_sbuf(stretched.resolve(region))
    except IndexError:
        # Engines begin at quadrants, DMA anywhere.
        for box in found:
            isa.dma_copy(made[box], in_sbuf(stretched.resolve(box)))
        return View(made)
    put_where(made[region], source, np.asarray(truth)[region])
    return View(made)


def by_rows(
    function: str,
    emit: Callable[..., Any],
    data: Any,
    tail: tuple[int, ...],
    dtype: Any,
    mask: Any,
    *others: Tensor,
) -> WaitingTile:
    """Return what an instruction computes of each partition's elements where a mask holds.

    Parameters
    ----------
    function : str
        For errors.
    emit : callable
        Issues the instruction: destination, elements, other operands; all of the same partitions.
    data : tile
    tail : tuple of int
        Shape of the result after its partitions.
    dtype
        Of the result.
    mask
        Over the tile. Free axes are flattened where it is no rectangle.
    *others : tiles
        Operands with the same partitions that no mask concerns.
    """
    tile = require(function, "data", data)
    truth = as_mask(mask, tile.shape)
    rows = tile.shape[0]
    shape = (rows, *tail)
    if truth is False:
        return WaitingTile(shape, dtype, sbuf, lambda dst: None, mask=False)
    rest = [other.view for other in others]
    found = cut(tile.shape, truth, [tile])
    if len(found) == 1 and found[0][0].start == 0:
        box = found[0]
        view, last = tile.resolve(box), box[0].stop

        def run(dst: NkiTensor) -> None:
            emit(dst if last == rows else dst[:last], view, *(part[:last] for part in rest))

    else:
        whole = without(tile, mask, 0).view if truth is not True else _gathered(tile)
        flat = whole if whole.ndim == 2 else whole.reshape((rows, tile.size // rows))
        groups = _patterns(np.broadcast_to(np.asarray(truth), tile.shape).reshape(rows, -1))

        def run(dst: NkiTensor) -> None:
            for members, pattern in groups:
                end = int(members[-1]) + 1
                part = new_tensor((end, *tail), canonicalise(dtype))
                emit(part, _columns(flat[:end], pattern), *(each[:end] for each in rest))
                chosen = np.zeros((end, *(1,) * len(tail)), np.bool_)
                chosen[members] = True
                put_where(dst[:end], part, np.broadcast_to(chosen, part.shape))

    made = WaitingTile(shape, dtype, sbuf, run, is_simple=len(found) == 1)
    made.mask = rows_of(truth, tile.shape, len(tail))
    return made


def _gathered(tile: Tensor) -> NkiTensor:
    """Return elements that an uneven index picks, side by side."""
    made = new_tensor(tile.shape, tile.dtype)
    for box in cut(tile.shape, True, [tile]):
        isa.tensor_copy(made[box], tile.resolve(box))
    return made


def rows_of(truth: Any, shape: tuple[int, ...], tail: int) -> Any:
    """Return a mask over partitions: where a mask leaves anything of a row; None for everywhere."""
    if truth is True:
        return None
    full = np.broadcast_to(np.asarray(truth), shape).reshape(shape[0], -1).any(axis=1)
    if full.all():
        return None
    return full.reshape((-1, *(1,) * tail)).view(Index) if full.any() else False


def _patterns(truth: NDArray[np.bool_]) -> list[tuple[NDArray[np.int64], NDArray[np.bool_]]]:
    """Return the rows that have the same elements, and which, for all such sets of rows."""
    patterns, which = np.unique(truth, axis=0, return_inverse=True)
    which = which.reshape(-1)
    return [
        (np.flatnonzero(which == number), pattern)
        for number, pattern in enumerate(patterns)
        if pattern.any()
    ]


def _columns(flat: NkiTensor, pattern: NDArray[np.bool_]) -> NkiTensor:
    """Return some columns of a tile as one tile."""
    numbers = np.flatnonzero(pattern)
    first, count = int(numbers[0]), len(numbers)
    if int(numbers[-1]) - first + 1 == count:
        return flat[:, first : first + count]
    made = new_tensor((flat.shape[0], count), flat.dtype)
    done = 0
    for (run,) in boxes(pattern.shape, pattern):
        length = run.stop - run.start
        isa.tensor_copy(made[:, done : done + length], flat[:, run])
        done += length
    return made


def column_of(numbers: NDArray[np.float32]) -> Tensor:
    """Return a tile of numbers that are known when the kernel is built."""
    flush()
    constant = shared_constant(np.ascontiguousarray(numbers, np.float32))
    made = new_tensor(numbers.shape, float32)
    isa.dma_copy(made, constant)
    return View(made)


def stored_where(
    dst: NkiTensor, made: NkiTensor, truth: NDArray[np.bool_], found: list[Any]
) -> None:
    """Copy a tile to where a mask holds, by boxes where engines can begin there."""
    if all(starts_well(box[0].start, box[0].stop - box[0].start) for box in found):
        for box in found:
            isa.tensor_copy(dst[box], made[box])
        return
    region = first_to_last(found)
    source = in_sbuf(made[region]) if is_psum(made) else made[region]
    put_where(dst[region], source, truth[region])


def reduces_in_place(tile: Tensor, mask: Any) -> bool:
    """Return whether an instruction that reduces beside its result takes all of a mask at once."""
    found = cut(tile.shape, as_mask(mask, tile.shape), [tile])
    return not found or (len(found) == 1 and found[0][0].start == 0)
