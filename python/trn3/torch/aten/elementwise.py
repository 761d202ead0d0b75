"""Functions of elements, with torch's rules of which types meet in which."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

from trn3.torch.aten.registry import AtenCall, AtenError, Held, aten
from trn3.torch.aten.writer import NARROW, AtenWriter, is_float, is_held_exactly
from trn3.torch.held_tensors import HELD

__all__ = ["computed", "finished", "floored", "operand"]

_UNARY = {
    "ceil": "ceil",
    "floor": "floor",
    "neg": "negate",
    "abs": "abs",
    "sgn": "sign",
    "sign": "sign",
    "bitwise_not": "not",
}
# Those that make floats of whole numbers.
_REAL = {
    "exp": "exponential",
    "expm1": "exponential_minus_one",
    "log": "log",
    "log1p": "log_plus_one",
    "sigmoid": "logistic",
    "tanh": "tanh",
    "tan": "tan",
    "sin": "sine",
    "cos": "cosine",
    "atan": "arctan",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "erf": "erf",
    "erfc": "erfc",
    "erfinv": "erf_inv",
}
_BINARY = {
    "maximum": "maximum",
    "minimum": "minimum",
    "fmod": "remainder",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
    "bitwise_left_shift": "shift_left",
    "__lshift__": "shift_left",
    "__rshift__": "shift_right_arithmetic",
    "bitwise_right_shift": "shift_right_arithmetic",
}
_COMPARISONS = ("eq", "ne", "ge", "gt", "le", "lt")
_LOGICAL = {"logical_and": "and", "logical_or": "or", "logical_xor": "xor"}


def promoted(*values: Any) -> str:
    """Name the type in which tensors and numbers meet, by torch's rules."""
    kind = ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
    given = [value.like if isinstance(value, Held) else value for value in values]
    _, dtype = elementwise_dtypes(*given, type_promotion_kind=kind)
    return held(dtype)


def held(dtype: torch.dtype) -> str:
    """Name the type that graphs hold a type of torch in."""
    if dtype not in HELD:
        raise AtenError(f"computes in {str(dtype).removeprefix('torch.')}")
    return HELD[dtype]


def operand(writer: AtenWriter, value: Any, dtype: str) -> int:
    """Return a tensor or a number of Python as a value of a type."""
    if isinstance(value, Held):
        return writer.convert(value.number, dtype)
    return writer.filled(value, dtype)


def working(dtype: str, *values: Any, steps: int = 1) -> str:
    """Name the type to compute in: torch does several steps, and numbers, in float32."""
    if dtype not in NARROW:
        return dtype
    numbers = [value for value in values if not isinstance(value, Held | None)]
    exact = all(is_held_exactly(value, dtype) for value in numbers)
    return dtype if steps == 1 and exact else "float32"


def finished(call: AtenCall, number: int) -> int:
    """Return a value in the type and shape of the result."""
    kind = call.type()
    return call.writer.broadcast(call.writer.convert(number, kind.dtype), kind.shape)


def computed(call: AtenCall, name: str = "self", *, steps: int = 2) -> int:
    """Return a tensor argument as what the result is computed in."""
    dtype = working(call.type().dtype, steps=steps)
    return call.writer.convert(call.number(name), dtype)


@aten(*_UNARY)
def _unary(call: AtenCall) -> int:
    name = _UNARY[call.name.split(".")[1]]
    number = call.number("self")
    dtype = call.writer.dtype(number)
    if (name in {"ceil", "floor"} and not is_float(dtype)) or (
        name in {"abs", "sign"} and dtype in {"bool", "uint8"}
    ):
        return _sign_of_unsigned(call, number) if name == "sign" else number
    return call.writer.unary(name, number)


def _sign_of_unsigned(call: AtenCall, number: int) -> int:
    dtype = call.writer.dtype(number)
    return call.writer.convert(call.writer.convert(number, "bool"), dtype)


@aten(*_REAL)
def _real(call: AtenCall) -> int:
    number = call.writer.convert(call.number("self"), call.type().dtype)
    return call.writer.unary(_REAL[call.name.split(".")[1]], number)


@aten("relu")
def _relu(call: AtenCall) -> int:
    return call.writer.scaled("maximum", call.number("self"), 0)


@aten("trunc", "fix")
def _trunc(call: AtenCall) -> int:
    return _truncated(call.writer, call.number("self"))


