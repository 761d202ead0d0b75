"""``trn3 record``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from support.kernel_files import FOLDER, kernels_of
from trn3.nki.launch.programs import Program, replay_ranks


def test_record_writes_a_program_that_runs(run: Callable[..., Any], tmp_path: Path) -> None:
    out = tmp_path / "softmax.json"
    kernel = f"{FOLDER / 'softmax.py'}:softmax"
    sizes = ["--shape", "rows=64", "--shape", "columns=96"]
    outcome = run("record", kernel, *sizes, "-o", out, "--json")
    assert outcome.code == 0
    document = json.loads(outcome.stdout)
    assert document["inputs"] == {"x": "[64, 96] bfloat16"}
    program = Program.load(out)
    assert document["instructions"] == program.instructions > 0
    module = kernels_of("softmax")
    inputs = module.inputs(rows=64, columns=96, seed=3)
    replay = program.run(inputs)
    assert replay.outputs["result"].tobytes() == module.softmax(**inputs).tobytes()


def test_record_says_what_it_wrote(run: Callable[..., Any], tmp_path: Path) -> None:
    kernel = f"{FOLDER / 'softmax.py'}:softmax"
    outcome = run("record", kernel, "--shape", "rows=64", "-o", tmp_path / "out.json")
    assert outcome.code == 0
    assert "instructions for trn3" in outcome.stdout
    assert "input x [64, 1024] bfloat16" in outcome.stdout


def test_record_refuses_in_one_line(refused: Callable[..., str], tmp_path: Path) -> None:
    assert "there is no such file" in refused("record", "nothing.py:k", "-o", tmp_path / "x.json")
    kernel = f"{FOLDER / 'softmax.py'}:softmax"
    assert "there is no folder" in refused("record", kernel, "-o", tmp_path / "no" / "x.json")
    message = refused("record", f"{kernel}[2]", "-o", tmp_path / "x.json")
    assert "2 cores; a program has one" in message


def test_record_of_ranks_writes_a_program_each(run: Callable[..., Any], tmp_path: Path) -> None:
    kernel = tmp_path / "total.py"
    kernel.write_text(
        "from nki import jit, language as nl, isa as nisa, collectives as ncc\n"
        "@jit\n"
        "def total(x):\n"
        "    mine = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)\n"
        "    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)\n"
        "    nisa.dma_copy(mine, x)\n"
        "    ncc.all_reduce([mine], [out], ncc.ReplicaGroup([[0, 1]]), nl.add)\n"
        "    return out\n"
    )
    options = ["--shape", "x=128x4:float32", "--ranks", "2", "-o", tmp_path / "total.json"]
    outcome = run("record", f"{kernel}:total", *options, "--json")
    assert outcome.code == 0
    documents = json.loads(outcome.stdout)["programs"]
    paths = [tmp_path / "total.0.json", tmp_path / "total.1.json"]
    assert [document["program"] for document in documents] == [str(path) for path in paths]
    x = np.ones((128, 4), np.float32)
    replays = replay_ranks([Program.load(path) for path in paths], [{"x": x}, {"x": 4 * x}])
    assert all((replay.outputs["result"] == 5).all() for replay in replays)
