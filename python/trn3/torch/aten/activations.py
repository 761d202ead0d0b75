"""Functions of neural networks that torch keeps as one operator each, and of signs."""

from __future__ import annotations

import math

from trn3.graph.writing import TensorType
from trn3.torch.aten.elementwise import computed, finished, operand
from trn3.torch.aten.registry import AtenCall, Held, aten
from trn3.torch.aten.writer import AtenWriter, is_float

__all__: list[str] = []


@aten("gelu")
def _gelu(call: AtenCall) -> int:
    return finished(call, _activated(call.writer, computed(call), call["approximate"] or "none"))


def _activated(writer: AtenWriter, x: int, approximate: str) -> int:
    """Write GELU, in the order of operations that `jax.nn.gelu` has."""
    dtype = writer.dtype(x)
    if approximate == "none":
        turned = writer.scaled("multiply", writer.unary("negate", x), math.sqrt(0.5))
        chance = writer.unary("erfc", turned)
        return writer.binary("multiply", writer.scaled("multiply", x, 0.5), chance)
    cube = writer.binary("multiply", x, writer.binary("multiply", x, x))
    inner = writer.binary("add", x, writer.scaled("multiply", cube, 0.044715))
    bent = writer.unary("tanh", writer.scaled("multiply", inner, math.sqrt(2 / math.pi)))
    share = writer.scaled("multiply", writer.binary("add", writer.filled(1, dtype), bent), 0.5)
    return writer.binary("multiply", x, share)


def _is_positive(writer: AtenWriter, x: int) -> int:
    return writer.compare("gt", x, writer.filled(0, writer.dtype(x)))


@aten("elu")
def _elu(call: AtenCall) -> int:
    writer, x = call.writer, computed(call)
    alpha, scale, inner = (
        1 if call[name] is None else call[name] for name in ("alpha", "scale", "input_scale")
    )
    above = writer.scaled("multiply", x, scale)
    grown = writer.unary("exponential_minus_one", writer.scaled("multiply", x, inner))
    below = writer.scaled("multiply", grown, alpha * scale)
    return finished(call, writer.select(_is_positive(writer, x), above, below))


@aten("leaky_relu")
def _leaky(call: AtenCall) -> int:
    writer, x = call.writer, computed(call)
    below = writer.scaled("multiply", x, call["negative_slope"])
    return finished(call, writer.select(_is_positive(writer, x), x, below))


@aten("hardtanh")
def _hardtanh(call: AtenCall) -> int:
    writer, x = call.writer, computed(call)
    x = writer.scaled("maximum", x, call["min_val"])
    return finished(call, writer.scaled("minimum", x, call["max_val"]))


@aten("hypot")
def _hypot(call: AtenCall) -> int:
    writer = call.writer
    sizes = [writer.unary("abs", computed(call, name)) for name in ("self", "other")]
    large, small = (writer.binary(op, *sizes) for op in ("maximum", "minimum"))
    # Squares of a ratio neither overflow nor vanish.
    zero = writer.filled(0, writer.dtype(large))
    ratio = writer.binary("divide", small, large)
    is_plain = writer.compare("gt", small, zero)
    ratio = writer.select(is_plain, ratio, writer.broadcast(zero, writer.shape(ratio)))
    root = writer.unary("sqrt", writer.scaled("add", writer.binary("multiply", ratio, ratio), 1))
    is_infinite = writer.compare("eq", large, writer.filled(math.inf, writer.dtype(large)))
    return finished(call, writer.select(is_infinite, large, writer.binary("multiply", large, root)))


def _has_sign(writer: AtenWriter, x: int) -> int:
    """Return where the sign is negative, of zeros and NaN too."""
    dtype = writer.dtype(x)
    if dtype == "bool" or dtype.startswith("uint"):
        return writer.filled(False, "bool", writer.shape(x))
    if is_float(dtype):
        bits = {"float32": "int32", "bfloat16": "int16", "float16": "int16"}.get(dtype, "int8")
        x = writer.one("bitcast_convert", [x], TensorType(bits, writer.shape(x)))
    return writer.compare("lt", x, writer.filled(0, writer.dtype(x)))


@aten("signbit")
def _signbit(call: AtenCall) -> int:
    return _has_sign(call.writer, call.number("self"))


@aten("copysign")
def _copysign(call: AtenCall) -> int:
    writer, dtype = call.writer, call.type().dtype
    size = writer.unary("abs", operand(writer, call["self"], dtype))
    sign = operand(writer, call["other"], dtype)
    made = writer.select(_has_sign(writer, sign), writer.unary("negate", size), size)
    return finished(call, made)


@aten("fmax", "fmin")
def _of_numbers(call: AtenCall) -> int:
    writer, dtype = call.writer, call.type().dtype
    x, y = writer.together(*(operand(writer, call[name], dtype) for name in ("self", "other")))
    made = writer.binary("maximum" if "fmax" in call.name else "minimum", x, y)
    if not is_float(dtype):
        return made
    made = writer.select(writer.compare("ne", x, x), y, made)
    return writer.select(writer.compare("ne", y, y), x, made)


@aten("bucketize")
def _bucketize(call: AtenCall) -> int:
    """Count the boundaries that lie before each element."""
    writer, given = call.writer, call["self"]
    x = operand(writer, given, writer.dtype(call.number("boundaries")))
    shape = writer.shape(x)
    bounds = writer.placed(
        call.number("boundaries"),
        [*shape, writer.shape(call.number("boundaries"))[0]],
        [len(shape)],
    )
    spread = writer.placed(x, writer.shape(bounds), list(range(len(shape))))
    before = writer.compare("le" if call["right"] else "lt", bounds, spread)
    counted = writer.reduce("add", writer.convert(before, "int32"), [len(shape)])
    if isinstance(given, Held) and is_float(writer.dtype(x)):
        # NaN comes behind all boundaries.
        last = writer.filled(writer.shape(bounds)[-1], "int32", shape)
        counted = writer.select(writer.compare("ne", x, x), last, counted)
    return counted
