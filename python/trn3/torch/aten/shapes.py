"""Operators that move elements and compute nothing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trn3.graph.writing import TensorType
from trn3.torch.aten.reductions import one_axis
from trn3.torch.aten.registry import AtenCall, AtenError, aten

__all__: list[str] = []


@aten("view", "_unsafe_view", "reshape", "squeeze", "unsqueeze", "_reshape_alias", "unflatten")
def _view(call: AtenCall) -> int:
    kind = call.type()
    x = call.number("self")
    if call.name == "aten.view.dtype" and call.writer.dtype(x) != kind.dtype:
        return _bits(call, x)
    return call.writer.reshape(x, kind.shape)


def _bits(call: AtenCall, x: int) -> int:
    writer, kind = call.writer, call.type()
    sizes = [np.dtype(_plain(dtype)).itemsize for dtype in (writer.dtype(x), kind.dtype)]
    torch_sizes = [call["self"].like.dtype.itemsize, call.result.dtype.itemsize]
    if sizes != torch_sizes:
        raise AtenError("takes bits of whole numbers of 64 bits; allowed: those of 32 bits")
    if sizes[0] == sizes[1]:
        return writer.one("bitcast_convert", [x], kind)
    own = writer.shape(x)
    if sizes[0] > sizes[1]:
        longer = TensorType(kind.dtype, (*own, sizes[0] // sizes[1]))
        return writer.reshape(writer.one("bitcast_convert", [x], longer), kind.shape)
    ratio = sizes[1] // sizes[0]
    grouped = writer.reshape(x, (*own[:-1], own[-1] // ratio, ratio))
    return writer.one("bitcast_convert", [grouped], kind)


def _plain(dtype: str) -> Any:
    return {"bfloat16": "int16", "float8_e4m3fn": "int8", "float8_e5m2": "int8"}.get(dtype, dtype)


@aten("expand")
def _expand(call: AtenCall) -> int:
    return call.writer.broadcast(call.number("self"), call.type().shape)


@aten("permute")
def _permute(call: AtenCall) -> int:
    x = call.number("self")
    rank = len(call.writer.shape(x))
    return call.writer.transpose(x, [one_axis(axis, rank) for axis in call["dims"]])


@aten("t", "transpose.int", "transpose")
def _transpose(call: AtenCall) -> int:
    x = call.number("self")
    order = list(range(len(call.writer.shape(x))))
    if len(order) < 2:
        return x
    first, second = (
        (0, 1)
        if call["dim0"] is None
        else (one_axis(call["dim0"], len(order)), one_axis(call["dim1"], len(order)))
    )
    order[first], order[second] = order[second], order[first]
    return call.writer.transpose(x, order)


def bounds(call: AtenCall, length: int) -> tuple[int, int, int]:
    """Start, limit and step of a slice."""
    start, limit, step = slice(call["start"], call["end"], call["step"] or 1).indices(length)
    return start, max(limit, start), step


@aten("slice")
def _slice(call: AtenCall) -> int:
    writer, x = call.writer, call.number("self")
    axis = one_axis(call["dim"] or 0, len(writer.shape(x)))
    return writer.part(x, axis, *bounds(call, writer.shape(x)[axis]))


@aten("select")
def _select(call: AtenCall) -> int:
    writer, x = call.writer, call.number("self")
    axis = one_axis(call["dim"], len(writer.shape(x)))
    place = call["index"] % writer.shape(x)[axis]
    return writer.reshape(writer.part(x, axis, place, place + 1), call.type().shape)


@aten("split", "split_with_sizes", "unbind", "chunk", "tensor_split", "unsafe_split")
def _split(call: AtenCall) -> list[int]:
    writer, x = call.writer, call.number("self")
    axis = one_axis(call["dim"] or 0, len(writer.shape(x)))
    start, made = 0, []
    for place, result in enumerate(call.result):
        is_whole = len(result.shape) == len(writer.shape(x))
        length = int(result.shape[axis]) if is_whole else 1
        part = writer.part(x, axis, start, start + length)
        made.append(writer.reshape(part, call.type(place).shape))
        start += length
    return made


@aten("cat", "concatenate")
def _cat(call: AtenCall) -> int:
    writer, kind = call.writer, call.type()
    axis = one_axis(call["dim"] or 0, len(kind.shape))
    parts = [held for held in call["tensors"] if tuple(held.like.shape) != (0,)]
    if not parts:
        return writer.broadcast(writer.filled(0, kind.dtype), kind.shape)
    return writer.concatenate([writer.convert(held.number, kind.dtype) for held in parts], axis)


@aten("stack")
def _stack(call: AtenCall) -> int:
    writer, kind = call.writer, call.type()
    axis = one_axis(call["dim"] or 0, len(kind.shape))
    thin = [1 if place == axis else length for place, length in enumerate(kind.shape)]
    parts = [writer.convert(held.number, kind.dtype) for held in call["tensors"]]
    return writer.concatenate([writer.reshape(part, thin) for part in parts], axis)


@aten("flip")
def _flip(call: AtenCall) -> int:
    x = call.number("self")
    rank = len(call.writer.shape(x))
    axes = sorted({one_axis(axis, rank) for axis in call["dims"]}) if rank else []
    if not axes:
        return x
    return call.writer.one("reverse", [x], call.writer.types[x], {"dimensions": axes})


@aten("roll")
def _roll(call: AtenCall) -> int:
    writer, x = call.writer, call.number("self")
    shape, shifts, axes = writer.shape(x), call["shifts"], call["dims"] or []
    made = x if axes else writer.reshape(x, [math.prod(shape)])
    for shift, axis in zip(shifts, axes or [0], strict=True):
        place = one_axis(axis, len(writer.shape(made)))
        length = writer.shape(made)[place]
        cut = -shift % length if length else 0
        if cut:
            parts = [writer.part(made, place, cut, length), writer.part(made, place, 0, cut)]
            made = writer.concatenate(parts, place)
    return writer.reshape(made, shape)


@aten("repeat")
def _repeat(call: AtenCall) -> int:
    writer, x = call.writer, call.number("self")
    times = list(call["repeats"])
    own = [1] * (len(times) - len(writer.shape(x))) + list(writer.shape(x))
    between = [length for pair in zip(times, own, strict=True) for length in pair]
    placed = writer.placed(writer.reshape(x, own), between, list(range(1, len(between), 2)))
    return writer.reshape(placed, call.type().shape)


@aten("constant_pad_nd")
def _pad(call: AtenCall) -> int:
    writer, x = call.writer, call.number("self")
    rank, pad = len(writer.shape(x)), list(call["pad"])
    low, high = [0] * rank, [0] * rank
    for place in range(len(pad) // 2):
        low[rank - 1 - place], high[rank - 1 - place] = pad[2 * place], pad[2 * place + 1]
    value = writer.filled(call["value"] or 0, writer.dtype(x))
    return writer.pad(x, value, low, high)


@aten("slice_scatter")
def _slice_scatter(call: AtenCall) -> int:
    writer, x = call.writer, call.number("self")
    shape = writer.shape(x)
    axis = one_axis(call["dim"] or 0, len(shape))
    start, limit, step = bounds(call, shape[axis])
    count = max(-(-(limit - start) // step), 0)
    if not count:
        return x
    wanted = (*shape[:axis], count, *shape[axis + 1 :])
    update = writer.convert(call.number("src"), writer.dtype(x))
    return _updated(call, x, writer.broadcast(update, wanted), axis, start, step)


def _updated(call: AtenCall, x: int, update: int, axis: int, start: int, step: int) -> int:
    """Write a part of a value anew."""
    writer, shape = call.writer, call.writer.shape(x)
    if step == 1:
        starts = [
            writer.filled(start if place == axis else 0, "int32") for place in range(len(shape))
        ]
        return writer.one("dynamic_update_slice", [x, update, *starts], writer.types[x])
    low, high, between = [0] * len(shape), [0] * len(shape), [0] * len(shape)
    spread = (writer.shape(update)[axis] - 1) * step + 1
    low[axis], high[axis], between[axis] = start, shape[axis] - start - spread, step - 1
    placed = writer.pad(update, writer.filled(0, writer.dtype(x)), low, high, between)
    marks = writer.broadcast(writer.filled(True, "bool"), writer.shape(update))
    is_new = writer.pad(marks, writer.filled(False, "bool"), low, high, between)
    return writer.select(is_new, placed, x)


@aten("select_scatter")
def _select_scatter(call: AtenCall) -> int:
    writer, x = call.writer, call.number("self")
    shape = writer.shape(x)
    axis = one_axis(call["dim"], len(shape))
    thin = (*shape[:axis], 1, *shape[axis + 1 :])
    update = writer.convert(call.number("src"), writer.dtype(x))
    update = writer.reshape(writer.broadcast(update, (*shape[:axis], *shape[axis + 1 :])), thin)
    return _updated(call, x, update, axis, call["index"] % shape[axis], 1)
