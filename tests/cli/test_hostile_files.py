"""Files that never end, are too large or lie, and outputs that take nothing: one line each."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trn3 import files
from trn3.interchange import chakra

Refused = Callable[..., str]
Spawn = Callable[..., subprocess.Popen[str]]

SMALL = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 256,
    "vocab_size": 1000,
}

#: A command for each kind of file, and how the file must be called.
READERS: dict[str, tuple[str, list[str]]] = {
    "model": ("config.json", ["plan", "{}"]),
    "trace": ("job.0.et", ["trace", "info", "{}"]),
    "profile": ("profile.json", ["trace", "convert", "{}", "--to", "chakra"]),
    "system": ("mine.toml", ["spec", "{}"]),
    "arch": ("mine.toml", ["plan", "llama-3-8b", "--system", "{}"]),
    "fabric": ("mine.toml", ["route", "{}", "0", "1"]),
    "objects": ("claims.yaml", ["k8s", "allocate", "{}", "-i", "{}"]),
}


def replayed(folder: Path) -> list[str]:
    """Return a command that replays a trace of one rank."""
    node = chakra.Node(0, "work", chakra.NodeType.COMP_NODE, duration_micros=5)
    chakra.write_ranks([chakra.Trace(nodes=(node,))], folder / "job")
    return ["trace", "replay", str(folder / "job"), "-s", "gen2"]


@pytest.mark.parametrize("reader", READERS)
def test_pipes_are_refused_and_not_waited_for(
    refused: Refused, tmp_path: Path, reader: str
) -> None:
    name, command = READERS[reader]
    path = tmp_path / name
    os.mkfifo(path)
    line = refused(*(word.format(path) for word in command))
    assert str(path) in line
    assert "is not a regular file" in line


def test_pipes_are_refused_by_replays(refused: Refused, tmp_path: Path) -> None:
    command = replayed(tmp_path)
    pipe = tmp_path / "pipe.0.et"
    os.mkfifo(pipe)
    refusal = f"{pipe}: is not a regular file"
    assert refused(*command, "--groups", pipe) == refusal
    assert refused("trace", "replay", tmp_path / "pipe", "-s", "gen2") == refusal


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/tty", "/dev/null"])
def test_devices_are_refused(refused: Refused, device: str) -> None:
    if not os.access(device, os.R_OK):
        pytest.skip(f"no {device}")
    try:
        os.close(os.open(device, os.O_RDONLY | os.O_NONBLOCK))
    except OSError:
        pytest.skip(f"{device} does not open")
    assert refused("trace", "info", device) == f"{device}: is not a regular file"


@pytest.mark.parametrize("reader", READERS)
def test_files_of_a_gigabyte_are_not_read(refused: Refused, tmp_path: Path, reader: str) -> None:
    name, command = READERS[reader]
    path = tmp_path / name
    with path.open("wb") as file:
        file.truncate(max(files.LIMITS.values()) + 1)
    line = refused(*(word.format(path) for word in command))
    assert str(path) in line
    assert "is a file of 1,073,741,825 bytes; a " in line.replace("1073741825", "1,073,741,825")


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" * 1000 + "]" * 1000 + "x"])
def test_json_without_end_is_refused_by_name(refused: Refused, tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    command = replayed(tmp_path)
    for line in (
        refused("plan", path),
        refused(*command, "--groups", path),
        refused("trace", "convert", path, "--to", "chakra"),
    ):
        assert line.startswith(f"{path}: ")
        assert "is not JSON: " in line or "no profile: " in line
        assert len(line) < 300


def test_long_lines_are_not_repeated(refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f'model_type = "{"x" * 200_000}\nb = 1\n')
    for command in (["plan", path], ["spec", path], ["profile", "k.py", "--arch", path]):
        assert len(refused(*command)) < 500
    line = refused("spec", path)
    assert f"{path} is not TOML: line 1, column " in line
    assert "xxxx" not in line


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--tdp", "1e308"], "tdp is 1e308; it must be at most 1e60"),
        (["--price", "1e308"], "price is 1e308; it must be at most 1e60"),
        (["--tdp", "inf"], "request.tdp is inf; needed: a finite number"),
        (["--price", "nan"], "request.price is nan; needed: a finite number"),
    ],
)
def test_numbers_that_no_product_holds(
    refused: Refused, tmp_path: Path, options: list[str], text: str
) -> None:
    path = tmp_path / "small.json"
    path.write_text(json.dumps(SMALL))
    assert refused("plan", path, *options) == text
    assert refused("plan", path, "--train", "--global-batch", "8", "--sequence", "8", *options)


@pytest.mark.parametrize("count", [2**32, 10**30])
def test_more_ranks_than_a_chip_can_have(refused: Refused, tmp_path: Path, count: int) -> None:
    line = refused(*replayed(tmp_path), "--ranks-per-chip", count)
    assert line.startswith(f"ranks_per_chip is {count}; allowed: 1 to 4294967295, here usually ")


def test_a_trace_of_zeros_ends_at_the_first_that_cannot_be(
    refused: Refused, tmp_path: Path
) -> None:
    path = tmp_path / "zeros.0.et"
    path.write_bytes(bytes(16 << 20))
    assert refused("trace", "info", path).startswith(f"{path}: two nodes have the id 0")


def test_more_nodes_than_are_written(refused: Refused) -> None:
    line = refused("k8s", "slices", "--system", "gen2", "--nodes", "999999999")
    assert line == "--nodes 999999999: at most 10000 are written"


@pytest.mark.parametrize("command", [["spec", "gen2"], ["compare", "gen1", "gen2"], ["info"]])
def test_a_reader_that_stops_ends_the_command_without_a_word(
    spawn: Spawn, command: list[str]
) -> None:
    with spawn(*command) as running:
        assert running.stdout is not None
        running.stdout.close()
        running.stdout = None
        _, stderr = running.communicate(timeout=60)
    assert (running.returncode, stderr) == (141, "")


def test_an_output_that_takes_nothing_is_named(spawn: Spawn, tmp_path: Path) -> None:
    def closed() -> None:
        os.close(1)

    def full() -> None:
        os.dup2(os.open("/dev/full", os.O_WRONLY), 1)

    cases: list[tuple[Any, str]] = [
        (closed, "trn3: error: standard output: Bad file descriptor\n"),
        (full, "trn3: error: standard output: No space left on device\n"),
    ]
    for prepare, text in cases:
        with spawn("spec", "gen2", preexec_fn=prepare) as running:
            _, stderr = running.communicate(timeout=60)
        assert (running.returncode, stderr) == (2, text)
