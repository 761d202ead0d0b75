"""Instructions of ScalarE and VectorE that compute."""

from __future__ import annotations

from typing import Any

from trn3._trn3.machine import NkiTensor
from trn3.nki import isa
from trn3.nki.dialects.legacy.isa.operands import (
    apart,
    as_column,
    one_column,
    require_prefixes,
    wide,
)
from trn3.nki.dialects.legacy.issuing import flush
from trn3.nki.dialects.legacy.language import elementwise, reductions
from trn3.nki.dialects.legacy.language.reductions import reduced_beside
from trn3.nki.dialects.legacy.lowering import as_mask, compute
from trn3.nki.dialects.legacy.masking import by_rows, neutral, reduces_in_place, rows_of, without
from trn3.nki.dialects.legacy.views import Tensor, require
from trn3.nki.dialects.legacy.waiting import WaitingTile
from trn3.nki.isa import constants
from trn3.nki.isa.constants import engine, reduce_cmd
from trn3.nki.language.promotion import promote
from trn3.nki.values.element_types import float32
from trn3.nki.values.memory_regions import sbuf
from trn3.nki.values.operators import op_name

unknown = engine.unknown


def activation(
    op: Any, data: Any, *, bias: Any = None, scale: Any = 1.0, reduce_op: Any = None,
    reduce_res: Any = None, reduce_cmd: Any = reduce_cmd.idle, dtype: Any = None,
    mask: Any = None, name: str | None = None, **_: Any,
) -> Tensor:  # fmt: skip
    """Return ``op(data * scale + bias)``; bias and scale are numbers or columns."""
    tile = require("nisa.activation", "data", data)
    if reduce_res is not None and not reduces_in_place(tile, mask):
        made = activation(
            op, tile, bias=bias, scale=scale, dtype=float32, mask=mask, name=name
        )  # fmt: skip
        return reduced_beside(
            "nisa.activation", made, mask, reduce_op or "add", reduce_res, reduce_cmd,
            dtype or tile.dtype,
        )  # fmt: skip
    biases, bias_number = as_column(bias, tile, "bias")
    scales, scale_number = as_column(scale, tile, "scale")
    total = (
        None if reduce_res is None else require("nisa.activation", "reduce_res", reduce_res).view
    )

    def emit(dst: NkiTensor, view: NkiTensor, *columns: NkiTensor) -> None:
        rest = iter(one_column(column) for column in columns)
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
    firsts, first = as_column(operand0, tile, "operand0")
    seconds, second = as_column(operand1, tile, "operand1")

    def emit(dst: NkiTensor, view: NkiTensor, *columns: NkiTensor) -> None:
        rest = iter(one_column(column) for column in columns)
        one: Any = wide(next(rest), op0) if firsts else first
        other: Any = wide(next(rest), op1) if seconds else second
        isa.tensor_scalar(dst, view, op0, one, reverse0, op1, other, reverse1, engine, name)

    return compute(emit, [tile, *firsts, *seconds], tile.shape, dtype or tile.dtype, mask)


def scalar_tensor_tensor(
    *, data: Any, op0: Any, operand0: Any, op1: Any, operand1: Any, reverse0: bool = False,
    reverse1: bool = False, dtype: Any = None, mask: Any = None, name: str | None = None, **_: Any,
) -> Tensor:  # fmt: skip
    """Return ``(data op0 operand0) op1 operand1``; the second operand is a tile."""
    tile = require("nisa.scalar_tensor_tensor", "data", data)
    second = require("nisa.scalar_tensor_tensor", "operand1", operand1)
    firsts, first = as_column(operand0, tile, "operand0")

    def emit(dst: NkiTensor, view: NkiTensor, other: NkiTensor, *columns: NkiTensor) -> None:
        one: Any = wide(one_column(columns[0]), op0) if columns else first
        other = apart(view, other)
        isa.scalar_tensor_tensor(dst, view, op0, one, op1, other, reverse0, reverse1, name)

    return compute(emit, [tile, second, *firsts], tile.shape, dtype or tile.dtype, mask)


def tensor_scalar_reduce(
    *, data: Any, op0: Any, operand0: Any, reduce_op: Any, reduce_res: Any,
    reverse0: bool = False, dtype: Any = None, mask: Any = None, name: str | None = None, **_: Any,
) -> Tensor:  # fmt: skip
    """Return ``data op0 operand0`` and write each partition's reduction to `reduce_res`."""
    tile = require("nisa.tensor_scalar_reduce", "data", data)
    if not reduces_in_place(tile, mask):
        made = tensor_scalar(tile, op0, operand0, reverse0, dtype=float32, mask=mask, name=name)
        return reduced_beside(
            "nisa.tensor_scalar_reduce", made, mask, reduce_op, reduce_res,
            constants.reduce_cmd.reset_reduce, dtype or tile.dtype,
        )  # fmt: skip
    firsts, first = as_column(operand0, tile, "operand0")
    total = require("nisa.tensor_scalar_reduce", "reduce_res", reduce_res).view

    def emit(dst: NkiTensor, view: NkiTensor, *columns: NkiTensor) -> None:
        one: Any = wide(one_column(columns[0]), op0) if columns else first
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
    reverse1: bool = False, *, dtype: Any = None, mask: Any = None, name: str | None = None,
    **_: Any,
) -> Tensor:  # fmt: skip
    """Return running results along each partition: ``r = (data0 op0 r) op1 data1``."""
    one = require("nisa.tensor_tensor_scan", "data0", data0)
    other = require("nisa.tensor_tensor_scan", "data1", data1)
    firsts, start = as_column(initial, one, "initial")
    require_prefixes("tensor_tensor_scan", mask, one.shape)

    def emit(dst: NkiTensor, a: NkiTensor, b: NkiTensor, *columns: NkiTensor) -> None:
        first: Any = one_column(columns[0]) if columns else start
        isa.tensor_tensor_scan(dst, a, apart(a, b), first, op0, op1, reverse0, reverse1, name)

    default = promote(one.dtype, other.dtype)
    return compute(emit, [one, other, *firsts], one.shape, dtype or default, mask)


def bn_stats(data: Any, *, mask: Any = None, dtype: Any = None, **_: Any) -> Tensor:
    """Return statistics of each partition for `bn_aggr`: (P, 6). Masked elements do not count."""
    return by_rows("nisa.bn_stats", isa.bn_stats, data, (6,), dtype or float32, mask)


def bn_aggr(data: Any, *, mask: Any = None, dtype: Any = None, **_: Any) -> Tensor:
    """Return mean and variance of each partition: (P, 2)."""
    return by_rows("nisa.bn_aggr", isa.bn_aggr, data, (2,), dtype or float32, mask)


def max8(*, src: Any, mask: Any = None, dtype: Any = None, **_: Any) -> Tensor:
    """Return the eight largest of each partition, falling: (P, 8).

    With fewer than eight where a mask holds, the lowest number stands for the rest (**choice**).
    """
    tile = require("nisa.max8", "src", src)
    truth = as_mask(mask, tile.shape)
    view = without(tile, truth, neutral("nisa.max8", "maximum", tile.dtype)).view
    left = rows_of(truth, tile.shape, 1)
    return WaitingTile(
        (tile.shape[0], 8), dtype or tile.dtype, sbuf, lambda dst: isa.max8(dst, view), mask=left
    )
