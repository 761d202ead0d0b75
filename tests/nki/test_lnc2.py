"""Kernels on two cores: values, one result whatever the host does, deadlocks, races, time."""

from __future__ import annotations

import io
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from trn3 import nki
from trn3.machine import LogicalProfile, NkiValidationError, Profile
from trn3.nki.gang import DeadlockError, Gang

P, F = 128, 256
RNG = np.random.default_rng(5)


def halves(dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return RNG.standard_normal((2, P, F)).astype(dtype)


def line_of(text: str, occurrence: int = 0) -> str:
    """Return `file:line` of a line of this file that holds a text."""
    lines = Path(__file__).read_text().splitlines()
    found = [i for i, line in enumerate(lines, 1) if text in line and "line_of" not in line]
    return f"{__file__}:{found[occurrence]}"


def tile_of(shape: tuple[int, ...], dtype: Any = nl.float32) -> Any:
    return nl.ndarray(shape, dtype, buffer=nl.sbuf)


@nki.jit
def split(x: Any) -> Any:
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    cores = nl.num_programs(0)
    for i in range(nl.program_id(0), x.shape[0], cores):
        nl.store(out[i], nl.multiply(nl.load(x[i]), 2.0))
    return out


@nki.jit
def swap_by_barrier(x: Any) -> Any:
    scratch = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, name="scratch")
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    own = nl.program_id(0)
    nisa.dma_copy(scratch[own], x[own])
    nisa.core_barrier(scratch, (0, 1))
    nisa.dma_copy(out[own], scratch[1 - own])
    return out


@nki.jit
def swap_by_sendrecv(x: Any, gpsimd: bool = False) -> Any:
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    own = nl.program_id(0)
    mine = nl.load(x[own])
    theirs = tile_of(mine.shape, mine.dtype)
    nisa.sendrecv(
        src=mine,
        dst=theirs,
        send_to_rank=1 - own,
        recv_from_rank=1 - own,
        pipe_id=0,
        dma_engine=nisa.dma_engine.gpsimd_dma if gpsimd else nisa.dma_engine.dma,
    )
    nl.store(out[own], theirs)
    return out


@nki.jit
def racy(x: Any) -> Any:
    scratch = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, name="scratch")
    own = nl.program_id(0)
    nisa.dma_copy(scratch[own], x[own])  # racy write
    tile_of_other = tile_of(x.shape[1:], x.dtype)
    nisa.dma_copy(tile_of_other, scratch[1 - own])  # racy read
    return scratch


# --- values -----------------------------------------------------------------------------------


@pytest.mark.parametrize("lnc", [1, 2, (2,), np.int64(2)])
def test_split_work_gives_the_same_values_on_any_number_of_cores(lnc: Any) -> None:
    x = RNG.standard_normal((4, P, F)).astype(np.float32)
    assert np.array_equal(split[lnc](x), x * 2)


@pytest.mark.parametrize("kernel", [swap_by_barrier, swap_by_sendrecv])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, nl.bfloat16])
def test_swap_exchanges_the_halves(kernel: Any, dtype: Any) -> None:
    x = (RNG.standard_normal((2, P, F)) * 50).astype(np.float32)
    x = np.abs(x).astype(dtype) if dtype is np.uint8 else x.astype(dtype)
    assert np.array_equal(kernel[2](x), x[::-1])


def test_program_queries_on_two_cores() -> None:
    seen: list[Any] = []

    @nki.jit
    def kernel(x: Any) -> Any:
        seen.append((nl.program_id(0), nl.num_programs(axes=0), nl.program_ndim(), x.buffer))
        return x

    kernel[2](halves())
    assert seen == [(core, 2, 1, nl.shared_hbm) for core in (0, 1)]


