"""tensor_reduce, scans, statistics, tensor_partition_reduce."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import trn3.nki.language as nl
from support.conformance.elementwise import ARITHMETIC, BITS, IDENTITIES, ones, ordered
from support.conformance.table import Call, Close, Refusal, Row, Tile, keyword
from support.engines import FLOATS, INTEGERS, cast, sample, widen
from trn3.nki import isa

Generator = np.random.Generator

_START: Final = {
    **IDENTITIES,
    "subtract": 0.0,
    "logical_and": 1.0,
    "logical_or": 0.0,
    "logical_xor": 0.0,
}


def _tensor_reduce(
    op: str,
    dtype: str,
    shape: tuple[int, ...],
    axis: tuple[int, ...],
    places: tuple[str, ...],
    options: dict[str, Any],
    rng: Generator,
) -> Call:
    x = sample(rng, shape, dtype)
    if op == "multiply":
        x = cast(rng.uniform(0.9, 1.1, shape).astype(np.float32), dtype)
    kept = shape[: axis[0]]
    flat = widen(x).reshape(*kept, -1)
    total = ordered(op, flat, np.full(kept, _START[op], np.float32))
    if options.get("negate"):
        total = -total
    out = kept if len(kept) > 1 else (*kept, 1)
    if options.get("keepdims"):
        out = (*kept, *(1 for _ in axis))
    return Call(
        {
            "dst": Tile(out, dtype, places[1]),
            "op": getattr(nl, op),
            "data": Tile(x, dtype, places[0]),
            "axis": axis if len(axis) > 1 else axis[0],
            **options,
        },
        {"dst": cast(total, dtype).reshape(out)},
    )


def _reduce_bits(op: str, dtype: str, rng: Generator) -> Call:
    x = sample(rng, (16, 9), dtype)
    return Call(
        {"dst": Tile((16, 1), dtype), "op": getattr(nl, op), "data": Tile(x, dtype), "axis": 1},
        {"dst": BITS[op].reduce(x, axis=1, keepdims=True)},
    )


def _scan(
    op0: str,
    op1: str,
    dtype: str,
    places: tuple[str, ...],
    *,
    tile: bool,
    reverse: bool,
    rng: Generator,
) -> Call:
    x = cast(rng.uniform(0.5, 1.1, (64, 30)).astype(np.float32), dtype)
    y = cast(rng.normal(size=(64, 30)).astype(np.float32), dtype)
    start = rng.normal(size=(64, 1)).astype(np.float32)
    carried = start[:, 0] if tile else np.full(64, 0.5, np.float32)
    result = np.empty((64, 30), np.float32)
    for i in range(30):
        a, b = widen(x)[:, i], carried
        first = ARITHMETIC[op0](*((b, a) if reverse else (a, b))).astype(np.float32)
        a, b = first, widen(y)[:, i]
        carried = ARITHMETIC[op1](*((b, a) if reverse else (a, b))).astype(np.float32)
        result[:, i] = carried
    return Call(
        {
            "dst": Tile((64, 30), dtype, places[2]),
            "data0": Tile(x, dtype, places[0]),
            "data1": Tile(y, dtype, places[1]),
            "initial": Tile(start) if tile else 0.5,
            "op0": getattr(nl, op0),
            "op1": getattr(nl, op1),
            "reverse0": reverse,
            "reverse1": reverse,
        },
        {"dst": cast(result, dtype)},
    )


def _cumulative(
    op0: str, op1: str, dtype: str, command: str, *, tile: bool, rng: Generator
) -> Call:
    x = cast(rng.uniform(0.9, 1.1, (16, 20)).astype(np.float32), dtype)
    column = rng.uniform(0.9, 1.1, (16, 1)).astype(np.float32)
    imm0: Any = column[:, 0] if tile else np.float32(1.5)
    register = np.full(16, _START[op1], np.float32)
    options: dict[str, Any] = {}
    if command == "load_reduce":
        register[:] = 0.25
        options["imm1"] = 0.25
    result = np.empty((16, 20), np.float32)
    for i in range(20):
        first = ARITHMETIC[op0](widen(x)[:, i], imm0).astype(np.float32)
        register = ARITHMETIC[op1](first, register).astype(np.float32)
        result[:, i] = register
    return Call(
        {
            "dst": Tile((16, 20), dtype),
            "src": Tile(x, dtype),
            "op0": getattr(nl, op0),
            "op1": getattr(nl, op1),
            "imm0": Tile(column) if tile else 1.5,
            "reduce_cmd": isa.reduce_cmd[command],
            **options,
        },
        {"dst": cast(result, dtype)},
    )


def _bn_stats(dtype: str, length: int, places: tuple[str, ...], rng: Generator) -> Call:
    x = sample(rng, (32, length), dtype)
    wide = x.astype(np.float64)
    columns = []
    for half in (wide[:, 0::2], wide[:, 1::2]):
        count = half.shape[1]
        middle = half.mean(axis=1) if count else np.zeros(32)
        spread = ((half - middle[:, np.newaxis]) ** 2).sum(axis=1)
        columns += [np.full(32, float(count)), middle, spread]
    exact = np.stack(columns, axis=1)
    # Float32 sums: an error of the size of the summands, not of the sum.
    scale = np.abs(wide).max() ** 2 * length
    reach = scale / np.maximum(np.spacing(np.abs(exact).astype(np.float32)), 1e-45) * 2.0**-22
    return Call(
        {"dst": Tile((32, 6), "float32", places[1]), "data": Tile(x, dtype, places[0])},
        {"dst": Close(exact, float(reach.max()))},
    )


def _bn_aggr(groups: int, rng: Generator) -> Call:
    count = rng.integers(1, 9, (16, groups)).astype(np.float32)
    middle = rng.normal(size=(16, groups)).astype(np.float32)
    spread = rng.uniform(0, 4, (16, groups)).astype(np.float32)
    total = count.astype(np.float64).sum(axis=1)
    mean = (count * middle.astype(np.float64)).sum(axis=1) / total
    away = (middle - mean[:, np.newaxis]) ** 2 * count
    variance = (spread.astype(np.float64) + away).sum(axis=1) / total
    triples = np.stack([count, middle, spread], axis=2).reshape(16, -1)
    return Call(
        {"dst": Tile((16, 2)), "data": Tile(triples)},
        {"dst": Close(np.stack([mean, variance], axis=1), 4096)},
    )


def _partition_reduce(op: str, dtype: str, shape: tuple[int, ...], rng: Generator) -> Call:
    x = sample(rng, shape, dtype)
    if op.startswith("bitwise"):
        result = BITS[op].reduce(x, axis=0)[np.newaxis]
    elif op == "maximum":
        result = x.max(axis=0)[np.newaxis]
    else:
        # Halves have exact sums in float32.
        x = cast(rng.integers(-8, 8, shape).astype(np.float32) / 2, dtype)
        total = x.astype(np.float64).sum(axis=0)[np.newaxis]
        result = cast((total / (shape[0] if op == "average" else 1)).astype(np.float32), dtype)
    return Call(
        {"dst": Tile((1, *shape[1:]), dtype), "op": getattr(nl, op), "data": Tile(x, dtype)},
        {"dst": result},
    )


def rows() -> Iterator[Row]:
    """Yield the rows of this module's functions."""
    place: tuple[str, ...]
    row = partial(Row, "tensor_reduce")
    sbuf = ("sbuf", "sbuf")
    for dtype in FLOATS + INTEGERS:
        for op in ("add", "multiply", "maximum", "minimum"):
            if op == "multiply" and dtype in INTEGERS:
                continue
            yield row(f"{op}-{dtype}", partial(_tensor_reduce, op, dtype, (33, 9), (1,), sbuf, {}))
    for op in _START:
        if op not in IDENTITIES and op != "subtract":
            yield row(op, partial(_tensor_reduce, op, "float32", (33, 9), (1,), sbuf, {}))
    for shape, axis in (
        ((8, 3, 5), (2,)),
        ((8, 3, 5), (1, 2)),
        ((8, 2, 3, 4), (3,)),
        ((8, 2, 3, 4), (2, 3)),
        ((8, 2, 3, 4), (1, 2, 3)),
        ((128, 1), (1,)),
        ((1, 4096), (1,)),
    ):
        for keep in (False, True):
            options = {"keepdims": keep}
            label = f"{shape}-{axis}{'-keepdims' if keep else ''}"
            yield row(label, partial(_tensor_reduce, "add", "float32", shape, axis, sbuf, options))
    for place in (("psum", "sbuf"), ("sbuf", "psum"), ("psum", "psum")):
        build = partial(_tensor_reduce, "maximum", "float32", (128, 512), (1,), place, {})
        yield row("-".join(place), build)
    yield row(
        "negate",
        partial(_tensor_reduce, "maximum", "float32", (8, 9), (1,), sbuf, {"negate": True}),
    )
    for dtype in INTEGERS:
        for op in BITS:
            yield row(f"{op}-{dtype}", partial(_reduce_bits, op, dtype))

    row = partial(Row, "tensor_tensor_scan")
    three = ("sbuf", "sbuf", "sbuf")
    for dtype in FLOATS:
        for tile in (False, True):
            build = partial(_scan, "multiply", "add", dtype, three, tile=tile, reverse=False)
            yield row(f"multiply-add-{dtype}-{'tile' if tile else 'number'}", keyword(build))
    for op0 in ("add", "subtract", "maximum", "minimum", "less"):
        for reverse in (False, True):
            build = partial(_scan, op0, "subtract", "float32", three, tile=True, reverse=reverse)
            yield row(f"{op0}-subtract{'-reverse' if reverse else ''}", keyword(build))
    for place in (("psum", "sbuf", "sbuf"), ("sbuf", "psum", "psum")):
        build = partial(_scan, "multiply", "add", "float32", place, tile=True, reverse=False)
        yield row("-".join(place), keyword(build))

    row = partial(Row, "tensor_scalar_cumulative")
    for op1 in ("add", "subtract", "multiply", "maximum", "minimum"):
        for dtype in FLOATS:
            build = partial(_cumulative, "multiply", op1, dtype, "reset_reduce", tile=False)
            yield row(f"multiply-{op1}-{dtype}", keyword(build))
        build = partial(_cumulative, "add", op1, "float32", "load_reduce", tile=True)
        yield row(f"add-{op1}-load_reduce", keyword(build))

    row = partial(Row, "bn_stats")
    for dtype in FLOATS[:3]:
        for length in (1, 2, 7, 512):
            yield row(f"{dtype}-{length}", partial(_bn_stats, dtype, length, sbuf))
    yield row("psum", partial(_bn_stats, "float32", 512, ("psum", "psum")))
    row = partial(Row, "bn_aggr")
    for groups in (1, 2, 5, 64):
        yield row(f"{groups}", partial(_bn_aggr, groups))

    row = partial(Row, "tensor_partition_reduce")
    for dtype in ("float32", "bfloat16", "float16"):
        for op in ("add", "average", "maximum"):
            for shape in ((128, 12), (32, 2, 6), (1, 3)):
                yield row(f"{op}-{dtype}-{shape}", partial(_partition_reduce, op, dtype, shape))
    for dtype in INTEGERS:
        for op in ("bitwise_or", "bitwise_and"):
            yield row(f"{op}-{dtype}", partial(_partition_reduce, op, dtype, (64, 5)))


