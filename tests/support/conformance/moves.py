"""tensor_copy, memset, tensor_copy_predicated, nc_stream_shuffle, nc_transpose."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import numpy as np

from support.conformance.elementwise import SHAPES, ones
from support.conformance.table import KINDS, Array, Call, Refusal, Row, Tile, keyword
from support.engines import FLOATS, INTEGERS, TYPES, cast, sample, widen
from trn3.nki import isa

Generator = np.random.Generator

#: Where an engine copies from and to.
_COPIES: Final = (
    ("vector", "sbuf", "sbuf"),
    ("vector", "psum", "sbuf"),
    ("vector", "sbuf", "psum"),
    ("vector", "psum", "psum"),
    ("scalar", "psum", "sbuf"),
    ("scalar", "sbuf", "psum"),
    ("gpsimd", "sbuf", "sbuf"),
    ("unknown", "psum", "sbuf"),
)


def patterns(rng: Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Return every bit pattern alike, NaN included."""
    kind = np.dtype(KINDS[dtype])
    size = int(np.prod(shape)) * kind.itemsize
    bits: Array = rng.integers(0, 256, size, np.uint8).view(kind).reshape(shape)
    return bits


def _copy_bits(
    dtype: str, shape: tuple[int, ...], engine: str, source: str, target: str, rng: Generator
) -> Call:
    x = patterns(rng, shape, dtype)
    if dtype == "tfloat32":
        x = (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return Call(
        {
            "dst": Tile(shape, dtype, target),
            "src": Tile(x, dtype, source),
            "engine": isa.engine[engine],
        },
        {"dst": x},
    )


def _copy_cast(first: str, second: str, engine: str, rng: Generator) -> Call:
    x = sample(rng, (32, 40), first)
    return Call(
        {"dst": Tile((32, 40), second), "src": Tile(x, first), "engine": isa.engine[engine]},
        {"dst": cast(widen(x), second)},
    )


def _copy_view(rng: Generator) -> Call:
    x = rng.normal(size=(8, 6, 4)).astype(np.float32)
    before = rng.normal(size=(8, 24)).astype(np.float32)
    wanted = before.copy()
    wanted[:, 1:24:2] = x[:, ::2, :].reshape(8, 12)
    return Call(
        {
            "dst": Tile(before, view=lambda t: t[:, 1:24:2]),
            "src": Tile(x, view=lambda t: t[:, 0:6:2, :]),
        },
        {"dst": wanted},
    )


def _limits(second: str, rng: Generator) -> Call:
    x = np.array(
        [[0.5, 1.5, 2.5, -0.5, -1.5, 1e9, -1e9, 3e38, -3e38, np.inf, -np.inf, np.nan, 255.5]],
        np.float32,
    )
    return Call({"dst": Tile(x.shape, second), "src": Tile(x)}, {"dst": cast(x, second)})


def _memset(dtype: str, value: float, buffer: str, engine: str, rng: Generator) -> Call:
    wanted = np.full((64, 33), value, np.float64).astype(KINDS[dtype])
    return Call(
        {"dst": Tile((64, 33), dtype, buffer), "value": value, "engine": isa.engine[engine]},
        {"dst": wanted},
    )


def _memset_beyond(dtype: str, value: int, rng: Generator) -> Call:
    bits = np.dtype(TYPES[dtype]).itemsize * 8
    low = np.array(value % (1 << bits), f"u{bits // 8}").view(TYPES[dtype])
    return Call(
        {"dst": Tile((4, 3), dtype), "value": value},
        {"dst": np.full((4, 3), low, TYPES[dtype])},
    )


def _memset_view(rng: Generator) -> Call:
    before = rng.normal(size=(64, 12)).astype(np.float32)
    wanted = before.copy()
    wanted[32:64, 3:9] = -1.5
    return Call({"dst": Tile(before, view=lambda t: t[32:64, 3:9]), "value": -1.5}, {"dst": wanted})


def _predicated(
    dtype: str, predicate: str, places: tuple[str, ...], *, reverse: bool, rng: Generator
) -> Call:
    before, x = sample(rng, (64, 20), dtype), sample(rng, (64, 20), dtype)
    mask = rng.integers(0, 3, (64, 20)).astype(TYPES[predicate])
    taken = (mask == 0) if reverse else (mask != 0)
    return Call(
        {
            "dst": Tile(before, dtype, places[0]),
            "src": Tile(x, dtype, places[1]),
            "predicate": Tile(mask, predicate, places[2]),
            "reverse_pred": reverse,
        },
        {"dst": np.where(taken, x, before)},
    )


def _predicated_number(rng: Generator) -> Call:
    before = rng.normal(size=(8, 2, 5)).astype(np.float32)
    mask = rng.integers(0, 2, (8, 10)).astype(np.uint8)
    return Call(
        {"dst": Tile(before), "src": 7.5, "predicate": Tile(mask, "uint8")},
        {"dst": np.where(mask.reshape(8, 2, 5), np.float32(7.5), before)},
    )


def _shuffle(
    dtype: str, partitions: int, mask: list[int], places: tuple[str, ...], rng: Generator
) -> Call:
    x, before = sample(rng, (partitions, 12), dtype), sample(rng, (partitions, 12), dtype)
    wanted = before.copy()
    for quadrant in range(0, partitions, 32):
        for lane, source in enumerate(mask):
            if source != 255 and quadrant + lane < partitions:
                wanted[quadrant + lane] = x[quadrant + source]
    return Call(
        {
            "dst": Tile(before, dtype, places[1]),
            "src": Tile(x, dtype, places[0]),
            "shuffle_mask": mask,
        },
        {"dst": wanted},
    )


def _broadcast(rng: Generator) -> Call:
    x = rng.normal(size=(1, 9)).astype(np.float32)
    return Call(
        {"dst": Tile((32, 9)), "src": Tile(x), "shuffle_mask": [0] * 32},
        {"dst": np.repeat(x, 32, axis=0)},
    )


def _in_place(rng: Generator) -> Call:
    x = rng.normal(size=(64, 5)).astype(np.float32)
    tile = Tile(x)
    mask = [(i - 1) % 32 for i in range(32)]
    wanted = np.concatenate([np.roll(x[:32], 1, axis=0), np.roll(x[32:], 1, axis=0)])
    return Call({"dst": tile, "src": tile, "shuffle_mask": mask}, {"dst": wanted})


def _transpose(
    dtype: str, shape: tuple[int, ...], engine: str, places: tuple[str, ...], rng: Generator
) -> Call:
    x = sample(rng, shape, dtype)
    flat = x.reshape(shape[0], -1)
    return Call(
        {
            "dst": Tile(flat.T.shape, dtype, places[1]),
            "data": Tile(x, dtype, places[0]),
            "engine": isa.engine[engine],
        },
        {"dst": np.ascontiguousarray(flat.T)},
    )


def rows() -> Iterator[Row]:
    """Yield the rows of this module's functions."""
    place: tuple[str, ...]
    shape: tuple[int, ...]
    row = partial(Row, "tensor_copy")
    for dtype in KINDS:
        for engine, source, target in _COPIES[:1] + _COPIES[4:5] + _COPIES[6:7]:
            build = partial(_copy_bits, dtype, (33, 20), engine, source, target)
            yield row(f"bits-{dtype}-{engine}", build)
    for engine, source, target in _COPIES:
        build = partial(_copy_bits, "bfloat16", (128, 1024), engine, source, target)
        yield row(f"{engine}-{source}-{target}", build)
    for arch in ("trn1", "trn2"):
        build = partial(_copy_bits, "int32", (128, 64), "vector", "sbuf", "sbuf")
        yield row(f"bits-{arch}", build, arch)
    for shape in SHAPES:
        build = partial(_copy_bits, "uint8", shape, "vector", "sbuf", "sbuf")
        yield row(f"shape-{shape}", build)
    for first in TYPES:
        for second in TYPES:
            if first != second:
                yield row(f"{first}-{second}", partial(_copy_cast, first, second, "vector"))
    for engine in ("scalar", "gpsimd"):
        for second in ("bfloat16", "int32", "float8_e4m3"):
            yield row(f"float32-{second}-{engine}", partial(_copy_cast, "float32", second, engine))
    yield row("views", _copy_view)
    for second in INTEGERS:
        yield row(f"to-even-saturated-{second}", partial(_limits, second))

    row = partial(Row, "memset")
    for dtype in FLOATS:
        for engine in ("vector", "gpsimd"):
            for value in (0.0, -1.5):
                build = partial(_memset, dtype, value, "sbuf", engine)
                yield row(f"{dtype}-{value}-{engine}", build)
    for dtype in INTEGERS:
        top = int(np.iinfo(TYPES[dtype]).max)
        for value in (0, 1, min(top, 2**24)):
            yield row(f"{dtype}-{value}", partial(_memset, dtype, value, "sbuf", "vector"))
    for dtype in ("float8_e4m3fn_x4", "float8_e5m2_x4", "float4_e2m1fn_x4"):
        yield row(f"{dtype}-0", partial(_memset, dtype, 0, "sbuf", "vector"))
    yield row("psum", partial(_memset, "float32", 3.0, "psum", "vector"))
    for dtype, value in (("uint8", 256), ("int8", -129), ("uint32", -1), ("int32", 2**31)):
        yield row(f"low-bits-{dtype}-{value}", partial(_memset_beyond, dtype, value))
    yield row("view", _memset_view)

    row = partial(Row, "tensor_copy_predicated")
    places = (("sbuf", "sbuf", "sbuf"), ("psum", "sbuf", "sbuf"), ("sbuf", "psum", "sbuf"),
              ("sbuf", "sbuf", "psum"))  # fmt: skip
    for dtype in TYPES:
        for predicate in ("uint8", "uint16", "uint32"):
            build = partial(_predicated, dtype, predicate, places[0], reverse=False)
            yield row(f"{dtype}-{predicate}", keyword(build))
    for place in places:
        build = partial(_predicated, "float32", "uint8", place, reverse=True)
        yield row(f"reverse-{'-'.join(place)}", keyword(build))
    yield row("number-ranks-differ", _predicated_number)

    row = partial(Row, "nc_stream_shuffle")
    rotate = [(i - 1) % 32 for i in range(32)]
    holes = [255 if i % 3 else 31 - i for i in range(32)]
    for dtype in TYPES:
        yield row(dtype, partial(_shuffle, dtype, 128, rotate, ("sbuf", "sbuf")))
    for partitions in (32, 64, 96, 128):
        yield row(
            f"holes-{partitions}", partial(_shuffle, "float32", partitions, holes, ("sbuf",) * 2)
        )
    for place in (("psum", "sbuf"), ("sbuf", "psum"), ("psum", "psum")):
        yield row("-".join(place), partial(_shuffle, "float32", 128, rotate, place))
    yield row("broadcast-of-one-partition", _broadcast)
    yield row("in-place", _in_place)

    row = partial(Row, "nc_transpose")
    for dtype in TYPES:
        yield row(
            f"{dtype}-vector", partial(_transpose, dtype, (32, 32), "vector", ("sbuf", "sbuf"))
        )
    for dtype in ("float32", "bfloat16", "float16"):
        for shape in ((128, 128), (128, 1), (1, 128), (96, 17), (64, 4, 32)):
            build = partial(_transpose, dtype, shape, "tensor", ("sbuf", "psum"))
            yield row(f"{dtype}-{shape}-tensor", build)
    for dtype in ("float8_e4m3", "float8_e4m3fn", "float8_e5m2"):
        build = partial(_transpose, dtype, (96, 17), "tensor", ("sbuf", "psum"))
        yield row(f"{dtype}-one-byte-tensor", build)
    for place in (("psum", "sbuf"), ("sbuf", "psum"), ("psum", "psum")):
        yield row(
            f"vector-{'-'.join(place)}", partial(_transpose, "float32", (17, 32), "vector", place)
        )
    for arch in ("trn1", "trn2"):
        build = partial(_transpose, "float32", (128, 64), "tensor", ("sbuf", "psum"))
        yield row(f"tensor-{arch}", build, arch)
    yield row(
        "unknown-psum", partial(_transpose, "bfloat16", (64, 64), "unknown", ("sbuf", "psum"))
    )
    yield row("unknown-sbuf", partial(_transpose, "bfloat16", (32, 8), "unknown", ("sbuf", "sbuf")))


def refusals() -> Iterator[Refusal]:
    """Yield the calls that this module's functions refuse."""

    def copy(**changed: Any) -> dict[str, Any]:
        return {"dst": Tile((8, 4)), "src": ones((8, 4)), **changed}

    no = partial(Refusal, "tensor_copy")
    yield no("elements", lambda: copy(dst=Tile((8, 5))), "elements")
    yield no("partitions", lambda: copy(dst=Tile((4, 4))), "partition")
    yield no("hbm", lambda: copy(src=ones((8, 4), buffer="hbm")), "src")
    yield no("number", lambda: copy(src=1.0), "src", TypeError)
    yield no(
        "gpsimd-psum",
        lambda: copy(src=ones((8, 4), buffer="psum"), engine=isa.gpsimd_engine),
        "psum",
    )
    yield no("engine", lambda: copy(engine=isa.tensor_engine), "engine")
    yield no("scalar-trn1", lambda: copy(engine=isa.scalar_engine), "gen3", arch="trn1")
    yield no(
        "packed",
        lambda: copy(src=Tile(np.ones((8, 4), np.uint32), "float8_e5m2_x4")),
        "float8_e5m2_x4",
    )
    yield no(
        "start-partition",
        lambda: copy(src=Tile(np.ones((128, 4), np.float32), view=lambda t: t[16:24])),
        "partition",
    )
    yield no("unknown-keyword", lambda: copy(mask=None), "mask", TypeError)

    no = partial(Refusal, "memset")
    yield no("packed", lambda: {"dst": Tile((8, 4), "float8_e5m2_x4"), "value": 1}, "0")
    yield no(
        "fraction-into-integers", lambda: {"dst": Tile((8, 4), "int32"), "value": 1.5}, "value"
    )
    yield no("hbm", lambda: {"dst": Tile((8, 4), "int32", "hbm"), "value": 1}, "dst")
    yield no(
        "gpsimd-psum",
        lambda: {"dst": Tile((8, 4), "float32", "psum"), "value": 1.0, "engine": isa.gpsimd_engine},
        "psum",
    )
    yield no(
        "engine", lambda: {"dst": Tile((8, 4)), "value": 1.0, "engine": isa.scalar_engine}, "engine"
    )

    def predicated(**changed: Any) -> dict[str, Any]:
        names = {"dst": ones((8, 4)), "src": ones((8, 4)), "predicate": ones((8, 4), "uint8")}
        return {**names, **changed}

    no = partial(Refusal, "tensor_copy_predicated")
    yield no("dtype", lambda: predicated(src=ones((8, 4), "bfloat16")), "dtype")
    yield no("predicate-float", lambda: predicated(predicate=ones((8, 4))), "predicate")
    yield no("predicate-signed", lambda: predicated(predicate=ones((8, 4), "int8")), "predicate")
    yield no(
        "both-in-psum",
        lambda: predicated(
            src=ones((8, 4), buffer="psum"), predicate=ones((8, 4), "uint8", "psum")
        ),
        "PSUM",
    )
    yield no("elements", lambda: predicated(predicate=ones((8, 3), "uint8")), "elements")

    def shuffle(**changed: Any) -> dict[str, Any]:
        names = {"dst": ones((32, 4)), "src": ones((32, 4)), "shuffle_mask": list(range(32))}
        return {**names, **changed}

    no = partial(Refusal, "nc_stream_shuffle")
    yield no("mask-length", lambda: shuffle(shuffle_mask=[0] * 31), "shuffle_mask")
    yield no("mask-values", lambda: shuffle(shuffle_mask=[32] * 32), "shuffle_mask")
    yield no("dtype", lambda: shuffle(src=ones((32, 4), "bfloat16")), "dtype")
    yield no("elements", lambda: shuffle(src=ones((32, 5))), "elements")
    yield no("hbm", lambda: shuffle(src=ones((32, 4), buffer="hbm")), "src")
    yield no(
        "start-partition",
        lambda: shuffle(src=Tile(np.ones((128, 4), np.float32), view=lambda t: t[16:48])),
        "partition",
    )

    def turned(**changed: Any) -> dict[str, Any]:
        names = {"dst": Tile((4, 8), "float32", "psum"), "data": ones((8, 4))}
        return {**names, **changed}

    no = partial(Refusal, "nc_transpose")
    yield no(
        "vector-size",
        lambda: turned(dst=Tile((33, 8)), data=ones((8, 33)), engine=isa.vector_engine),
        "32 x 32",
    )
    yield no(
        "tensor-size",
        lambda: turned(
            dst=Tile((128, 8), "float32", "psum"), data=ones((8, 129)), engine=isa.tensor_engine
        ),
        "128 x 128",
    )
    yield no("dtype", lambda: turned(dst=Tile((4, 8), "bfloat16", "psum")), "float32")
    yield no("shape", lambda: turned(dst=Tile((8, 4), "float32", "psum")), "shape")
    yield no("tensor-to-sbuf", lambda: turned(dst=Tile((4, 8)), engine=isa.tensor_engine), "psum")
    yield no(
        "tensor-from-psum",
        lambda: turned(data=ones((8, 4), buffer="psum"), engine=isa.tensor_engine),
        "sbuf",
    )
    yield no("engine", lambda: turned(engine=isa.gpsimd_engine), "engine")
    yield no(
        "one-byte-gen3",
        lambda: turned(dst=Tile((4, 8), "float8_e5m2", "psum"), data=ones((8, 4), "float8_e5m2")),
        "two bytes apart",
        arch="trn2",
    )
