"""Operations of the legacy dialect as instructions: masks, uneven indexes, broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trn3._trn3.machine import NkiTensor
from trn3.nki import isa
from trn3.nki.dialects.legacy.issuing import error, flush
from trn3.nki.dialects.legacy.pieces import Box, boxes, is_whole, whole
from trn3.nki.dialects.legacy.views import Tensor
from trn3.nki.dialects.legacy.waiting import WaitingTile
from trn3.nki.language.creation import new_tensor, shared_constant
from trn3.nki.ranks.context import current_figures
from trn3.nki.values.element_types import uint8
from trn3.nki.values.memory_regions import MemoryRegion, is_on_chip, sbuf

#: What a mask comes to: true everywhere, nowhere, or somewhere.
Mask = NDArray[np.bool_] | bool


class Stretched:
    """An operand on a grid that it may be shorter than: axes of length 1 repeat."""

    def __init__(self, operand: Tensor, shape: tuple[int, ...]) -> None:
        fits = len(operand.shape) == len(shape) and all(
            length in (1, wanted) for length, wanted in zip(operand.shape, shape, strict=True)
        )
        if not fits:
            message = f"a tile of shape {operand.shape} does not stretch to {shape}"
            raise error(ValueError, message)
        if operand.shape[0] != shape[0] and is_on_chip(operand.buffer):
            operand = operand.broadcast_to((shape[0], *operand.shape[1:]))
        self._operand = operand
        self._shape = operand.shape

    @property
    def is_even(self) -> bool:
        """Whether the whole operand is one of the machine's tensors."""
        return self._operand.is_even

    def uneven(self) -> list[NDArray[np.int64]]:
        """Return index expressions that must be affine within a box."""
        return self._operand.uneven()

    def fixed(self) -> list[NDArray[np.int64]]:
        """Return index expressions that must be constant within a box."""
        return self._operand.fixed()

    def resolve(self, box: Box) -> NkiTensor:
        """Return the machine's view of a box of the grid."""
        own = tuple(
            slice(0, 1) if length == 1 else part
            for part, length in zip(box, self._shape, strict=True)
        )
        view = self._operand.resolve(own)
        for axis, part in enumerate(box):
            count = part.stop - part.start
            if view.shape[axis] != count:
                view = view.broadcast(axis, count)
        return view


def as_mask(mask: Any, shape: tuple[int, ...], reduced: tuple[int, ...] = ()) -> Mask:
    """Return a mask over a grid; True without one.

    One that fits only the axes that are not `reduced` holds along the others.

    Raises
    ------
    TypeError
        If it is no truth about indexes.
    ValueError
        If it does not fit the grid.
    """
    if mask is None or mask is True:
        return True
    if isinstance(mask, (bool, np.bool_)):
        return bool(mask)
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
        message = (
            f"mask is of type {type(mask).__name__}; allowed: comparisons of nl.arange or nl.mgrid "
            "expressions, joined by &"
        )
        raise error(TypeError, message)
    plain = mask.view(np.ndarray)
    if plain.all():
        return True
    if not plain.any():
        return False
    if plain.ndim != len(shape) and plain.size == np.prod(shape):
        plain = plain.reshape(shape)
    try:
        return np.broadcast_to(plain, shape)
    except ValueError:
        if reduced and plain.ndim == len(shape) - len(reduced):
            return as_mask(np.expand_dims(plain, reduced), shape)
        message = f"mask has shape {plain.shape}; allowed: what broadcasts to the grid {shape}"
        raise error(ValueError, message) from None


def cut(shape: tuple[int, ...], mask: Mask, operands: Sequence[Tensor | Stretched]) -> list[Box]:
    """Return boxes where the mask holds and each operand is one of the machine's tensors."""
    if mask is False:
        return []
    if mask is True and all(operand.is_even for operand in operands):
        return [whole(shape)]
    numbers = [array for operand in operands for array in operand.uneven()]
    constant = [array for operand in operands for array in operand.fixed()]
    return boxes(shape, None if mask is True else np.asarray(mask), numbers, constant)


def first_to_last(found: list[Box]) -> Box:
    """Return the box from the grid's first element to the last ones of several boxes."""
    return whole([max(box[axis].stop for box in found) for axis in range(len(found[0]))])


