"""`trn3.quantize_checkpoint`: what the command does, called from Python; files of killed runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trn3
from support import checkpoints
from support.checks import error
from trn3.checkpoint import CheckpointError, QuantizationReport
from trn3.checkpoint.writer import SafetensorsWriter

E4M3 = "mxfp8-e4m3"


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_command_writes_the_same_bytes(
    run: Callable[..., Any], model: Path, tmp_path: Path
) -> None:
    ours = {name: tmp_path / f"ours.{name}" for name in (E4M3, "mxfp4-e2m1")}
    shown: list[tuple[int, int]] = []
    report = trn3.quantize_checkpoint(
        model,
        ours,
        rounding="stochastic",
        seed=7,
        exclude=["layer.1.*"],
        on_progress=lambda done, total: shown.append((done, total)),
    )
    options = ["--rounding", "stochastic", "--seed", 7, "--exclude", "layer.1.*"]
    formats = ["--to", E4M3, "--to", "mxfp4-e2m1"]
    assert run("quantize", model, *formats, *options, "--out", tmp_path / "theirs.st").code == 0
    for name, path in ours.items():
        assert path.read_bytes() == (tmp_path / f"theirs.{name}.st").read_bytes()
    assert isinstance(report, QuantizationReport)
    assert [each.path for each in report.formats] == list(ours.values())
    assert [each.num_bytes for each in report.formats] == [
        path.stat().st_size for path in ours.values()
    ]
    assert report.passed_through["layer.1.weight"] == "matched by --exclude"
    assert shown[-1][0] == shown[-1][1]
    assert report.to_plain()["seed"] == 7


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"outputs": {}}, ValueError, ("outputs", "mxfp8-e4m3")),
        ({"outputs": {"mxfp8-e4m": "out"}}, ValueError, ("'mxfp8-e4m'", "nearest", E4M3)),
        ({"scale_rule": "best"}, ValueError, ("scale_rule", "'best'", "'rceil'")),
        ({"rounding": "up"}, ValueError, ("rounding", "'up'", "'stochastic'")),
        ({"seed": -1}, ValueError, ("seed", "-1")),
        ({"seed": 1.0}, TypeError, ("seed", "1.0")),
        ({"axis": "last"}, TypeError, ("axis", "'last'")),
        ({"include": "w*"}, TypeError, ("include", "'w*'")),
        ({"axis": 5}, CheckpointError, ("no axis 5",)),
    ],
)
def test_arguments_refused(
    model: Path,
    tmp_path: Path,
    arguments: dict[str, Any],
    kind: type[Exception],
    words: tuple[str, ...],
) -> None:
    given = {"outputs": {E4M3: tmp_path / "out"}, **arguments}
    with error(kind, *words):
        trn3.quantize_checkpoint(model, **given)
    assert names_in(tmp_path) == ["model.safetensors"]


def test_files_that_are_there_are_kept_unless_replaced(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("precious")
    with error(FileExistsError, str(out), "replace=True"):
        trn3.quantize_checkpoint(model, {E4M3: out})
    with error(CheckpointError, "out", "two outputs"):
        trn3.quantize_checkpoint(
            model, {E4M3: out, "mxfp4-e2m1": tmp_path / "." / "out"}, replace=True
        )
    with error(CheckpointError, "input", "never overwritten"):
        trn3.quantize_checkpoint(model, {E4M3: model}, replace=True)
    with error(IsADirectoryError, str(tmp_path)):
        trn3.quantize_checkpoint(model, {E4M3: tmp_path}, replace=True)
    with error(FileNotFoundError, "absent"):
        trn3.quantize_checkpoint(model, {E4M3: tmp_path / "absent" / "out"})
    assert out.read_text() == "precious"
    trn3.quantize_checkpoint(model, {E4M3: out}, replace=True)
    with trn3.load_mx(out) as tensors:
        assert "layer.1.weight" in tensors


@pytest.mark.parametrize("length", [241, 242, 255])
def test_names_as_long_as_names_may_be(model: Path, tmp_path: Path, length: int) -> None:
    out = tmp_path / ("o" * length)
    trn3.quantize_checkpoint(model, {E4M3: out})
    assert names_in(tmp_path) == ["model.safetensors", out.name]


def test_a_later_run_removes_what_killed_ones_left(model: Path, tmp_path: Path) -> None:
    script = (
        "import os, sys, trn3\n"
        "def kill(done, total): os.kill(os.getpid(), 9)\n"
        f"trn3.quantize_checkpoint(sys.argv[1], {{'{E4M3}': sys.argv[2]}}, on_progress=kill)\n"
    )
    for out in ("out", "other", "out"):
        command = [sys.executable, "-c", script, str(model), str(tmp_path / out)]
        assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    left = [name for name in names_in(tmp_path) if name != "model.safetensors"]
    assert len(left) == 2
    trn3.quantize_checkpoint(model, {E4M3: tmp_path / "out"})
    # That of another output is not this run's.
    assert len(set(left) & set(names_in(tmp_path))) == 1
    trn3.quantize_checkpoint(model, {E4M3: tmp_path / "other"})
    assert names_in(tmp_path) == ["model.safetensors", "other", "out"]


def test_files_of_runs_that_go_on_and_of_others_are_kept(tmp_path: Path) -> None:
    out = tmp_path / "out"
    tensors = [("w", "U8", (4,))]
    with SafetensorsWriter(out, tensors, {}) as first:
        (hidden,) = names_in(tmp_path)
        begin = hidden[: hidden.rindex("-") + 1]
        kept = [tmp_path / f"{begin}0.tmp", tmp_path / f"{begin}1.tmp", tmp_path / f"{begin}1"]
        kept[0].mkdir()
        kept[1].symlink_to(tmp_path / "nowhere")
        kept[2].write_text("no temporary file")
        os.mkfifo(tmp_path / f"{begin}2.tmp")
        with SafetensorsWriter(out, tensors, {}) as second:
            for writer in (first, second):
                writer.write("w", 0, np.arange(4, dtype=np.uint8))
                writer.finish()
            # Complete, but without its name yet.
            SafetensorsWriter(out, tensors, {}).discard()
            first.commit()
            second.commit()
    assert checkpoints.read(out)[1] == bytes([0, 1, 2, 3])
    assert hidden not in names_in(tmp_path)
    assert {path.name for path in kept} <= set(names_in(tmp_path))