def test_shared_hbm_is_one_tensor_and_private_hbm_two() -> None:
    seen: dict[str, list[int]] = {}

    @nki.jit
    def kernel(x: Any) -> Any:
        own = nl.program_id(0)
        names = ["a", "b"] if own == 0 else ["b", "a"]
        for name in names:
            tensor = nl.ndarray((2, 2), nl.float32, buffer=nl.shared_hbm, name=name)
            seen.setdefault(name, []).append(tensor.storage_id)
        for key in ("first", "second"):
            tensor = nl.ndarray((2, 2), nl.float32, buffer=nl.shared_hbm)
            seen.setdefault(key, []).append(tensor.storage_id)
        private = nl.ndarray((2, 2), nl.float32, buffer=nl.private_hbm)
        seen.setdefault("private", []).append(private.storage_id)
        seen.setdefault("input", []).append(x.storage_id)
        constant = nl.shared_constant(np.arange(3, dtype=np.float32))
        seen.setdefault("constant", []).append(constant.storage_id)
        return x

    kernel[2](halves())
    one = {key for key, (first, second) in seen.items() if first == second}
    assert one == {"a", "b", "first", "second", "input", "constant"}


def test_shared_tensors_that_differ_are_refused() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        size = 2 + nl.program_id(0)
        nl.ndarray((size, 2), nl.float32, buffer=nl.shared_hbm, name="t")
        return x

    with pytest.raises(ValueError, match=r"'t' has shape \(3, 2\).*\(2, 2\).*test_lnc2.py:\d+\)"):
        kernel[2](halves())


def test_cores_have_sbuf_and_registers_of_their_own() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray((2, 1), nl.int32, buffer=nl.shared_hbm)
        own = nl.program_id(0)
        tile = nl.ndarray((1, 1), nl.int32, buffer=nl.sbuf, address=(0, 0))
        nisa.memset(tile, 10 + own)
        register = nisa.register_alloc(tile)
        nisa.core_barrier(x, (0, 1))
        nisa.register_store(out[own], register)
        return out

    assert kernel[2](halves()).tolist() == [[10], [11]]


def test_inputs_written_by_either_core_are_updated_in_place() -> None:
    @nki.jit
    def kernel(x: Any) -> None:
        own = nl.program_id(0)
        nl.store(x[own], nl.full((P, F), own + 1.0, nl.float32))

    x = halves()
    assert kernel[2](x) is None
    assert (x[0] == 1).all()
    assert (x[1] == 2).all()


def test_arguments_may_hold_tensors_and_are_bound_for_each_core() -> None:
    class Config(nl.NKIObject):
        x: Any
        seen: list[int]

    @nki.jit
    def kernel(config: Any, names: list[Any]) -> Any:
        names.append(nl.program_id(0))
        assert len(names) == 2
        return config.x

    x = halves()
    assert np.array_equal(kernel[2](Config(x=x, seen=[]), [1]), x)


@pytest.mark.parametrize("launch", [2, (2, 2)])
def test_objects_that_kernels_write_to_are_copied_for_each_instance(launch: Any) -> None:
    class Allocator(nl.NKIObject):
        def __init__(self) -> None:
            self.next = 0
            self.owner = self

        def take(self, size: int) -> int:
            self.next += size
            return self.next - size

    @dataclass(frozen=True)
    class Config(nl.NKIObject):
        allocator: Any

    @nki.jit
    def kernel(x: Any, allocator: Any, config: Any) -> Any:
        assert config.allocator is allocator
        assert allocator.owner is allocator
        assert [allocator.take(64), config.allocator.take(64)] == [0, 64]
        return x

    allocator = Allocator()
    kernel[launch](halves(), allocator, Config(allocator))
    assert allocator.next == 0


def test_results_that_differ_are_refused() -> None:
    @nki.jit
    def private(x: Any) -> Any:
        return nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm, name="mine")

    @nki.jit
    def one_only(x: Any) -> Any:
        return x if nl.program_id(0) == 0 else None

    for kernel in (private, one_only):
        with pytest.raises(ValueError, match=r"program 1 returned .*nl.shared_hbm"):
            kernel[2](halves())


