"""Refusals, full disks and interruptions: one line, a defined exit code, nothing left."""

from __future__ import annotations

import errno
import io
import json
import os
import resource
import signal
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from support import checkpoints
from trn3.checkpoint import FORMATS, outcomes
from trn3.checkpoint.writer import SafetensorsWriter
from trn3.cli.quantize import Format, Rounding, ScaleRule

Refused = Callable[..., str]
E4M3 = ("--to", "mxfp8-e4m3")


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def large_model(path: Path, num_bytes: int, rows: int = 1) -> Path:
    """Write a float32 checkpoint of zeros that takes no space on the disk."""
    count = num_bytes // 4 // 32 * 32
    shape = [rows, count // rows // 32 * 32]
    end = 4 * shape[0] * shape[1]
    header = json.dumps({"w": {"dtype": "F32", "shape": shape, "data_offsets": [0, end]}}).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + end)
    return path


def test_missing_file(refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "absent.safetensors"
    line = refused("quantize", path, *E4M3, "--out", tmp_path / "out")
    assert line == f"{path}: No such file or directory"


def test_directory(refused: Refused, tmp_path: Path) -> None:
    line = refused("quantize", tmp_path, *E4M3, "--out", tmp_path / "out")
    assert line == f"{tmp_path}: is a directory; a safetensors file is needed"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file(refused: Refused, model: Path, tmp_path: Path) -> None:
    model.chmod(0)
    line = refused("quantize", model, *E4M3, "--out", tmp_path / "out")
    assert line == f"{model}: Permission denied"


def test_existing_output_needs_force(refused: Refused, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("precious")
    line = refused("quantize", model, *E4M3, "--out", out)
    assert line == f"{out}: exists; --force replaces it"
    assert out.read_text() == "precious"


@pytest.mark.parametrize("how", ["same name", "symbolic link", "hard link", "roundabout"])
@pytest.mark.parametrize("force", [True, False])
def test_output_is_never_the_input(
    refused: Refused, model: Path, tmp_path: Path, how: str, force: bool
) -> None:
    before = model.read_bytes()
    out = tmp_path / "link"
    if how == "symbolic link":
        out.symlink_to(model)
    elif how == "hard link":
        out.hardlink_to(model)
    else:
        (tmp_path / "a").mkdir()
        out = model if how == "same name" else tmp_path / "a" / ".." / model.name
    line = refused("quantize", model, *E4M3, "--out", out, *(["--force"] if force else []))
    assert line == f"{out}: is the input, which is never overwritten"
    assert model.read_bytes() == before


def test_output_directory_must_exist(refused: Refused, model: Path, tmp_path: Path) -> None:
    line = refused("quantize", model, *E4M3, "--out", tmp_path / "absent" / "out")
    assert line.endswith(f"there is no directory {tmp_path / 'absent'}")


def test_output_must_not_be_a_directory(refused: Refused, model: Path, tmp_path: Path) -> None:
    line = refused("quantize", model, *E4M3, "--out", tmp_path, "--force")
    assert line == f"{tmp_path}: is a directory; a file name is needed"


@pytest.mark.parametrize("formats", [E4M3, [*E4M3, "--to", "mxfp4-e2m1"]])
@pytest.mark.parametrize("out", [".", "/"])
def test_output_needs_a_name(refused: Refused, model: Path, formats: Any, out: str) -> None:
    line = refused("quantize", model, *formats, "--out", out, "--force")
    assert line == f"{out}: is a directory; a file name is needed"


def test_links_in_a_circle(refused: Refused, model: Path, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.symlink_to(there)
    there.symlink_to(here)
    assert str(here) in refused("quantize", here, *E4M3, "--out", tmp_path / "out")
    assert str(here) in refused("quantize", model, *E4M3, "--out", here)
    assert names_in(tmp_path) == ["here", "model.safetensors", "there"]


def test_devices_are_not_replaced(refused: Refused, model: Path) -> None:
    line = refused("quantize", model, *E4M3, "--out", "/dev/full", "--force")
    assert line == "/dev/full: exists and is not a regular file"
    assert Path("/dev/full").is_char_device()


def test_one_existing_output_of_several(refused: Refused, model: Path, tmp_path: Path) -> None:
    (tmp_path / "out.mxfp4-e2m1.st").touch()
    both = [*E4M3, "--to", "mxfp4-e2m1"]
    line = refused("quantize", model, *both, "--out", tmp_path / "out.st")
    assert line.endswith("out.mxfp4-e2m1.st: exists; --force replaces it")
    assert names_in(tmp_path) == ["model.safetensors", "out.mxfp4-e2m1.st"]


@pytest.mark.parametrize(
    ("tensors", "options", "expected"),
    [
        ({}, [], "no matrix to quantize among 0 tensors: none"),
        ({"b": np.ones(32, np.float32)}, [], "among 1 tensors: 1 not a matrix (1-d)"),
        ({"w": np.ones((2, 32))}, [], "1 dtype F64 (only F32, BF16, F16 are quantized)"),
        ({"w": np.ones((2, 33), np.float32)}, [], "1 axis -1 is 33 long, no multiple of 32"),
        ({"w": np.ones((2, 32), np.float32)}, ["--axis", "-3"], "1 no axis -3"),
        ({"w": np.ones((2, 32), np.float32)}, ["--axis", "99"], "1 no axis 99"),
        ({"w": np.ones((0, 32), np.float32)}, [], "1 empty"),
        ({"w": np.ones((1, 32), np.float32)}, ["--include", "x"], "1 not matched by --include"),
        ({"w": np.ones((1, 32), np.float32)}, ["--exclude", "*"], "1 matched by --exclude"),
    ],
)
def test_nothing_to_quantize(
    refused: Refused, tmp_path: Path, tensors: Any, options: list[str], expected: str
) -> None:
    model = checkpoints.write(tmp_path / "m", tensors)
    line = refused("quantize", model, *E4M3, "--out", tmp_path / "out", *options)
    assert line.startswith(f"{model}: no matrix to quantize")
    assert line.endswith(expected)
    assert names_in(tmp_path) == ["m"]


def test_taken_name_of_scales(refused: Refused, tmp_path: Path) -> None:
    ones = np.ones((1, 32), np.float32)
    model = checkpoints.write(tmp_path / "m", {"w": ones, "w_scales": ones[0]})
    line = refused("quantize", model, *E4M3, "--out", tmp_path / "out")
    assert "'w_scales', which is taken" in line
    assert names_in(tmp_path) == ["m"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--to", "fp8"], "'fp8' is not one of 'mxfp8-e4m3', 'mxfp8-e5m2', 'mxfp4-e2m1'"),
        ([*E4M3, "--rounding", "up"], "'up' is not one of"),
        ([*E4M3, "--scale-rule", "max"], "'max' is not one of"),
        ([*E4M3, "--axis", "last"], "value for '--axis'"),
        ([*E4M3, "--seed", "1"], "--seed has a meaning only with --rounding stochastic"),
        ([*E4M3, "--rounding", "stochastic", "--seed", "-1"], "value for '--seed'"),
        ([*E4M3, *E4M3], "--to names a format twice"),
        ([*E4M3, "--plot", "p.jpeg"], "--plot writes .png, .svg, .pdf files"),
        ([*E4M3, "--plot", "/absent/p.png"], "there is no directory /absent"),
        ([*E4M3, "--colour"], "No such option: --colour"),
        ([], "Missing option '--to'"),
    ],
)
def test_usage(
    refused: Refused, model: Path, tmp_path: Path, options: list[str], expected: str
) -> None:
    line = refused("quantize", model, "--out", tmp_path / "out", *options)
    assert expected.lower() in line.lower()
    assert names_in(tmp_path) == ["model.safetensors"]


@pytest.mark.parametrize("variable", ["TRN3_SIMD", "TRN3_NUM_THREADS", "TRN3_KEPT_MIB"])
@pytest.mark.parametrize("command", ["info", "quantize"])
def test_wrong_settings(
    spawn: Callable[..., subprocess.Popen[str]],
    model: Path,
    tmp_path: Path,
    variable: str,
    command: str,
) -> None:
    options = [model, *E4M3, "--out", tmp_path / "out"] if command == "quantize" else []
    with spawn(command, *options, env={**os.environ, variable: "fast"}) as running:
        stdout, stderr = running.communicate(timeout=60)
    assert (running.returncode, stdout, stderr.count("\n")) == (2, "", 1)
    assert stderr.startswith("trn3: error: ")
    assert variable in stderr
    assert names_in(tmp_path) == ["model.safetensors"]


def test_options_are_what_the_work_knows() -> None:
    """The command line names them without importing what does the work."""
    assert list(Format) == list(FORMATS)
    assert {"default", *get_args(outcomes.ScaleRule)} == set(get_args(ScaleRule))
    assert set(get_args(outcomes.Rounding)) == set(get_args(Rounding))


def test_unknown_command(refused: Refused) -> None:
    assert "quantise" in refused("quantise")


def test_missing_matplotlib_is_said_before_the_work(
    refused: Refused, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    options = ["--out", tmp_path / "out", "--plot", tmp_path / "p.png"]
    line = refused("quantize", model, *E4M3, *options)
    assert line == "--plot needs matplotlib: pip install 'trn3[plot]'"
    assert names_in(tmp_path) == ["model.safetensors"]


@pytest.mark.parametrize("reserves", [True, False])
def test_full_disk(
    refused: Refused, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reserves: bool
) -> None:
    """The disk is full when space is reserved, or, where it cannot be, at the third write."""

    def full(descriptor: int, start: int, count: int) -> None:
        code = errno.ENOSPC if reserves else errno.EOPNOTSUPP
        raise OSError(code, os.strerror(code))

    calls = 0

    class FillingDisk(io.FileIO):
        def write(self, data: Any) -> int:
            nonlocal calls
            calls += 1
            if calls == 3:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(data)

    monkeypatch.setattr(os, "posix_fallocate", full)
    monkeypatch.setattr("trn3.checkpoint.writer.io.FileIO", FillingDisk)
    out = tmp_path / "out"
    line = refused("quantize", model, *E4M3, "--out", out)
    assert line == f"{out}: No space left on device"
    assert (calls == 3) is not reserves
    assert names_in(tmp_path) == ["model.safetensors"]


@pytest.mark.parametrize("rounds", [1, 2])
def test_file_size_limit(
    spawn: Callable[..., subprocess.Popen[str]], model: Path, tmp_path: Path, rounds: int
) -> None:
    """A real refusal by the kernel, with nothing replaced by us; earlier outputs stay whole."""
    out = tmp_path / "out"
    if rounds == 2:
        out.write_text("earlier")
    limited = spawn(
        "quantize",
        model,
        *E4M3,
        "--out",
        out,
        "--force",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000)),
    )
    stdout, stderr = limited.communicate(timeout=60)
    assert limited.returncode == 2
    assert stdout == ""
    assert stderr == f"trn3: error: {out}: File too large\n"
    assert names_in(tmp_path) == ["model.safetensors", *(["out"] if rounds == 2 else [])]
    assert rounds == 1 or out.read_text() == "earlier"


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "terminated"),
        (signal.SIGHUP, 129, "terminated"),
    ],
)
def test_interruption_leaves_nothing(
    spawn: Callable[..., subprocess.Popen[str]],
    tmp_path: Path,
    number: signal.Signals,
    code: int,
    word: str,
) -> None:
    model = large_model(tmp_path / "model.safetensors", 800_000_000)
    earlier = tmp_path / "out.mxfp4-e2m1"
    earlier.write_text("earlier")
    both = [*E4M3, "--to", "mxfp4-e2m1"]
    with spawn("quantize", model, *both, "--out", tmp_path / "out", "--force") as running:
        deadline = time.monotonic() + 60
        while len(names_in(tmp_path)) < 4 and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.2)
        assert running.poll() is None, "the run ended before it could be interrupted"
        asked = time.monotonic()
        running.send_signal(number)
        stdout, stderr = running.communicate(timeout=30)
    assert running.returncode == code
    assert time.monotonic() - asked < 5
    assert stdout == ""
    assert stderr == f"trn3: error: {word}\n"
    assert names_in(tmp_path) == ["model.safetensors", "out.mxfp4-e2m1"]
    assert earlier.read_text() == "earlier"


