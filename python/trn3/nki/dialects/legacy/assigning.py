"""``tile[...] = value`` and ``tile[...] += value`` in the legacy dialect."""

from __future__ import annotations

from typing import Any

import numpy as np

from trn3._trn3.machine import NkiTensor
from trn3.nki import isa
from trn3.nki.dialects.legacy import issuing
from trn3.nki.dialects.legacy.actions import ACTIONS, action
from trn3.nki.dialects.legacy.blocks import Blocks
from trn3.nki.dialects.legacy.indexing import Access
from trn3.nki.dialects.legacy.issuing import error
from trn3.nki.dialects.legacy.lowering import (
    Mask,
    Stretched,
    as_mask,
    cut,
    first_to_last,
    put_where,
    starts_well,
)
from trn3.nki.dialects.legacy.masking import neutral
from trn3.nki.dialects.legacy.pieces import Box
from trn3.nki.dialects.legacy.views import Tensor, View
from trn3.nki.dialects.legacy.waiting import WaitingTile
from trn3.nki.language.creation import fill, new_tensor, shared_constant
from trn3.nki.language.tiles import in_sbuf, number
from trn3.nki.ranks.context import core
from trn3.nki.values.memory_regions import is_on_chip, is_psum
from trn3.nki.values.operators import op_name


@action("assign_item")
def assign_item(tensor: Tensor, key: Any, value: Any, *, is_spare: bool) -> None:
    """Run ``tensor[key] = value``; `is_spare` says that the value has no other name."""
    if isinstance(value, Access) and value.is_updated and value.base is tensor:
        return
    # The elements' tile may be made here, of which the value's instruction is to be the first.
    with issuing.kept_back():
        target = tensor[key]
    if isinstance(value, View) and isinstance(target, View) and _same(value, target):
        return
    assign(target, value, is_spare=is_spare)


def _same(one: View, other: View) -> bool:
    """Return whether two views are the same elements."""
    a, b = one.place, other.place
    return (
        a.storage_id == b.storage_id
        and a.offset == b.offset
        and a.shape == b.shape
        and a.strides == b.strides
    )


def assign(target: Tensor, value: Any, mask: Any = None, *, is_spare: bool = False) -> None:
    """Copy a tile, number or array into elements of a tensor; types are converted.

    The instruction of a spare value that waits writes to the elements itself.

    Raises
    ------
    ValueError
        If the shapes do not fit.
    TypeError
        If `value` is none of these.
    """
    waits = is_spare and mask is None and isinstance(value, WaitingTile) and value.is_pending
    if waits and _takes(target, value):
        value.materialise(_shaped(target, value.shape))
        return
    issuing.flush()
    if is_psum(target.buffer) and not isinstance(target, Blocks):
        issuing.state.filled.add(target.tile((0,) * target.block_rank).storage_id)
    if isinstance(value, Folded):
        _fold(target, value)
        return
    plain = number(value)
    if plain is None and isinstance(value, np.ndarray):
        value = View(shared_constant(value, target.dtype))
    if plain is None and isinstance(value, NkiTensor):
        value = View(value)
    if plain is None and not isinstance(value, Tensor):
        message = (
            f"a tensor is assigned a {type(value).__name__}; allowed: a tile, a number, an array"
        )
        raise error(TypeError, message)
    own = value.mask if isinstance(value, Tensor) else None
    truth = as_mask(own if mask is None else mask, target.shape)
    if truth is False:
        return
    if plain is not None:
        boxes = cut(target.shape, truth, [target])
        if _is_awkward(target, boxes) and truth is not True:
            region = first_to_last(boxes)
            put_where(target.resolve(region), plain, np.asarray(truth)[region])
            return
        for box in boxes:
            fill(target.resolve(box), plain)
        return
    source = Stretched(_fitting(target, value), target.shape)
    boxes = cut(target.shape, truth, [target, source])
    if _is_awkward(target, boxes) and truth is not True:
        region = first_to_last(boxes)
        chosen = source.resolve(region)
        if not is_on_chip(chosen) or chosen.dtype != target.dtype or is_psum(chosen):
            staged = new_tensor(chosen.shape, target.dtype)
            copy(staged, chosen)
            chosen = staged
        put_where(target.resolve(region), chosen, np.asarray(truth)[region])
        return
    for box in boxes:
        copy(target.resolve(box), source.resolve(box))


def _is_awkward(target: Tensor, boxes: list[Box]) -> bool:
    """Return whether boxes begin where no engine can."""
    return is_on_chip(target.buffer) and not all(
        starts_well(box[0].start, box[0].stop - box[0].start) for box in boxes
    )


def copy(target: NkiTensor, source: NkiTensor) -> None:
    """Copy one of the machine's tensors into another, by an engine or by DMA."""
    if is_on_chip(target) and is_on_chip(source):
        isa.tensor_copy(target, source)
        return
    if is_psum(target) or is_psum(source):
        if is_psum(target):
            message = "a PSUM tile is assigned a tensor in HBM; allowed: nl.load it to SBUF first"
            raise error(ValueError, message)
        source = in_sbuf(source)
    isa.dma_copy(target, source)