def _truncated(writer: AtenWriter, x: int) -> int:
    if not is_float(writer.dtype(x)):
        return x
    is_negative = writer.compare("lt", x, writer.filled(0, writer.dtype(x)))
    return writer.select(is_negative, writer.unary("ceil", x), writer.unary("floor", x))


@aten("round")
def _round(call: AtenCall) -> int:
    writer, number = call.writer, call.number("self")
    if not is_float(writer.dtype(number)):
        return number
    decimals = call["decimals"] or 0
    if not decimals:
        return writer.unary("round_nearest_even", number)
    x, scale = computed(call), 10.0 ** abs(decimals)
    up, down = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    rounded = writer.unary("round_nearest_even", writer.scaled(up, x, scale))
    return finished(call, writer.scaled(down, rounded, scale))


@aten("reciprocal")
def _reciprocal(call: AtenCall) -> int:
    x = call.writer.convert(call.number("self"), call.type().dtype)
    return call.writer.binary("divide", call.writer.filled(1, call.type().dtype), x)


@aten("exp2", "log2", "log10")
def _other_base(call: AtenCall) -> int:
    writer, x = call.writer, computed(call)
    name = call.name.split(".")[1]
    if name == "exp2":
        return finished(call, writer.binary("power", writer.filled(2, writer.dtype(x)), x))
    base = math.log(2 if name == "log2" else 10)
    return finished(call, writer.scaled("divide", writer.unary("log", x), base))


@aten("sinh", "cosh", "asin", "acos", "asinh", "acosh", "atanh")
def _inverse(call: AtenCall) -> int:
    writer, x = call.writer, computed(call)
    dtype = writer.dtype(x)
    one = writer.filled(1, dtype)
    add, subtract, multiply = (
        functools.partial(writer.binary, op) for op in ("add", "subtract", "multiply")
    )
    match call.name.split(".")[1]:
        case "sinh":
            # exp(x) - 1 keeps the digits of small numbers.
            grown = writer.unary("exponential_minus_one", x)
            part = writer.binary("divide", grown, add(grown, one))
            small = writer.scaled("multiply", add(grown, part), 0.5)
            # Halved before it is squared: its limit is log(2) beyond that of exp.
            half = writer.unary(
                "exponential", writer.scaled("multiply", writer.unary("abs", x), 0.5)
            )
            large = multiply(
                multiply(writer.scaled("multiply", half, 0.5), half), writer.unary("sign", x)
            )
            is_large = writer.compare("gt", writer.unary("abs", x), writer.filled(10, dtype))
            made = writer.select(is_large, large, small)
        case "cosh":
            half = writer.unary(
                "exponential", writer.scaled("multiply", writer.unary("abs", x), 0.5)
            )
            inverse = writer.binary("divide", one, half)
            large = multiply(writer.scaled("multiply", half, 0.5), half)
            made = add(large, multiply(writer.scaled("multiply", inverse, 0.5), inverse))
        case "asin" | "acos" as name:
            root = writer.unary("sqrt", multiply(subtract(one, x), add(one, x)))
            pair = (x, root) if name == "asin" else (root, x)
            made = writer.binary("atan2", *pair)
        case "asinh":
            size = writer.unary("abs", x)
            root = writer.unary("sqrt", add(multiply(x, x), one))
            more = writer.binary("divide", multiply(x, x), add(one, root))
            near = writer.unary("log_plus_one", add(size, more))
            far = writer.scaled("add", writer.unary("log", size), math.log(2))
            is_far = writer.compare("gt", size, writer.filled(1e10, dtype))
            made = multiply(writer.unary("sign", x), writer.select(is_far, far, near))
        case "acosh":
            root = multiply(
                writer.unary("sqrt", subtract(x, one)), writer.unary("sqrt", add(x, one))
            )
            less = subtract(x, one)
            near = writer.unary("log_plus_one", add(less, root))
            far = writer.scaled("add", writer.unary("log", x), math.log(2))
            made = writer.select(writer.compare("gt", x, writer.filled(1e10, dtype)), far, near)
        case _:
            logs = [writer.unary("log_plus_one", y) for y in (x, writer.unary("negate", x))]
            made = writer.scaled("multiply", subtract(*logs), 0.5)
    return finished(call, made)


