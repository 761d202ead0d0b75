"""activation, activation_reduce, activate2, exponential."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import trn3.nki.language as nl
from support.conformance.elementwise import SHAPES, ones, ordered
from support.conformance.table import Array, Call, Close, Refusal, Row, Tile, keyword
from support.engines import FLOATS, INTEGERS, cast, widen
from trn3.nki import isa

Generator = np.random.Generator

_erf: Final = np.vectorize(math.erf)
_erfc: Final = np.vectorize(math.erfc)


def _sigmoid(x: Array) -> Array:
    result: Array = 1 / (1 + np.exp(-x))
    return result


def _swish_dx(x: Array) -> Array:
    s = _sigmoid(x)
    result: Array = s * (1 + x * (1 - s))
    return result


def _density(x: Array) -> Array:
    result: Array = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return result


def _sin(x: Array) -> Array:
    # Beyond the range the third-order polynomial about its end goes on.
    away = np.abs(x) - np.pi
    return np.where(away <= 0, np.sin(x), np.sign(x) * (away**3 / 6 - away))


def _gelu_tanh(x: Array) -> Array:
    result: Array = x * _sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    return result


#: The functions in float64, and the range of arguments they are compared on.
FUNCTIONS: Final[dict[str, tuple[Any, float, float]]] = {
    "copy": (lambda x: x, -100, 100),
    "square": (np.square, -100, 100),
    "sigmoid": (_sigmoid, -30, 30),
    "relu": (lambda x: np.maximum(x, 0), -9, 9),
    "gelu": (lambda x: x * 0.5 * _erfc(-x / math.sqrt(2)), -6, 6),
    "gelu_dx": (lambda x: 0.5 * _erfc(-x / math.sqrt(2)) + x * _density(x), 0, 6),
    "gelu_apprx_tanh": (_gelu_tanh, -6, 6),
    "gelu_apprx_sigmoid": (lambda x: x * _sigmoid(1.702 * x), -20, 20),
    "gelu_apprx_sigmoid_dx": (lambda x: _swish_dx(1.702 * x), 0, 20),
    "silu": (lambda x: x * _sigmoid(x), -30, 30),
    "silu_dx": (_swish_dx, 0, 30),
    "tanh": (np.tanh, -20, 20),
    "softplus": (lambda x: np.logaddexp(0, x), -30, 30),
    "mish": (lambda x: x * np.tanh(np.logaddexp(0, x)), -20, 20),
    "erf": (_erf, -6, 6),
    "erf_dx": (lambda x: 2 / math.sqrt(math.pi) * np.exp(-x * x), -4, 4),
    "exp": (np.exp, -80, 80),
    "log": (np.log, 2.0, 2.0**60),
    "sin": (_sin, -3.0, 3.0),
    "arctan": (np.arctan, -1.5, 1.5),
    "sqrt": (np.sqrt, 0, 2.0**100),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 2.0**-6, 2.0**90),
    "reciprocal": (lambda x: 1 / x, 2.0**-6, 2.0**40),
    "sign": (np.sign, -9, 9),
    "abs": (np.abs, -9, 9),
}


def _arguments(rng: Generator, op: str, shape: tuple[int, ...], dtype: str) -> Array:
    _, low, high = FUNCTIONS[op]
    if high > 1e6:
        values = np.exp2(rng.uniform(math.log2(max(low, 2.0**-6)), math.log2(high), shape))
    else:
        values = rng.uniform(low, high, shape)
    limit = {"float16": 6e4, "float8_e4m3": 240, "float8_e4m3fn": 448, "float8_e5m2": 5e4}
    values = np.clip(values, -limit.get(dtype, np.inf), limit.get(dtype, np.inf))
    if dtype in INTEGERS:
        low = 1 if low > 0 else (0 if low == 0 or dtype.startswith("u") else -3)
        values = rng.integers(int(low), 4, shape)
    return cast(values.astype(np.float32), dtype)  # type: ignore[no-any-return]


def _activation(
    op: str, dtype: str, shape: tuple[int, ...], places: tuple[str, ...], rng: Generator
) -> Call:
    x = _arguments(rng, op, shape, dtype)
    exact = FUNCTIONS[op][0](x.astype(np.float64))
    return Call(
        {
            "dst": Tile(shape, "float32", places[1]),
            "op": getattr(nl, op),
            "data": Tile(x, dtype, places[0]),
        },
        {"dst": Close(exact, 2)},
    )


def _result_type(dtype: str, rng: Generator) -> Call:
    x = rng.uniform(-3, 5, (64, 20)).astype(np.float32)
    return Call(
        {"dst": Tile((64, 20), dtype), "op": nl.exp, "data": Tile(x)},
        {"dst": Close(np.exp(x.astype(np.float64)), 2)},
    )


def _scaled(scale: str, bias: str, rng: Generator) -> Call:
    # Few bits, so that float64 holds the exact sum that is rounded once.
    x = rng.integers(-(2**20), 2**20, (64, 30)).astype(np.float32)
    factor = rng.integers(1, 2**12, (64, 1)).astype(np.float32)
    term = rng.integers(-256, 256, (64, 1)).astype(np.float32)
    wide: Any = x.astype(np.float64)
    options: dict[str, Any] = {}
    if scale == "number":
        wide, options["scale"] = wide * 0.5, 0.5
    elif scale != "none":
        wide, options["scale"] = wide * factor, Tile(factor, "float32", scale)
    if bias == "number":
        wide, options["bias"] = wide + 3, 3.0
    elif bias != "none":
        wide, options["bias"] = wide + term, Tile(term, bias)
    return Call(
        {"dst": Tile((64, 30)), "op": nl.copy, "data": Tile(x), **options},
        {"dst": wide.astype(np.float32)},
    )


def _summed(function: str, dtype: str, rng: Generator) -> Call:
    x = rng.normal(size=(32, 21)).astype(np.float32)
    written = cast(x * x, dtype)
    total = ordered("add", widen(written), np.zeros(32, np.float32))[:, np.newaxis]
    options = {} if function == "activation_reduce" else {"reduce_cmd": isa.reduce_cmd.reset_reduce}
    return Call(
        {
            "dst": Tile((32, 21), dtype),
            "op": nl.square,
            "data": Tile(x),
            "reduce_op": nl.add,
            "reduce_res": Tile((32, 1)),
            **options,
        },
        {"dst": written, "reduce_res": total},
    )


def _continued(function: str, rng: Generator) -> Call:
    x = rng.integers(-9, 9, (8, 5)).astype(np.float32)
    names = {
        "activation": ("data", {"op": nl.copy, "reduce_op": nl.add}),
        "exponential": ("src", {}),
    }
    data, options = names[function]
    common = {"dst": Tile((8, 5)), data: Tile(x), **options}
    first = {**common, "reduce_cmd": isa.reduce_cmd.reset_reduce}
    result = {"reduce_cmd": isa.reduce_cmd.reduce, "reduce_res": Tile((8, 1))}
    exact = x.astype(np.float64) if function == "activation" else np.exp(x.astype(np.float64))
    total = 2 * exact.sum(axis=1, keepdims=True)
    return Call({**common, **result}, {"reduce_res": Close(total, 64)}, before=((function, first),))


_PAIRS: Final = (
    ("multiply", "add"),
    ("multiply", "subtract"),
    ("multiply", "bypass"),
    ("add", "bypass"),
    ("subtract", "bypass"),
    ("bypass", "bypass"),
)
_STEP: Final[dict[str, Any]] = {
    "multiply": np.multiply,
    "add": np.add,
    "subtract": np.subtract,
    "bypass": lambda x, _: x,
}


def _activate2(op0: str, op1: str, *, tile: bool, reverse: bool, rng: Generator) -> Call:
    x = rng.integers(-64, 64, (32, 12)).astype(np.float32)
    one, two = (rng.integers(1, 9, (32, 1)).astype(np.float32) for _ in "ab")
    first, second = (one, two) if tile else (np.float32(3), np.float32(2))
    value = x
    for op, operand in ((op0, first), (op1, second)):
        swapped = reverse and op != "bypass"
        value = _STEP[op](operand, value) if swapped else _STEP[op](value, operand)
    return Call(
        {
            "dst": Tile((32, 12)),
            "op": nl.square,
            "data": Tile(x),
            "imm0": Tile(one) if tile else 3.0,
            "imm1": Tile(two) if tile else 2.0,
            "op0": getattr(nl, op0),
            "op1": getattr(nl, op1),
            "reverse0": reverse and op0 != "bypass",
            "reverse1": reverse and op1 != "bypass",
        },
        {"dst": (value * value).astype(np.float32)},
    )


def _leaky(rng: Generator) -> Call:
    x = rng.normal(size=(8, 9)).astype(np.float32)
    return Call(
        {
            "dst": Tile((8, 9)),
            "op": nl.prelu,
            "data": Tile(x),
            "imm0": 1.0,
            "imm1": 0.0,
            "op0": nl.bypass,
            "op1": nl.bypass,
            "relu_param": 0.25,
        },
        {"dst": np.where(x >= 0, x, x * np.float32(0.25))},
    )


def _extremes(op: str, rng: Generator) -> Call:
    x = rng.normal(size=(8, 9)).astype(np.float32)
    order = np.abs(x) if op.startswith("abs") else x
    pick = order.argmax(axis=1) if op.endswith(("max", "maximum")) else order.argmin(axis=1)
    found = np.take_along_axis(x, pick[:, np.newaxis], axis=1)
    # The identity of abs_max is 0, which no number here is smaller than.
    return Call(
        {
            "dst": Tile((8, 9)),
            "op": nl.copy,
            "data": Tile(x),
            "imm0": 1.0,
            "imm1": 0.0,
            "op0": nl.bypass,
            "op1": nl.bypass,
            "reduce_op": getattr(nl, op),
            "reduce_cmd": isa.reduce_cmd.reset_reduce,
            "reduce_res": Tile((8, 1)),
        },
        {"dst": x, "reduce_res": found},
    )


def _exponential(
    source: str, target: str, shape: tuple[int, ...], maximum: str, rng: Generator
) -> Call:
    x = rng.integers(-3, 4, shape) if source in INTEGERS else rng.uniform(-3, 3, shape)
    if source.startswith("u"):
        x = np.abs(x)
    x = cast(x.astype(np.float32), source)
    column = rng.integers(0, 4, (shape[0], 1)).astype(np.float32)
    shift: Any = column.reshape(shape[0], *(1 for _ in shape[1:])) if maximum == "tile" else 1.5
    exact = np.exp(widen(x).astype(np.float64) - shift)
    return Call(
        {
            "dst": Tile(shape, target),
            "src": Tile(x, source),
            "max_value": Tile(column) if maximum == "tile" else 1.5,
        },
        {"dst": Close(exact, 4)},
    )


def rows() -> Iterator[Row]:
    """Yield the rows of this module's functions."""
    row = partial(Row, "activation")
    sbuf = ("sbuf", "sbuf")
    for op in FUNCTIONS:
        for dtype in FLOATS + INTEGERS:
            yield row(f"{op}-{dtype}", partial(_activation, op, dtype, (33, 12), sbuf))
        for arch in ("trn1", "trn2"):
            yield row(f"{op}-{arch}", partial(_activation, op, "bfloat16", (8, 12), sbuf), arch)
    for shape in SHAPES[:-1]:
        yield row(f"shape-{shape}", partial(_activation, "exp", "bfloat16", shape, sbuf))
    for place in (("psum", "sbuf"), ("sbuf", "psum"), ("psum", "psum")):
        yield row("-".join(place), partial(_activation, "tanh", "float32", (128, 512), place))
    for dtype in FLOATS + INTEGERS:
        yield row(f"to-{dtype}", partial(_result_type, dtype))
    for scale in ("none", "number", "sbuf", "psum"):
        for bias in ("none", "number", "float32", "bfloat16", "float16", "int32"):
            yield row(f"scale-{scale}-bias-{bias}", partial(_scaled, scale, bias))
    for dtype in FLOATS:
        yield row(f"reset_reduce-{dtype}", partial(_summed, "activation", dtype))
        yield Row("activation_reduce", dtype, partial(_summed, "activation_reduce", dtype))
    yield row("reduce-continues", partial(_continued, "activation"))
    yield Row("activation_reduce", "trn1", partial(_summed, "activation_reduce", "float32"), "trn1")

    row = partial(Row, "activate2")
    for op0, op1 in _PAIRS:
        for tile in (False, True):
            for reverse in (False, True):
                build = partial(_activate2, op0, op1, tile=tile, reverse=reverse)
                label = f"{op0}-{op1}-{'tile' if tile else 'number'}{'-reverse' if reverse else ''}"
                yield row(label, keyword(build))
    yield row("prelu", _leaky)
    for op in ("maximum", "minimum", "abs_max", "abs_min"):
        yield row(f"reduce-{op}", partial(_extremes, op))

    row = partial(Row, "exponential")
    floats = [name for name in FLOATS if name != "float8_e4m3fn"]
    for source in floats + INTEGERS:
        yield row(f"from-{source}", partial(_exponential, source, "float32", (32, 20), "number"))
    for target in [*floats, "int8", "int16", "int32", "uint8", "uint16"]:
        yield row(f"to-{target}", partial(_exponential, "float32", target, (32, 20), "tile"))
    for shape in SHAPES[:-1]:
        yield row(f"shape-{shape}", partial(_exponential, "bfloat16", "bfloat16", shape, "tile"))
    yield row("reduce-continues", partial(_continued, "exponential"))


