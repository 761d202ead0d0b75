"""tensor_tensor, tensor_scalar, scalar_tensor_tensor, tensor_scalar_reduce, reciprocal."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import trn3.nki.language as nl
from support.conformance.table import Array, Call, Close, Refusal, Row, Tile, keyword
from support.engines import FLOATS, INTEGERS, TYPES, cast, sample, widen
from trn3.nki import isa

Generator = np.random.Generator


def _larger(x: Array, y: Array) -> Array:
    return np.where(np.abs(x) > np.abs(y), x, y)


def _smaller(x: Array, y: Array) -> Array:
    return np.where(np.abs(x) < np.abs(y), x, y)


#: Arithmetic on float32.
ARITHMETIC: Final[dict[str, Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "greater_equal": np.greater_equal,
    "greater": np.greater,
    "less_equal": np.less_equal,
    "less": np.less,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}
#: Of gen4 alone.
MAGNITUDES: Final[dict[str, Any]] = {"abs_max": _larger, "abs_min": _smaller}
BITS: Final[dict[str, Any]] = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}
#: Free shapes at the limits: one element, the odd, PSUM's bank, many axes, the largest.
SHAPES: Final = ((128, 1), (1, 7), (33, 5), (128, 512), (64, 2, 3, 4), (2, 65536))
PLACES: Final = (("sbuf", "sbuf", "sbuf"), ("sbuf", "psum", "sbuf"), ("psum", "sbuf", "psum"))


def _pair(rng: Generator, shape: tuple[int, ...], dtype: str) -> tuple[Array, Array]:
    x, y = sample(rng, shape, dtype), sample(rng, shape, dtype)
    # Ties and zeros decide comparisons.
    y.reshape(-1)[::5] = x.reshape(-1)[::5]
    y.reshape(-1)[::7] = 0
    return x, y


def _float32(operator: Any, x: Array, y: Any) -> Array:
    result: Array = operator(widen(x), y).astype(np.float32)
    return result


def _tensor_tensor(
    op: str, dtype: str, shape: tuple[int, ...], places: tuple[str, ...], rng: Generator
) -> Call:
    x, y = _pair(rng, shape, dtype)
    operator = {**ARITHMETIC, **MAGNITUDES}[op]
    return Call(
        {
            "dst": Tile(shape, dtype, places[2]),
            "data1": Tile(x, dtype, places[0]),
            "data2": Tile(y, dtype, places[1]),
            "op": getattr(nl, op),
            "engine": isa.vector_engine,
        },
        {"dst": cast(_float32(operator, x, widen(y)), dtype)},
    )


def _mixed(first: str, second: str, out: str, engine: Any, rng: Generator) -> Call:
    x, y = sample(rng, (16, 9), first), sample(rng, (16, 9), second)
    return Call(
        {
            "dst": Tile((16, 9), out),
            "data1": Tile(x, first),
            "data2": Tile(y, second),
            "op": nl.add,
            "engine": engine,
        },
        {"dst": cast(widen(x) + widen(y), out)},
    )


def _integers(op: str, dtype: str, rng: Generator) -> Call:
    limits = np.iinfo(TYPES[dtype])
    x, y = (rng.integers(limits.min, limits.max, (128, 16), TYPES[dtype], True) for _ in "xy")
    exact = ARITHMETIC[op](x, y).astype(TYPES[dtype])
    return Call(
        {
            "dst": Tile((128, 16), dtype),
            "data1": Tile(x, dtype),
            "data2": Tile(y, dtype),
            "op": getattr(nl, op),
        },
        {"dst": exact},
    )


def _bits(op: str, dtype: str, rng: Generator) -> Call:
    x, y = sample(rng, (64, 9), dtype), sample(rng, (64, 9), dtype)
    return Call(
        {
            "dst": Tile((64, 9), dtype),
            "data1": Tile(x, dtype),
            "data2": Tile(y, dtype),
            "op": getattr(nl, op),
        },
        {"dst": BITS[op](x, y)},
    )


def _shift(op: str, dtype: str, rng: Generator) -> Call:
    kind = np.dtype(TYPES[dtype])
    unsigned = np.dtype(f"u{kind.itemsize}")
    x = rng.integers(0, np.iinfo(unsigned).max, (8, 16), unsigned, True)
    y = rng.integers(0, 8 * kind.itemsize, (8, 16)).astype(unsigned)
    exact = (x << y if op == "left_shift" else x >> y).view(kind)
    return Call(
        {
            "dst": Tile((8, 16), dtype),
            "data1": Tile(x.view(kind), dtype),
            "data2": Tile(y.view(kind), dtype),
            "op": getattr(nl, op),
        },
        {"dst": exact},
    )


def _power(rng: Generator) -> Call:
    x = rng.uniform(0.1, 3, (128, 8)).astype(np.float32)
    y = rng.normal(0, 2, (128, 8)).astype(np.float32)
    exact = np.power(x.astype(np.float64), y.astype(np.float64))
    return Call(
        {"dst": Tile((128, 8)), "data1": Tile(x), "data2": Tile(y), "op": nl.power},
        {"dst": Close(exact, 1)},
    )


def _ranks(rng: Generator) -> Call:
    x, y = (rng.normal(size=s).astype(np.float32) for s in ((32, 4, 6), (32, 24)))
    return Call(
        {"dst": Tile((32, 2, 12)), "data1": Tile(x), "data2": Tile(y), "op": np.add},
        {"dst": (x.reshape(32, 24) + y).reshape(32, 2, 12)},
    )


def _tensor_scalar(op: str, dtype: str, operand: str, *, reverse: bool, rng: Generator) -> Call:
    x = sample(rng, (64, 21), dtype)
    column = rng.integers(-3, 4, (64, 1)).astype(np.float32)
    value: Any = column if operand == "tile" else np.float32(2)
    left, right = (value, widen(x)) if reverse else (widen(x), value)
    operator = {**ARITHMETIC, **MAGNITUDES}[op]
    result = np.broadcast_to(operator(left, right), (64, 21)).astype(np.float32)
    return Call(
        {
            "dst": Tile((64, 21), dtype),
            "data": Tile(x, dtype),
            "op0": getattr(nl, op),
            "operand0": Tile(column) if operand == "tile" else 2.0,
            "reverse0": reverse,
        },
        {"dst": cast(result, dtype)},
    )


def _two(op0: str, op1: str, buffer: str, engine: Any, rng: Generator) -> Call:
    x = rng.normal(size=(128, 40)).astype(np.float32)
    column = rng.normal(size=(128, 1)).astype(np.float32)
    first = ARITHMETIC[op0](x, column).astype(np.float32)
    result = ARITHMETIC[op1](first, np.float32(0.25)).astype(np.float32)
    return Call(
        {
            "dst": Tile((128, 40), "float32", buffer),
            "data": Tile(x, "float32", buffer),
            "op0": getattr(nl, op0),
            "operand0": Tile(column),
            "op1": getattr(nl, op1),
            "operand1": 0.25,
            "engine": engine,
        },
        {"dst": result},
    )


def _scalar_bits(op: str, dtype: str, rng: Generator) -> Call:
    x = sample(rng, (16, 8), dtype)
    return Call(
        {
            "dst": Tile((16, 8), dtype),
            "data": Tile(x, dtype),
            "op0": getattr(nl, op),
            "operand0": 5,
        },
        {"dst": BITS[op](x, np.array(5, TYPES[dtype]))},
    )


def _unary(op: str, function: Any, ulps: float, rng: Generator) -> Call:
    x = rng.uniform(0.5, 9, (16, 8)).astype(np.float32)
    if ulps == 0:
        x -= np.float32(4)
    exact = function(x.astype(np.float64))
    return Call(
        {"dst": Tile((16, 8)), "data": Tile(x), "op0": getattr(nl, op), "operand0": None},
        {"dst": Close(exact, ulps)},
    )


def _scalar_tensor_tensor(
    op0: str, op1: str, dtype: str, places: tuple[str, ...], rng: Generator
) -> Call:
    x, y = _pair(rng, (64, 30), dtype)
    column = rng.normal(size=(64, 1)).astype(np.float32)
    first = _float32(ARITHMETIC[op0], x, column)
    return Call(
        {
            "dst": Tile((64, 30), dtype, places[2]),
            "data": Tile(x, dtype, places[0]),
            "op0": getattr(nl, op0),
            "operand0": Tile(column),
            "op1": getattr(nl, op1),
            "operand1": Tile(y, dtype, places[1]),
        },
        {"dst": cast(_float32(ARITHMETIC[op1], first, widen(y)), dtype)},
    )


def _reversed(rng: Generator) -> Call:
    x, y = (rng.normal(size=(8, 30)).astype(np.float32) for _ in "xy")
    return Call(
        {
            "dst": Tile((8, 30)),
            "data": Tile(x),
            "op0": nl.subtract,
            "operand0": 3.0,
            "op1": nl.subtract,
            "operand1": Tile(y),
            "reverse0": True,
            "reverse1": True,
        },
        {"dst": y - (np.float32(3) - x)},
    )


def ordered(op: str, values: Array, start: Array) -> Array:
    """Reduce the last axis in ascending order in float32."""
    total = start.astype(np.float32)
    for column in range(values.shape[-1]):
        total = ARITHMETIC[op](total, values[..., column]).astype(np.float32)
    return total


IDENTITIES: Final = {"add": 0.0, "multiply": 1.0, "maximum": -np.inf, "minimum": np.inf}


def _reduce(op: str, dtype: str, command: str, *, negate: bool, rng: Generator) -> Call:
    x = cast(rng.uniform(0.9, 1.1, (128, 24)).astype(np.float32), dtype)
    shifted = (widen(x) * np.float32(0.5)).astype(np.float32)
    start = np.full(128, IDENTITIES[op], np.float32)
    options: dict[str, Any] = {}
    if command == "load_reduce":
        start[:] = 0.75
        options["reduce_init"] = 0.75
    total = ordered(op, shifted, start)[:, np.newaxis]
    return Call(
        {
            "dst": Tile((128, 24), dtype),
            "data": Tile(x, dtype),
            "op0": nl.multiply,
            "operand0": 0.5,
            "reduce_op": getattr(nl, op),
            "reduce_res": Tile((128, 1)),
            "reduce_cmd": isa.reduce_cmd[command],
            "reduce_res_negate": negate,
            **options,
        },
        {"dst": cast(shifted, dtype), "reduce_res": -total if negate else total},
    )


def _continued(rng: Generator) -> Call:
    x = rng.normal(size=(8, 5)).astype(np.float32)
    common = {
        "dst": Tile((8, 5)),
        "data": Tile(x),
        "op0": nl.add,
        "operand0": 1.0,
        "reduce_op": nl.maximum,
    }
    total = (x + np.float32(1)).max(axis=1, keepdims=True)
    reduce = isa.reduce_cmd.reduce
    return Call(
        {**common, "reduce_res": Tile((8, 1)), "reduce_cmd": reduce},
        {"reduce_res": total},
        before=(("tensor_scalar_reduce", common),),
    )


def _reciprocal(
    dtype: str, shape: tuple[int, ...], places: tuple[str, ...], rng: Generator
) -> Call:
    x = sample(rng, shape, dtype)
    x = np.where(widen(x) == 0, np.ones((), x.dtype), x)
    with np.errstate(over="ignore"):
        exact = (np.float64(1) / x.astype(np.float64)).astype(np.float32)
    return Call(
        {"dst": Tile(shape, dtype, places[1]), "data": Tile(x, dtype, places[0])},
        {"dst": cast(exact, dtype)},
    )


def _special(rng: Generator) -> Call:
    x = np.array([[0.0, -0.0, np.inf, -np.inf, np.nan]], np.float32)
    wanted = np.array([[np.inf, -np.inf, 0.0, -0.0, np.nan]], np.float32)
    return Call({"dst": Tile((1, 5)), "data": Tile(x)}, {"dst": wanted})


def rows() -> Iterator[Row]:
    """Yield the rows of this module's functions."""
    places: tuple[str, ...]
    row = partial(Row, "tensor_tensor")
    for dtype in FLOATS + INTEGERS:
        for op in (*ARITHMETIC, *MAGNITUDES):
            build = partial(_tensor_tensor, op, dtype, (33, 37), PLACES[0])
            yield row(f"{op}-{dtype}", build)
    for shape in SHAPES:
        yield row(f"shape-{shape}", partial(_tensor_tensor, "add", "float8_e5m2", shape, PLACES[0]))
    for places in PLACES:
        build = partial(_tensor_tensor, "subtract", "float32", (128, 64), places)
        yield row(f"{'-'.join(places)}", build)
    for arch in ("trn1", "trn2"):
        build = partial(_tensor_tensor, "multiply", "bfloat16", (128, 64), PLACES[0])
        yield row(f"multiply-{arch}", build, arch)
    for first, second, out in (
        ("bfloat16", "float32", "float16"),
        ("int32", "float16", "float32"),
        ("uint8", "int16", "int8"),
        ("float8_e4m3", "float8_e5m2", "bfloat16"),
        ("float32", "float32", "uint8"),
        ("float32", "float32", "float8_e5m2"),
    ):
        for engine in (isa.vector_engine, isa.gpsimd_engine):
            build = partial(_mixed, first, second, out, engine)
            yield row(f"{first}-{second}-{out}-{engine.name}", build)
    for dtype in ("int32", "uint32"):
        for op in ("add", "subtract", "multiply", "maximum", "minimum", "less", "equal"):
            yield row(f"{op}-exact-{dtype}", partial(_integers, op, dtype))
    for dtype in INTEGERS:
        for op in BITS:
            yield row(f"{op}-{dtype}", partial(_bits, op, dtype))
        for op in ("left_shift", "right_shift"):
            yield row(f"{op}-{dtype}", partial(_shift, op, dtype))
    yield row("power", _power)
    yield row("ranks-differ", _ranks)

    row = partial(Row, "tensor_scalar")
    for dtype in FLOATS + INTEGERS:
        for op in (*ARITHMETIC, *MAGNITUDES):
            for operand, reverse in (("number", False), ("tile", False), ("tile", True)):
                build = partial(_tensor_scalar, op, dtype, operand, reverse=reverse)
                label = f"{op}-{dtype}-{operand}{'-reverse' if reverse else ''}"
                yield row(label, keyword(build))
    for op0, op1 in (("multiply", "add"), ("subtract", "multiply"), ("maximum", "minimum")):
        for buffer in ("sbuf", "psum"):
            build = partial(_two, op0, op1, buffer, isa.vector_engine)
            yield row(f"{op0}-{op1}-{buffer}", build)
    for arch in ("trn2", "trn3"):
        build = partial(_two, "multiply", "add", "sbuf", isa.scalar_engine)
        yield row(f"multiply-add-scalar-engine-{arch}", build, arch)
    for dtype in INTEGERS:
        for op in BITS:
            yield row(f"{op}-{dtype}", partial(_scalar_bits, op, dtype))
    for op, function, ulps in (
        ("abs", np.abs, 0),
        ("square", np.square, 0),
        ("relu", lambda x: np.maximum(x, 0), 0),
        ("rsqrt", lambda x: 1 / np.sqrt(x), 1),
    ):
        yield row(op, partial(_unary, op, function, ulps))

    row = partial(Row, "scalar_tensor_tensor")
    for dtype in FLOATS + INTEGERS:
        for op0, op1 in (("subtract", "multiply"), ("multiply", "add"), ("add", "maximum")):
            build = partial(_scalar_tensor_tensor, op0, op1, dtype, PLACES[0])
            yield row(f"{op0}-{op1}-{dtype}", build)
    for op in ARITHMETIC:
        yield row(f"{op}-add", partial(_scalar_tensor_tensor, op, "add", "float32", PLACES[0]))
    for places in PLACES:
        build = partial(_scalar_tensor_tensor, "subtract", "multiply", "float32", places)
        yield row("-".join(places), build)
    yield row("reversed", _reversed)

    row = partial(Row, "tensor_scalar_reduce")
    for dtype in FLOATS:
        for op in IDENTITIES:
            for command in ("reset_reduce", "load_reduce"):
                build = partial(_reduce, op, dtype, command, negate=False)
                yield row(f"{op}-{dtype}-{command}", keyword(build))
    yield row("negate", lambda rng: _reduce("add", "float32", "reset_reduce", negate=True, rng=rng))
    yield row("reduce-continues", _continued)

    row = partial(Row, "reciprocal")
    for dtype in FLOATS:
        yield row(dtype, partial(_reciprocal, dtype, (64, 33), ("sbuf", "sbuf")))
    for shape in SHAPES:
        yield row(f"shape-{shape}", partial(_reciprocal, "float8_e5m2", shape, ("sbuf", "sbuf")))
    for places in (("psum", "sbuf"), ("sbuf", "psum"), ("psum", "psum")):
        yield row("-".join(places), partial(_reciprocal, "float32", (128, 512), places))
    yield row("zeros-infinities-nan", _special)