def refusals() -> Iterator[Refusal]:
    """Yield the calls that this module's functions refuse."""

    def reduce(**changed: Any) -> dict[str, Any]:
        return {"dst": Tile((8, 3)), "op": nl.add, "data": ones((8, 3, 5)), "axis": 2, **changed}

    no = partial(Refusal, "tensor_reduce")
    yield no("axis-0", lambda: reduce(axis=0), "axis")
    yield no("axis-not-last", lambda: reduce(axis=1), "axis")
    yield no("axis-gap", lambda: reduce(data=ones((8, 3, 5, 2)), axis=(1, 3)), "axis")
    yield no("axis-beyond", lambda: reduce(axis=3), "axis")
    yield no("power", lambda: reduce(op=nl.power), "op")
    yield no("comparison", lambda: reduce(op=nl.less), "op")
    yield no("bits-of-floats", lambda: reduce(op=nl.bitwise_or), "integer")
    yield no("elements", lambda: reduce(dst=Tile((8, 4))), "dst|elements")
    yield no("partitions", lambda: reduce(dst=Tile((4, 3))), "partition")
    yield no("hbm", lambda: reduce(data=ones((8, 3, 5), buffer="hbm")), "data")
    yield no(
        "negated-bits",
        lambda: reduce(
            dst=Tile((8, 3), "int32"), data=ones((8, 3, 5), "int32"), op=nl.bitwise_or, negate=True
        ),
        "negate",
    )

    def scan(**changed: Any) -> dict[str, Any]:
        names = {
            "dst": Tile((8, 4)),
            "data0": ones((8, 4)),
            "data1": ones((8, 4)),
            "initial": 0.0,
            "op0": nl.multiply,
            "op1": nl.add,
        }
        return {**names, **changed}

    psum = ones((8, 4), buffer="psum")
    no = partial(Refusal, "tensor_tensor_scan")
    yield no("both-in-psum", lambda: scan(data0=psum, data1=ones((8, 4), buffer="psum")), "PSUM")
    yield no("bits", lambda: scan(op0=nl.bitwise_and), "op0|arithmetic|integer")
    yield no("unary", lambda: scan(op0=nl.abs), "op0|two")
    yield no("initial-shape", lambda: scan(initial=ones((8, 2))), "initial")
    yield no("elements", lambda: scan(data1=ones((8, 5))), "elements")

    def cumulative(**changed: Any) -> dict[str, Any]:
        names = {
            "dst": Tile((8, 4)),
            "src": ones((8, 4)),
            "op0": nl.multiply,
            "op1": nl.add,
            "imm0": 1.0,
        }
        return {**names, **changed}

    no = partial(Refusal, "tensor_scalar_cumulative")
    yield no("op1", lambda: cumulative(op1=nl.power), "op1")
    yield no("op0-bits", lambda: cumulative(op0=nl.bitwise_or), "op0|arithmetic|bitwise_or")
    yield no("int32", lambda: cumulative(src=ones((8, 4), "int32")), "int32")
    yield no("init-missing", lambda: cumulative(reduce_cmd=isa.reduce_cmd.load_reduce), "imm1")
    yield no("idle", lambda: cumulative(reduce_cmd=isa.reduce_cmd.idle), "reduce_cmd")

    no = partial(Refusal, "bn_stats")
    yield no("513", lambda: {"dst": Tile((8, 6)), "data": ones((8, 513))}, "512")
    yield no("dst", lambda: {"dst": Tile((8, 5)), "data": ones((8, 12))}, "dst")
    yield no("hbm", lambda: {"dst": Tile((8, 6)), "data": ones((8, 12), buffer="hbm")}, "data")
    no = partial(Refusal, "bn_aggr")
    yield no("no-triples", lambda: {"dst": Tile((8, 2)), "data": ones((8, 4))}, "3")
    yield no("dst", lambda: {"dst": Tile((8, 3)), "data": ones((8, 6))}, "dst")

    def partitions(**changed: Any) -> dict[str, Any]:
        return {"dst": Tile((1, 5)), "op": nl.add, "data": ones((32, 5)), **changed}

    no = partial(Refusal, "tensor_partition_reduce")
    yield no("op", lambda: partitions(op=nl.multiply), "op")
    yield no("dst-partitions", lambda: partitions(dst=Tile((2, 5))), "one partition|dst")
    yield no("psum", lambda: partitions(data=ones((32, 5), buffer="psum")), "psum")
    yield no("bits-of-floats", lambda: partitions(op=nl.bitwise_or), "integer|dtype")
