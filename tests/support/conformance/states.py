"""Registers, generators of random numbers, dropout, and what a kernel asks its core."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

from support.conformance.elementwise import ones
from support.conformance.table import Array, Refusal, Row, Script, Tile
from support.core import Machine
from support.engines import FLOATS, INTEGERS, TYPES, cast, sample, widen
from trn3.nki import isa

Generator = np.random.Generator

#: Words of an XORWOW generator, and the increment of its counter.
_WORDS: Final = 6
_INCREMENT: Final = 362437


def xorwow(state: Array, count: int) -> tuple[Array, Array]:
    """Return draws [P, count] and the state [P, 6] after them, of Marsaglia's generator."""
    words = [state[:, i].astype(np.uint64) for i in range(_WORDS)]
    mask = np.uint64(0xFFFFFFFF)
    draws = []
    for _ in range(count):
        *shift, counter = words
        t = shift[0] ^ (shift[0] >> np.uint64(2))
        last = shift[4]
        new = (last ^ (last << np.uint64(4)) ^ t ^ (t << np.uint64(1))) & mask
        counter = (counter + np.uint64(_INCREMENT)) & mask
        words = [*shift[1:], new, counter]
        draws.append((new + counter) & mask)
    return np.stack(draws, axis=1).astype(np.uint32), np.stack(words, axis=1).astype(np.uint32)


def _script(run: Callable[[Machine], None]) -> Callable[[Generator], Script]:
    return lambda _: Script(run)


def _load(dtype: str, buffer: str, rng: Generator) -> Script:
    x = rng.integers(0, 100, (1, 4)).astype(TYPES[dtype])
    if dtype.startswith("int"):
        x = -x

    def run(machine: Machine) -> None:
        register = isa.register_alloc()
        isa.register_load(register, machine.tile(x, dtype, buffer)[0:1, 2:3])
        assert register.state == int(x[0, 2])
        other = isa.register_alloc(machine.tile(x, dtype, buffer)[0:1, 1:2])
        assert other.state == int(x[0, 1])

    return Script(run)


def _store(dtype: str, buffer: str, rng: Generator) -> Script:
    def run(machine: Machine) -> None:
        tile = machine.tile(np.zeros((1, 3), TYPES[dtype]), dtype, buffer)
        isa.register_store(tile[0:1, 1:2], isa.register_alloc(77))
        assert machine.get(tile).tolist() == [[0, 77, 0]]

    return Script(run)


def _moved(_: Machine) -> None:
    register = isa.register_alloc(5)
    isa.register_move(register, -7)
    assert register.state == -7
    isa.register_move(register, isa.register_alloc(9))
    assert register.state == 9
    isa.register_move(register, imm=3)
    assert register.state == 3
    assert bool(register)


def _scalars(buffer: str, rng: Generator) -> Script:
    values = rng.integers(-(2**31), 2**31, (1, 4)).astype(np.int32)

    def run(machine: Machine) -> None:
        source = machine.tile(values, "int32", buffer)
        x, y = (isa.scalar_load(source[0:1, place : place + 1]) for place in (1, 2))
        # NumPy's int32 wraps as the scalars do.
        with np.errstate(over="ignore"):
            a, b = values[0, 1], values[0, 2]
            wanted = [a + b, a - b, a * b, -a, a + np.int32(7), np.int32(7) - b]
        found = [x + y, x - y, x * y, -x, x + 7, 7 - y]
        target = machine.tile(np.zeros((1, 6), np.int32), "int32", buffer)
        for place, scalar in enumerate(found):
            isa.scalar_store(target[0:1, place : place + 1], scalar)
        assert machine.get(target).tolist() == [[int(each) for each in wanted]]

    return Script(run)


def _draws(engine: str, dtype: str, rng: Generator) -> Script:
    generators = 1 if engine == "gpsimd" else 4
    state = rng.integers(1, 2**32, (128, _WORDS * generators), np.uint32)

    def run(machine: Machine) -> None:
        isa.rand_set_state(machine.tile(state, "uint32"), isa.engine[engine])
        held = machine.empty(state.shape, "uint32")
        isa.rand_get_state(held, isa.engine[engine])
        assert (machine.get(held) == state).all()
        dst = machine.empty((128, 8), dtype)
        isa.rng(dst, isa.engine[engine])
        got = machine.get(dst)
        if engine == "gpsimd":
            wanted, after = xorwow(state, 8)
            low = wanted.astype(f"u{got.itemsize}")
            assert (got.view(low.dtype) == low).all()
            isa.rand_get_state(held, isa.engine[engine])
            assert (machine.get(held) == after).all()
        else:
            again = machine.empty((128, 8), dtype)
            isa.rand_set_state(machine.tile(state, "uint32"), isa.engine[engine])
            isa.rng(again, isa.engine[engine])
            assert (machine.get(again) == got).all()

    return Script(run)


