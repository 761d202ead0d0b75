"""nc_matmul, nc_matmul_mx, quantize_mx.

Operands hold small whole numbers, whose sums float32 holds in any order; the order of sums and the
rounding of products have tests of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import ml_dtypes
import numpy as np

from support.conformance.elementwise import ones
from support.conformance.table import Array, Call, Refusal, Row, Script, Tile, compare
from support.core import Machine
from support.engines import cast
from trn3.nki import isa

Generator = np.random.Generator

_NARROW: Final = ("bfloat16", "float16", "float8_e4m3", "float8_e4m3fn", "float8_e5m2")
_WIDE: Final = ("float32", "tfloat32")
_LEGACY_AND_OCP: Final = {"float8_e4m3", "float8_e4m3fn"}


def _whole(rng: Generator, shape: tuple[int, ...]) -> Array:
    return rng.integers(-4, 5, shape).astype(np.float32)


def _operand(values: Array, dtype: str) -> Tile:
    return Tile(values, dtype)


def _matmul(first: str, second: str, sizes: tuple[int, int, int], out: str, rng: Generator) -> Call:
    k, m, n = sizes
    x, y = _whole(rng, (k, m)), _whole(rng, (k, n))
    return Call(
        {
            "dst": Tile((m, n), out, "psum"),
            "stationary": _operand(x, first),
            "moving": _operand(y, second),
        },
        {"dst": cast(x.T @ y, out)},
    )


def _accumulated(accumulate: bool | None, before: bool | None, rng: Generator) -> Call:
    x, y = _whole(rng, (64, 32)), _whole(rng, (64, 40))
    common = {
        "dst": Tile((32, 40), "float32", "psum"),
        "stationary": Tile(x, "bfloat16"),
        "moving": Tile(y, "bfloat16"),
    }
    times = 1 if accumulate is False else 2
    return Call(
        {**common, "accumulate": accumulate},
        {"dst": times * (x.T @ y)},
        before=(("nc_matmul", {**common, "accumulate": before}),),
    )


def _overlap(rng: Generator) -> Script:
    # Windows of one PSUM tile that share columns: shared ones add up, new ones are set.
    x, y = _whole(rng, (32, 8)), _whole(rng, (32, 6))

    def run(machine: Machine) -> None:
        dst = machine.empty((8, 10), "float32", "psum")
        stationary, moving = machine.tile(x), machine.tile(y)
        isa.nc_matmul(dst[:, 0:6], stationary, moving)
        isa.nc_matmul(dst[:, 4:10], stationary, moving)
        wanted = np.zeros((8, 10), np.float32)
        wanted[:, 0:6] += x.T @ y
        wanted[:, 4:10] += x.T @ y
        compare(machine.get(dst), wanted)

    return Script(run)


def _double_row(first: str, second: str, rng: Generator) -> Call:
    x, y = _whole(rng, (64, 2, 32)), _whole(rng, (64, 2, 50))
    return Call(
        {
            "dst": Tile((32, 50), "float32", "psum"),
            "stationary": Tile(x, first),
            "moving": Tile(y, second),
            "perf_mode": isa.matmul_perf_mode.double_row,
        },
        {"dst": np.einsum("pim,pin->mn", x, y)},
    )


def _ranks(rng: Generator) -> Call:
    x, y = _whole(rng, (32, 2, 8)), _whole(rng, (32, 3, 4))
    return Call(
        {"dst": Tile((16, 12), "float32", "psum"), "stationary": Tile(x), "moving": Tile(y)},
        {"dst": x.reshape(32, 16).T @ y.reshape(32, 12)},
    )


def _tiled(position: tuple[int, int], size: tuple[int, int], rng: Generator) -> Call:
    m = size[1]
    x, y = _whole(rng, (128, 128)), _whole(rng, (128, 20))
    rows, columns = (slice(s, s + n) for s, n in zip(position, size, strict=True))
    wanted = np.zeros((128, 20), np.float32)
    wanted[columns] = x[rows, :m].T @ y[rows]
    return Call(
        {
            "dst": Tile(np.zeros((128, 20), np.float32), "float32", "psum", lambda t: t[columns]),
            "stationary": Tile(x, "bfloat16", view=lambda t: t[rows, 0:m]),
            "moving": Tile(y, "bfloat16", view=lambda t: t[rows]),
            "tile_position": position,
            "tile_size": size,
            "accumulate": False,
        },
        {"dst": wanted},
    )


def _transposing(dtype: str, rng: Generator) -> Call:
    x = cast(rng.normal(size=(64, 48)).astype(np.float32), dtype)
    return Call(
        {
            "dst": Tile((48, 64), dtype, "psum"),
            "stationary": Tile(x, dtype),
            "moving": Tile(np.eye(64, dtype=np.float32), dtype),
            "is_transpose": True,
        },
        {"dst": np.ascontiguousarray(x.T)},
    )


#: Packed types: their elements, the exponent of the largest, bits of one.
_PACKED: Final[dict[str, tuple[Any, int, int]]] = {
    "float8_e4m3fn_x4": (ml_dtypes.float8_e4m3fn, 8, 8),
    "float8_e5m2_x4": (ml_dtypes.float8_e5m2, 15, 8),
    "float4_e2m1fn_x4": (ml_dtypes.float4_e2m1fn, 2, 4),
}


def _pack(values: Array, packed: str) -> Array:
    """Pack whole numbers [P, F, 4]."""
    element, _, bits = _PACKED[packed]
    codes = values.astype(element).view(np.uint8).astype(np.uint32)
    words = sum(codes[..., q] << np.uint32(bits * q) for q in range(4))
    word: Array = np.asarray(words, np.uint32 if bits == 8 else np.uint16)
    return word


def _scales(rng: Generator, partitions: int, free: int) -> tuple[Array, Array]:
    """Return scale bytes as SBUF holds them, and the factor of each element's row and column."""
    groups = rng.integers(125, 130, (partitions // 8, free)).astype(np.uint8)
    factors = np.exp2(np.repeat(groups, 8, axis=0).astype(np.float32) - 127)
    if partitions <= 32:
        return groups, factors
    held = np.zeros((partitions, free), np.uint8)
    for group in range(partitions // 8):
        held[32 * (group // 4) + group % 4] = groups[group]
    return held, factors


def _matmul_mx(
    first: str, second: str, sizes: tuple[int, int, int], scale: str, out: str, rng: Generator
) -> Call:
    p, m, n = sizes
    x, y = (rng.integers(-2, 3, (p, f, 4)).astype(np.float32) for f in (m, n))
    (held_x, factor_x), (held_y, factor_y) = _scales(rng, p, m), _scales(rng, p, n)
    exact = np.einsum("pmq,pnq->mn", x * factor_x[..., None], y * factor_y[..., None])
    kind = ml_dtypes.float8_e8m0fnu if scale == "float8_e8m0fnu" else np.uint8
    return Call(
        {
            "dst": Tile((m, n), out, "psum"),
            "stationary": Tile(_pack(x, first), first),
            "moving": Tile(_pack(y, second), second),
            "stationary_scale": Tile(held_x.view(kind), scale),
            "moving_scale": Tile(held_y.view(kind), scale),
        },
        {"dst": cast(exact.astype(np.float32), out)},
    )


def _quantize(packed: str, source: str, partitions: int, rng: Generator) -> Call:
    element, emax, _ = _PACKED[packed]
    spread = np.exp2(rng.integers(-8, 8, (partitions, 48)))
    x = cast((rng.normal(size=(partitions, 48)) * spread).astype(np.float32), source)
    x[:8, :4] = 0
    wide = x.astype(np.float64)
    largest = np.abs(wide).reshape(partitions // 8, 8, 12, 4).max(axis=(1, 3))
    with np.errstate(divide="ignore"):
        exponent = np.floor(np.log2(largest)) - (emax - 1)
    exponent = np.where(largest > 0, exponent, -127)
    factor = np.exp2(np.repeat(np.repeat(exponent, 8, 0), 4, 1))
    codes = (wide / factor).astype(element).view(np.uint8)
    scales = np.full((partitions if partitions > 32 else 4, 12), 7, np.uint8)
    for group in range(partitions // 8):
        scales[32 * (group // 4) + group % 4] = (exponent[group] + 127).astype(np.uint8)
    return Call(
        {
            "dst": Tile((partitions, 12), packed),
            "src": Tile(x, source),
            "dst_scale": Tile(np.full(scales.shape, 7, np.uint8), "uint8"),
        },
        {"dst": codes.view(np.uint32), "dst_scale": scales},
    )


def rows() -> Iterator[Row]:
    """Yield the rows of this module's functions."""
    row = partial(Row, "nc_matmul")
    for first in _NARROW:
        for second in _NARROW:
            if {first, second} != _LEGACY_AND_OCP:
                yield row(
                    f"{first}-{second}", partial(_matmul, first, second, (96, 33, 40), "float32")
                )
    for first in _WIDE:
        for second in _WIDE:
            yield row(f"{first}-{second}", partial(_matmul, first, second, (96, 33, 40), "float32"))
    for sizes in ((1, 1, 1), (128, 128, 512), (128, 1, 512), (32, 128, 1), (128, 128, 4096)):
        yield row(f"{sizes}", partial(_matmul, "bfloat16", "bfloat16", sizes, "float32"))
    for sizes in ((128, 128, 512), (128, 64, 8192)):
        yield row(
            f"bfloat16-dst-{sizes}", partial(_matmul, "bfloat16", "bfloat16", sizes, "bfloat16")
        )
    for arch in ("trn1", "trn2"):
        for dtype in ("bfloat16", "float32", "float8_e4m3"):
            yield row(
                f"{dtype}-{arch}", partial(_matmul, dtype, dtype, (128, 128, 512), "float32"), arch
            )
    for accumulate, before in (
        (True, False),
        (None, None),
        (False, None),
        (True, None),
        (None, False),
    ):
        yield row(f"accumulate-{before}-{accumulate}", partial(_accumulated, accumulate, before))
    yield row("windows-overlap", _overlap)
    yield row("ranks", _ranks)
    eight = _NARROW[2:]
    for first in eight:
        for second in eight:
            if {first, second} != _LEGACY_AND_OCP:
                yield row(f"double_row-{first}-{second}", partial(_double_row, first, second))
    yield row("double_row-trn2", partial(_double_row, "float8_e4m3", "float8_e5m2"), "trn2")
    for size in ((64, 128), (32, 128), (128, 64), (128, 32), (64, 64), (32, 32)):
        for position in ((0, 0), (128 - size[0], 128 - size[1])):
            yield row(f"tile-{size}-{position}", partial(_tiled, position, size))
    for dtype in ("bfloat16", "float16", "float32"):
        for arch in ("trn2", "trn3"):
            yield row(f"transpose-{dtype}-{arch}", partial(_transposing, dtype), arch)

    row = partial(Row, "nc_matmul_mx")
    for first in _PACKED:
        for second in _PACKED:
            for scale in ("uint8", "float8_e8m0fnu"):
                build = partial(_matmul_mx, first, second, (128, 32, 20), scale, "float32")
                yield row(f"{first}-{second}-{scale}", build)
    for sizes in ((32, 2, 1), (64, 128, 512), (96, 8, 30), (128, 128, 1024)):
        for out in ("float32", "bfloat16"):
            build = partial(_matmul_mx, "float8_e4m3fn_x4", "float8_e5m2_x4", sizes, "uint8", out)
            yield row(f"{sizes}-{out}", build)
    row = partial(Row, "quantize_mx")
    for packed in ("float8_e4m3fn_x4", "float8_e5m2_x4"):
        for source in ("bfloat16", "float16"):
            for partitions in (32, 64, 96, 128):
                yield row(
                    f"{packed}-{source}-{partitions}",
                    partial(_quantize, packed, source, partitions),
                )


def refusals() -> Iterator[Refusal]:
    """Yield the calls that this module's functions refuse."""

    def product(**changed: Any) -> dict[str, Any]:
        names = {
            "dst": Tile((8, 16), "float32", "psum"),
            "stationary": ones((32, 8), "bfloat16"),
            "moving": ones((32, 16), "bfloat16"),
        }
        return {**names, **changed}

    def of(first: str, second: str) -> dict[str, Any]:
        return product(stationary=ones((32, 8), first), moving=ones((32, 16), second))

    no = partial(Refusal, "nc_matmul")
    yield no("dst-sbuf", lambda: product(dst=Tile((8, 16))), "psum")
    yield no("stationary-psum", lambda: product(stationary=ones((32, 8), buffer="psum")), "sbuf")
    yield no("moving-hbm", lambda: product(moving=ones((32, 16), "bfloat16", "hbm")), "sbuf")
    yield no("k", lambda: product(moving=ones((64, 16), "bfloat16")), "partition")
    yield no(
        "m",
        lambda: product(
            dst=Tile((128, 16), "float32", "psum"), stationary=ones((32, 129), "bfloat16")
        ),
        "128",
    )
    yield no(
        "n",
        lambda: product(
            dst=Tile((8, 4096), "float32", "psum"), moving=ones((32, 4097), "bfloat16")
        ),
        "4096",
    )
    yield no(
        "n-trn2",
        lambda: product(dst=Tile((8, 513), "float32", "psum"), moving=ones((32, 513), "bfloat16")),
        "512",
        arch="trn2",
    )
    yield no("dst-shape", lambda: product(dst=Tile((8, 17), "float32", "psum")), "dst")
    yield no("wide-with-narrow", lambda: of("float32", "bfloat16"), "float32")
    yield no("legacy-with-ocp", lambda: of("float8_e4m3", "float8_e4m3fn"), "float8_e4m3fn")
    yield no("integers", lambda: of("int8", "int8"), "int8")
    yield no(
        "ocp-trn2", lambda: of("float8_e4m3fn", "float8_e4m3fn"), "gen4|float8_e4m3fn", arch="trn2"
    )
    yield no(
        "bfloat16-dst-trn2",
        lambda: product(dst=Tile((8, 16), "bfloat16", "psum")),
        "bfloat16",
        arch="trn2",
    )
    yield no("float16-dst", lambda: product(dst=Tile((8, 16), "float16", "psum")), "float16")
    yield no("position-alone", lambda: product(tile_position=(0, 0)), "tile_size|tile_position")
    yield no("size-alone", lambda: product(tile_size=(32, 128)), "tile_size|tile_position")
    yield no("start", lambda: product(tile_position=(16, 0), tile_size=(32, 128)), "tile_position")
    yield no("tile-beyond", lambda: product(tile_position=(128, 0), tile_size=(32, 128)), "tile")
    yield no("tile-size", lambda: product(tile_position=(0, 0), tile_size=(48, 128)), "tile_size")
    yield no(
        "tile-32-trn1",
        lambda: product(tile_position=(0, 0), tile_size=(32, 32)),
        "32|tile_size",
        arch="trn1",
    )
    double: dict[str, Any] = {"perf_mode": isa.matmul_perf_mode.double_row}

    def halves(dtype: str = "float8_e4m3", count: int = 2, **changed: Any) -> dict[str, Any]:
        names = {"stationary": ones((32, count, 8), dtype), "moving": ones((32, count, 16), dtype)}
        return product(**{**names, **double, **changed})

    yield no("double-row-bfloat16", lambda: halves("bfloat16"), "double_row")
    yield no("double-row-3", lambda: halves(count=3), "double_row|2")
    yield no("double-row-trn1", halves, "gen3", arch="trn1")
    yield no(
        "double-row-columns",
        lambda: halves(tile_position=(0, 0), tile_size=(128, 64)),
        "double_row|column",
    )
    yield no("double-row-transpose", lambda: halves(is_transpose=True), "double_row|transpose")
    yield no("perf-mode", lambda: product(perf_mode="fast"), "perf_mode", TypeError)
    yield no(
        "transpose-dtype",
        lambda: product(
            moving=Tile(np.eye(32, 32, dtype=np.float32), "bfloat16"),
            dst=Tile((8, 32), "float32", "psum"),
            is_transpose=True,
        ),
        "bfloat16|dst",
    )
    yield no(
        "transpose-no-identity",
        lambda: product(
            moving=ones((32, 32), "bfloat16"),
            dst=Tile((8, 32), "bfloat16", "psum"),
            is_transpose=True,
        ),
        "moving",
    )

    def blocks(**changed: Any) -> dict[str, Any]:
        words = np.zeros((32, 8), np.uint32)
        names = {
            "dst": Tile((8, 16), "float32", "psum"),
            "stationary": Tile(words, "float8_e4m3fn_x4"),
            "moving": Tile(np.zeros((32, 16), np.uint32), "float8_e5m2_x4"),
            "stationary_scale": ones((4, 8), "uint8"),
            "moving_scale": ones((4, 16), "uint8"),
        }
        return {**names, **changed}

    no = partial(Refusal, "nc_matmul_mx")
    yield no(
        "partitions",
        lambda: blocks(
            stationary=Tile(np.zeros((16, 8), np.uint32), "float8_e4m3fn_x4"),
            moving=Tile(np.zeros((16, 16), np.uint32), "float8_e5m2_x4"),
        ),
        "32",
    )
    yield no(
        "odd-m",
        lambda: blocks(
            dst=Tile((7, 16), "float32", "psum"),
            stationary=Tile(np.zeros((32, 7), np.uint32), "float8_e4m3fn_x4"),
            stationary_scale=ones((4, 7), "uint8"),
        ),
        "even",
    )
    yield no("scale-type", lambda: blocks(moving_scale=ones((4, 16), "int8")), "moving_scale")
    yield no("scale-shape", lambda: blocks(moving_scale=ones((4, 15), "uint8")), "moving_scale")
    yield no("unpacked", lambda: blocks(stationary=ones((32, 8), "float8_e4m3fn")), "stationary")
    yield no("dst-sbuf", lambda: blocks(dst=Tile((8, 16))), "psum")
    yield no(
        "columns", lambda: blocks(tile_position=(0, 0), tile_size=(32, 64)), "tile_size|column|128"
    )
    yield no("trn2", blocks, "gen4", arch="trn2")

    def quantized(**changed: Any) -> dict[str, Any]:
        names = {
            "dst": Tile((32, 4), "float8_e4m3fn_x4"),
            "src": ones((32, 16), "bfloat16"),
            "dst_scale": Tile((4, 4), "uint8"),
        }
        return {**names, **changed}

    no = partial(Refusal, "quantize_mx")
    yield no("float32", lambda: quantized(src=ones((32, 16))), "src")
    yield no(
        "partitions",
        lambda: quantized(
            src=ones((16, 16), "bfloat16"),
            dst=Tile((16, 4), "float8_e4m3fn_x4"),
            dst_scale=Tile((2, 4), "uint8"),
        ),
        "32",
    )
    yield no("free", lambda: quantized(src=ones((32, 15), "bfloat16")), "4|elements")
    yield no("to-fp4", lambda: quantized(dst=Tile((32, 4), "float4_e2m1fn_x4")), "dst")
    yield no("psum", lambda: quantized(src=ones((32, 16), "bfloat16", "psum")), "sbuf")
    yield no("scale-type", lambda: quantized(dst_scale=Tile((4, 4), "int8")), "dst_scale")
    yield no("scale-shape", lambda: quantized(dst_scale=Tile((4, 5), "uint8")), "dst_scale")
    yield no("trn2", quantized, "gen4", arch="trn2")
