"""When kernels on two cores are done, and their profiles."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from support.two_cores import (
    RNG,
    P,
    halves,
    split,
    swap_by_barrier,
    swap_by_sendrecv,
    tile_of,
)
from trn3 import nki
from trn3.profile import LogicalProfile, Profile

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
