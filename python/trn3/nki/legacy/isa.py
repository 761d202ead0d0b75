"""Instructions of the legacy dialect, imported as ``neuronxcc.nki.isa``: they return tiles.

Each makes its result and runs the instruction of `trn3.nki.isa` of the same name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trn3._trn3.machine import NkiTensor
from trn3.nki import isa
from trn3.nki.dtypes import bool_, canonicalise, float32, uint32
from trn3.nki.isa import (
    constants,
    dge_mode,
    dma_engine,
    engine,
    get_nc_version,
    gpsimd_engine,
    matmul_perf_mode,
    nc_version,
    oob_mode,
    reduce_cmd,
    scalar_engine,
    sync_engine,
    tensor_engine,
    unknown_engine,
    vector_engine,
)
from trn3.nki.isa._call import op_name
from trn3.nki.language.promotion import promote
from trn3.nki.language.tiles import in_sbuf, number
from trn3.nki.legacy.issuing import error, flush
from trn3.nki.legacy.language import elementwise, movement, reductions
from trn3.nki.legacy.lowering import Stretched, as_mask, compute, cut
from trn3.nki.legacy.selecting import affine_select, iota
from trn3.nki.legacy.tensors import Result, Tensor, View, require
from trn3.nki.memory import is_psum, new_tensor, psum, sbuf

unknown = engine.unknown


def _column(value: Any, argument: str) -> Any:
    """Return an operand that is a number, or a tile of one column, as the machine takes it."""
    if value is None:
        return None
    plain = number(value)
    return plain if plain is not None else require("nisa", argument, value).view


def _is_column(value: Any, tile: Tensor) -> bool:
    return value.size == value.shape[0] and value.shape[0] in (1, tile.shape[0])


def _as_column(value: Any, tile: Tensor, argument: str) -> tuple[list[Tensor], float | None]:
    """Return a tile operand for `compute`, or a number."""
    plain = number(value)
    if value is None or plain is not None:
        return [], plain
    operand = require("nisa", argument, value)
    if not _is_column(operand, tile):
        message = (
            f"nisa {argument} has shape {operand.shape}; allowed: a number, or a tile "
            f"({tile.shape[0]}, 1)"
        )
        raise error(ValueError, message)
    if operand.ndim != tile.ndim:
        operand = operand.reshape((operand.shape[0], *(1,) * (tile.ndim - 1)))
    return [operand], None


def _one_column(view: NkiTensor) -> NkiTensor:
    """Return the first element of each partition: what stretching repeated."""
    while view.ndim > 2:
        view = view[..., 0]
    return view[:, 0:1]


def activation(
    op: Any, data: Any, *, bias: Any = None, scale: Any = 1.0, reduce_op: Any = None,
    reduce_res: Any = None, reduce_cmd: Any = reduce_cmd.idle, dtype: Any = None,
    mask: Any = None, name: str | None = None, **_: Any,
) -> Tensor:  # fmt: skip
    """Return ``op(data * scale + bias)``; bias and scale are numbers or columns."""
    tile = require("nisa.activation", "data", data)
    biases, bias_number = _as_column(bias, tile, "bias")
    scales, scale_number = _as_column(scale, tile, "scale")
    total = None if reduce_res is None else require("nisa.activation", "reduce_res", reduce_res).view

    def emit(dst: NkiTensor, view: NkiTensor, *columns: NkiTensor) -> None:
        rest = iter(_one_column(column) for column in columns)
        shift: Any = next(rest) if biases else bias_number
        factor: Any = next(rest) if scales else scale_number
        rows = None if total is None else total[: view.shape[0]]
        isa.activation(
            dst, op, view, bias=shift, scale=factor, reduce_op=reduce_op, reduce_res=rows,
            reduce_cmd=reduce_cmd, name=name,
        )  # fmt: skip

    made = compute(emit, [tile, *biases, *scales], tile.shape, dtype or tile.dtype, mask)
    if total is not None:
        flush()
    return made


def activation_reduce(
    op: Any, data: Any, *, reduce_op: Any, reduce_res: Any, bias: Any = None, scale: Any = 1.0,
    dtype: Any = None, mask: Any = None, name: str | None = None, **_: Any,
) -> Tensor:  # fmt: skip
    """Return ``op(data * scale + bias)`` and write each partition's sum to `reduce_res`."""
    return activation(
        op, data, bias=bias, scale=scale, reduce_op=reduce_op, reduce_res=reduce_res,
        reduce_cmd=constants.reduce_cmd.reset_reduce, dtype=dtype, mask=mask, name=name,
    )  # fmt: skip


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


