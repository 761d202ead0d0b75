"""Functions that move tiles: between memories, across axes, through TensorE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trn3._trn3.machine import NkiTensor
from trn3.nki import isa, language as modern
from trn3.nki.dialects.legacy.actions import action
from trn3.nki.dialects.legacy.assigning import assign
from trn3.nki.dialects.legacy.issuing import error, flush
from trn3.nki.dialects.legacy.lowering import Mask, Stretched, as_mask, cut, starts_well
from trn3.nki.dialects.legacy.masking import stored_where, without
from trn3.nki.dialects.legacy.pieces import Box
from trn3.nki.dialects.legacy.views import Tensor, View, require
from trn3.nki.dialects.legacy.waiting import WaitingTile
from trn3.nki.language.creation import new_tensor
from trn3.nki.language.tile_sizes import tile_size
from trn3.nki.language.tiles import in_sbuf
from trn3.nki.values.element_types import DType, canonicalise, float32
from trn3.nki.values.memory_regions import is_hbm, is_on_chip, is_psum, psum, sbuf


def _in_hbm(function: str, argument: str, value: Any) -> Tensor:
    tensor = require(function, argument, value, on_chip=False)
    if not is_hbm(tensor.buffer):
        message = f"{function} {argument} lies in {tensor.buffer}; allowed: HBM"
        raise error(ValueError, message)
    return tensor


def load(src: Any, *, mask: Any = None, dtype: Any = None, **_: Any) -> Tensor:
    """Return a new SBUF tile of a tensor in HBM, or of the elements that an index picks.

    Parameters
    ----------
    src : tensor in HBM
        Axis 0 becomes the partitions. A single axis becomes (n, 1); longer than the partitions,
        (1, n) (**choice**).
    mask : index comparison, optional
        Elements elsewhere are not read; indexes there may lie outside the tensor.
    dtype, optional
        Element type of the tile; src's by default.

    Raises
    ------
    IndexError
        If an index lies outside the tensor where the mask holds.
    ValueError
        If `src` is not in HBM, or has more rows than there are partitions.
    """
    source = _in_hbm("nl.load", "src", src)
    shape = source.shape
    pmax = tile_size.pmax
    if len(shape) == 1:
        shape = (shape[0], 1) if shape[0] <= pmax else (1, shape[0])
    if shape[0] > pmax:
        message = f"nl.load src has shape {shape}; allowed: up to {pmax} rows, the partitions"
        raise error(ValueError, message)
    truth = as_mask(mask, source.shape)
    parts = [(box, source.resolve(box)) for box in cut(source.shape, truth, [source])]
    flat = len(source.shape) == 1

    def run(dst: NkiTensor) -> None:
        for box, view in parts:
            place: Any = box
            if flat:
                place = (box[0],) if shape[1] == 1 else (slice(0, 1), box[0])
            isa.dma_copy(dst[place], view)

    left = None if truth is True else truth
    if flat and isinstance(left, np.ndarray):
        left = left.reshape(shape)
    simple = len(parts) == 1 and left is None
    return WaitingTile(shape, dtype or source.dtype, sbuf, run, is_simple=simple, mask=left)


def store(dst: Any, value: Any = None, *, mask: Any = None, **_: Any) -> None:
    """Copy a tile, or a number, into a tensor in HBM, or the elements that an index picks.

    Parameters
    ----------
    dst : tensor in HBM
    value : tile or number
        Of the index's shape; axes of length 1 stretch.
    mask : index comparison, optional
        Elements elsewhere are not written; indexes there may lie outside the tensor.
    """
    target = _in_hbm("nl.store", "dst", dst)
    if value is None:
        raise error(TypeError, "nl.store value is missing; allowed: a tile or a number")
    if not isinstance(value, Tensor):
        assign(target, value, True if mask is None else mask)
        return
    assign(target, value, mask)


def load_transpose2d(src: Any, *, mask: Any = None, dtype: Any = None, **_: Any) -> Tensor:
    """Return a new SBUF tile (b, a) of a tensor (a, b) in HBM."""
    source = _in_hbm("nl.load_transpose2d", "src", src)
    if source.ndim != 2:
        message = f"nl.load_transpose2d src has shape {source.shape}; allowed: two axes"
        raise error(ValueError, message)
    truth = as_mask(mask, source.shape)
    boxes = cut(source.shape, truth, [source])
    parts = [(box, source.resolve(box)) for box in boxes]

    def run(dst: NkiTensor) -> None:
        for box, view in parts:
            rows, columns = box
            if source.dtype.itemsize == 1:
                # The instruction takes types of 2 and 4 bytes.
                isa.dma_copy(dst[columns, rows], view.permute((1, 0)))
            else:
                isa.dma_transpose(dst[columns, rows], view)

    shape = source.shape[::-1]
    wanted = canonicalise(dtype or source.dtype)
    left = None if truth is True else truth.T if isinstance(truth, np.ndarray) else truth
    made = WaitingTile(shape, source.dtype, sbuf, run, is_simple=left is None, mask=left)
    return made if wanted == source.dtype else made.astype(wanted)


def transpose(x: Any, dtype: Any = None, mask: Any = None, **_: Any) -> Tensor:
    """Return a tile (P, F) as (F, P), in PSUM from TensorE.

    F is at most 128; free axes are flattened.
    """
    tile = require("nl.transpose", "x", x)
    wanted = dtype or tile.dtype
    if canonicalise(wanted) != tile.dtype:
        tile = tile.astype(wanted)
    return transposed("nl.transpose", tile, mask, psum)


def transposed(
    function: str,
    tile: Tensor,
    mask: Any,
    buffer: Any,
    dtype: Any = None,
    engine: Any = None,
    name: str | None = None,
) -> Tensor:
    """Return the instruction that exchanges partitions and free axis of a tile."""
    columns = tile.size // tile.shape[0]
    pmax = tile_size.pmax
    if columns > pmax:
        message = (
            f"{function} data has shape {tile.shape}; allowed: (P, F), F up to {pmax}, the "
            "partitions of the result"
        )
        raise error(ValueError, message)
    truth = as_mask(mask, tile.shape)
    if tile.ndim != 2 and truth is not True:
        # Its free axes are one to the instruction; so they are to the mask.
        filled = without(tile, truth, 0)
        tile = View(filled.view.reshape((tile.shape[0], columns)))
        truth = truth if isinstance(truth, bool) else truth.reshape(tile.shape)
    boxes = cut(tile.shape, truth, [tile])
    if truth is not True and not all(_begins_well(box) for box in boxes):
        # What follows is of the whole tile; the mask says what of it is stored.
        tile = without(tile, truth, 0)
        boxes = cut(tile.shape, True, [tile])
        is_whole = True
    else:
        is_whole = truth is True
    parts = [(box, tile.resolve(box)) for box in boxes]
    wanted = canonicalise(dtype or tile.dtype)

    def run(dst: NkiTensor) -> None:
        for box, view in parts:
            source = in_sbuf(view) if buffer is psum else view
            target = dst if is_whole else dst[box[1], box[0]]
            if wanted == tile.dtype:
                isa.nc_transpose(target, source, engine=engine, name=name)
                continue
            moved = new_tensor(target.shape, tile.dtype, buffer)
            isa.nc_transpose(moved, source, engine=engine, name=name)
            isa.tensor_copy(target, moved)

    left = None if truth is True else truth.T if isinstance(truth, np.ndarray) else truth
    simple = len(parts) == 1 and wanted == tile.dtype
    shape = (columns, tile.shape[0])
    return WaitingTile(shape, wanted, buffer, run, is_simple=simple, mask=left)


def _begins_well(box: Box) -> bool:
    """Return whether an engine can read a box, and write it transposed."""
    return all(starts_well(part.start, part.stop - part.start) for part in box)


@action("matmul")
def matmul(x: Any, y: Any, *, transpose_x: bool = False, mask: Any = None, **_: Any) -> Tensor:
    """Return the matrix product in PSUM, in float32.

    Parameters
    ----------
    x : tile
        (K, M) with `transpose_x`, else (M, K), which TensorE transposes first.
    y : tile, [K, N]
        K and M up to 128, N up to 512.
    mask : optional
        Over (M, N): elements elsewhere are not computed. Over (K, M, N): products elsewhere are
        not summed. One that only fits (K, N) or (K, M) is of that operand (**choice**).
    """
    left, right = require("nl.matmul", "x", x), require("nl.matmul", "y", y)
    if not transpose_x:
        left = View(in_sbuf(transposed("nl.matmul", left, None, psum).view))
    return product("nl.matmul", left, right, mask)


def _of_product(
    function: str, mask: Any, depth: int, rows: int, columns: int
) -> tuple[Mask, NDArray[np.bool_] | None]:
    """Return the mask over (M, N), and that over (K, M, N) where it leaves out products."""
    if not isinstance(mask, np.ndarray):
        return as_mask(mask, (rows, columns)), None
    plain = mask.view(np.ndarray)
    grid = (depth, rows, columns)
    for shape, own in (
        ((1, rows, columns), (rows, columns)), ((depth, 1, columns), (depth, columns)),
        ((depth, rows, 1), (depth, rows)), (grid, grid),
    ):  # fmt: skip
        try:
            full = np.broadcast_to(plain, own).reshape(shape)
        except ValueError:
            continue
        truth = as_mask(full.any(axis=0), (rows, columns))
        summed = None if (full == full.any(axis=0)).all() else np.broadcast_to(full, grid)
        return truth, summed
    message = (
        f"{function} mask has shape {plain.shape}; allowed: what broadcasts to (M, N) = "
        f"{(rows, columns)}, or to (K, M, N) = {grid}"
    )
    raise error(ValueError, message)


def _summed(stationary: Tensor, moving: Tensor, summed: NDArray[np.bool_]) -> tuple[Tensor, Tensor]:
    """Return operands with zeros for products that a mask leaves out.

    Raises
    ------
    NotImplementedError
        If the mask is not one of the stationary operand and one of the moving, joined by &.
    """
    left, right = np.asarray(summed.any(axis=2)), np.asarray(summed.any(axis=1))
    if not np.array_equal(left[:, :, None] & right[:, None, :], summed):
        message = "a mask that couples all axes of a product; allowed: comparisons joined by &"
        raise error(NotImplementedError, message)
    return (
        without(stationary, left.reshape(stationary.shape), 0),
        without(moving, right.reshape(moving.shape), 0),
    )


def product(
    function: str,
    stationary: Tensor,
    moving: Tensor,
    mask: Any = None,
    dtype: DType | None = None,
    **options: Any,
) -> Tensor:
    """Return ``stationary.T @ moving`` in PSUM."""
    rows = stationary.size // stationary.shape[0]
    columns = moving.size // moving.shape[0]
    if stationary.shape[0] != moving.shape[0]:
        message = (
            f"{function}: Matmul contraction dimension mismatch: stationary[0]="
            f"{stationary.shape[0]} != moving[0]={moving.shape[0]}"
        )
        raise error(ValueError, message)
    truth, summed = _of_product(function, mask, stationary.shape[0], rows, columns)
    boxes = cut((rows, columns), truth, [])
    if summed is not None:
        stationary, moving = _summed(stationary, moving, summed)
    one, other = in_sbuf(stationary.view), in_sbuf(moving.view)

    def run(dst: NkiTensor, accumulate: bool | None = False) -> None:
        if truth is True:
            isa.nc_matmul(dst, one, other, accumulate=accumulate, **options)
            return
        flat = other if other.ndim == 2 else other.reshape((other.shape[0], columns))
        left = one if one.ndim == 2 else one.reshape((one.shape[0], rows))
        if all(starts_well(m.start, m.stop - m.start) for m, _ in boxes):
            for m, n in boxes:
                isa.nc_matmul(dst[m, n], left[:, m], flat[:, n], accumulate=False, **options)
            return
        made = new_tensor((rows, columns), dst.dtype, psum)
        isa.nc_matmul(made, left, flat, accumulate=False, **options)
        stored_where(dst, made, np.asarray(truth), boxes)

    shape: Sequence[int] = (rows, *moving.shape[1:])
    if truth is not True:
        shape = (rows, columns)
    left = None if truth is True else truth
    kind = "" if options.get("is_transpose") else "matmul"
    return WaitingTile(shape, dtype or float32, psum, run, kind=kind, mask=left)


@action("broadcast_to")
def broadcast_to(x: Any, shape: Sequence[int], **_: Any) -> Tensor:
    """Return a tile with axes of length 1 repeated: free axes as a view, partitions by TensorE."""
    tile = require("nl.broadcast_to", "x", x, on_chip=False)
    wanted = tuple(int(length) for length in shape)
    if wanted == tile.shape:
        return tile
    fits = len(wanted) == tile.ndim and all(
        length in (1, target) for length, target in zip(tile.shape, wanted, strict=True)
    )
    if not fits:
        message = f"nl.broadcast_to of shape {tile.shape} to {wanted}; allowed: axes of length 1"
        raise error(ValueError, message)
    view = tile.view
    if is_on_chip(tile.buffer) and tile.shape[0] != wanted[0]:
        flush()
        view = modern.broadcast_to(view, (wanted[0], *tile.shape[1:]))
        if is_psum(view):
            view = in_sbuf(view)
    rest = Stretched(View(view), (view.shape[0], *wanted[1:]))
    made = rest.resolve(tuple(slice(0, n) for n in (view.shape[0], *wanted[1:])))
    if made.shape[0] != wanted[0]:
        made = made.broadcast(0, wanted[0])
    return View(made)


def expand_dims(x: Any, axis: int, **_: Any) -> Tensor:
    """Return a view with an axis of length 1 more."""
    return require("nl.expand_dims", "x", x, on_chip=False).expand_dims(axis)


def gather_flattened(
    data: Any, indices: Any, *, mask: Any = None, dtype: Any = None, **_: Any
) -> Tensor:
    """Return elements of each partition by their places in it, free axes flattened."""
    source = require("nl.gather_flattened", "data", data)
    places = require("nl.gather_flattened", "indices", indices)
    truth = as_mask(mask, places.shape)
    # A place that takes no part may be no place at all: the first one is.
    places = without(places, truth, 0)
    views = source.view, places.view

    def run(dst: NkiTensor) -> None:
        isa.tensor_copy(dst, modern.gather_flattened(*views))

    left = None if truth is True else truth
    return WaitingTile(places.shape, dtype or source.dtype, sbuf, run, is_simple=False, mask=left)
