"""Kernels on two cores that fail: deadlocks, exceptions, interrupts, races."""

from __future__ import annotations

import contextvars
import functools
import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from support.two_cores import (
    F,
    P,
    halves,
    line_of,
    split,
    swap_by_barrier,
    swap_by_sendrecv,
    tile_of,
)
from trn3 import nki
from trn3.machine import NkiValidationError
from trn3.nki.ranks import gang as gangs
from trn3.nki.ranks.gang import DeadlockError, Gang


@nki.jit
def racy(x: Any) -> Any:
    scratch = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, name="scratch")
    own = nl.program_id(0)
    nisa.dma_copy(scratch[own], x[own])  # racy write
    tile_of_other = tile_of(x.shape[1:], x.dtype)
    nisa.dma_copy(tile_of_other, scratch[1 - own])  # racy read
    return scratch


# --- deadlocks ----------------------------------------------------------------------------------


def deadlock(body: Callable[[Any, int], None]) -> str:
    @nki.jit
    def kernel(x: Any) -> Any:
        body(x, nl.program_id(0))
        return x

    threads = threading.active_count()
    with pytest.raises(DeadlockError) as caught:
        kernel[2](halves())
    assert threading.active_count() == threads
    return str(caught.value)


def send(tile: Any, own: int, pipe: int = 0) -> None:
    nisa.sendrecv(tile, tile, 1 - own, 1 - own, pipe_id=pipe)


@pytest.mark.parametrize("late", [0, 1])
def test_a_barrier_that_one_core_never_reaches(late: int) -> None:
    def body(x: Any, own: int) -> None:
        if own != late:
            nisa.core_barrier(x, (0, 1))  # lonely barrier

    text = deadlock(body)
    place = line_of(__file__, "# lonely barrier")
    assert f"core {1 - late} waits at core_barrier ({place})" in text
    assert f"core {late}, which came to no meeting" in text


def test_different_numbers_of_barriers() -> None:
    def body(x: Any, own: int) -> None:
        for _ in range(2 + own):
            nisa.core_barrier(x, (0, 1))  # counted barrier

    text = deadlock(body)
    assert "core 1 waits" in text
    assert (
        f"core 0, whose last meeting was core_barrier ({line_of(__file__, '# counted barrier')})"
        in text
    )


def test_a_barrier_against_an_exchange_names_both_lines() -> None:
    def body(x: Any, own: int) -> None:
        tile = nl.zeros((P, 4), nl.float32)
        if own == 0:
            nisa.core_barrier(x, (0, 1))  # crossed barrier
        else:
            send(tile, own)  # crossed exchange

    text = deadlock(body)
    assert f"core 0 at core_barrier ({line_of(__file__, '# crossed barrier')})" in text
    assert "core 1 is at sendrecv on pipe 0" in text


def test_exchanges_on_different_pipes_that_never_pair() -> None:
    def body(x: Any, own: int) -> None:
        send(nl.zeros((P, 4), nl.float32), own, pipe=own)

    text = deadlock(body)
    assert "sendrecv on pipe 0" in text
    assert "sendrecv on pipe 1" in text


@pytest.mark.parametrize(
    ("shape", "dtype", "words"),
    [((P, 8), nl.float32, r"\[128, 8\]"), ((P, 4), nl.int32, "int32")],
)
def test_tiles_that_do_not_fit_name_both_lines(shape: Any, dtype: Any, words: str) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        own = nl.program_id(0)
        if own == 0:
            send(nl.zeros((P, 4), nl.float32), own)
        else:
            send(nl.zeros(shape, dtype), own)
        return x

    with pytest.raises(
        NkiValidationError,
        match=rf"test_lnc2_failures.py:\d+ and .*test_lnc2_failures.py:\d+.*{words}",
    ):
        kernel[2](halves())


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"send_to_rank": 0}, ValueError, "send_to_rank is 0 on core 0; allowed: 1"),
        ({"recv_from_rank": 2}, ValueError, "recv_from_rank is 2 on core 0; allowed: 1"),
        ({"pipe_id": "a"}, TypeError, "pipe_id is 'a'"),
        ({"dma_engine": 3}, TypeError, "dma_engine is 3"),
        ({"dtype": nl.int32}, NkiValidationError, "int32"),
        ({"buffer": nl.psum}, NkiValidationError, "src must be in"),
        (
            {"length": 257, "dma_engine": nisa.dma_engine.gpsimd_dma},
            NkiValidationError,
            "at most 256",
        ),
    ],
)
def test_bad_exchanges_are_refused(change: dict[str, Any], error: Any, words: str) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        length = change.get("length", 4)
        src = nl.ndarray((P, length), nl.float32, buffer=change.get("buffer", nl.sbuf))
        dst = tile_of((P, length), change.get("dtype", nl.float32))
        own = nl.program_id(0)
        ranks = {"send_to_rank": 1 - own, "recv_from_rank": 1 - own, "pipe_id": 0}
        keys = ("send_to_rank", "recv_from_rank", "pipe_id", "dma_engine")
        nisa.sendrecv(src, dst, **{**ranks, **{key: change[key] for key in keys if key in change}})
        return x

    with pytest.raises(error, match=words):
        kernel[2](halves())


