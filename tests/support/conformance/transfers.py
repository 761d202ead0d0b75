"""dma_copy, dma_transpose, dma_compute."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import trn3.nki.language as nl
from support.conformance.elementwise import ones
from support.conformance.moves import patterns
from support.conformance.table import KINDS, Call, Refusal, Row, Script, Tile, compare
from support.core import Machine
from support.engines import TYPES, cast, sample, widen
from trn3.nki import isa

Generator = np.random.Generator

_WAYS: Final = (("hbm", "sbuf"), ("sbuf", "hbm"), ("sbuf", "sbuf"), ("hbm", "hbm"))


def _bits(dtype: str, way: tuple[str, ...], options: dict[str, Any], rng: Generator) -> Call:
    x = patterns(rng, (48, 20), dtype)
    if dtype == "tfloat32":
        x = (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return Call(
        {"dst": Tile(x.shape, dtype, way[1]), "src": Tile(x, dtype, way[0]), **options}, {"dst": x}
    )


def _cast(first: str, second: str, rng: Generator) -> Call:
    x = sample(rng, (16, 12), first)
    return Call(
        {"dst": Tile(x.shape, second), "src": Tile(x, first, "hbm")},
        {"dst": cast(widen(x), second)},
    )


def _reshaped(rng: Generator) -> Call:
    x = rng.normal(size=(4, 6)).astype(np.float32)
    before = rng.normal(size=(3, 16)).astype(np.float32)
    wanted = before.copy()
    wanted[:, 0:16:2] = x.reshape(3, 8)
    return Call(
        {"dst": Tile(before, view=lambda t: t[:, 0:16:2]), "src": Tile(x, "float32", "hbm")},
        {"dst": wanted},
    )


def rows() -> Iterator[Row]:
    """Yield the rows of this module's functions."""
    row = partial(Row, "dma_copy")
    for dtype in KINDS:
        for way in _WAYS:
            yield row(f"{dtype}-{way[0]}-{way[1]}", partial(_bits, dtype, way, {}))
    for mode in ("none", "swdge", "hwdge"):
        yield row(mode, partial(_bits, "bfloat16", _WAYS[0], {"dge_mode": isa.dge_mode[mode]}))
    for engine in ("sync", "scalar"):
        options = {"dge_mode": isa.dge_mode.hwdge, "engine": isa.engine[engine]}
        yield row(f"hwdge-{engine}", partial(_bits, "bfloat16", _WAYS[0], options))
    for priority in range(4):
        yield row(f"priority-{priority}", partial(_bits, "int8", _WAYS[0], {"priority": priority}))
    for arch in ("trn1", "trn2"):
        yield row(f"float32-{arch}", partial(_bits, "float32", _WAYS[0], {}), arch)
    for first in TYPES:
        for second in TYPES:
            if first != second:
                yield row(f"{first}-{second}", partial(_cast, first, second))
    yield row("strides-and-shapes", _reshaped)
    for mode in ("error", "skip"):
        for what in ("gather", "scatter"):
            yield row(f"{what}-{mode}", partial(_indirect, what, mode))

    row = partial(Row, "dma_transpose")
    for dtype in ("bfloat16", "float16", "uint16", "float32", "int32"):
        for source in ("hbm", "sbuf"):
            yield row(f"{dtype}-{source}", partial(_transpose, dtype, (64, 48), source))
    for shape in ((16, 128), (128, 16), (32, 2, 16), (16, 2, 3, 32)):
        yield row(f"{shape}", partial(_transpose, "bfloat16", shape, "hbm"))

    row = partial(Row, "dma_compute")
    for dtype in ("float32", "bfloat16", "float16"):
        for count in (1, 2, 16):
            for target in ("sbuf", "hbm"):
                yield row(f"{dtype}-{count}-{target}", partial(_sum, dtype, count, target))


_AXES: Final = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}


def _transpose(dtype: str, shape: tuple[int, ...], source: str, rng: Generator) -> Call:
    x = sample(rng, shape, dtype)
    turned = np.ascontiguousarray(x.transpose(_AXES[len(shape)]))
    return Call({"dst": Tile(turned.shape, dtype), "src": Tile(x, dtype, source)}, {"dst": turned})


def _sum(dtype: str, count: int, target: str, rng: Generator) -> Call:
    arrays = [sample(rng, (32, 12), dtype) for _ in range(count)]
    total = np.zeros((32, 12), np.float32)
    for array in arrays:
        total = total + widen(array)
    return Call(
        {
            "dst": Tile((32, 12), dtype, target),
            "srcs": [Tile(a, dtype, ("hbm", "sbuf")[i % 2]) for i, a in enumerate(arrays)],
            "reduce_op": nl.add,
        },
        {"dst": cast(total, dtype)},
    )