def _seeded(arch: str, rng: Generator) -> Script:
    def run(machine: Machine) -> None:
        drawn = []
        for seed in (11, 11, 12):
            isa.set_rng_seed(machine.tile(np.full((1, 1), seed, np.uint32), "uint32"))
            dst = machine.empty((128, 16), "uint32")
            isa.rng(dst)
            drawn.append(machine.get(dst))
        assert (drawn[0] == drawn[1]).all()
        assert (drawn[0] != drawn[2]).any()
        assert len(np.unique(drawn[0])) > 1000

    return Script(run)


def _uniform(dtype: str, low: float, high: float, rng: Generator) -> Script:
    def run(machine: Machine) -> None:
        isa.set_rng_seed(machine.tile(np.full((1, 1), 3, np.uint32), "uint32"))
        dst = machine.empty((128, 256), dtype)
        isa.rand2(dst, low, high)
        got = machine.get(dst).astype(np.float64)
        assert got.min() >= low
        assert got.max() <= high
        # Six deviations of the mean of so many, and what the type rounds away.
        reach = (high - low) / np.sqrt(12 * got.size) * 6 + (high - low) * 2.0**-5
        assert abs(got.mean() - (low + high) / 2) < reach

    return Script(run)


def _dropout(dtype: str, probability: float, rng: Generator) -> Script:
    x = sample(rng, (128, 256), dtype)
    x = np.where(widen(x) == 0, cast(np.ones((), np.float32), dtype), x)

    def run(machine: Machine) -> None:
        isa.set_rng_seed(machine.tile(np.full((1, 1), 3, np.uint32), "uint32"))
        dst = machine.empty(x.shape, dtype)
        isa.dropout(dst, machine.tile(x, dtype), probability)
        got = machine.get(dst)
        kept = widen(got) != 0
        assert (got[kept] == x[kept]).all()
        deviation = np.sqrt(probability * (1 - probability) / x.size)
        assert abs((1 - kept.mean()) - probability) <= 6 * deviation

    return Script(run)


def _version(expected: int, _: Machine) -> None:
    assert isa.get_nc_version() == isa.nc_version(expected)
    assert isa.get_nc_version() >= isa.nc_version.gen2
    assert (isa.get_nc_version() >= isa.nc_version.gen4) == (expected == 4)


def rows() -> Iterator[Row]:
    """Yield the rows of this module's functions."""
    for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32"):
        for buffer in ("sbuf", "hbm"):
            yield Row("register_load", f"{dtype}-{buffer}", partial(_load, dtype, buffer))
            yield Row("register_store", f"{dtype}-{buffer}", partial(_store, dtype, buffer))
    for function in ("scalar_load", "scalar_store"):
        for buffer in ("sbuf", "hbm"):
            yield Row(function, f"int32-{buffer}", partial(_scalars, buffer))
    yield Row("register_alloc", "tile", partial(_load, "int32", "sbuf"))
    yield Row("register_alloc", "number", _script(_moved))
    yield Row("register_move", "numbers-and-registers", _script(_moved))
    for function in ("rand_set_state", "rand_get_state", "rng"):
        for engine in ("gpsimd", "vector"):
            kinds = INTEGERS if function == "rng" else ["uint32"]
            for dtype in kinds:
                yield Row(function, f"{engine}-{dtype}", partial(_draws, engine, dtype))
    for arch in ("trn1", "trn2", "trn3"):
        yield Row("set_rng_seed", arch, partial(_seeded, arch), arch)
    for dtype in FLOATS:
        yield Row("rand2", dtype, partial(_uniform, dtype, 0.0, 1.0))
    yield Row("rand2", "int32", partial(_uniform, "int32", -100.0, 100.0))
    for dtype in (*FLOATS, "int8", "uint16", "int32"):
        for probability in (0.0, 0.25, 1.0):
            label = f"{dtype}-{probability}"
            yield Row("dropout", label, partial(_dropout, dtype, probability))
    for arch, generation in (("trn1", 2), ("trn2", 3), ("trn3", 4)):
        run = partial(_version, generation)
        yield Row("get_nc_version", arch, _script(run), arch)


