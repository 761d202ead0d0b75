"""Functions that reduce the free axes of a tile, and those built of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from trn3._trn3.machine import NkiTensor
from trn3.nki import isa, language as modern
from trn3.nki.dialects.legacy.assigning import Folded, assign
from trn3.nki.dialects.legacy.indices import LoopIndex
from trn3.nki.dialects.legacy.issuing import error, flush
from trn3.nki.dialects.legacy.language.elementwise import (
    FUNCTIONS as ELEMENTWISE,
    binary,
    copy,
)
from trn3.nki.dialects.legacy.lowering import as_mask, compute, cut
from trn3.nki.dialects.legacy.masking import column_of, neutral, without
from trn3.nki.dialects.legacy.views import Tensor, View, require
from trn3.nki.dialects.legacy.waiting import WaitingTile
from trn3.nki.isa.constants import reduce_cmd
from trn3.nki.language.tiles import number
from trn3.nki.values.element_types import DType, float32
from trn3.nki.values.memory_regions import sbuf
from trn3.nki.values.operators import token


def axes_of(function: str, axis: Any, rank: int) -> tuple[int, ...]:
    """Return the axes to reduce, rising.

    Raises
    ------
    ValueError
        If there is none, one twice, or one that is no free axis.
    """
    given = (axis,) if isinstance(axis, (int, np.integer)) else tuple(axis)
    axes = tuple(sorted(int(item) + rank if item < 0 else int(item) for item in given))
    if not axes or axes[0] < 1 or axes[-1] >= rank or len(set(axes)) < len(axes):
        message = (
            f"{function} axis is {given} for a tile with {rank} axes; "
            f"allowed: free axes, from 1 to {rank - 1}, each once"
        )
        raise error(ValueError, message)
    return axes


def reduce(
    function: str,
    op: Any,
    x: Any,
    axis: Any,
    dtype: Any = None,
    mask: Any = None,
    *,
    keepdims: bool = False,
    negate: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return a tile reduced over free axes; masked elements do not take part."""
    tile = require(function, "x", x)
    axes = axes_of(function, axis, tile.ndim)
    stay = tuple(item for item in range(tile.ndim) if item not in axes)
    kept = tuple(tile.shape[item] for item in stay)
    if keepdims:
        kept = tuple(1 if item in axes else length for item, length in enumerate(tile.shape))
    elif len(kept) < 2:
        kept = (*kept, 1)
    truth = as_mask(mask, tile.shape, axes)
    boxes = cut(tile.shape, truth, [tile])
    whole = truth is True and tile.is_even
    if not whole and truth is not False:
        # One box may be reduced where it lies; more are put together first.
        single = len(boxes) == 1 and boxes[0][0].start == 0
        if not single:
            tile, boxes = _gathered(function, op, tile, truth)

    def run(dst: NkiTensor) -> None:
        if truth is False:
            return
        box = boxes[0]
        # The instruction reduces the last axes: those are walked innermost, wherever they lie.
        source = tile.resolve(box).permute(stay + axes)
        if keepdims:
            part = tuple(slice(0, 1) if item in axes else box[item] for item in range(tile.ndim))
        else:
            part = tuple(box[item] for item in stay)
        target = dst[part]
        last = tuple(range(len(stay), tile.ndim))
        isa.tensor_reduce(target, op, source, last, negate=negate, keepdims=keepdims, name=name)

    flush()
    left_out: Any = None
    if truth is not True:
        rows = np.broadcast_to(np.asarray(truth), tile.shape).any(axis=axes)
        left_out = False if not rows.any() else None if rows.all() else rows.reshape(kept)
    return WaitingTile(kept, dtype or tile.dtype, sbuf, run, mask=left_out)


def _gathered(function: str, op: Any, tile: Tensor, truth: Any) -> tuple[Tensor, list[Any]]:
    """Return a copy of a tile with the operator's identity where the mask does not hold."""
    if truth is True:
        whole = _whole(tile)
    else:
        whole = without(tile, truth, neutral(function, op, tile.dtype))
    return whole, cut(whole.shape, True, [whole])