def test_sendrecv_reads_both_tiles_before_it_writes() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray((2, P, 2 * F), x.dtype, buffer=nl.shared_hbm)
        own = nl.program_id(0)
        both = tile_of((P, 2 * F), x.dtype)
        nisa.dma_copy(both[:, 0:F], x[own])
        peer = {"send_to_rank": 1 - own, "recv_from_rank": 1 - own}
        nisa.sendrecv(both[:, nl.ds(0, F)], both[:, nl.ds(F, F)], **peer, pipe_id=0)
        nisa.sendrecv(both[:, nl.ds(F, F)], both[:, nl.ds(F, F)], **peer, pipe_id=1)
        nl.store(out[own], both)
        return out

    x = halves()
    got = kernel[2](x)
    for own in (0, 1):
        assert np.array_equal(got[own], np.concatenate([x[own], x[own]], axis=1))


def test_pipes_that_cross_are_independent() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray((2, 2, P, F), x.dtype, buffer=nl.shared_hbm)
        own = nl.program_id(0)
        received = [tile_of((P, F), x.dtype) for _ in range(2)]
        mine = nl.load(x[own])
        twice = nl.multiply(mine, 2.0)
        for pipe in (0, 1) if own == 0 else (1, 0):
            nisa.sendrecv(
                src=twice if pipe else mine,
                dst=received[pipe],
                send_to_rank=1 - own,
                recv_from_rank=1 - own,
                pipe_id=pipe,
            )
        nisa.core_barrier(out, [0, 1])
        for pipe in (0, 1):
            nl.store(out[own, pipe], received[pipe])
        return out

    x = halves()
    got, profile = nki.profile(kernel[2], x)
    assert np.array_equal(got, np.stack([[x[1], 2 * x[1]], [x[0], 2 * x[0]]]))
    assert profile.findings == []


def test_lists_of_one_core_wait_for_nobody() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        if nl.program_id(0) == 0:
            nisa.core_barrier(x, (0,))
        return x

    kernel(halves())
    kernel[2](halves())


def test_barrier_inside_a_dynamic_loop() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        total = nl.ndarray((2, 1), nl.float32, buffer=nl.shared_hbm)
        own = nl.program_id(0)
        flag = nl.zeros((1, 1), nl.float32)
        for _ in nl.dynamic_range(3):
            nisa.tensor_scalar(flag, flag, op0=nl.add, operand0=1.0 + own)
            nisa.core_barrier(flag, (0, 1))
        nisa.dma_copy(total[own], flag)
        return total

    assert kernel[2](halves()).tolist() == [[3.0], [6.0]]


def test_a_jitted_kernel_inside_runs_inline_on_both_cores() -> None:
    @nki.jit
    def outer(x: Any) -> Any:
        return swap_by_barrier(x)

    @nki.jit
    def bracketed(x: Any) -> Any:
        return swap_by_barrier[2](x)

    x = halves()
    assert np.array_equal(outer[2](x), x[::-1])
    assert np.array_equal(bracketed[2](x), x[::-1])


@pytest.mark.parametrize(("outer", "inner"), [(None, 2), (1, 2), (2, 1)])
def test_a_kernel_inside_with_other_cores_is_refused(outer: Any, inner: Any) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        return split[inner](x)

    with pytest.raises(ValueError, match=r"split\[\d\]> is called by a kernel that runs on"):
        (kernel[outer] if outer else kernel)(halves())


def test_device_print_says_which_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NEURON_RT_DEBUG_OUTPUT_DIR", str(tmp_path))

    @nki.jit
    def kernel(x: Any) -> Any:
        nl.device_print("x", nl.full((1, 2), float(nl.program_id(0)), nl.float32))
        return x

    kernel[2](halves())
    for core in (0, 1):
        assert np.load(tmp_path / "x" / f"core_{core}" / "0" / "tensor.npy").tolist() == [
            [core] * 2
        ]
    assert capsys.readouterr().out.startswith("x ")


# --- one result, whatever the host does ---------------------------------------------------------


