"""What the compiler hears of loops: where one begins, each iteration, and where it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import trn3.nki.dialects.legacy.language as older
import trn3.nki.isa as nisa
import trn3.nki.language as nl
from trn3 import nki
from trn3.machine import NeuronCore
from trn3.nki.dialects import legacy
from trn3.nki.ranks.context import core

X = np.arange(128 * 8, dtype=np.float32).reshape(128, 8)
LEVELS = ("as-written", "nki", "neuronx-cc")


class Listening(NeuronCore):
    """A core that keeps what it is told, and tells how deep in loops it is."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.heard: list[str] = []
        self.scopes: list[int] = []

    def begin_loop(self, kind: str, trip: int | None) -> None:
        super().begin_loop(kind, trip)
        self.heard.append(f"{kind} {trip}")

    def next_iteration(self) -> None:
        super().next_iteration()
        self.heard.append("next")

    def end_loop(self) -> None:
        super().end_loop()
        self.heard.append("end")

    def set_ordered(self, is_ordered: bool) -> None:
        super().set_ordered(is_ordered)
        self.heard.append("ordered" if is_ordered else "open")

    def set_scope(self, scope: int) -> None:
        super().set_scope(scope)
        self.scopes.append(scope)


def listening(level: str = "nki") -> Listening:
    return Listening("trn3", compile=level)


def heard(body: Callable[[], Any], level: str = "nki") -> list[str]:
    """Return what a core hears of a kernel; it is back outside all loops at the end."""
    told = listening(level)

    @nki.jit
    def kernel(x: Any) -> Any:
        body()
        assert core().scope() == 0
        return x

    kernel.launch([told], [X], {})
    return told.heard


@pytest.mark.parametrize("name", ["affine_range", "sequential_range", "static_range"])
@pytest.mark.parametrize("language", [nl, older])
def test_each_iteration_of_a_loop_is_heard(language: Any, name: str) -> None:
    made, seen = getattr(language, name), []

    def body() -> None:
        seen.extend((int(i), core().scope()) for i in made(1, 7, 2))

    assert heard(body) == [f"{name} 3", *["next"] * 3, "end"]
    numbers, scopes = zip(*seen, strict=True)
    assert numbers == (1, 3, 5)
    assert len({0, *scopes}) == 4


@pytest.mark.parametrize("name", ["affine_range", "sequential_range", "static_range"])
def test_outside_and_as_written_ranges_are_pythons(name: str) -> None:
    made, seen = getattr(nl, name), []
    assert type(made(3)) is range
    assert heard(lambda: seen.append(type(made(3))), "as-written") == []
    assert heard(lambda: seen.extend(range(3)), "nki") == []
    assert seen == [range, 0, 1, 2]
    assert list(getattr(older, name)(3)) == [0, 1, 2]


def test_a_marked_range_is_a_range_in_all_else() -> None:
    def body() -> None:
        own, plain = nl.affine_range(2, 20, 3), range(2, 20, 3)
        assert len(own) == len(plain)
        assert own
        assert not nl.affine_range(0)
        assert [own[0], own[-1]] == [2, 17]
        assert own[1:3] == plain[1:3]
        assert repr(own) == repr(plain)
        assert (own == plain, own == nl.static_range(2, 20, 3), own == [2]) == (True, True, False)
        assert hash(own) == hash(plain)
        assert (5 in own, 6 in own) == (True, False)
        assert (own.start, own.stop, own.step, own.index(5), own.count(5)) == (2, 20, 3, 1, 1)
        assert list(own) == list(plain)
        assert list(reversed(own)) == list(reversed(plain))
        assert [*own[1:3]] == [5, 8]
        with pytest.raises(AttributeError):
            own.none  # noqa: B018 -- what is tested
        with pytest.raises(TypeError, match="affine_range bound"):
            nl.affine_range(nl.ndarray((1, 1), nl.int32))  # type: ignore[arg-type]

    told = heard(body)
    assert told.count("affine_range 6") == 2
    assert told.count("affine_range 2") == 1


def test_loops_nest() -> None:
    def body() -> None:
        for _ in nl.sequential_range(2):
            for _ in nl.affine_range(2):
                pass
            for _ in nl.affine_range(0):
                pass

    inner = ["affine_range 2", "next", "next", "end"]
    assert heard(body) == ["sequential_range 2", "next", *inner, "next", *inner, "end"]


@pytest.mark.parametrize("language", [nl, older])
def test_a_loop_that_is_left_ends(language: Any) -> None:
    def body() -> None:
        for _ in language.affine_range(9):
            for _ in language.static_range(9):
                break
            else:
                raise AssertionError
            break
        assert core().scope() == 0

    assert heard(body) == ["affine_range 9", "next", "static_range 9", "next", "end", "end"]


@pytest.mark.parametrize("language", [nl, older])
def test_an_exception_ends_the_loops_that_it_leaves(language: Any) -> None:
    def body() -> None:
        try:
            for _ in language.affine_range(9):
                for _ in language.static_range(9):
                    raise KeyError
        except KeyError:
            assert core().scope() == 0
        for _ in language.affine_range(1):
            pass

    first = ["affine_range 9", "next", "static_range 9", "next", "end", "end"]
    assert heard(body) == [*first, "affine_range 1", "next", "end"]


def test_a_return_out_of_a_loop_ends_it() -> None:
    def first_of(numbers: Any) -> Any:
        for number in numbers:
            return number
        return None

    def body() -> None:
        assert first_of(nl.affine_range(4)) == 0

    assert heard(body) == ["affine_range 4", "next", "end"]