def _reduction(name: str, op: str) -> Callable[..., Tensor]:
    def function(
        x: Any,
        axis: Any,
        dtype: Any = None,
        mask: Any = None,
        keepdims: bool = False,
        **_: Any,
    ) -> Tensor:
        return reduce(f"nl.{name}", op, x, axis, dtype, mask, keepdims=keepdims)

    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    function.__doc__ = (getattr(modern, name).__doc__ or "").partition("\n")[0]
    return token(op)(function)


FUNCTIONS: Final[dict[str, Callable[..., Tensor]]] = {
    name: _reduction(name, op)
    for name, op in (
        ("sum", "add"), ("prod", "multiply"), ("max", "maximum"), ("min", "minimum"),
        ("all", "logical_and"),
    )
}  # fmt: skip


@token("average")
def mean(
    x: Any, axis: Any, dtype: Any = None, mask: Any = None, keepdims: bool = False, **_: Any
) -> Tensor:
    """Return the mean over the last free axes, summed in float32; masked elements do not count."""
    tile = require("nl.mean", "x", x)
    axes = axes_of("nl.mean", axis, tile.ndim)
    total = reduce("nl.mean", "add", tile, axis, float32, mask, keepdims=keepdims)
    shares = _shares(as_mask(mask, tile.shape, axes), tile.shape, axes, total.shape)
    return binary("multiply", total, shares, dtype or tile.dtype, total.mask)


def _shares(
    truth: Any, shape: tuple[int, ...], axes: tuple[int, ...], kept: tuple[int, ...]
) -> Any:
    """Return one over the number of elements that each reduction takes: a number or a tile."""
    counts = np.broadcast_to(np.asarray(truth), shape).sum(axis=axes)
    present = set(counts[counts > 0].tolist())
    if len(present) > 1:
        return column_of((1.0 / np.maximum(counts, 1)).reshape(kept))
    return 1.0 / present.pop() if present else 1.0


@token("var")
def var(x: Any, axis: Any, dtype: Any = None, mask: Any = None, **_: Any) -> Tensor:
    """Return the population variance over the last free axes, which stay with length 1.

    Masked elements do not count.
    """
    tile = require("nl.var", "x", x)
    axes = axes_of("nl.var", axis, tile.ndim)
    truth = as_mask(mask, tile.shape, axes)
    if _is_part(tile, truth):
        return _composed(
            "var", lambda view, to: modern.var(view, axis, to), tile, axis, dtype, truth
        )
    tile = without(tile, truth, 0.0)
    middle = mean(tile, axis, float32, truth, keepdims=True)
    shares = _shares(truth, tile.shape, axes, middle.shape)
    centred = without(View(ELEMENTWISE["subtract"](tile, middle, float32).view), truth, 0.0)
    total = reduce("nl.var", "add", ELEMENTWISE["square"](centred), axis, float32, keepdims=True)
    return binary("multiply", total, shares, dtype or tile.dtype, middle.mask)


def _is_part(tile: Tensor, truth: Any) -> bool:
    """Return whether a mask leaves one rectangle from the first partition on, or nothing."""
    boxes = cut(tile.shape, truth, [tile])
    return len(boxes) <= 1 and not (boxes and boxes[0][0].start)


def _composed(
    name: str,
    function: Callable[[NkiTensor, DType], NkiTensor],
    x: Any,
    axis: Any,
    dtype: Any,
    mask: Any,
    outside: float = 0.0,
) -> Tensor:
    """Return what a modern function makes of the elements where a mask holds.

    The number `outside` in place of the others leaves the rest of a row as it is without them.
    """
    tile = require(f"nl.{name}", "x", x)
    axes = axes_of(f"nl.{name}", axis, tile.ndim)
    truth = as_mask(mask, tile.shape)
    reduces = name == "var"
    shape = (*tile.shape[: axes[0]], *(1 for _ in axes)) if reduces else tile.shape
    source, left_in = tile, truth
    if not _is_part(tile, truth):
        source, left_in = (_whole(tile) if truth is True else without(tile, truth, outside)), True
    boxes = cut(source.shape, left_in, [source])
    flush()

    def run(dst: NkiTensor) -> None:
        for box in boxes:
            value = function(source.resolve(box), dst.dtype)
            target = tuple(slice(0, length) for length in value.shape)
            isa.tensor_copy(dst[target], value)

    left: Any = None
    if truth is not True:
        left = np.broadcast_to(np.asarray(truth), tile.shape)
        left = left.any(axis=axes, keepdims=True) if reduces else left
    return WaitingTile(shape, dtype or tile.dtype, sbuf, run, is_simple=False, mask=left)