@aten("add", "sub", "rsub")
def _add(call: AtenCall) -> int:
    writer, dtype = call.writer, call.type().dtype
    left, right, alpha = call["self"], call["other"], call["alpha"]
    name = call.name.split(".")[1]
    if name == "rsub":
        left, right = right, left
    alpha = 1 if alpha is None else alpha
    numbers = (left, right, alpha) if alpha != 1 else (left, right)
    dtype = working(dtype, *numbers, steps=1 if alpha == 1 else 2)
    x, y = operand(writer, left, dtype), operand(writer, right, dtype)
    if alpha != 1:
        y = writer.scaled("multiply", y, alpha)
    if dtype == "bool" and name != "add":
        raise AtenError("subtracts truth values; allowed: numbers")
    return finished(call, writer.binary("add" if name == "add" else "subtract", x, y))


def _pair(call: AtenCall, dtype: str, *, steps: int = 1) -> tuple[int, int]:
    """Return both operands in the type to compute in."""
    values = call["self"], call["other"]
    dtype = working(dtype, *values, steps=steps)
    left, right = (operand(call.writer, value, dtype) for value in values)
    return left, right


@aten("mul")
def _mul(call: AtenCall) -> int:
    return finished(call, call.writer.binary("multiply", *_pair(call, call.type().dtype)))


@aten("prims.fma")
def _fma(call: AtenCall) -> int:
    # Steps of optimisers, which newer versions of torch round once.
    x, y, z = (operand(call.writer, value, call.type().dtype) for value in call.given.values())
    return finished(call, call.writer.binary("add", call.writer.binary("multiply", x, y), z))


@aten(*_BINARY)
def _binary(call: AtenCall) -> int:
    name = _BINARY[call.name.split(".")[1]]
    return finished(call, call.writer.binary(name, *_pair(call, call.type().dtype)))


@aten("atan2")
def _atan2(call: AtenCall) -> int:
    return finished(call, call.writer.binary("atan2", *_pair(call, call.type().dtype)))


@aten("div")
def _div(call: AtenCall) -> int:
    mode = call["rounding_mode"]
    dtype = call.type().dtype
    left, right = _pair(call, dtype, steps=1 if mode is None else 2)
    if mode == "floor":
        return finished(call, floored(call.writer, left, right))
    quotient = call.writer.binary("divide", left, right)
    return finished(call, quotient if mode is None else _truncated(call.writer, quotient))


@aten("floor_divide")
def _floor_divide(call: AtenCall) -> int:
    return finished(call, floored(call.writer, *_pair(call, call.type().dtype, steps=2)))


def _rest(writer: AtenWriter, left: int, right: int) -> tuple[int, int]:
    """Write the rest of a division toward zero, and whether its sign is not the divisor's."""
    left, right = writer.together(left, right)
    rest = writer.binary("remainder", left, right)
    zero = writer.filled(0, writer.dtype(left))
    signs = [writer.compare("lt", number, zero) for number in (rest, right)]
    differs = writer.binary("xor", *signs)
    return rest, writer.binary("and", differs, writer.compare("ne", rest, zero))


def floored(writer: AtenWriter, left: int, right: int) -> int:
    """Write a quotient rounded down."""
    dtype = writer.dtype(left)
    if dtype.startswith("uint"):
        return writer.binary("divide", left, right)
    rest, is_other = _rest(writer, left, right)
    one = writer.filled(1, dtype)
    if not is_float(dtype):
        quotient = writer.binary("divide", left, right)
        return writer.select(is_other, writer.binary("subtract", quotient, one), quotient)
    # What is left without the rest is a multiple of the divisor: near a whole number.
    quotient = writer.binary("divide", writer.binary("subtract", left, rest), right)
    whole = writer.unary("round_nearest_even", quotient)
    found = writer.select(is_other, writer.binary("subtract", whole, one), whole)
    is_zero = writer.compare("eq", right, writer.filled(0, dtype))
    return writer.select(is_zero, writer.binary("divide", left, right), found)


@aten("remainder")
def _remainder(call: AtenCall) -> int:
    writer = call.writer
    left, right = _pair(call, call.type().dtype, steps=2)
    if writer.dtype(left).startswith("uint"):
        return finished(call, writer.binary("remainder", left, right))
    rest, is_other = _rest(writer, left, right)
    return finished(call, writer.select(is_other, writer.binary("add", rest, right), rest))