def _three(**changed: Any) -> dict[str, Any]:
    names = {
        "dst": Tile((8, 4)),
        "data1": Tile(np.ones((8, 4), np.float32)),
        "data2": Tile(np.ones((8, 4), np.float32)),
        "op": nl.add,
    }
    return {**names, **changed}


def _one(**changed: Any) -> dict[str, Any]:
    names = {
        "dst": Tile((8, 4)),
        "data": Tile(np.ones((8, 4), np.float32)),
        "op0": nl.add,
        "operand0": 1.0,
    }
    return {**names, **changed}


def _mixture(**changed: Any) -> dict[str, Any]:
    return _one(op1=nl.add, operand1=Tile(np.ones((8, 4), np.float32)), **changed)


def _reducing(**changed: Any) -> dict[str, Any]:
    return _one(**{"reduce_op": nl.add, "reduce_res": Tile((8, 1)), **changed})


def ones(shape: tuple[int, ...], dtype: str = "float32", buffer: str = "sbuf") -> Tile:
    """Return a tile of ones."""
    return Tile(np.ones(shape, TYPES[dtype]), dtype, buffer)


def refusals() -> Iterator[Refusal]:
    """Yield the calls that this module's functions refuse."""
    no = partial(Refusal, "tensor_tensor")
    psum = ones((8, 4), buffer="psum")
    whole = ones((8, 4), "int32")
    yield no("both-in-psum", lambda: _three(data1=psum, data2=ones((8, 4), buffer="psum")), "PSUM")
    yield no("partitions", lambda: _three(data2=ones((4, 4))), "partition")
    yield no("elements", lambda: _three(data2=ones((8, 5))), "elements")
    yield no("hbm", lambda: _three(data1=ones((8, 4), buffer="hbm")), "data1")
    yield no("bits-of-floats", lambda: _three(op=nl.bitwise_and), "integer")
    yield no("power-psum", lambda: _three(op=nl.power, data1=psum), "sbuf")
    yield no("power-vector", lambda: _three(op=nl.power, engine=isa.vector_engine), "gpsimd")
    yield no("gpsimd-psum", lambda: _three(data1=psum, engine=isa.gpsimd_engine), "sbuf")
    yield no("engine", lambda: _three(engine=isa.tensor_engine), "engine")
    yield no("engine-unknown", lambda: _three(engine=99), "engine", TypeError)
    yield no("no-operator", lambda: _three(op="nonsense"), "op is", TypeError)
    yield no("unary", lambda: _three(op=nl.invert), "op")
    yield no("divide", lambda: _three(op=nl.divide), "op is divide", TypeError)
    yield no("number", lambda: _three(data2=1.0), "data2", TypeError)
    yield no("unknown-keyword", lambda: _three(mask=None), "mask", TypeError)
    yield no("abs_max-trn2", lambda: _three(op=nl.abs_max), "gen4", arch="trn2")

    no = partial(Refusal, "tensor_scalar")
    yield no("mixed-classes", lambda: _one(op1=nl.bitwise_and, operand1=1), "both|class|integer")
    yield no("bits-of-floats", lambda: _one(op0=nl.bitwise_or, operand0=1), "integer")
    yield no("operand-type", lambda: _one(operand0=ones((8, 1), "bfloat16")), "float32")
    yield no("operand-shape", lambda: _one(operand0=ones((8, 2))), "operand0")
    yield no("operand-partitions", lambda: _one(operand0=ones((4, 1))), "operand0")
    yield no("operand-missing", lambda: _one(operand0=None), "operand0")
    yield no("unary-with-operand", lambda: _one(op0=nl.abs, operand0=2.0), "operand0")
    yield no("rsqrt-psum", lambda: _one(op0=nl.rsqrt, operand0=None, data=psum), "sbuf")
    yield no("elements", lambda: _one(dst=Tile((8, 5))), "elements")
    yield no("partitions", lambda: _one(dst=Tile((4, 4))), "partition")
    yield no("hbm", lambda: _one(data=ones((8, 4), buffer="hbm")), "data")
    yield no("gpsimd-add", lambda: _one(engine=isa.gpsimd_engine), "gpsimd|engine")
    yield no("scalar-engine-trn1", lambda: _one(engine=isa.scalar_engine), "gen3", arch="trn1")
    yield no(
        "scalar-engine-maximum-trn2",
        lambda: _one(op0=nl.maximum, engine=isa.scalar_engine),
        "multiply",
        arch="trn2",
    )
    for op in ("square", "relu", "abs_max", "abs_min"):
        operand = None if op in ("square", "relu") else 1.0
        yield no(
            f"{op}-trn2",
            partial(_one, op0=getattr(nl, op), operand0=operand),
            "gen4",
            arch="trn2",
        )
    yield no("unknown-keyword", lambda: _one(mask=None), "mask", TypeError)

    no = partial(Refusal, "scalar_tensor_tensor")
    yield no(
        "both-in-psum",
        lambda: _mixture(data=psum) | {"operand1": ones((8, 4), buffer="psum")},
        "PSUM",
    )
    yield no("bits", lambda: _mixture(op0=nl.bitwise_and, data=whole), "arithmetic|bitwise_and")
    yield no("operand1-number", lambda: _mixture() | {"operand1": 1.0}, "operand1", TypeError)
    yield no("operand1-elements", lambda: _mixture() | {"operand1": ones((8, 3))}, "elements")
    yield no("operand0-shape", lambda: _mixture(operand0=ones((8, 2))), "operand0")

    no = partial(Refusal, "tensor_scalar_reduce")
    yield no("bits", lambda: _reducing(op0=nl.bitwise_or, data=whole), "arithmetic|bitwise_or")
    yield no("reduce_op", lambda: _reducing(reduce_op=nl.power), "reduce_op")
    yield no("reduce_res-shape", lambda: _reducing(reduce_res=Tile((8, 2))), "reduce_res")
    yield no("init-alone", lambda: _reducing(reduce_init=1.0), "reduce_init")
    load = isa.reduce_cmd.load_reduce
    yield no("init-missing", lambda: _reducing(reduce_cmd=load), "reduce_init")
    yield no("idle", lambda: _reducing(reduce_cmd=isa.reduce_cmd.idle), "reduce_cmd")
    yield no("command-unknown", lambda: _reducing(reduce_cmd=99), "reduce_cmd", TypeError)
    yield no("reverse0", lambda: _reducing(reverse0=True), "reverse0")

    no = partial(Refusal, "reciprocal")
    plain: dict[str, Any] = {"dst": Tile((8, 4)), "data": ones((8, 4))}
    yield no("elements", lambda: plain | {"dst": Tile((8, 5))}, "elements")
    yield no("partitions", lambda: plain | {"dst": Tile((4, 4))}, "partition")
    yield no("hbm", lambda: plain | {"data": ones((8, 4), buffer="hbm")}, "data")
    yield no("number", lambda: plain | {"data": 1.0}, "data", TypeError)