class Folded:
    """One iteration's part of a reduction over loops; only assignments take it."""

    def __init__(
        self, tile: Tensor, op: Any, *, is_first: bool, dtype: Any, mask: Mask = True
    ) -> None:
        self.tile = tile
        self.mask = mask
        self.op = op
        self.is_first = is_first
        self.dtype = dtype


def _fold(target: Tensor, part: Folded) -> None:
    """Run ``target = part`` in the first iteration of the loops, ``target op= part`` later."""
    if part.is_first:
        if part.mask is not True:
            assign(target, neutral("nl.loop_reduce", part.op, target.dtype))
        if part.mask is not False:
            assign(target, part.tile, part.mask)
        return
    dtype = target.dtype if part.dtype is None else part.dtype
    folded = ACTIONS[op_name(part.op)](target, part.tile, dtype=dtype, mask=part.mask)
    assign(target, folded, is_spare=True)


def _holds_more(target: Tensor) -> bool:
    """Return whether something else than products and zeros may lie in a PSUM tile."""
    return target.place.storage_id in issuing.state.filled


def _takes(target: Tensor, value: WaitingTile) -> bool:
    """Return whether an instruction that waits may write to the target itself."""
    return (
        value.is_simple
        and value.mask is None
        and not isinstance(target, (Access, Blocks))
        and target.dtype == value.dtype
        and target.buffer is value.buffer
        and _shaped(target, value.shape) is not None
    )


def _shaped(target: Tensor, shape: tuple[int, ...]) -> NkiTensor | None:
    """Return the target's elements under another shape, or None if they have none such."""
    view = target.place
    if view.shape == shape:
        return view
    if view.shape[0] != shape[0] or view.size != int(np.prod(shape)):
        return None
    try:
        return view.reshape(shape)
    except (ValueError, AssertionError):
        return None


def _fitting(target: Tensor, value: Tensor) -> Tensor:
    """Return a value under the target's shape, as far as lengths of 1 go."""
    if value.shape == target.shape or isinstance(value, (Access, Blocks)):
        return value
    rank = len(target.shape)
    stretches = value.ndim == rank and all(
        length in (1, wanted) for length, wanted in zip(value.shape, target.shape, strict=True)
    )
    if stretches:
        return value
    partitions = is_on_chip(target.buffer) or is_on_chip(value.buffer)
    first = value.shape[0] == target.shape[0] or not partitions or target.ndim == 1
    if value.size == target.size and first:
        if is_on_chip(value.buffer) and (target.ndim == 1 or value.shape[0] != target.shape[0]):
            if value.shape in ((target.size, 1), (1, target.size)):
                return _Flat(value, target.shape)
        else:
            return View(value.view.reshape(target.shape))
    message = (
        f"value array of shape {value.shape} could not be broadcast to indexing result of shape "
        f"{target.shape}"
    )
    raise error(ValueError, message)


class _Flat(View):
    """A tile of one column or one row as a tensor with one axis, which DMA alone takes."""

    def __init__(self, value: Tensor, shape: tuple[int, ...]) -> None:
        super().__init__(value.view)
        self.shape = shape

    def resolve(self, box: Any) -> NkiTensor:
        column = self._view.shape[0] != 1
        return self._view[box[0]] if column else self._view[:, box[0]]


@action("update")
def update(name: str, target: Tensor, value: Any, *, is_spare: bool) -> Tensor:
    """Run ``target op= value``; products accumulate in PSUM.

    Raises
    ------
    ValueError
        If the target lies in HBM, or the shapes do not fit.
    """
    if not is_on_chip(target.buffer):
        message = f"tensor `{target.name}` in HBM is updated; allowed: tiles in SBUF or PSUM"
        raise error(ValueError, message)
    if isinstance(value, WaitingTile) and value.mask is False:
        if value.is_pending:
            issuing.flush()
        return target
    accumulates = (
        name == "add"
        and is_spare
        and isinstance(value, WaitingTile)
        and value.is_pending
        and value.kind == "matmul"
        and is_psum(target.buffer)
        and not isinstance(target, Access)
    )
    if accumulates and _takes(target, value) and not _holds_more(target):
        # None adds where a product lies already, and overwrites what was never written.
        value.accumulate = None
        value.materialise(_shaped(target, value.shape))
        return target
    is_first = (
        name == "add"
        and isinstance(value, WaitingTile)
        and value.kind == "matmul"
        and is_psum(target.buffer)
        and not isinstance(target, Access)
        and not core().is_initialised(target.place)
    )
    if is_first:
        assign(target, value)
        return target
    mask = value.mask if isinstance(value, Tensor) else None
    result = ACTIONS[name](target, value, dtype=target.dtype, mask=mask)
    if result.shape != target.shape:
        message = f"a tile of shape {target.shape} is updated by one of shape {result.shape}"
        raise error(ValueError, message)
    assign(target, result, is_spare=True)
    if isinstance(target, Access):
        target.is_updated = True
    return target