def test_iterators_taken_in_turn_stay_in_one_another() -> None:
    def body() -> None:
        for _ in zip(nl.affine_range(2), nl.static_range(3), strict=False):
            pass

    again = ["static_range 3", "next", "end"]
    assert heard(body) == ["affine_range 2", "next", *again, "next", *again, "end"]


def test_an_iterator_that_is_kept_ends_with_the_kernel() -> None:
    kept: list[Iterator[int]] = []
    told = listening()

    @nki.jit
    def kernel(x: Any) -> Any:
        kept.append(iter(nl.affine_range(4)))
        next(kept[0])
        for _ in nl.static_range(1):
            pass
        return x

    kernel.launch([told], [X], {})
    wanted = ["affine_range 4", "next", "static_range 1", "next", "end", "end"]
    assert told.heard == wanted
    kept.clear()
    assert told.heard == wanted


def test_dynamic_loops_are_heard_with_the_trips_that_are_known() -> None:
    def body() -> None:
        for _ in nl.dynamic_range(2, 8, 3):
            break
        for _ in nl.dynamic_range(nisa.VirtualRegister(2)):
            pass
        nl.fori_loop(0, 2, lambda _: None)
        nl.fori_loop(0, nisa.VirtualRegister(1), lambda _: None)
        nl.while_loop(
            nisa.VirtualRegister(2), lambda register: nisa.VirtualRegister(register.state - 1)
        )

    once, twice = ["next", "end"], ["next", "next", "end"]
    assert heard(body) == [
        *["dynamic_range 2", *once],
        *["dynamic_range None", *twice],
        *["dynamic_range 2", *twice],
        *["dynamic_range None", *once],
        *["dynamic_range None", *twice],
    ]


def test_only_the_outermost_order_is_heard() -> None:
    def body() -> None:
        with nl.no_reorder():
            for _ in nl.affine_range(1):
                with nl.no_reorder():
                    pass
        with pytest.raises(KeyError), nl.no_reorder():
            raise KeyError

    loop = ["affine_range 1", "next", "end"]
    assert heard(body) == ["ordered", *loop, "open", "ordered", "open"]


def test_an_instruction_that_waits_is_of_the_iteration_that_it_was_written_in() -> None:
    """It runs as the next one asks for something: here in the next iteration, or after the loop."""
    told, written = listening("neuronx-cc"), []

    @legacy.jit
    def kernel(x: Any) -> Any:
        out = older.ndarray((128, 16), dtype=x.dtype, buffer=older.shared_hbm)
        tile = older.load(x)
        tile.shape  # noqa: B018 -- asks for nothing
        whole = older.ndarray((128, 8), dtype=x.dtype, buffer=older.sbuf)
        whole[...] = tile
        made = []
        told.scopes.clear()
        for _ in older.affine_range(2):
            made.append(older.exp(whole))
            written.append(core().scope())
        older.store(out[:, 0:8], made[0])
        older.store(out[:, 8:16], made[1])
        return out

    result = kernel.launch([told], [X / 1024], {})
    np.testing.assert_allclose(result, np.exp(np.hstack([X, X]) / 1024), rtol=1e-5)
    assert len({0, *written}) == 3
    # Into the iteration and back to where the kernel is: in the second one, then outside.
    assert told.scopes == [written[0], written[1], written[1], 0]


@pytest.mark.parametrize("level", LEVELS)
def test_marks_change_nothing_that_is_issued(level: str) -> None:
    def plain(x: Any, made: Any = range) -> Any:
        out = older.ndarray((128, 8), dtype=x.dtype, buffer=older.shared_hbm)
        total = older.zeros((128, 8), dtype=x.dtype, buffer=older.sbuf)
        for i in made(3):
            total += older.exp(older.load(x) * float(i))
            for j in made(2):
                total[:, j * 4 : j * 4 + 4] = older.sqrt(total[:, j * 4 : j * 4 + 4])
        older.store(out, total)
        return out

    small = X / 1024
    results, programs = [], []
    for made in (range, older.affine_range, older.sequential_range, older.static_range):
        kernel = legacy.jit(plain)
        result, profile = nki.profile(kernel, small, made, compile=level)
        results.append(result)
        opcodes = profile.table("Instruction")["opcode"].tolist()
        programs.append(sorted(opcodes) if level != "as-written" else opcodes)
    assert all(np.array_equal(result, results[0]) for result in results)
    if level == "as-written":
        assert all(program == programs[0] for program in programs)


def test_instances_that_wait_for_each_other_keep_their_loops_apart() -> None:
    told = listening("neuronx-cc")

    @legacy.jit
    def kernel(x: Any) -> Any:
        out = older.ndarray((2, *x.shape), dtype=x.dtype, buffer=older.shared_hbm)
        number = older.program_id(0)
        for i in older.sequential_range(2):
            tile = older.load(x) * float(number + i)
            total = older.all_reduce(tile, np.add, program_axes=[0])
            older.store(out[number], total)
        assert core().scope() != -1
        return out

    result = kernel[2].launch([told], [X], {})
    np.testing.assert_array_equal(result, np.stack([3 * X, 3 * X]))
    depth = 0
    for word in told.heard:
        depth += word.startswith("sequential") - (word == "end")
        assert depth in (0, 1)
    assert depth == 0
    assert told.scope() == 0
