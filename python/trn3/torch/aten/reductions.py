"""Sums and the like over axes, and along them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from trn3.graph.writing import TensorType
from trn3.torch.aten.registry import AtenCall, aten
from trn3.torch.aten.writer import NARROW, AtenWriter, neutral

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["arg_reduced", "averaged", "axes_of", "one_axis", "wide", "windowed"]


def one_axis(dimension: int, rank: int) -> int:
    """Return an axis counted from the front."""
    return dimension % rank if rank else 0


def axes_of(dimensions: Any, rank: int) -> list[int]:
    """Return axes counted from the front; all where none is named."""
    if dimensions is None or dimensions == []:
        return list(range(rank))
    named = dimensions if isinstance(dimensions, list | tuple) else [dimensions]
    return sorted({one_axis(axis, rank) for axis in named}) if rank else []


def _kept(call: AtenCall, number: int, place: int | None = None) -> int:
    """Give a reduced value the shape and type of the result, with axes of length 1 or without."""
    kind = call.type(place)
    return call.writer.reshape(call.writer.convert(number, kind.dtype), kind.shape)


def wide(writer: AtenWriter, number: int) -> int:
    """Return a value as torch joins it: narrow floats as float32."""
    return writer.convert(number, "float32") if writer.dtype(number) in NARROW else number


_SIMPLE = {"sum": "add", "prod": "multiply", "amax": "maximum", "amin": "minimum"}


@aten("sum", "prod", "amax", "amin", "any", "all", "max.default", "min.default")
def _reduce(call: AtenCall) -> int:
    writer, x = call.writer, call.number("self")
    name = call.name.split(".")[1]
    axes = axes_of(call["dim"], len(writer.shape(x)))
    if name in {"any", "all"}:
        truth = writer.convert(x, "bool")
        return _kept(call, writer.reduce("or" if name == "any" else "and", truth, axes))
    function = _SIMPLE.get(name) or ("maximum" if name == "max" else "minimum")
    if name in {"sum", "prod"}:
        # Narrow floats are joined in float32 and rounded at the end, as it is.
        x = writer.convert(x, call.type().dtype)
    return _kept(call, writer.reduce(function, x, axes))


@aten("mean")
def _mean(call: AtenCall) -> int:
    writer = call.writer
    x = writer.convert(call.number("self"), call.type().dtype)
    return _kept(call, averaged(writer, wide(writer, x), call["dim"]))


def averaged(writer: AtenWriter, x: int, dimensions: Any) -> int:
    """Return the mean along axes, which go; all where none is named."""
    axes = axes_of(dimensions, len(writer.shape(x)))
    count = math.prod(writer.shape(x)[axis] for axis in axes)
    return writer.scaled("divide", writer.reduce("add", x, axes), count)


def _variance(call: AtenCall) -> tuple[int, int]:
    writer = call.writer
    x = wide(writer, call.number("self"))
    shape = writer.shape(x)
    axes = axes_of(call["dim"], len(shape))
    correction = call["correction"]
    if correction is None:
        correction = 0 if call["unbiased"] is False else 1
    mean = averaged(writer, x, axes or None)
    thin = [1 if axis in axes else length for axis, length in enumerate(shape)]
    away = writer.binary("subtract", x, writer.broadcast(writer.reshape(mean, thin), shape))
    total = writer.reduce("add", writer.binary("multiply", away, away), axes)
    count = math.prod(shape[axis] for axis in axes) - correction
    return writer.scaled("divide", total, max(count, 0)), mean


@aten("var")
def _var(call: AtenCall) -> int:
    return _kept(call, _variance(call)[0])


@aten("std")
def _std(call: AtenCall) -> int:
    return _kept(call, call.writer.unary("sqrt", _variance(call)[0]))


@aten("var_mean", "std_mean")
def _var_mean(call: AtenCall) -> list[int]:
    variance, mean = _variance(call)
    if "std" in call.name:
        variance = call.writer.unary("sqrt", variance)
    return [_kept(call, variance, 0), _kept(call, mean, 1)]


def arg_reduced(writer: AtenWriter, x: int, axis: int, function: str) -> list[int]:
    """Write the extreme along an axis, and the place of the first one."""
    shape = writer.shape(x)
    left = (*shape[:axis], *shape[axis + 1 :])
    kinds = [TensorType(writer.dtype(x), left), TensorType("int32", left)]
    return writer.add("arg_reduce", [x], kinds, {"dimension": axis, "function": function})


@aten("argmax", "argmin")
def _arg(call: AtenCall) -> int:
    writer, x = call.writer, call.number("self")
    if call["dim"] is None or not writer.shape(x):
        x = writer.reshape(x, [math.prod(writer.shape(x))])
    axis = one_axis(call["dim"] or 0, len(writer.shape(x)))
    function = "maximum" if "max" in call.name else "minimum"
    return _kept(call, arg_reduced(writer, x, axis, function)[1])


@aten("max.dim", "min.dim")
def _extreme(call: AtenCall) -> list[int]:
    writer, x = call.writer, call.number("self")
    x = x if writer.shape(x) else writer.reshape(x, [1])
    axis = one_axis(call["dim"], len(writer.shape(x)))
    function = "maximum" if "max" in call.name else "minimum"
    made = arg_reduced(writer, x, axis, function)
    return [_kept(call, number, place) for place, number in enumerate(made)]


@aten("cumsum", "cumprod")
def _running(call: AtenCall) -> int:
    writer, kind = call.writer, call.type()
    x = writer.convert(call.number("self"), kind.dtype)
    if not kind.shape or not math.prod(kind.shape):
        return x
    function = "add" if "sum" in call.name else "multiply"
    return run_along(writer, x, one_axis(call["dim"], len(kind.shape)), function)


def run_along(writer: AtenWriter, x: int, axis: int, function: str) -> int:
    """Join each element with all before it along an axis."""
    shape = writer.shape(x)
    ones = [1] * len(shape)
    window, padding = list(ones), [[0, 0] for _ in shape]
    window[axis], padding[axis] = shape[axis], [shape[axis] - 1, 0]
    return windowed(writer, x, function, window, ones, padding)


def windowed(
    writer: AtenWriter,
    x: int,
    function: str,
    window: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[Sequence[int]],
    base_dilations: Sequence[int] | None = None,
    window_dilations: Sequence[int] | None = None,
) -> int:
    """Join the elements of windows that slide over all axes."""
    shape, dtype = writer.shape(x), writer.dtype(x)
    base = list(base_dilations or [1] * len(shape))
    spread = list(window_dilations or [1] * len(shape))
    made = []
    for axis, length in enumerate(shape):
        padded = (length - 1) * base[axis] + 1 if length else 0
        padded += sum(padding[axis])
        reach = (window[axis] - 1) * spread[axis] + 1
        made.append(0 if padded < reach else (padded - reach) // strides[axis] + 1)
    attributes = {
        "window": list(window),
        "strides": list(strides),
        "padding": [list(sides) for sides in padding],
        "base_dilations": base,
        "window_dilations": spread,
        "function": function,
    }
    first = writer.filled(neutral(function, dtype), dtype)
    return writer.one("reduce_window", [x, first], TensorType(dtype, tuple(made)), attributes)


@aten("_softmax", "_log_softmax")
def _softmax(call: AtenCall) -> int:
    writer = call.writer
    x = writer.convert(call.number("self"), call.type().dtype)
    x = wide(writer, x)
    shape = writer.shape(x)
    axis = one_axis(call["dim"], len(shape))
    thin = [1 if place == axis else length for place, length in enumerate(shape)]

    def joined(function: str, number: int) -> int:
        reduced = writer.reduce(function, number, [axis] if shape else [])
        return writer.broadcast(writer.reshape(reduced, thin if shape else []), shape)

    if not math.prod(shape):
        return _kept(call, x)
    away = writer.binary("subtract", x, joined("maximum", x))
    powers = writer.unary("exponential", away)
    if call.name.split(".")[1] == "_softmax":
        return _kept(call, writer.binary("divide", powers, joined("add", powers)))
    total = writer.unary("log", joined("add", powers))
    return _kept(call, writer.binary("subtract", away, total))


@aten("logcumsumexp")
def _log_running(call: AtenCall) -> int:
    writer = call.writer
    x = wide(writer, call.number("self"))
    shape = writer.shape(x)
    if not shape or not math.prod(shape):
        return call.number("self")
    axis = one_axis(call["dim"], len(shape))
    thin = [1 if place == axis else length for place, length in enumerate(shape)]
    most = writer.reshape(writer.reduce("maximum", x, [axis]), thin)
    most = writer.broadcast(most, shape)
    sums = run_along(
        writer, writer.unary("exponential", writer.binary("subtract", x, most)), axis, "add"
    )
    return _kept(call, writer.binary("add", writer.unary("log", sums), most))


@aten("linalg_vector_norm")
def _norm(call: AtenCall) -> int:
    writer, order = call.writer, call["ord"]
    order = 2 if order is None else order
    x = wide(writer, writer.convert(call.number("self"), call.type().dtype))
    axes = axes_of(call["dim"], len(writer.shape(x)))
    size = writer.unary("abs", x)
    if math.isinf(order):
        return _kept(call, writer.reduce("maximum" if order > 0 else "minimum", size, axes))
    if order == 0:
        kind = writer.dtype(x)
        counted = writer.convert(writer.convert(x, "bool"), kind)
        return _kept(call, writer.reduce("add", counted, axes))
    if order in {1, 2}:
        powers = size if order == 1 else writer.binary("multiply", x, x)
        total = writer.reduce("add", powers, axes)
        return _kept(call, total if order == 1 else writer.unary("sqrt", total))
    total = writer.reduce("add", writer.scaled("power", size, order), axes)
    return _kept(call, writer.scaled("power", total, 1 / order))