def tensor_copy_dynamic_dst(dst: Any = None, src: Any = None, **_: Any) -> None:
    """Copy a tile into one whose index holds a tile."""
    target, source = require("nisa", "dst", dst), require("nisa", "src", src)
    isa.tensor_copy(target.view, source.view)


def tensor_tensor(
    data1: Any, data2: Any, op: Any, *, dtype: Any = None, mask: Any = None,
    engine: Any = unknown, name: str | None = None, **_: Any,
) -> Tensor:  # fmt: skip
    """Return ``data1 op data2``."""
    require("nisa.tensor_tensor", "data1", data1)
    require("nisa.tensor_tensor", "data2", data2)
    operator = op_name(op)
    if dtype is None and operator in elementwise.TRUTHS:
        dtype = promote(data1.dtype, data2.dtype)
    return elementwise.binary(operator, data1, data2, dtype, mask, name, engine)


def tensor_scalar(
    data: Any, op0: Any, operand0: Any, reverse0: bool = False, op1: Any = None,
    operand1: Any = None, reverse1: bool = False, *, dtype: Any = None, mask: Any = None,
    engine: Any = unknown, name: str | None = None, **_: Any,
) -> Tensor:  # fmt: skip
    """Return ``(data op0 operand0) op1 operand1``; operands are numbers or columns."""
    tile = require("nisa.tensor_scalar", "data", data)
    firsts, first = _as_column(operand0, tile, "operand0")
    seconds, second = _as_column(operand1, tile, "operand1")

    def emit(dst: NkiTensor, view: NkiTensor, *columns: NkiTensor) -> None:
        rest = iter(_one_column(column) for column in columns)
        one: Any = _wide(next(rest), op0) if firsts else first
        other: Any = _wide(next(rest), op1) if seconds else second
        isa.tensor_scalar(dst, view, op0, one, reverse0, op1, other, reverse1, engine, name)

    return compute(emit, [tile, *firsts, *seconds], tile.shape, dtype or tile.dtype, mask)


def _wide(column: NkiTensor, op: Any) -> NkiTensor:
    """Return a column of the type that arithmetic wants: float32."""
    name = op_name(op)
    if column.dtype == float32 or name.startswith("bitwise") or name.endswith("shift"):
        return column
    wide = new_tensor(column.shape, float32)
    isa.tensor_copy(wide, column)
    return wide


def scalar_tensor_tensor(
    *, data: Any, op0: Any, operand0: Any, op1: Any, operand1: Any, reverse0: bool = False,
    reverse1: bool = False, dtype: Any = None, mask: Any = None, name: str | None = None, **_: Any,
) -> Tensor:  # fmt: skip
    """Return ``(data op0 operand0) op1 operand1``; the second operand is a tile."""
    tile = require("nisa.scalar_tensor_tensor", "data", data)
    second = require("nisa.scalar_tensor_tensor", "operand1", operand1)
    firsts, first = _as_column(operand0, tile, "operand0")

    def emit(dst: NkiTensor, view: NkiTensor, other: NkiTensor, *columns: NkiTensor) -> None:
        one: Any = _wide(_one_column(columns[0]), op0) if columns else first
        isa.scalar_tensor_tensor(dst, view, op0, one, op1, other, reverse0, reverse1, name)

    return compute(emit, [tile, second, *firsts], tile.shape, dtype or tile.dtype, mask)


