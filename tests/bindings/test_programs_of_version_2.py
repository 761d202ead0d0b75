"""Programs with what a compiler asks for: open places, loops, functions by name, cores together."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from trn3 import nki
from trn3._trn3 import compiler
from trn3._trn3.machine import NeuronCore
from trn3.nki import gpsimd
from trn3.nki.launch.programs import Program

MARKS = {"loop", "iteration", "end_loop", "no_reorder", "end_no_reorder"}
X = np.arange(128 * 64, dtype=np.float32).reshape(128, 64)


def steps_of(program: Program) -> list[dict[str, Any]]:
    return list(json.loads(program.text)["steps"])


@nki.jit
def looped(x: Any) -> Any:
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        tile = nl.load(x[:, i * 16 : i * 16 + 16])
        with nl.no_reorder():
            for _ in nl.static_range(2):
                nisa.tensor_scalar(tile, tile, nl.add, 1.0, engine=nisa.vector_engine)
        nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
        nl.store(out[:, i * 16 : i * 16 + 16], tile)
    for i in nl.dynamic_range(2):
        nl.store(out[nl.ds(i, 1)], nl.load(out[nl.ds(i, 1)]))
    return out


def test_loops_are_marked_and_change_nothing() -> None:
    plain, marked = nki.record(looped, X), nki.record(looped, X, loops=True)
    marks = [step for step in steps_of(marked) if step["op"] in MARKS]
    loops = [(step["kind"], step.get("trip")) for step in marks if step["op"] == "loop"]
    assert loops == [("affine_range", 4), *[("static_range", 2)] * 4, ("dynamic_range", 2)]
    assert sum(step["op"] == "iteration" for step in marks) == 4 + 8 + 2
    assert sum(step["op"] == "no_reorder" for step in marks) == 4
    versions = [json.loads(program.text)["version"] for program in (plain, marked)]
    assert versions == [1, 2]
    assert [step for step in steps_of(marked) if step["op"] not in MARKS] == steps_of(plain)
    assert marked.instructions == plain.instructions
    first, second = plain.run({"x": X}), marked.run({"x": X})
    assert first.outputs["result"].tobytes() == second.outputs["result"].tobytes()
    assert first.picoseconds == second.picoseconds


def test_a_loop_that_is_left_ends() -> None:
    @nki.jit
    def left(x: Any) -> Any:
        tile = nl.load(x)
        for _ in nl.affine_range(4):
            for _ in nl.sequential_range(3):
                nisa.tensor_scalar(tile, tile, nl.add, 1.0)
                break
            break
        kept = iter(nl.static_range(5))
        next(kept)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    program = nki.record(left, X, loops=True)
    assert (program.run({"x": X}).outputs["result"] == X + 1).all()


def test_what_is_left_out_is_open_and_what_is_given_stays() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        tile, other = nl.load(x), nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
        nisa.memset(other, 0.0)
        nisa.memset(other, 0.0, engine=nisa.gpsimd_engine)
        nisa.tensor_copy(other, tile)
        nisa.tensor_copy(other, tile, engine=nisa.scalar_engine)
        nisa.tensor_copy(other, tile, engine=nisa.unknown_engine)
        nisa.tensor_tensor(other, tile, tile, nl.add)
        nisa.tensor_tensor(other, tile, tile, nl.add, engine=nisa.gpsimd_engine)
        nisa.tensor_scalar(other, tile, nl.add, 1.0)
        nisa.tensor_scalar(other, tile, nl.add, 1.0, engine=nisa.vector_engine)
        nisa.dma_copy(other, x)
        nisa.dma_copy(other, x, dge_mode=nisa.dge_mode.hwdge, engine=nisa.scalar_engine)
        square = nl.ndarray((32, 32), x.dtype, buffer=nl.sbuf)
        nisa.nc_transpose(square, tile[0:32, 0:32])
        nisa.nc_transpose(square, tile[0:32, 0:32], engine=nisa.vector_engine)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, other)
        return out

    found: dict[str, list[str | None]] = {}
    for step in steps_of(nki.record(kernel, X)):
        found.setdefault(step["op"], []).append(step.get("engine"))
    assert found["memset"] == [None, "gpsimd"]
    assert found["tensor_copy"] == [None, "scalar", None]
    assert found["tensor_tensor"] == [None, "gpsimd"]
    assert found["tensor_scalar"] == [None, "vector"]
    assert found["dma_copy"] == [None, None, "scalar", None]
    assert found["nc_transpose"] == [None, "vector"]


def test_tensors_without_a_place_get_one_where_the_program_runs() -> None:
    program = nki.record(looped, X, open_places=True)
    on_chip = [tensor for tensor in program.tensors if tensor.space in ("sbuf", "psum")]
    assert {tensor.address for tensor in on_chip} == {None}
    assert {tensor.role for tensor in program.tensors} == {"input", "output", "internal"}
    replay = program.run({"x": X})
    assert replay.outputs["result"].tobytes() == looped(X).tobytes()
    assert replay.picoseconds > 0
    placed = nki.record(looped, X)
    assert all(isinstance(t.address, tuple) for t in placed.tensors if t.space == "sbuf")


@pytest.mark.parametrize("level", ["nki", "neuronx-cc"])
def test_a_program_is_compiled_as_its_kernel_is(level: str) -> None:
    program = nki.record(looped, X, loops=True, open_places=True)
    core = NeuronCore("trn3", compile=level)
    outputs = program.run_on(core, {"x": X})
    (report,) = compiler.compile_cores([core], level)
    result, profile = nki.profile(looped, X, compile=level)
    assert outputs["result"].tobytes() == result.tobytes()
    figures = ("as_written_us", "compiled_us", "bound_us", "spilled_bytes")
    assert [report[name] for name in figures] == [profile.compile[name] for name in figures]


def test_the_authors_addresses_stay() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf, address=(0, 4096))
        nisa.dma_copy(tile, x)
        other = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(other, tile)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, other)
        return out

    program = nki.record(kernel, X, open_places=True)
    assert [t.address for t in program.tensors if t.space == "sbuf"] == [(0, 4096), None]
    assert program.run({"x": X}).outputs["result"].tobytes() == X.tobytes()


def test_what_does_not_fit_as_written_is_recorded_all_the_same() -> None:
    @nki.jit
    def large(x: Any) -> Any:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tiles = []
        for i in nl.affine_range(40):
            tile = nl.ndarray((128, 4096), nl.float32, buffer=nl.sbuf)
            nisa.memset(tile, float(i))
            tiles.append(tile)
        for tile in tiles:
            nl.store(out, tile[:, 0:64])
        return out

    program = nki.record(large, X, open_places=True)
    with pytest.raises(ValueError, match=r"step \d+ \(fresh\): SBUF cannot hold tensor"):
        program.run({"x": X})


def reversed_rows(rows: Any) -> Any:
    return rows[:, ::-1]


@nki.jit
def calling(x: Any) -> Any:
    tile = nl.ndarray((128, 8, 8), x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, x.reshape((128, 8, 8)))
    gpsimd.call(reversed_rows, tile, tile, cycles=100)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out.reshape((128, 8, 8)), tile)
    return out


def test_functions_are_given_by_who_runs_the_program() -> None:
    program = nki.record(calling, X)
    assert program.functions == ("reversed_rows",)
    result, profile = nki.profile(calling, X)
    replay = program.run({"x": X}, functions={"reversed_rows": reversed_rows})
    assert replay.outputs["result"].tobytes() == np.asarray(result).tobytes()
    assert replay.picoseconds == round(profile.latency_us * 1e6)
    words = r"step \d+ \(gpsimd_call\): function is \"reversed_rows\", which nobody gave"
    for functions in (None, {}, {"other": reversed_rows}):
        with pytest.raises(NotImplementedError, match=words):
            program.run({"x": X}, functions=functions)
    with pytest.raises(ValueError, match="reversed_rows returned float32"):
        program.run({"x": X}, functions={"reversed_rows": lambda rows: rows[:64]})
    with pytest.raises(ValueError, match="deliberate"):
        program.run({"x": X}, functions={"reversed_rows": failing})
    with pytest.raises(TypeError, match="function is of type int"):
        program.run({"x": X}, functions={"reversed_rows": 3})  # type: ignore[dict-item]


def failing(rows: Any) -> Any:
    message = "deliberate"
    raise RuntimeError(message)


def test_what_the_language_computes_itself_is_no_function_of_ones_own() -> None:
    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.mod(nl.load(x), 3.0))
        return out

    with pytest.raises(NotImplementedError, match="mod cannot be part of a program"):
        nki.record(kernel, X)


@nki.jit
def met(x: Any) -> Any:
    """Each core writes half of a shared tensor and sums the other's half with what it is sent."""
    here = nl.program_id(0)
    both = nl.ndarray((2, 128, 32), x.dtype, buffer=nl.shared_hbm, name="both")
    out = nl.ndarray((2, 128, 32), x.dtype, buffer=nl.shared_hbm)
    mine = nl.ndarray((128, 32), x.dtype, buffer=nl.sbuf)
    came = nl.ndarray((128, 32), x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(mine, x[:, here * 32 : here * 32 + 32])
    if here:
        nisa.tensor_scalar(mine, mine, nl.multiply, 3.0)
    nisa.dma_copy(both[here], mine)
    nisa.core_barrier(both, (0, 1))
    nisa.sendrecv(mine, came, 1 - here, 1 - here, 0)
    nisa.dma_copy(mine, both[1 - here])
    nisa.tensor_tensor(came, came, mine, nl.add)
    nisa.dma_copy(out[here], came)
    return out


def met_values(x: Any) -> Any:
    return np.stack([2 * 3 * x[:, 32:], 2 * x[:, :32]])


@pytest.mark.parametrize("open_places", [False, True])
def test_cores_meet_in_their_programs(open_places: bool) -> None:
    programs = nki.record_cores(met[2], X, open_places=open_places, loops=open_places)
    places = [json.loads(program.text)["logical_core"] for program in programs]
    assert places == [{"core": 0, "cores": 2}, {"core": 1, "cores": 2}]
    ops = [[step["op"] for step in steps_of(program)] for program in programs]
    assert all(found.count("core_barrier") == found.count("sendrecv") == 1 for found in ops)
    assert [len(program.inputs) for program in programs] == [1, 1]
    other = X[:, ::-1].copy()
    replay = nki.replay_cores(programs, {"x": other})
    np.testing.assert_array_equal(replay.outputs["result"], met_values(other))
    _, profile = nki.profile(met[2], X)
    if not open_places:
        assert replay.picoseconds == round(profile.latency_us * 1e6)
    without = nki.replay_cores(programs, {"x": other}, values=False)
    assert (without.outputs, without.picoseconds) == ({}, replay.picoseconds)


def test_cores_that_do_not_fit_each_other_are_named() -> None:
    programs = nki.record_cores(met[2], X)
    with pytest.raises(
        NotImplementedError, match=r"step \d+ \(core_barrier\) is one that the cores"
    ):
        programs[0].run({"x": X})
    with pytest.raises(ValueError, match="it is of core 1 of 2; core 0 of 2 is needed"):
        nki.replay_cores(programs[::-1], {"x": X})
    with pytest.raises(ValueError, match="it is of core 0 of 2; core 0 of 1 is needed"):
        nki.replay_cores(programs[:1], {"x": X})
    with pytest.raises(ValueError, match="programs is empty"):
        nki.replay_cores([], {"x": X})
    with pytest.raises(ValueError, match="inputs are none; the program met has x"):
        nki.replay_cores(programs, {})
    content = json.loads(programs[1].text)
    content["steps"] = [step for step in content["steps"] if step["op"] != "sendrecv"]
    short = Program(json.dumps(content))
    with pytest.raises(
        ValueError, match=r"core 0 is at step \d+ \(sendrecv\), the program of core 1"
    ):
        nki.replay_cores([programs[0], short], {"x": X})
    with pytest.raises(ValueError, match="runs on one core; record gives its program"):
        nki.record_cores(looped, X)
    with pytest.raises(ValueError, match="a program has one, and record_cores gives that of each"):
        nki.record(met[2], X)


def changed(program: Program, change: Callable[[dict[str, Any]], None]) -> Program:
    content = json.loads(program.text)
    change(content)
    return Program(json.dumps(content))


def test_newer_steps_in_a_program_of_version_1_are_named() -> None:
    marked = nki.record(looped, X, loops=True)
    old = changed(marked, lambda content: content.update(version=1))
    with pytest.raises(ValueError, match=r"step \d+ \(loop\): needs version 2; the program has 1"):
        old.run({"x": X})
    program = nki.record(looped, X, open_places=True)
    old = changed(program, lambda content: content.update(version=1))
    with pytest.raises(ValueError, match="address is missing"):
        old.run({"x": X})