def _indirect(way: str, mode: str, rng: Generator) -> Script:
    table = rng.normal(size=(20, 6)).astype(np.float32)
    chosen = rng.permutation(20)[:8].astype(np.int32).reshape(8, 1)
    if mode == "skip":
        chosen[2], chosen[5] = -1, 20
    values = rng.normal(size=(8, 6)).astype(np.float32)
    valid = ((chosen >= 0) & (chosen < 20))[:, 0]

    def run(machine: Machine) -> None:
        hbm, tile = machine.tile(table, buffer="hbm"), machine.tile(values)
        index = machine.tile(chosen, "int32")
        view = hbm.ap([[6, 8], [1, 6]], vector_offset=index, indirect_dim=0)
        modes = isa.oob_mode[mode]
        if way == "gather":
            isa.dma_copy(tile, view, oob_mode=modes)
            wanted = values.copy()
            wanted[valid] = table[chosen[valid, 0]]
            compare(machine.get(tile), wanted)
        else:
            isa.dma_copy(view, tile, oob_mode=modes)
            wanted = table.copy()
            wanted[chosen[valid, 0]] = values[valid]
            compare(machine.get(hbm), wanted)

    return Script(run)


def refusals() -> Iterator[Refusal]:
    """Yield the calls that this module's functions refuse."""

    def copy(**changed: Any) -> dict[str, Any]:
        return {"dst": Tile((8, 4)), "src": ones((8, 4), buffer="hbm"), **changed}

    no = partial(Refusal, "dma_copy")
    yield no("from-psum", lambda: copy(src=ones((8, 4), buffer="psum")), "psum")
    yield no("to-psum", lambda: copy(dst=Tile((8, 4), "float32", "psum")), "psum")
    yield no("elements", lambda: copy(dst=Tile((8, 5))), "elements")
    yield no(
        "hwdge-cast",
        lambda: copy(dst=Tile((8, 4), "bfloat16"), dge_mode=isa.dge_mode.hwdge),
        "hwdge",
    )
    yield no("hwdge-trn1", lambda: copy(dge_mode=isa.dge_mode.hwdge), "gen3", arch="trn1")
    yield no("engine-alone", lambda: copy(engine=isa.scalar_engine), "engine|hwdge")
    yield no(
        "engine", lambda: copy(engine=isa.vector_engine, dge_mode=isa.dge_mode.hwdge), "engine"
    )
    yield no("priority", lambda: copy(priority=4), "priority")
    yield no("priority-trn2", lambda: copy(priority=1), "gen4", arch="trn2")
    yield no("packed", lambda: copy(dst=Tile((8, 4), "float8_e5m2_x4")), "float8_e5m2_x4|packed")
    yield no("mode-unknown", lambda: copy(oob_mode=99), "oob_mode", TypeError)
    yield no("number", lambda: copy(src=1.0), "src", TypeError)
    yield no("unknown-keyword", lambda: copy(mask=None), "mask", TypeError)

    def turned(**changed: Any) -> dict[str, Any]:
        names = {"dst": Tile((16, 32), "bfloat16"), "src": ones((32, 16), "bfloat16", "hbm")}
        return {**names, **changed}

    no = partial(Refusal, "dma_transpose")
    yield no("axes", lambda: turned(axes=(0, 1)), "axes")
    yield no("shape", lambda: turned(dst=Tile((32, 16), "bfloat16")), "shape|permuted")
    yield no("dtype", lambda: turned(dst=Tile((16, 32), "float16")), "dtype|float16")
    yield no(
        "one-byte",
        lambda: turned(dst=Tile((16, 32), "int8"), src=ones((32, 16), "int8", "hbm")),
        "int8|byte",
    )
    yield no("dst-hbm", lambda: turned(dst=Tile((16, 32), "bfloat16", "hbm")), "sbuf")
    yield no("hwdge-rows", lambda: turned(dge_mode=isa.dge_mode.hwdge), "16")
    yield no("priority-trn2", lambda: turned(priority=0), "gen4", arch="trn2")

    def summed(**changed: Any) -> dict[str, Any]:
        names = {"dst": Tile((8, 4)), "srcs": [ones((8, 4)), ones((8, 4))], "reduce_op": nl.add}
        return {**names, **changed}

    no = partial(Refusal, "dma_compute")
    yield no("reduce_op", lambda: summed(reduce_op=nl.maximum), "reduce_op")
    yield no("scales", lambda: summed(scales=[1.0, 2.0]), "scales")
    yield no("seventeen", lambda: summed(srcs=[ones((8, 4)) for _ in range(17)]), "16")
    yield no("elements", lambda: summed(srcs=[ones((8, 4)), ones((8, 5))]), "elements")
    yield no("psum", lambda: summed(srcs=[ones((8, 4), buffer="psum"), ones((8, 4))]), "psum")
