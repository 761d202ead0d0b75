"""Recorded kernels: a replay on a device gives the same bits at the same times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from support.kernel_files import FOLDER, kernels_of
from trn3 import nki
from trn3.nki.launch.recording import Program

KERNELS = [
    (path.stem, name)
    for path in sorted(FOLDER.glob("*.py"))
    for name, value in vars(kernels_of(path.stem)).items()
    if isinstance(value, nki.Kernel)
]


def arrays_in(name: str, value: Any) -> dict[str, Any]:
    """Return arrays with the names that inputs have."""
    if isinstance(value, np.ndarray):
        return {name: value}
    if isinstance(value, (tuple, list)):
        found = {}
        for i, item in enumerate(value):
            found.update(arrays_in(f"{name}[{i}]", item))
        return found
    return {}


@pytest.mark.parametrize(("file", "name"), KERNELS)
def test_replay_of_an_example_has_its_bits_and_times(file: str, name: str) -> None:
    module = kernels_of(file)
    kernel = getattr(module, name)
    maker = getattr(module, f"{name}_inputs", None) or getattr(module, "inputs", None)
    if maker is None:
        pytest.skip("no inputs are made for it")
    if kernel.launched().cores > 1:
        pytest.skip("it runs on two cores")

    def made() -> dict[str, Any]:
        return dict(maker())

    inputs = {}
    for key, value in made().items():
        inputs.update(arrays_in(key, value))
    program = nki.record(kernel, **made())
    result, profile = nki.profile(kernel, **made())
    replay = program.run(inputs)
    results = list(result) if isinstance(result, (tuple, list)) else [result]
    assert replay.picoseconds == round(profile.latency_us * 1e6)
    assert len(replay.outputs) == len(results)
    for got, want in zip(replay.outputs.values(), results, strict=True):
        assert got.dtype == want.dtype
        assert got.tobytes() == np.ascontiguousarray(want).tobytes()


@nki.jit
def looped(x: Any) -> Any:
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for i in nl.dynamic_range(0, 128, 32):
        tile = nl.ndarray((128, 32), x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[:, nl.ds(i, 32)])
        nisa.tensor_scalar(tile, tile, nl.multiply, 3.0)
        nisa.dma_copy(dst=out[:, nl.ds(i, 32)], src=tile)
    return out


def test_registers_of_loops_are_recorded() -> None:
    x = np.arange(128 * 128, dtype=np.float32).reshape(128, 128)
    program = nki.record(looped, x)
    assert "set_register" in program.to_json()
    result, profile = nki.profile(looped, x)
    replay = program.run({"x": x})
    assert replay.outputs["result"].tobytes() == result.tobytes()
    assert replay.picoseconds == round(profile.latency_us * 1e6)


def test_a_program_runs_on_other_inputs_and_from_a_file(tmp_path: Path) -> None:
    module = kernels_of("softmax")
    program = nki.record(module.softmax, **module.inputs(rows=64, columns=96))
    program.save(tmp_path / "softmax.json")
    other = module.inputs(rows=64, columns=96, seed=5)
    replay = Program.load(tmp_path / "softmax.json").run(other)
    assert replay.outputs["result"].tobytes() == module.softmax(**other).tobytes()


def test_timing_alone_takes_the_same_time() -> None:
    module = kernels_of("softmax")
    inputs = module.inputs(rows=64, columns=96)
    program = nki.record(module.softmax, **inputs)
    both, times = program.run(inputs), program.run(inputs, values=False)
    assert times.picoseconds == both.picoseconds
    assert times.outputs == {}
    assert program.run(inputs, timing=False).picoseconds == 0


@nki.jit
def custom(x: Any) -> Any:
    return x


def test_what_no_program_holds_is_refused() -> None:
    with pytest.raises(ValueError, match="cores; a program has one"):
        nki.record(custom[2], np.ones((128, 4), np.float32))


def test_wrong_inputs_are_named() -> None:
    module = kernels_of("softmax")
    inputs = module.inputs(rows=64, columns=96)
    program = nki.record(module.softmax, **inputs)
    with pytest.raises(ValueError, match="inputs are y; the program softmax has x"):
        program.run({"y": inputs["x"]})
    with pytest.raises(TypeError, match="dtype float32; the program has bfloat16"):
        program.run({"x": inputs["x"].astype(np.float32)})
    with pytest.raises(ValueError, match="shape"):
        program.run({"x": inputs["x"][:32]})


def test_a_damaged_program_names_its_step() -> None:
    module = kernels_of("softmax")
    inputs = module.inputs(rows=64, columns=96)
    content = json.loads(nki.record(module.softmax, **inputs).to_json())
    step = next(i for i, step in enumerate(content["steps"]) if step["op"] == "reciprocal")
    content["steps"][step]["data"] = "nothing"
    with pytest.raises(ValueError, match=rf"step {step} \(reciprocal\): data names tensor"):
        Program(json.dumps(content)).run(inputs)