def test_a_runtime_of_other_cores_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
    split(halves())
    split[1](halves())
    with pytest.warns(UserWarning, match="NEURON_LOGICAL_NC_CONFIG is 1"):
        split[2](halves())


def test_bad_barriers_are_refused() -> None:
    @nki.jit
    def cores(x: Any) -> Any:
        nisa.core_barrier(x, (0, 1, 2))
        return x

    @nki.jit
    def memory(x: Any) -> Any:
        nisa.core_barrier(nl.ndarray((P, 4), nl.float32, buffer=nl.psum), (0, 1))
        return x

    with pytest.raises(ValueError, match=r"cores is \(0, 1, 2\).*allowed: \(0, 1\)"):
        cores[2](halves())
    with pytest.raises(NkiValidationError, match="data must be in"):
        memory[2](halves())


# --- failures -----------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [0, 1])
@pytest.mark.parametrize("met", [False, True])
def test_an_exception_ends_both_cores(bad: int, met: bool) -> None:
    ended = []

    @nki.jit
    def kernel(x: Any) -> Any:
        own = nl.program_id(0)
        try:
            if met:
                nisa.core_barrier(x, (0, 1))
            if own == bad:
                raise KeyError("mine")
            nisa.core_barrier(x, (0, 1))
        finally:
            ended.append(own)
        return x

    threads = threading.active_count()
    with pytest.raises(KeyError, match="mine") as caught:
        kernel[2](halves())
    assert sorted(ended) in ([0, 1], [bad])
    assert threading.active_count() == threads
    frames = [entry.name for entry in caught.traceback]
    assert frames[-1] == "kernel"
    note = caught.value.__notes__[0]
    assert f"in program {bad} on core {bad}" in note
    assert "test_lnc2_failures.py:" in note
    # Nothing is left behind.
    x = halves()
    assert np.array_equal(swap_by_barrier[2](x), x[::-1])


def test_an_interrupt_ends_both_cores() -> None:
    gang = Gang(["a", "b"])
    ended = []

    def interrupted() -> None:
        raise KeyboardInterrupt

    def waiting() -> None:
        try:
            gang.wait(1, lambda: False, lambda: "b waits")
        finally:
            ended.append("b")

    with pytest.raises(KeyboardInterrupt):
        gang.run([interrupted, waiting])
    with pytest.raises(KeyboardInterrupt):
        Gang(["a", "b"]).run([lambda: None, interrupted])


def test_an_interrupt_ends_a_core_that_would_never_stop() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        nisa.core_barrier(x, (0, 1))
        if nl.program_id(0) == 1:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            while True:
                pass
        nisa.core_barrier(x, (0, 1))
        return x

    if threading.current_thread() is not threading.main_thread():
        pytest.skip("interrupts reach the main thread alone")
    threads = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        kernel[2](halves())
    assert threading.active_count() == threads


class _Late:
    """A turn whose giver is interrupted right after it was given."""

    def __init__(self, turn: Any, begun: threading.Event) -> None:
        self.turn, self.begun, self.is_armed = turn, begun, True
        self.acquire = turn.acquire

    def release(self) -> None:
        self.turn.release()
        if self.is_armed:
            self.is_armed = False
            assert self.begun.wait(30)
            raise KeyboardInterrupt


def test_an_interrupt_as_the_turn_is_given_ends_whoever_got_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gang = Gang(["a", "b"])
    begun = threading.Event()

    def first() -> None:
        gang.wait(0, lambda: False, lambda: "a waits")

    def endless() -> None:
        begun.set()
        while True:
            pass

    class LateSpare(gangs._Spare):
        def __init__(self) -> None:
            super().__init__()
            self.turn: Any = _Late(self.turn, begun)

    monkeypatch.setattr(gangs, "_Spare", LateSpare)
    threads = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        gang.run([first, endless])
    assert threading.active_count() == threads