def refusals() -> Iterator[Refusal]:
    """Yield the calls that this module's functions refuse."""
    no = partial(Refusal, "rng")
    yield no("float", lambda: {"dst": Tile((8, 4))}, "float32")
    gpsimd: dict[str, Any] = {"dst": Tile((8, 4), "uint32"), "engine": isa.gpsimd_engine}
    yield no("gpsimd-trn1", lambda: gpsimd, "gen3", arch="trn1")
    yield no("engine", lambda: gpsimd | {"engine": isa.scalar_engine}, "engine")
    no = partial(Refusal, "rand2")
    yield no("order", lambda: {"dst": Tile((8, 4)), "min": 2.0, "max": 1.0}, "min")
    yield no("trn2", lambda: {"dst": Tile((8, 4)), "min": 0.0, "max": 1.0}, "gen4", arch="trn2")
    no = partial(Refusal, "set_rng_seed")
    yield no("shape", lambda: {"src_seeds": ones((2, 1), "uint32")}, "src_seeds")
    yield no("type", lambda: {"src_seeds": ones((1, 1), "uint16")}, "src_seeds")
    no = partial(Refusal, "rand_set_state")
    yield no("words", lambda: {"src_seeds": ones((128, 5), "uint32")}, "6")
    yield no("type", lambda: {"src_seeds": ones((128, 6))}, "uint32")
    yield no("trn1", lambda: {"src_seeds": ones((128, 6), "uint32")}, "gen3", arch="trn1")
    no = partial(Refusal, "rand_get_state")
    yield no("words", lambda: {"dst": Tile((128, 5), "uint32")}, "6")
    yield no("type", lambda: {"dst": Tile((128, 6))}, "uint32")
    no = partial(Refusal, "dropout")
    yield no(
        "type", lambda: {"dst": Tile((8, 4), "int8"), "data": ones((8, 4)), "prob": 0.5}, "dtype"
    )
    yield no(
        "prob-type",
        lambda: {
            "dst": Tile((8, 4), "int8"),
            "data": ones((8, 4), "int8"),
            "prob": ones((8, 1), "bfloat16"),
        },
        "prob",
    )
    no = partial(Refusal, "register_load")
    yield no("elements", lambda: {"dst": isa.register_alloc(), "src": ones((1, 2), "int32")}, "one")
    yield no(
        "psum",
        lambda: {"dst": isa.register_alloc(), "src": ones((1, 1), "int32", "psum")},
        "psum",
    )
    yield no("number", lambda: {"dst": 3, "src": ones((1, 1), "int32")}, "Register", TypeError)
    no = partial(Refusal, "register_store")
    yield no(
        "unwritten",
        lambda: {"dst": Tile((1, 1), "int32"), "src": isa.register_alloc()},
        "before anything",
        ValueError,
    )
    no = partial(Refusal, "scalar_load")
    yield no(
        "type", lambda: {"src": ones((1, 1), "uint32")}, "src has dtype uint32; allowed: int32"
    )
    yield no("elements", lambda: {"src": ones((1, 2), "int32")}, "one")
    no = partial(Refusal, "scalar_store")
    yield no(
        "type",
        lambda: {"dst": Tile((1, 1), "uint32"), "value": isa.NkiScalar(1)},
        "dst has dtype uint32; allowed: int32",
    )
    yield no("number", lambda: {"dst": Tile((1, 1), "int32"), "value": 3}, "memset", TypeError)
    compared = isa.NkiScalar(1) < 2
    yield no(
        "comparison",
        lambda: {"dst": Tile((1, 1), "int32"), "value": compared},
        "the result of a comparison",
        TypeError,
    )
    no = partial(Refusal, "register_move")
    frozen = isa.VirtualRegister(1, frozen=True)
    yield no("frozen", lambda: {"dst": frozen, "src": 1}, "dynamic loop")
    yield no("beyond", lambda: {"dst": isa.register_alloc(), "src": 2**40}, "32 bits")
    yield no("nothing", lambda: {"dst": isa.register_alloc()}, "src", TypeError)