def starts_well(first: int, count: int) -> bool:
    """Return whether an engine can take so many partitions from there (documented rule)."""
    full = current_figures()["partitions"]
    quadrant = full // 4
    step = quadrant if count <= quadrant else 2 * quadrant if count <= 2 * quadrant else full
    return first % step == 0


def compute(
    emit: Callable[..., Any],
    operands: Sequence[Tensor],
    shape: Sequence[int],
    dtype: Any,
    mask: Any = None,
    *,
    buffer: MemoryRegion = sbuf,
    kind: str = "",
    is_simple: bool = True,
) -> WaitingTile:
    """Return the tile of an operation on the elements of a grid.

    Parameters
    ----------
    emit : callable
        Issues instructions; takes the destination, then a view of each operand, all of one box.
    operands : sequence of tensor
        Each is stretched to the grid.
    shape : sequence of int
        Of the grid and the result.
    dtype
        Of the result.
    mask, optional
        Elsewhere the result is left as it comes.
    buffer, optional
        Where the result lies.
    kind, is_simple
        As of `WaitingTile`.
    """
    grid = tuple(int(length) for length in shape)
    truth = as_mask(mask, grid)
    stretched = [Stretched(operand, grid) for operand in operands]
    found = cut(grid, truth, stretched)
    left_out = None if truth is True else truth
    if all(starts_well(box[0].start, box[0].stop - box[0].start) for box in found):
        parts = [(box, [operand.resolve(box) for operand in stretched]) for box in found]

        def run(dst: NkiTensor) -> None:
            for box, views in parts:
                emit(dst if is_whole(box, grid) else dst[box], *views)

        simple = is_simple and len(parts) == 1
        return WaitingTile(grid, dtype, buffer, run, kind=kind, is_simple=simple, mask=left_out)
    return _predicated(emit, stretched, grid, dtype, truth, buffer, found)


def _predicated(
    emit: Callable[..., Any],
    operands: list[Stretched],
    grid: tuple[int, ...],
    dtype: Any,
    mask: Mask,
    buffer: MemoryRegion,
    found: list[Box],
) -> WaitingTile:
    """Compute a region that engines can take, and keep the elements where the mask holds."""
    region = first_to_last(found)
    last = tuple(part.stop for part in region)
    if any(array.size > 1 for operand in operands for array in operand.fixed()):
        message = f"a mask that begins within a quadrant of partitions, over blocks {grid}"
        raise error(NotImplementedError, message + "; allowed: one block at a time")
    if mask is True:
        message = "an index whose pattern changes within a quadrant of partitions"
        raise error(NotImplementedError, message + "; allowed: one pattern for 32 partitions")
    views = [_over(operand, region, found) for operand in operands]

    def run(dst: NkiTensor) -> None:
        made = new_tensor(last, dtype)
        emit(made, *views)
        put_where(dst[region], made, np.asarray(mask)[region])

    return WaitingTile(grid, dtype, buffer, run, is_simple=False, mask=mask)


def _over(operand: Stretched, region: Box, found: list[Box]) -> NkiTensor:
    """Return an operand's elements of a region, those of some boxes in it at least."""
    try:
        return operand.resolve(region)
    except IndexError:
        # Outside the boxes the index leaves the tensor. DMA begins at any partition.
        parts = [(box, operand.resolve(box)) for box in found]
        if not all(view.buffer is sbuf for _, view in parts):
            raise
    flush()
    staged = new_tensor([part.stop for part in region], parts[0][1].dtype)
    for box, view in parts:
        isa.dma_copy(staged[box], view)
    return staged


def put_where(dst: NkiTensor, src: Any, truth: NDArray[np.bool_]) -> None:
    """Copy a tile or a number to a tile where a mask holds."""
    constant = shared_constant(np.ascontiguousarray(truth).astype(np.uint8))
    predicate = new_tensor(truth.shape, uint8)
    isa.dma_copy(predicate, constant)
    if not isinstance(src, NkiTensor):
        filled = new_tensor(truth.shape, dst.dtype)
        isa.memset(filled, src)
        src = filled
    isa.tensor_copy_predicated(dst, src, predicate)