def _whole(tile: Tensor) -> Tensor:
    """Return elements that an uneven index picks, side by side."""
    return View(copy(tile).view)


def softmax(x: Any, axis: Any = -1, dtype: Any = None, mask: Any = None, **_: Any) -> Tensor:
    """Return e^x over its sum along the last free axes; masked elements do not take part."""
    return _composed(
        "softmax",
        lambda tile, to: modern.softmax(tile, axis, to),
        x,
        axis,
        dtype,
        mask,
        float("-inf"),
    )


def rms_norm(
    x: Any, w: Any, axis: Any, n: int, epsilon: float = 1e-6, dtype: Any = None,
    compute_dtype: Any = None, mask: Any = None, **_: Any,
) -> Tensor:  # fmt: skip
    """Return x over the root of its mean square, times weights: ``x / sqrt(sum(x²)/n + ε) * w``."""
    tile, weights = require("nl.rms_norm", "x", x), require("nl.rms_norm", "w", w)
    weights = weights.broadcast_to((tile.shape[0], *weights.shape[1:]))

    def function(view: NkiTensor, to: DType) -> NkiTensor:
        part = weights.view[: view.shape[0]]
        columns = view.shape[-1]
        part = part if part.shape[-1] in (1, columns) else part[..., :columns]
        return modern.rms_norm(view, part, axis, n, epsilon, to, compute_dtype)

    return _composed("rms_norm", function, tile, axis, dtype, mask)


def loop_reduce(
    x: Any, op: Any, loop_indices: Sequence[Any], dtype: Any = None, mask: Any = None, **_: Any
) -> Any:
    """Return what ``dst[...] = loop_reduce(x, op, loop_indices)`` folds over loops.

    The first iteration of all the loops sets ``dst``, each later one combines it with x.

    Parameters
    ----------
    x : tile
    op : operator of `nki.language`
    loop_indices : sequence of loop variables
        Of ``nl.affine_range`` or another range of this dialect.
    dtype, optional
        Element type of the operation's result; that of ``dst`` by default.
    mask : optional
        Elements elsewhere take no part: in the first iteration ``dst`` begins there with what
        leaves the operator as it is (**choice**).
    """
    tile = require("nl.loop_reduce", "x", x)
    if not loop_indices or not all(isinstance(index, LoopIndex) for index in loop_indices):
        message = (
            f"nl.loop_reduce loop_indices is {list(loop_indices)!r}; allowed: variables of "
            "nl.affine_range, nl.sequential_range or nl.static_range loops, unchanged"
        )
        raise error(TypeError, message)
    is_first = all(index.is_first for index in loop_indices)
    if mask is None:
        mask = tile.mask
    return Folded(tile, op, is_first=is_first, dtype=dtype, mask=as_mask(mask, tile.shape))


def dropout(x: Any, rate: Any, dtype: Any = None, mask: Any = None, **_: Any) -> Tensor:
    """Return x with elements zeroed at random; the others keep their value."""
    tile = require("nl.dropout", "x", x)
    chance = number(rate)
    given: Any = rate if chance is None else chance
    if isinstance(given, Tensor):
        given = given.view

    def emit(dst: NkiTensor, data: NkiTensor) -> None:
        isa.tensor_copy(dst, modern.dropout(data, given))

    return compute(emit, [tile], tile.shape, dtype or tile.dtype, mask, is_simple=False)


def reduced_beside(
    function: str, made: Tensor, mask: Any, op: Any, total: Any, command: Any, dtype: Any
) -> Tensor:
    """Reduce a float32 result into a column, masked elements aside, and return it converted.

    Raises
    ------
    NotImplementedError
        If the column is to go on from earlier values.
    """
    if command != reduce_cmd.reset_reduce:
        message = f"{function} with reduce_cmd {command} and a mask that is no rectangle"
        raise error(NotImplementedError, f"{message}; allowed: reset_reduce")
    target = require(function, "reduce_res", total)
    whole = View(made.view)
    free = tuple(range(1, whole.ndim))
    assign(target, reduce(function, op, whole, free, target.dtype, mask))
    return copy(whole, dtype=dtype, mask=mask)