@aten("pow")
def _pow(call: AtenCall) -> int:
    writer, dtype = call.writer, call.type().dtype
    base, exponent = call["self"], call["exponent"]
    if isinstance(base, Held) and not isinstance(exponent, Held):
        x = writer.convert(base.number, working(dtype, steps=2))
        made = _plain_power(writer, x, exponent)
        if made is not None:
            return finished(call, made)
    dtype = working(dtype, base, exponent)
    pair = operand(writer, base, dtype), operand(writer, exponent, dtype)
    return finished(call, writer.binary("power", *pair))


def _plain_power(writer: AtenWriter, x: int, exponent: float) -> int | None:
    """Powers that are products and roots."""
    dtype = writer.dtype(x)
    if exponent == 0:
        return writer.broadcast(writer.filled(1, dtype), writer.shape(x))
    if is_float(dtype) and exponent in {0.5, -0.5}:
        return writer.unary("sqrt" if exponent > 0 else "rsqrt", x)
    if exponent != int(exponent) or abs(exponent) > 4 or (exponent < 0 and not is_float(dtype)):
        return None
    made, square, left = None, x, abs(int(exponent))
    while left:
        if left & 1:
            made = square if made is None else writer.binary("multiply", made, square)
        left >>= 1
        if left:
            square = writer.binary("multiply", square, square)
    if made is not None and exponent < 0:
        return writer.binary("divide", writer.filled(1, dtype), made)
    return made


@aten(*_COMPARISONS)
def _compare(call: AtenCall) -> int:
    writer, values = call.writer, (call["self"], call["other"])
    dtype = working(promoted(*values), *values)
    number = values[1]
    if not isinstance(number, Held) and dtype == "int32" and abs(number) > np.iinfo(np.int32).max:
        raise AtenError(f"compares with {number}; allowed: whole numbers of 32 bits")
    direction = call.name.split(".")[1]
    pair = [operand(writer, value, dtype) for value in values]
    return finished(call, writer.compare(direction, *pair))


@aten(*_LOGICAL)
def _logical(call: AtenCall) -> int:
    pair = [call.writer.convert(call.number(name), "bool") for name in ("self", "other")]
    return call.writer.binary(_LOGICAL[call.name.split(".")[1]], *pair)


@aten("logical_not")
def _logical_not(call: AtenCall) -> int:
    return call.writer.unary("not", call.writer.convert(call.number("self"), "bool"))


@aten("isnan", "isinf", "isfinite")
def _is(call: AtenCall) -> int:
    writer, x = call.writer, call.number("self")
    name, kind = call.name.split(".")[1], call.type()
    if not is_float(writer.dtype(x)):
        return writer.broadcast(writer.filled(name == "isfinite", "bool"), kind.shape)
    if name == "isnan":
        return writer.compare("ne", x, x)
    if name == "isfinite":
        return writer.one("is_finite", [x], kind)
    return writer.compare("eq", writer.unary("abs", x), writer.filled(math.inf, writer.dtype(x)))


@aten("where")
def _where(call: AtenCall) -> int:
    writer, dtype = call.writer, call.type().dtype
    chosen = [operand(writer, call[name], dtype) for name in ("self", "other")]
    condition = writer.convert(call.number("condition"), "bool")
    return finished(call, writer.select(condition, *chosen))


@aten("clamp", "clamp_min", "clamp_max")
def _clamp(call: AtenCall) -> int:
    writer, low, high = call.writer, call["min"], call["max"]
    dtype = working(call.type().dtype, low, high)
    x = writer.convert(call.number("self"), dtype)
    # Where the bounds cross it is the upper one, as torch has it.
    for op, bound in (("maximum", low), ("minimum", high)):
        if bound is not None:
            x = writer.binary(op, x, operand(writer, bound, dtype))
    return finished(call, x)


@aten("_to_copy", "to")
def _to_copy(call: AtenCall) -> int:
    return call.writer.convert(call.number("self"), call.type().dtype)


@aten("alias", "detach", "clone", "contiguous", "lift_fresh_copy", "lift_fresh", "_conj", "conj")
def _same(call: AtenCall) -> int:
    return call.number("self")


@aten("copy")
def _copy(call: AtenCall) -> int:
    return finished(call, call.number("src"))