def test_those_that_wait_for_nobody_share_a_thread_and_no_context_variables() -> None:
    seen: contextvars.ContextVar[int] = contextvars.ContextVar("seen", default=-1)
    before, threads = [], []

    def body(number: int) -> None:
        before.append(seen.get())
        seen.set(number)
        threads.append(threading.get_ident())

    gang = Gang([str(number) for number in range(5)])
    gang.run([functools.partial(body, number) for number in range(5)])
    assert before == [-1] * 5
    assert set(threads) == {threading.get_ident()}


def test_who_begins_while_others_wait_has_a_thread_of_its_own() -> None:
    gang = Gang(["a", "b", "c", "d"])
    said: list[str] = []
    threads = []

    def body(number: int) -> None:
        threads.append(threading.get_ident())
        said.append("abcd"[number])
        if number < 2:
            gang.wait(number, lambda: len(said) > 3 + number, lambda: "waits")
            said.append("ABCD"[number])

    gang.run([functools.partial(body, number) for number in range(4)])
    assert "".join(said) == "abcdAB"
    assert len({*threads}) == 3
    assert threads[2] == threads[3]


# --- races --------------------------------------------------------------------------------------


def races(kernel: Any, x: Any, **options: Any) -> list[dict[str, Any]]:
    _, profile = nki.profile(kernel, x, **options)
    return [finding for finding in profile.findings if finding.kind == "race"]


@pytest.mark.parametrize("values", [True, False])
def test_reading_without_a_meeting_is_found(values: bool) -> None:
    found = races(racy[2], halves(), values=values)
    assert found
    write, read = line_of(__file__, "# racy write"), line_of(__file__, "# racy read")
    texts = {(finding.location, finding.core): finding.message for finding in found}
    assert "core 1 reads byte 0 of tensor `scratch`, which core 0 writes" in texts[read, 1]
    assert write in texts[read, 1]
    assert f"core 1 writes byte {P * F * 4} of tensor `scratch`" in texts[write, 1]
    assert read in texts[write, 1]


@pytest.mark.parametrize("kernel", [swap_by_barrier, swap_by_sendrecv, split])
@pytest.mark.parametrize("values", [True, False])
def test_ordered_and_split_uses_are_no_races(kernel: Any, values: bool) -> None:
    _, profile = nki.profile(kernel[2], halves(), values=values)
    assert profile.findings == []


def test_looking_at_a_shared_tensor_is_no_race(capsys: pytest.CaptureFixture[str]) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        own = nl.program_id(0)
        nl.store(out[own], nl.load(x[own]))
        if own == 1:
            nl.device_print("out", out[0, 0:1, 0:2])
        return out

    assert races(kernel[2], halves()) == []
    assert "out " in capsys.readouterr().out


def test_two_writers_of_a_byte_are_a_race_and_neighbours_are_none() -> None:
    @nki.jit
    def kernel(x: Any, shift: int) -> Any:
        out = nl.ndarray((1, 64), nl.uint8, buffer=nl.shared_hbm)
        own = nl.program_id(0)
        tile = nl.full((1, 32), own, nl.uint8)
        nisa.dma_copy(out[:, nl.ds(own * (32 - shift), 32)], tile)
        return out

    assert races(kernel[2], halves(), shift=0) == []
    assert len(races(kernel[2], halves(), shift=1)) == 1


def test_interleaved_rows_and_columns_are_no_races() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray((P, 8), nl.float32, buffer=nl.shared_hbm)
        own = nl.program_id(0)
        nisa.dma_copy(out[:, own:8:2], nl.full((P, 4), own, nl.float32))
        return out

    got, profile = nki.profile(kernel[2], halves())
    assert profile.findings == []
    assert (got == np.arange(8) % 2).all()


def test_scattered_rows_of_their_own_are_no_races() -> None:
    @nki.jit
    def kernel(x: Any, rows: Any) -> Any:
        out = nl.ndarray((8, 4), nl.float32, buffer=nl.shared_hbm)
        own = nl.program_id(0)
        index = nl.load(rows[own])
        target = out.ap([[4, 4], [1, 4]], vector_offset=index)
        nisa.dma_copy(target, nl.full((4, 4), own + 1.0, nl.float32))
        return out

    rows = np.array([[[0], [2], [4], [6]], [[1], [3], [5], [7]]], np.int32)
    got, profile = nki.profile(kernel[2], halves(), rows)
    assert profile.findings == []
    assert got[:, 0].tolist() == [1, 2] * 4