def tensor_scalar_reduce(
    *, data: Any, op0: Any, operand0: Any, reduce_op: Any, reduce_res: Any,
    reverse0: bool = False, dtype: Any = None, mask: Any = None, name: str | None = None, **_: Any,
) -> Tensor:  # fmt: skip
    """Return ``data op0 operand0`` and write each partition's reduction to `reduce_res`."""
    tile = require("nisa.tensor_scalar_reduce", "data", data)
    firsts, first = _as_column(operand0, tile, "operand0")
    total = require("nisa.tensor_scalar_reduce", "reduce_res", reduce_res).view

    def emit(dst: NkiTensor, view: NkiTensor, *columns: NkiTensor) -> None:
        one: Any = _wide(_one_column(columns[0]), op0) if columns else first
        rows = total[: view.shape[0]]
        isa.tensor_scalar_reduce(dst, view, op0, one, reduce_op, rows, reverse0, name=name)

    made = compute(emit, [tile, *firsts], tile.shape, dtype or tile.dtype, mask)
    flush()
    return made


def tensor_reduce(
    op: Any, data: Any, axis: Any, *, mask: Any = None, dtype: Any = None, negate: bool = False,
    keepdims: bool = False, name: str | None = None, **_: Any,
) -> Tensor:  # fmt: skip
    """Return a tile reduced over its last axes; masked elements do not take part."""
    return reductions.reduce(
        "nisa.tensor_reduce", op_name(op), data, axis, dtype, mask,
        keepdims=keepdims, negate=negate, name=name,
    )  # fmt: skip


def reciprocal(data: Any, *, dtype: Any = None, mask: Any = None, **_: Any) -> Tensor:
    """Return 1 / data, on VectorE."""
    return elementwise.reciprocal(data, dtype, mask)