@pytest.mark.parametrize("rows", [1, 4000])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, rows: int) -> None:
    """Peak memory of a 300 MB tensor, even in one row, is that of a small one and little more."""

    def peak(num_bytes: int, name: str) -> int:
        model = large_model(tmp_path / f"{name}.safetensors", num_bytes, rows)
        arguments = ["quantize", str(model), *E4M3, "--out", str(tmp_path / f"{name}.out")]
        script = (
            "import resource, sys; from trn3.__main__ import main; code = main(sys.argv[1:]); "
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr); "
            "sys.exit(code)"
        )
        done = subprocess.run(
            [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True
        )
        return int(done.stderr) * 1024

    small, large = peak(600_000, "small"), peak(300_000_000, "large")
    assert large - small < 50_000_000
    assert (tmp_path / "large.out").stat().st_size > 300_000_000 // 4


def test_writer_refuses_to_finish_early(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with SafetensorsWriter(out, [("w", "U8", (4,))], {}) as writer:
        writer.write("w", 0, np.zeros(3, np.uint8))
        with pytest.raises(ValueError, match="2 bytes at 3 of 'w', which has 4"):
            writer.write("w", 3, np.zeros(2, np.uint8))
        with pytest.raises(RuntimeError, match=r"1 bytes of .* were never written"):
            writer.finish()
    assert names_in(tmp_path) == []


def test_outputs_reach_the_disk_before_their_names(
    run: Callable[..., Any], model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them: a power cut leaves whole files or none."""
    events: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def recorded_fsync(descriptor: int) -> None:
        events.append("directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def recorded_replace(self: Path, target: Path) -> Path:
        events.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(Path, "replace", recorded_replace)
    both = [*E4M3, "--to", "mxfp4-e2m1"]
    assert run("quantize", model, *both, "--out", tmp_path / "out").code == 0
    assert events == ["file", "file", "rename", "directory", "rename", "directory"]
