"""core_barrier and sendrecv, on the two cores of a launch; and what a kernel asks its core."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import trn3.nki.language as nl
from support.conformance.elementwise import ones
from support.conformance.moves import patterns
from support.conformance.table import KINDS, Launch, Refusal, Row, Script, Tile, compare
from support.core import Machine
from trn3 import nki
from trn3.nki import isa
from trn3.nki.values.element_types import canonicalise

Generator = np.random.Generator

_ARCHES: Final = ("trn2", "trn3")


def _bits(values: Any) -> Any:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)


def _swapped(dtype: str, shape: tuple[int, ...], mover: Any, arch: str, rng: Generator) -> Launch:
    """Each core sends its half of the rows."""
    x = patterns(rng, (2, *shape), dtype)
    if dtype == "tfloat32":
        x = (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)

    def kernel(given: Any) -> Any:
        own, kind = nl.program_id(0), canonicalise(dtype)
        out = nl.ndarray((2, *shape), kind, buffer=nl.shared_hbm)
        mine, theirs = nl.ndarray(shape, kind), nl.ndarray(shape, kind)
        source = given if str(given.dtype) == dtype else given.view(kind)
        isa.dma_copy(mine, source[own])
        isa.sendrecv(mine, theirs, 1 - own, 1 - own, 0, dma_engine=mover)
        isa.dma_copy(out[own], theirs)
        return out

    def run() -> None:
        got, _ = nki.profile(nki.jit(kernel)[2], x, arch=arch)
        np.testing.assert_array_equal(_bits(got), _bits(x[::-1]))

    return Launch(run)


def _sliced(pipes: tuple[int, ...], rng: Generator) -> Launch:
    """Slices of one tile, on several pipes."""
    x = rng.normal(size=(2, 32, 12)).astype(np.float32)

    def kernel(given: Any) -> Any:
        own = nl.program_id(0)
        out = nl.ndarray((2, 32, 12), nl.float32, buffer=nl.shared_hbm)
        tile = nl.load(given[own])
        for turn, pipe in enumerate(pipes):
            isa.sendrecv(
                src=tile[:, nl.ds(2 * turn, 4)],
                dst=tile[:, nl.ds(2 * turn + 2, 4)],
                send_to_rank=1 - own,
                recv_from_rank=1 - own,
                pipe_id=pipe,
            )
        isa.dma_copy(out[own], tile)
        return out

    wanted = x.copy()
    for turn in range(len(pipes)):
        sent = wanted[:, :, 2 * turn : 2 * turn + 4].copy()
        wanted[:, :, 2 * turn + 2 : 2 * turn + 6] = sent[::-1]

    def run() -> None:
        np.testing.assert_array_equal(nki.simulate(nki.jit(kernel)[2])(x), wanted)

    return Launch(run)


def _ordered(cores: Any, engine: Any, arch: str, rng: Generator) -> Launch:
    """Load after a barrier what the other core stored before it."""
    x = rng.normal(size=(2, 16, 8)).astype(np.float32)

    def kernel(given: Any) -> Any:
        own = nl.program_id(0)
        scratch = nl.ndarray(given.shape, nl.float32, buffer=nl.shared_hbm, name="scratch")
        out = nl.ndarray(given.shape, nl.float32, buffer=nl.shared_hbm, name="out")
        isa.dma_copy(scratch[own], given[own])
        isa.core_barrier(data=scratch, cores=cores, engine=engine)
        isa.dma_copy(out[own], scratch[1 - own])
        return out

    def run() -> None:
        got, profile = nki.profile(nki.jit(kernel)[2], x, arch=arch)
        np.testing.assert_array_equal(got, x[::-1])
        assert not [each for core in profile.cores for each in core.findings]

    return Launch(run)


def _alone(cores: Any, buffer: str, machine: Machine) -> None:
    """Wait for nobody on one core."""
    before = machine.core.issued
    tile = machine.tile(np.ones((1, 1), np.float32), buffer=buffer)
    isa.core_barrier(tile, cores)
    assert machine.core.issued == before
    compare(machine.get(tile), np.ones((1, 1), np.float32))


def _sub_version(machine: Machine) -> None:
    assert isa.get_nc_sub_version() == 0
    assert isinstance(isa.get_nc_sub_version(), int)


def _script(run: Callable[[Machine], None]) -> Callable[[Generator], Script]:
    return lambda _: Script(run)


def rows() -> Iterator[Row]:
    """Yield the rows of this module's functions."""
    movers = isa.dma_engine
    for dtype in KINDS:
        yield Row("sendrecv", dtype, partial(_swapped, dtype, (16, 8), movers.dma, "trn3"))
    for dtype in ("float32", "bfloat16", "uint8"):
        build: Any = partial(_swapped, dtype, (128, 256), movers.gpsimd_dma, "trn3")
        yield Row("sendrecv", f"{dtype}-gpsimd_dma", build)
    for shape in ((1, 1), (128, 600), (32, 3, 5), (64, 2, 2, 2)):
        build = partial(_swapped, "float32", shape, movers.dma, "trn2")
        yield Row("sendrecv", f"{shape}", build, "trn2")
    for pipes in ((0,), (0, 0), (3, 1), (0, 1, 0)):
        yield Row("sendrecv", f"slices-on-pipes-{pipes}", partial(_sliced, pipes))
    for arch in _ARCHES:
        for cores in ((0, 1), [0, 1], (1, 0)):
            for engine in (isa.gpsimd_engine, isa.engine.sync, isa.vector_engine):
                build = partial(_ordered, cores, engine, arch)
                yield Row("core_barrier", f"{cores}-{engine.name}-{arch}", build, arch)
    for alone in ((0,), [0], range(1)):
        for buffer in ("sbuf", "hbm"):
            run = _script(partial(_alone, alone, buffer))
            yield Row("core_barrier", f"alone-{alone}-{buffer}", run)
    for arch in ("trn1", "trn2", "trn3"):
        yield Row("get_nc_sub_version", arch, _script(_sub_version), arch)


def refusals() -> Iterator[Refusal]:
    """Yield the calls that this module's functions refuse."""

    def exchange(**changed: Any) -> dict[str, Any]:
        names = {"src": ones((8, 4)), "dst": Tile((8, 4)), "send_to_rank": 1}
        return {**names, "recv_from_rank": 1, "pipe_id": 0, **changed}

    no = partial(Refusal, "sendrecv")
    yield no("one-core", exchange, "runs on one core", ValueError)
    yield no("unknown-keyword", lambda: exchange(mask=None), "mask", TypeError)
    no = partial(Refusal, "core_barrier")
    yield no("one-core", lambda: {"data": ones((8, 4)), "cores": (0, 1)}, "one core", ValueError)
    yield no("no-core", lambda: {"data": ones((8, 4)), "cores": ()}, "one core", ValueError)