def tensor_tensor_scan(
    data0: Any, data1: Any, initial: Any, op0: Any, op1: Any, reverse0: bool = False,
    reverse1: bool = False, *, dtype: Any = None, mask: Any = None, name: str | None = None, **_: Any,
) -> Tensor:  # fmt: skip
    """Return running results along each partition: ``r = (data0 op0 r) op1 data1``."""
    one = require("nisa.tensor_tensor_scan", "data0", data0)
    other = require("nisa.tensor_tensor_scan", "data1", data1)
    firsts, start = _as_column(initial, one, "initial")

    def emit(dst: NkiTensor, a: NkiTensor, b: NkiTensor, *columns: NkiTensor) -> None:
        first: Any = _one_column(columns[0]) if columns else start
        isa.tensor_tensor_scan(dst, a, b, first, op0, op1, reverse0, reverse1, name)

    default = promote(one.dtype, other.dtype)
    return compute(emit, [one, other, *firsts], one.shape, dtype or default, mask)


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

    Without an engine: VectorE for tiles up to 32 x 32 in PSUM, else TensorE (**choice**).
    """
    tile = require("nisa.nc_transpose", "data", data)
    buffer = sbuf if engine in (vector_engine, "vector") else psum
    return movement.transposed("nisa.nc_transpose", tile, mask, buffer, dtype, engine, name)


def memset(
    shape: Any, value: float, dtype: Any, *, mask: Any = None, engine: Any = unknown,
    name: str | None = None, **_: Any,
) -> Tensor:  # fmt: skip
    """Return a new SBUF tile of one value."""

    def emit(dst: NkiTensor) -> None:
        isa.memset(dst, value, engine=engine, name=name)

    return compute(emit, [], shape, dtype, mask)


def bn_stats(data: Any, *, mask: Any = None, dtype: Any = None, **_: Any) -> Tensor:
    """Return statistics of each partition for `bn_aggr`: (P, 6)."""
    return _per_partition("bn_stats", isa.bn_stats, data, 6, dtype or float32, mask)


def bn_aggr(data: Any, *, mask: Any = None, dtype: Any = None, **_: Any) -> Tensor:
    """Return mean and variance of each partition: (P, 2)."""
    return _per_partition("bn_aggr", isa.bn_aggr, data, 2, dtype or float32, mask)


def max8(*, src: Any, mask: Any = None, dtype: Any = None, **_: Any) -> Tensor:
    """Return the eight largest of each partition, falling: (P, 8)."""
    tile = require("nisa.max8", "src", src)
    return _per_partition("max8", isa.max8, tile, 8, dtype or tile.dtype, mask)


def _per_partition(
    name: str, function: Callable[..., Any], data: Any, columns: int, dtype: Any, mask: Any
) -> Tensor:
    """Return a few columns computed from the rectangle where a mask holds."""
    tile = require(f"nisa.{name}", "data", data)
    truth = as_mask(mask, tile.shape)
    boxes = cut(tile.shape, truth, [tile])
    if len(boxes) > 1 or (boxes and boxes[0][0].start):
        message = f"nisa.{name} with a mask that is no rectangle; allowed: upper bounds"
        raise error(NotImplementedError, message)
    views = [tile.resolve(box) for box in boxes]
    rows = views[0].shape[0] if views else 0

    def run(dst: NkiTensor) -> None:
        for view in views:
            function(dst if rows == tile.shape[0] else dst[:rows], view)

    made = Result((tile.shape[0], columns), dtype, sbuf, run)
    if rows < tile.shape[0]:
        from trn3.nki.legacy.indices import arange

        made.mask = (arange(tile.shape[0])[:, None] < rows) if rows else False
    return made


def nc_find_index8(*, data: Any, vals: Any, dtype: Any = None, **_: Any) -> Tensor:
    """Return the places of eight values in each partition."""
    tile, values = require("nisa", "data", data).view, require("nisa", "vals", vals).view

    def run(dst: NkiTensor) -> None:
        isa.nc_find_index8(dst, tile, values)

    return Result((tile.shape[0], 8), dtype or uint32, sbuf, run)


def nc_match_replace8(
    *, data: Any, vals: Any, imm: float, dst_idx: Any = None, dtype: Any = None, **_: Any
) -> Tensor:
    """Return a copy of a tile with one occurrence of each of eight values replaced."""
    tile, values = require("nisa", "data", data).view, require("nisa", "vals", vals).view
    places = _column(dst_idx, "dst_idx")

    def run(dst: NkiTensor) -> None:
        isa.nc_match_replace8(dst, tile, values, imm, places)

    made = Result(tile.shape, dtype or tile.dtype, sbuf, run)
    if places is not None:
        flush()
    return made


def tensor_partition_reduce(
    op: Any, data: Any, *, mask: Any = None, dtype: Any = None, **_: Any
) -> Tensor:
    """Return a tile reduced over its partitions: (1, ...)."""
    tile = require("nisa.tensor_partition_reduce", "data", data)
    _unmasked("tensor_partition_reduce", mask, tile)
    view = in_sbuf(tile.view)

    def run(dst: NkiTensor) -> None:
        isa.tensor_partition_reduce(dst, op, view)

    return Result((1, *tile.shape[1:]), dtype or tile.dtype, sbuf, run)


def _unmasked(name: str, mask: Any, tile: Tensor) -> None:
    if as_mask(mask, tile.shape) is not True:
        message = f"nisa.{name} mask; allowed: none. Mask what is made of the result"
        raise error(NotImplementedError, message)


def dropout(data: Any, prob: Any, *, mask: Any = None, dtype: Any = None, **_: Any) -> Tensor:
    """Return a tile with elements zeroed at random."""
    return reductions.dropout(data, prob, dtype, mask)


def local_gather(
    src_buffer: Any, index: Any, num_elem_per_idx: int = 1, num_valid_indices: int | None = None,
    *, mask: Any = None, **_: Any,
) -> Tensor:  # fmt: skip
    """Return elements that the index lists of groups of 16 partitions pick."""
    source, places = require("nisa", "src_buffer", src_buffer), require("nisa", "index", index)
    _unmasked("local_gather", mask, source)
    group = 16
    listed = places.size // places.shape[0] * group
    count = listed if num_valid_indices is None else int(num_valid_indices)
    views = source.view, places.view
    shape = (source.shape[0], count * int(num_elem_per_idx))

    def run(dst: NkiTensor) -> None:
        isa.local_gather(dst, *views, num_elem_per_idx, num_valid_indices)

    return Result(shape, source.dtype, sbuf, run)


def nc_stream_shuffle(src: Any, dst: Any, shuffle_mask: Any, **_: Any) -> None:
    """Give each partition of `dst` that of `src` which the mask names."""
    target, source = require("nisa", "dst", dst).view, require("nisa", "src", src).view
    isa.nc_stream_shuffle(target, source, shuffle_mask)


def tensor_copy_predicated(
    *, src: Any, dst: Any, predicate: Any, mask: Any = None, reverse_pred: bool = False, **_: Any
) -> None:
    """Copy a tile or a number into `dst` where a predicate holds."""
    target = require("nisa.tensor_copy_predicated", "dst", dst)
    condition = require("nisa.tensor_copy_predicated", "predicate", predicate)
    _unmasked("tensor_copy_predicated", mask, target)
    source = _column(src, "src")
    isa.tensor_copy_predicated(target.view, source, condition.view, reverse_pred)


def select_reduce(
    *, dst: Any, predicate: Any, on_true: Any, on_false: Any, reduce_res: Any = None,
    reduce_cmd: Any = reduce_cmd.idle, reduce_op: Any = "maximum", reverse_pred: bool = False,
    mask: Any = None, **_: Any,
) -> None:  # fmt: skip
    """Choose by a predicate into `dst`, and reduce each partition into `reduce_res`."""
    target = require("nisa.select_reduce", "dst", dst)
    _unmasked("select_reduce", mask, target)
    isa.select_reduce(
        target.view, _column(predicate, "predicate"), _column(on_true, "on_true"),
        _column(on_false, "on_false"), _column(reduce_res, "reduce_res"), reduce_cmd, reduce_op,
        reverse_pred,
    )  # fmt: skip


def range_select(
    *, on_true_tile: Any, comp_op0: Any, comp_op1: Any, bound0: Any, bound1: Any,
    reduce_cmd: Any = reduce_cmd.idle, reduce_res: Any = None, reduce_op: Any = "maximum",
    range_start: int = 0, on_false_value: float = -3.4028234663852886e38, dtype: Any = None,
    mask: Any = None, name: str | None = None, **_: Any,
) -> Tensor:  # fmt: skip
    """Return a tile whose elements lie between bounds by their place; others are filled."""
    tile = require("nisa.range_select", "on_true_tile", on_true_tile)
    _unmasked("range_select", mask, tile)
    view, low, high = tile.view, _column(bound0, "bound0"), _column(bound1, "bound1")
    total = _column(reduce_res, "reduce_res")
    command = reduce_cmd
    if total is None:
        # The instruction always reduces; here into running values that nothing reads.
        command = constants.reduce_cmd.reset_reduce

    def run(dst: NkiTensor) -> None:
        isa.range_select(
            dst, view, comp_op0, comp_op1, low, high, command, total, reduce_op, range_start,
            on_false_value, name,
        )  # fmt: skip

    made = Result(tile.shape, dtype or tile.dtype, sbuf, run)
    if total is not None:
        flush()
    return made


def sequence_bounds(*, segment_ids: Any, dtype: Any = None, **_: Any) -> Tensor:
    """Return starts and ends of segments: (1, 2, n)."""
    tile = require("nisa.sequence_bounds", "segment_ids", segment_ids)
    view = tile.view

    def run(dst: NkiTensor) -> None:
        isa.sequence_bounds(dst, view)

    return Result((1, 2, tile.shape[-1]), dtype or tile.dtype, sbuf, run)


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
    _unmasked("dma_transpose", mask, source)
    view = source.view
    order = tuple(range(view.ndim)) if axes is None else tuple(axes)
    if axes is None:
        order = (order[-1], *order[1:-1], order[0])
    shape = tuple(view.shape[axis] for axis in order)

    def run(dst: NkiTensor) -> None:
        isa.dma_transpose(dst, view, axes, name=name)

    made = Result(shape, source.dtype, sbuf, run)
    if dtype is not None and canonicalise(dtype) != source.dtype:
        return made.astype(dtype)
    return made


__all__ = [name for name in dir() if not name.startswith("_")]
