"""Instructions that move tiles, TensorE's among them."""

from __future__ import annotations

from typing import Any

import numpy as np

from trn3._trn3.machine import NkiTensor
from trn3.nki import isa
from trn3.nki.dialects.legacy.issuing import error, flush
from trn3.nki.dialects.legacy.language import movement
from trn3.nki.dialects.legacy.lowering import Stretched, as_mask, compute, cut
from trn3.nki.dialects.legacy.masking import stored_where
from trn3.nki.dialects.legacy.views import Tensor, require
from trn3.nki.dialects.legacy.waiting import WaitingTile
from trn3.nki.isa.constants import dge_mode, engine as engines, oob_mode
from trn3.nki.language.creation import new_tensor
from trn3.nki.language.tiles import converted
from trn3.nki.values.element_types import canonicalise
from trn3.nki.values.memory_regions import psum, sbuf
from trn3.nki.values.operators import op_name

unknown = engines.unknown


def tensor_copy(
    src: Any, *, mask: Any = None, dtype: Any = None, engine: Any = unknown,
    name: str | None = None, **_: Any,
) -> Tensor:  # fmt: skip
    """Return a copy of a tile in SBUF."""
    tile = require("nisa.tensor_copy", "src", src)

    def emit(dst: NkiTensor, view: NkiTensor) -> None:
        isa.tensor_copy(dst, view, engine=engine, name=name)

    return compute(emit, [tile], tile.shape, dtype or tile.dtype, mask)


#: A tile whose index holds a tile: as `tensor_copy`.
tensor_copy_dynamic_src = tensor_copy


def tensor_copy_dynamic_dst(
    *, dst: Any, src: Any, mask: Any = None, dtype: Any = None, engine: Any = unknown,
    name: str | None = None, **_: Any,
) -> None:  # fmt: skip
    """Copy a tile into one whose index holds a tile."""
    del dtype  # that of dst
    target = require("nisa.tensor_copy_dynamic_dst", "dst", dst)
    source = require("nisa.tensor_copy_dynamic_dst", "src", src)
    flush()
    stretched = Stretched(source, target.shape)
    for box in cut(target.shape, as_mask(mask, target.shape), [target, stretched]):
        isa.tensor_copy(target.resolve(box), stretched.resolve(box), engine=engine, name=name)


def nc_matmul(
    stationary: Any, moving: Any, *, is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False, is_transpose: bool = False, tile_position: Any = (),
    tile_size: Any = (), mask: Any = None, name: str | None = None, **_: Any,
) -> Tensor:  # fmt: skip
    """Return ``stationary.T @ moving`` in PSUM, in float32."""
    one = require("nisa.nc_matmul", "stationary", stationary)
    other = require("nisa.nc_matmul", "moving", moving)
    return movement.product(
        "nisa.nc_matmul", one, other, mask, one.dtype if is_transpose else None,
        is_stationary_onezero=is_stationary_onezero, is_moving_onezero=is_moving_onezero,
        is_transpose=is_transpose, tile_position=tile_position, tile_size=tile_size, name=name,
    )  # fmt: skip


def nc_transpose(
    data: Any, *, mask: Any = None, dtype: Any = None, engine: Any = unknown,
    name: str | None = None, **_: Any,
) -> Tensor:  # fmt: skip
    """Return a tile (P, F) as (F, P): in PSUM by TensorE, in SBUF by VectorE.

    Without an engine it is TensorE (**choice**).
    """
    tile = require("nisa.nc_transpose", "data", data)
    buffer = sbuf if engine in (engines.vector, "vector") else psum
    return movement.transposed("nisa.nc_transpose", tile, mask, buffer, dtype, engine, name)


def memset(
    shape: Any, value: float, dtype: Any, *, mask: Any = None, engine: Any = unknown,
    name: str | None = None, **_: Any,
) -> Tensor:  # fmt: skip
    """Return a new SBUF tile of one value."""

    def emit(dst: NkiTensor) -> None:
        isa.memset(dst, value, engine=engine, name=name)

    return compute(emit, [], shape, dtype, mask)


def nc_stream_shuffle(
    src: Any, dst: Any, shuffle_mask: Any, *, mask: Any = None, dtype: Any = None,
    name: str | None = None, **_: Any,
) -> None:  # fmt: skip
    """Give each partition of `dst` that of `src` which the shuffle mask names."""
    del dtype  # that of dst
    tile = require("nisa.nc_stream_shuffle", "dst", dst)
    source = require("nisa.nc_stream_shuffle", "src", src).view
    truth = as_mask(mask, tile.shape)
    target = tile.view
    if source.dtype != target.dtype:
        source = converted(source, target.dtype)
    if truth is True:
        isa.nc_stream_shuffle(target, source, shuffle_mask, name)
    elif truth is not False:
        made = new_tensor(target.shape, target.dtype)
        isa.tensor_copy(made, target)
        isa.nc_stream_shuffle(made, source, shuffle_mask, name)
        stored_where(target, made, np.asarray(truth), cut(tile.shape, truth, []))


def dma_copy(
    *, dst: Any, src: Any, mask: Any = None, dst_rmw_op: Any = None,
    oob_mode: Any = oob_mode.error, dge_mode: Any = dge_mode.unknown, name: str | None = None,
    **_: Any,
) -> None:  # fmt: skip
    """Copy between HBM and SBUF; ``dst_rmw_op=nl.add`` adds to what `dst` holds."""
    target = require("nisa.dma_copy", "dst", dst, on_chip=False)
    source = require("nisa.dma_copy", "src", src, on_chip=False)
    truth = as_mask(mask, target.shape)
    if dst_rmw_op is not None and op_name(dst_rmw_op) != "add":
        message = f"nisa.dma_copy dst_rmw_op is {dst_rmw_op!r}; allowed: nl.add"
        raise error(NotImplementedError, message)
    flush()
    if truth is True and target.is_even and source.is_even:
        pairs = [(target.view, source.view)]
    else:
        stretched = Stretched(source, target.shape)
        boxes = cut(target.shape, truth, [target, stretched])
        pairs = [(target.resolve(box), stretched.resolve(box)) for box in boxes]
    for one, other in pairs:
        if dst_rmw_op is not None:
            isa.dma_compute(one, [one, other], "add", name=name)
        else:
            isa.dma_copy(one, other, oob_mode=oob_mode, dge_mode=dge_mode, name=name)


def dma_transpose(
    src: Any, *, axes: Any = None, mask: Any = None, dtype: Any = None, name: str | None = None,
    **_: Any,
) -> Tensor:  # fmt: skip
    """Return a new SBUF tile with the first and the last axis exchanged."""
    source = require("nisa.dma_transpose", "src", src, on_chip=False)
    truth = as_mask(mask, source.shape)
    order = tuple(range(source.ndim)) if axes is None else tuple(axes)
    if axes is None:
        order = (order[-1], *order[1:-1], order[0])
    shape = tuple(source.shape[axis] for axis in order)
    parts = [(box, source.resolve(box)) for box in cut(source.shape, truth, [source])]

    def run(dst: NkiTensor) -> None:
        for box, view in parts:
            isa.dma_transpose(dst[tuple(box[axis] for axis in order)], view, axes, name=name)

    left = None if truth is True else truth
    if isinstance(left, np.ndarray):
        left = left.transpose(order)
    made = WaitingTile(shape, source.dtype, sbuf, run, is_simple=len(parts) == 1, mask=left)
    if dtype is not None and canonicalise(dtype) != source.dtype:
        return made.astype(dtype)
    return made