def refusals() -> Iterator[Refusal]:
    """Yield the calls that this module's functions refuse."""

    def call(**changed: Any) -> dict[str, Any]:
        return {"dst": Tile((8, 4)), "op": nl.exp, "data": ones((8, 4)), **changed}

    command = isa.reduce_cmd
    no = partial(Refusal, "activation")
    yield no("no-function", lambda: call(op=nl.power), "function is", ValueError)
    yield no("prelu", lambda: call(op=nl.prelu), "prelu")
    yield no("scale-type", lambda: call(scale=ones((8, 1), "bfloat16")), "scale")
    yield no("scale-shape", lambda: call(scale=ones((8, 2))), "scale")
    yield no("bias-type", lambda: call(bias=Tile(np.ones((8, 1), np.float32), "tfloat32")), "bias")
    yield no("bias-shape", lambda: call(bias=ones((8, 2))), "bias")
    yield no("bias-number-trn1", lambda: call(bias=1.0), "gen3", arch="trn1")
    yield no(
        "reciprocal-bias-trn1",
        lambda: call(op=nl.reciprocal, bias=ones((8, 1))),
        "bias",
        arch="trn1",
    )
    yield no(
        "reduce_op",
        lambda: call(reduce_op=nl.maximum, reduce_cmd=command.reset_reduce),
        "reduce_op",
    )
    yield no(
        "reduce_res-shape", lambda: call(reduce_op=nl.add, reduce_res=Tile((8, 2))), "reduce_res"
    )
    yield no(
        "load_reduce", lambda: call(reduce_op=nl.add, reduce_cmd=command.load_reduce), "reduce_cmd"
    )
    yield no("elements", lambda: call(dst=Tile((8, 5))), "elements")
    yield no("partitions", lambda: call(dst=Tile((4, 4))), "partition")
    yield no("hbm", lambda: call(data=ones((8, 4), buffer="hbm")), "data")
    yield no("command-unknown", lambda: call(reduce_cmd=99), "reduce_cmd", TypeError)
    yield no("unknown-keyword", lambda: call(mask=None), "mask", TypeError)

    no = partial(Refusal, "activation_reduce")

    def summed(**changed: Any) -> dict[str, Any]:
        return call(**{"reduce_op": nl.add, "reduce_res": Tile((8, 1)), **changed})

    yield no("reduce_op", lambda: summed(reduce_op=nl.maximum), "reduce_op")
    yield no("reduce_res-shape", lambda: summed(reduce_res=Tile((8, 4))), "reduce_res")

    def two(**changed: Any) -> dict[str, Any]:
        return call(**{"imm0": 1.0, "imm1": 0.0, "op0": nl.multiply, "op1": nl.add, **changed})

    no = partial(Refusal, "activate2")
    yield no("pair", lambda: two(op0=nl.add, op1=nl.multiply), "op0|op1")
    yield no(
        "reduce_op",
        lambda: two(reduce_op=nl.multiply, reduce_cmd=command.reset_reduce),
        "reduce_op",
    )
    yield no("types-differ", lambda: two(imm0=ones((8, 1)), imm1=ones((8, 1), "bfloat16")), "imm")
    yield no("imm-shape", lambda: two(imm0=ones((8, 2))), "imm0")
    yield no("trn2", two, "gen4", arch="trn2")

    def exponential(**changed: Any) -> dict[str, Any]:
        return {"dst": Tile((8, 4)), "src": ones((8, 4)), **changed}

    no = partial(Refusal, "exponential")
    yield no("init-alone", lambda: exponential(reduce_init=1.0), "reduce_init")
    yield no("max_value-shape", lambda: exponential(max_value=ones((8, 2))), "max_value")
    yield no("max_value-type", lambda: exponential(max_value=ones((8, 1), "bfloat16")), "max_value")
    yield no("ocp-src", lambda: exponential(src=ones((8, 4), "float8_e4m3fn")), "float8_e4m3fn")
    yield no("ocp-dst", lambda: exponential(dst=Tile((8, 4), "float8_e4m3fn")), "float8_e4m3fn")
    yield no("to-uint32", lambda: exponential(dst=Tile((8, 4), "uint32")), "uint32")
    yield no("reset", lambda: exponential(reduce_cmd=command.reset), "reduce_cmd")
    yield no("trn2", exponential, "gen4", arch="trn2")