@pytest.fixture
def jitter() -> Iterator[Callable[[], None]]:
    """Let threads switch often and sleep at will."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    noise = np.random.default_rng()
    yield lambda: time.sleep(float(noise.uniform(0, 0.002)))
    sys.setswitchinterval(before)


def test_values_and_times_do_not_depend_on_threads(jitter: Callable[[], None]) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        own = nl.program_id(0)
        mine = nl.load(x[own])
        theirs = tile_of(mine.shape)
        for step in range(6):
            jitter()
            nisa.sendrecv(mine, theirs, 1 - own, 1 - own, pipe_id=step % 2)
            nisa.tensor_tensor(mine, mine, theirs, op=nl.add if step % 2 else nl.subtract)
            if step == 3:
                nisa.core_barrier(out, (0, 1))
            jitter()
        nl.store(out[own], mine)
        return out

    x = halves()
    results = []
    for _ in range(20):
        values, profile = nki.profile(kernel[2], x)
        times = [core.data.instructions.start_ps.tolist() for core in profile.cores]
        results.append((values.tobytes(), times))
    assert all(result == results[0] for result in results)


def test_order_of_prints_is_the_same_in_every_run(capsys: pytest.CaptureFixture[str]) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        for step in range(3):
            sys.stdout.write(f"{nl.program_id(0)} {step}\n")
            nisa.core_barrier(x, (0, 1))
        return x

    x = halves()
    for _ in range(5):
        kernel[2](x)
        assert capsys.readouterr().out.split("\n")[:3] == ["0 0", "1 0", "1 1"]


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
    place = line_of("# lonely barrier")
    assert f"core {1 - late} waits at core_barrier ({place})" in text
    assert f"core {late}, which came to no meeting" in text


def test_different_numbers_of_barriers() -> None:
    def body(x: Any, own: int) -> None:
        for _ in range(2 + own):
            nisa.core_barrier(x, (0, 1))  # counted barrier

    text = deadlock(body)
    assert "core 1 waits" in text
    assert f"core 0, whose last meeting was core_barrier ({line_of('# counted barrier')})" in text


def test_a_barrier_against_an_exchange_names_both_lines() -> None:
    def body(x: Any, own: int) -> None:
        tile = nl.zeros((P, 4), nl.float32)
        if own == 0:
            nisa.core_barrier(x, (0, 1))  # crossed barrier
        else:
            send(tile, own)  # crossed exchange

    text = deadlock(body)
    assert f"core 0 at core_barrier ({line_of('# crossed barrier')})" in text
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
        NkiValidationError, match=rf"test_lnc2.py:\d+ and .*test_lnc2.py:\d+.*{words}"
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
    assert "test_lnc2.py:" in note
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


@pytest.mark.parametrize("waits", [True, False])
def test_an_interrupt_as_the_turn_is_given_ends_whoever_got_it(waits: bool) -> None:
    gang = Gang(["a", "b"])
    begun = threading.Event()

    def first() -> None:
        if waits:
            gang.wait(0, lambda: False, lambda: "a waits")

    def endless() -> None:
        begun.set()
        while True:
            pass

    member: Any = gang._members[1]
    member.turn = _Late(member.turn, begun)
    threads = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        gang.run([first, endless])
    assert threading.active_count() == threads


# --- races --------------------------------------------------------------------------------------


def races(kernel: Any, x: Any, **options: Any) -> list[dict[str, Any]]:
    _, profile = nki.profile(kernel, x, **options)
    return [finding for finding in profile.findings if finding.kind == "race"]


@pytest.mark.parametrize("values", [True, False])
def test_reading_without_a_meeting_is_found(values: bool) -> None:
    found = races(racy[2], halves(), values=values)
    assert found
    write, read = line_of("# racy write"), line_of("# racy read")
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


# --- time ---------------------------------------------------------------------------------------


def spans(profile: Profile, opcode: str) -> list[list[tuple[int, int]]]:
    found = []
    for core in profile.cores:
        known = core.data.opcodes
        code = known.index(opcode) if opcode in known else len(known)
        rows = np.flatnonzero(core.data.instructions.opcode == code)
        starts, ends = core.data.instructions.start_ps[rows], core.data.instructions.end_ps[rows]
        found.append(list(zip(starts.tolist(), ends.tolist(), strict=True)))
    return found


@nki.jit
def uneven(x: Any, loads: Any, barrier: bool = True) -> Any:
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    own = nl.program_id(0)
    for _ in range(loads[own]):
        nisa.dma_copy(out[own], x[own])
    if barrier:
        nisa.core_barrier(out, (0, 1))
    nl.store(out[own], nl.load(out[own]))
    return out


@pytest.mark.parametrize("loads", [(1, 1), (1, 8), (8, 1)])
def test_a_barrier_joins_the_timelines(loads: tuple[int, int]) -> None:
    x = halves()
    _, profile = nki.profile(uneven[2], x, loads)
    (first,), (second,) = spans(profile, "core_barrier")
    assert first == second
    cost = profile.cores[0].data.arch["core_barrier_ns"]
    assert first[1] - first[0] == cost * 1000
    for core in profile.cores:
        data = core.data
        before = data.instructions.end_ps[data.instructions.hbm_write > 0][: min(loads)]
        assert (before <= first[0]).all()
    assert profile.latency_us == max(core.latency_us for core in profile.cores)


@pytest.mark.parametrize("loads", [(1, 1), (1, 8), (8, 3)])
def test_a_barrier_never_makes_earlier(loads: tuple[int, int]) -> None:
    x = halves()
    _, without = nki.profile(uneven[2], x, loads, barrier=False)
    _, with_one = nki.profile(uneven[2], x, loads)
    for one, other in zip(without.cores, with_one.cores, strict=True):
        assert other.latency_us > one.latency_us


def test_a_barrier_blocks_only_its_engine() -> None:
    @nki.jit
    def kernel(x: Any, engine: Any) -> Any:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        own = nl.program_id(0)
        if own == 1:
            for _ in range(20):
                nisa.dma_copy(out[1], x[1])
        nisa.core_barrier(out, (0, 1), engine=engine)
        nisa.memset(tile_of((P, 4)), 0.0, engine=nisa.vector_engine)
        return out

    starts = {}
    for engine in (nisa.gpsimd_engine, nisa.vector_engine):
        _, profile = nki.profile(kernel[2], halves(), engine)
        starts[engine] = spans(profile, "memset")[0][0][0]
    assert starts[nisa.gpsimd_engine] == 0 < starts[nisa.vector_engine]


def test_what_a_core_wrote_is_waited_for_after_a_barrier_on_something_else() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        flag = nl.ndarray((1, 1), nl.float32, buffer=nl.shared_hbm)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        if nl.program_id(0) == 0:
            for _ in range(10):
                nisa.dma_copy(out[0], x[0])
        nisa.core_barrier(flag, (0, 1))
        if nl.program_id(0) == 1:
            nisa.dma_copy(out[1], out[0])
        return out

    x = halves()
    got, profile = nki.profile(kernel[2], x)
    assert np.array_equal(got[1], x[0])
    copies = spans(profile, "dma_copy")
    assert max(end for _, end in copies[0]) <= copies[1][0][0]
    assert profile.findings == []


@pytest.mark.parametrize("values", [True, False])
def test_two_cores_are_faster_than_one(values: bool) -> None:
    x = RNG.standard_normal((32, P, 512)).astype(np.float32)
    _, one = nki.profile(split, x, values=values)
    _, two = nki.profile(split[2], x, values=values)
    assert one.latency_us * 0.45 < two.latency_us < one.latency_us * 0.7
    assert two.hbm_read_bytes == one.hbm_read_bytes


@pytest.mark.parametrize("kernel", [swap_by_barrier, swap_by_sendrecv, split])
def test_time_is_the_same_without_values(kernel: Any) -> None:
    x = halves()
    _, with_values = nki.profile(kernel[2], x)
    result, without = nki.profile(kernel[2], x, values=False)
    assert result is None
    for one, other in zip(with_values.cores, without.cores, strict=True):
        assert one.data.instructions.start_ps.tolist() == other.data.instructions.start_ps.tolist()


def test_exchanged_integers_steer_timing_only_runs() -> None:
    @nki.jit
    def kernel(x: Any, counts: Any) -> Any:
        own = nl.program_id(0)
        theirs = tile_of((1, 1), nl.int32)
        nisa.sendrecv(nl.load(counts[own]), theirs, 1 - own, 1 - own, pipe_id=0)
        for _ in nl.dynamic_range(nisa.register_alloc(theirs)):
            nl.load(x[own])
        return x

    counts = np.array([[[2]], [[5]]], np.int32)
    _, profile = nki.profile(kernel[2], halves(), counts, values=False)
    assert [len(found) for found in spans(profile, "dma_copy")] == [1 + 5, 1 + 2]


@pytest.mark.parametrize("gpsimd", [False, True])
def test_an_exchange_ends_on_both_cores_at_once_and_takes_its_bytes(gpsimd: bool) -> None:
    @nki.jit
    def kernel(x: Any, length: int) -> Any:
        own = nl.program_id(0)
        tile = nl.zeros((P, length), nl.float32)
        for _ in range(3 * own):
            nisa.tensor_scalar(tile, tile, op0=nl.add, operand0=1.0)
        mover = nisa.dma_engine.gpsimd_dma if gpsimd else nisa.dma_engine.dma
        nisa.sendrecv(tile, tile, 1 - own, 1 - own, pipe_id=0, dma_engine=mover)
        nl.load(x[own])
        return x

    lasted = []
    for length in (32, 256):
        _, profile = nki.profile(kernel[2], halves(), length)
        (first,), (second,) = spans(profile, "sendrecv")
        assert first[1] == second[1]
        # Core 0 waits for core 1, which has more to do before.
        assert first[0] >= max(end for _, end in spans(profile, "tensor_scalar")[1])
        lasted.append(first[1] - first[0])
    assert lasted[0] < lasted[1]
    rate = profile.cores[0].data.arch["gpsimd_dma_bytes_per_ns"]
    if gpsimd:
        assert lasted[1] >= P * 256 * 4 / rate * 1000


def test_there_and_back_gives_the_tile_again() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        own = nl.program_id(0)
        tile = nl.load(x[own])
        for pipe in (0, 1):
            nisa.sendrecv(tile, tile, 1 - own, 1 - own, pipe_id=pipe)
        nl.store(out[own], tile)
        return out

    x = halves()
    got, profile = nki.profile(kernel[2], x)
    assert np.array_equal(got, x)
    for (_, end), (start, _) in spans(profile, "sendrecv"):
        assert start > end


def test_generation_2_has_no_logical_cores() -> None:
    with pytest.raises(ValueError, match="trn1 has at most 1 core"):
        nki.profile(split[2], halves(), arch="trn1")
    _, profile = nki.profile(swap_by_barrier[2], halves(), arch="trn2")
    assert len(profile.cores) == 2


# --- profiles -----------------------------------------------------------------------------------


def test_a_profile_of_one_core_is_its_own_only_core() -> None:
    _, profile = nki.profile(split, halves())
    assert profile.cores == (profile,)


def test_a_joint_profile_sums_and_compares(tmp_path: Path) -> None:
    _, profile = nki.profile(uneven[2], halves(), (1, 4))
    assert isinstance(profile, LogicalProfile)
    cores = profile.cores
    for name in ("macs", "dma_bytes", "hbm_read_bytes", "hbm_write_bytes"):
        assert getattr(profile, name) == sum(getattr(core, name) for core in cores)
    assert profile.busy("dma").us == pytest.approx(sum(c.busy("dma").us for c in cores) / 2)
    assert 0 < profile.mbu < 1
    assert sum(line.instructions for line in profile.lines()) == sum(
        len(core.data.instructions) for core in cores
    )
    path = profile.critical_path()
    starts = [step.start_us for step in path]
    assert starts == sorted(starts)
    # Core 0 waits for the four copies of core 1: the path begins there, whoever ends last.
    assert starts[0] < 2
    assert sum(profile.critical_engine_us.values()) == pytest.approx(
        profile.latency_us - starts[0], rel=1e-6
    )
    written = profile.save(tmp_path)
    names = {file.name for file in written}
    assert {"trace.perfetto", "profile.json", "timeline_core0.png", "roofline_core1.png"} <= names
    again = Profile.from_json(tmp_path / "profile.json")
    assert isinstance(again, LogicalProfile)
    assert again.figures() == profile.figures()
    assert json.loads((tmp_path / "profile.json").read_text())["figures"]["cores"][1]["kernel"]
    trace = (tmp_path / "trace.perfetto").read_bytes()
    assert b"NeuronCore 0: uneven" in trace
    assert b"NeuronCore 1: uneven" in trace
    table = profile.table("Instruction")
    assert set(table["trn3_core"].tolist()) == {0, 1}
    assert profile.table("Summary")["trn3_core"].tolist() == [0, 1]
    assert profile.tables().keys() == cores[0].tables().keys()


def test_a_summary_shows_both_cores() -> None:
    from rich.console import Console

    _, profile = nki.profile(swap_by_barrier[2], halves())
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(profile.summary())
    text = console.export_text()
    assert "Core 0" in text
    assert "Core 1" in text


def test_schedules_count_on_both_cores() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        tile = tile_of((P, 4))
        other = tile_of((P, 4))
        nisa.core_barrier(x, (0, 1), name="meeting")
        nisa.memset(tile, 0.0, name="after", engine=nisa.vector_engine)
        nisa.memset(other, 0.0, engine=nisa.vector_engine)
        return x

    _, profile = nki.profile(kernel[2].with_schedule([("after", "meeting")]), halves())
    for meeting, memsets in zip(
        spans(profile, "core_barrier"), spans(profile, "memset"), strict=True
    ):
        assert memsets[0][0] >= meeting[0][1]
    with pytest.raises(ValueError, match="with_schedule names absent"):
        kernel[2].with_schedule([("after", "absent")])(halves())


# --- launch grids -------------------------------------------------------------------------------


def grid_kernel(x: Any) -> Any:
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    i, j = nl.program_id(0), nl.program_id(1)
    assert nl.program_ndim() == 2
    assert (nl.num_programs((0, 1)), nl.num_programs(None)) == ((4, 2), 8)
    rows, columns = nl.ds(i * 32, 32), nl.ds(j * 64, 64)
    nl.store(out[rows, columns], nl.add(nl.load(x[rows, columns]), float(10 * i + j)))
    return out


GRIDS: list[Any] = [
    (4, 2),
    (nl.nc(2) * 2, 2),
    (2 * nl.nc(2), 2),
    (nl.spmd_dim(2, nl.nc(2)), 2),
    (nl.spmd_dim(nl.nc(2), 2), 2),
    (4, nl.nc(2)),
]


@pytest.mark.parametrize("grid", GRIDS)
def test_grids_run_every_instance(grid: Any) -> None:
    x = RNG.standard_normal((P, P)).astype(np.float32)
    expected = x + 10 * np.repeat(np.arange(4), 32)[:, None] + np.repeat(np.arange(2), 64)
    got, profile = nki.profile(nki.jit(grid_kernel)[grid], x)
    np.testing.assert_array_equal(got, expected.astype(np.float32))
    assert len(profile.cores) == (1 if grid == (4, 2) else 2)
    counts = [len(core.data.instructions) for core in profile.cores]
    assert len(set(counts)) == 1


def test_grids_place_instances_as_they_say() -> None:
    from trn3.nki.grid import launch_of

    def placed(*axes: Any) -> tuple[int, ...]:
        return launch_of(axes, legacy=True).placement

    assert placed(nl.nc(2) * 2) == (0, 0, 1, 1)
    assert placed(2 * nl.nc(2)) == placed(nl.spmd_dim(2, nl.nc(2))) == (0, 1, 0, 1)
    assert placed(nl.spmd_dim(nl.nc(2), 2)) == (0, 0, 1, 1)
    assert placed(2) == (0, 0)
    assert placed(2, nl.nc(2)) == (0, 1, 0, 1)


def test_a_grid_on_two_cores_is_faster_than_on_one() -> None:
    x = RNG.standard_normal((P, P)).astype(np.float32)
    kernel = nki.jit(grid_kernel)
    one, two = (nki.profile(kernel[grid], x)[1].latency_us for grid in GRIDS[:2])
    assert two < one


@pytest.mark.parametrize(
    "make", [lambda: nl.nc(0), lambda: nl.nc(2) * 0, lambda: nl.spmd_dim(2, 2)]
)
def test_bad_axes_are_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match="allowed"):
        make()
