"""Files that are truncated, lie or try something: each one clear refusal, by command and reader."""

from __future__ import annotations

import contextlib
import json
import os
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from support import checkpoints
from support.checkpoints import write_header, write_raw
from trn3.checkpoint import load_mx
from trn3.checkpoint.safetensors import CheckpointError, SafetensorsReader

F32_32 = {"dtype": "F32", "shape": [1, 32], "data_offsets": [0, 128]}


def entry(**changes: Any) -> dict[str, Any]:
    return {**F32_32, **changes}


def duplicate_names(path: Path) -> Path:
    one = json.dumps(F32_32)
    return write_raw(path, f'{{"w":{one},"w":{one}}}'.encode(), bytes(128))


def duplicate_keys(path: Path) -> Path:
    header = b'{"w":{"dtype":"F32","dtype":"I32","shape":[32],"data_offsets":[0,128]}}'
    return write_raw(path, header, bytes(128))


def truncated_data(path: Path) -> Path:
    return write_header(path, {"w": F32_32}, bytes(100))


def overlapping(path: Path) -> Path:
    header = {"v": F32_32, "w": entry(data_offsets=[64, 192])}
    return write_header(path, header, bytes(192))


def with_hole(path: Path) -> Path:
    header = {"v": F32_32, "w": entry(data_offsets=[160, 288])}
    return write_header(path, header, bytes(288))


ATTACKS: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda path: path.write_bytes(b""), "holds 0 bytes"),
    "five bytes": (lambda path: path.write_bytes(b"\x05\0\0\0\0"), "holds 5 bytes"),
    "text": (lambda path: path.write_text("hello, this is no model\n"), "not a safetensors file"),
    "header cut": (lambda path: write_raw(path, b'{"w":', length=400), "truncated"),
    "header length 2^64-1": (lambda path: write_raw(path, b"{}", length=2**64 - 1), "truncated"),
    "header length 2^63": (lambda path: write_raw(path, b"{}", length=2**63), "truncated"),
    "no brace": (lambda path: write_raw(path, b" {}"), "does not start with '{'"),
    "no header": (lambda path: write_raw(path, b""), "does not start with '{'"),
    "bad UTF-8": (lambda path: write_raw(path, b'{"\xff\xfe":1}'), "not UTF-8 (byte 2)"),
    "bad JSON": (lambda path: write_raw(path, b'{"w":}'), "not JSON"),
    "text after JSON": (lambda path: write_raw(path, b"{}{}"), "not JSON"),
    "NaN": (lambda path: write_raw(path, b'{"w":NaN}'), "NaN"),
    "deep": (lambda path: write_raw(path, b'{"w":' + b"[" * 200_000), "nested too deeply"),
    "long number": (
        lambda path: write_raw(path, b'{"w":' + b"9" * 5000 + b"}"),
        "absurdly long number",
    ),
    "name twice": (duplicate_names, "'w' twice"),
    "key twice": (duplicate_keys, "'dtype' twice"),
    "half surrogate": (
        lambda path: write_raw(
            path, b'{"\\ud800":' + json.dumps(F32_32).encode() + b"}", bytes(128)
        ),
        "not valid Unicode",
    ),
    "metadata number": (
        lambda path: write_header(path, {"__metadata__": {"a": 1}, "w": F32_32}, bytes(128)),
        "strings to strings",
    ),
    "metadata list": (
        lambda path: write_header(path, {"__metadata__": [], "w": F32_32}, bytes(128)),
        "strings to strings",
    ),
    "entry is a list": (lambda path: write_header(path, {"w": []}), "must have a dtype"),
    "no offsets": (
        lambda path: write_header(path, {"w": {"dtype": "F32", "shape": [0]}}),
        "must have a dtype",
    ),
    "unknown dtype": (
        lambda path: write_header(path, {"w": entry(dtype="F33")}, bytes(128)),
        "unknown dtype 'F33'",
    ),
    "dtype in small letters": (
        lambda path: write_header(path, {"w": entry(dtype="f32")}, bytes(128)),
        "unknown dtype 'f32'",
    ),
    "dtype is a list": (
        lambda path: write_header(path, {"w": entry(dtype=["F32"])}, bytes(128)),
        "unknown dtype",
    ),
    "negative size": (
        lambda path: write_header(path, {"w": entry(shape=[-1, -32])}, bytes(128)),
        "shape [-1, -32]",
    ),
    "size is true": (
        lambda path: write_header(path, {"w": entry(shape=[True, 32])}, bytes(128)),
        "shape [True, 32]",
    ),
    "fractional size": (
        lambda path: write_header(path, {"w": entry(shape=[1.0, 32])}, bytes(128)),
        "shape [1.0, 32]",
    ),
    "65 axes": (
        lambda path: write_header(path, {"w": entry(shape=[1] * 65)}, bytes(128)),
        "at most 64",
    ),
    "size past 64 bits": (
        lambda path: write_header(path, {"w": entry(shape=[2**64, 0])}, bytes(128)),
        "2^63 - 1",
    ),
    "product past 64 bits": (
        lambda path: write_header(path, {"w": entry(shape=[2**40, 2**40])}, bytes(128)),
        "its offsets give 128",
    ),
    "one offset": (
        lambda path: write_header(path, {"w": entry(data_offsets=[0])}, bytes(128)),
        "[begin, end] is needed",
    ),
    "offsets reversed": (
        lambda path: write_header(path, {"w": entry(data_offsets=[128, 0])}, bytes(128)),
        "[begin, end] is needed",
    ),
    "offset negative": (
        lambda path: write_header(path, {"w": entry(data_offsets=[-128, 0])}, bytes(128)),
        "[begin, end] is needed",
    ),
    "offset text": (
        lambda path: write_header(path, {"w": entry(data_offsets=["0", "128"])}, bytes(128)),
        "[begin, end] is needed",
    ),
    "size and offsets differ": (
        lambda path: write_header(path, {"w": entry(shape=[2, 32])}, bytes(128)),
        "takes 256 bytes, its offsets give 128",
    ),
    "half a byte": (
        lambda path: write_header(
            path, {"w": {"dtype": "F4", "shape": [3], "data_offsets": [0, 2]}}, bytes(2)
        ),
        "do not fill whole bytes",
    ),
    "data cut": (truncated_data, "take 128 bytes, 100 follow"),
    "data beyond": (
        lambda path: write_header(path, {"w": F32_32}, bytes(129)),
        "1 bytes after the last tensor",
    ),
    "overlap": (overlapping, "'w' overlaps another at byte 64"),
    "same bytes twice": (
        lambda path: write_header(path, {"v": F32_32, "w": F32_32}, bytes(128)),
        "overlaps",
    ),
    "hole": (with_hole, "bytes 128 to 160 of the data belong to no tensor"),
    "hole at the start": (
        lambda path: write_header(path, {"w": entry(data_offsets=[8, 136])}, bytes(136)),
        "bytes 0 to 8",
    ),
}


@pytest.fixture(params=ATTACKS)
def attack(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, str]]:
    make, expected = ATTACKS[request.param]
    path = tmp_path / "model.safetensors"
    make(path)
    yield path, expected
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


def test_the_command_refuses(refused: Callable[..., str], attack: tuple[Path, str]) -> None:
    path, expected = attack
    line = refused("quantize", path, "--to", "mxfp8-e4m3", "--out", path.parent / "out")
    assert line.startswith(f"{path}: ")
    assert expected in line
    assert len(line) < 500 + len(str(path))


def test_the_reader_refuses(attack: tuple[Path, str]) -> None:
    path, expected = attack
    with pytest.raises(CheckpointError) as caught:
        load_mx(path)
    assert expected in str(caught.value)


def test_header_over_the_limit(refused: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    with path.open("wb") as file:
        file.write(struct.pack("<Q", 100_000_001) + b"{")
        file.truncate(200_000_000)  # takes no space on the disk
    line = refused("quantize", path, "--to", "mxfp8-e4m3", "--out", tmp_path / "out")
    assert "at most 100000000 are accepted" in line


def test_pipes_are_refused_without_waiting(refused: Callable[..., str], tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    line = refused("quantize", pipe, "--to", "mxfp8-e4m3", "--out", tmp_path / "out")
    assert line == f"{pipe}: is not a regular file; a safetensors file is needed"


def test_big_endian_hosts_are_refused(
    refused: Callable[..., str], model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trn3.checkpoint.safetensors.sys.byteorder", "big")
    line = refused("quantize", model, "--to", "mxfp8-e4m3", "--out", tmp_path / "out")
    assert "big-endian" in line


def test_a_file_that_shrinks_is_noticed(model: Path) -> None:
    with SafetensorsReader(model) as reader:
        os.truncate(model, model.stat().st_size - 100)
        *_, last = reader.tensors.values()
        with pytest.raises(CheckpointError, match="the file has changed"):
            reader.read(last)


def test_sound_oddities_are_read(tmp_path: Path) -> None:
    """Header padding, unknown fields, empty tensors anywhere and any order are all allowed."""
    header = {
        "z": {"dtype": "U8", "shape": [0, 2**62], "data_offsets": [2, 2]},
        "b": {"dtype": "U8", "shape": [2], "data_offsets": [2, 4], "note": "unknown"},
        "a": {"dtype": "U8", "shape": [], "data_offsets": [0, 1]},
        "c": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]},
        "e": {"dtype": "F6_E2M3", "shape": [0], "data_offsets": [0, 0]},
    }
    path = write_raw(tmp_path / "model", json.dumps(header).encode() + b"   ", b"\1\2\3\4")
    with SafetensorsReader(path) as reader:
        assert list(reader.tensors) == ["e", "a", "c", "z", "b"]
        assert {n: reader.read(t).tolist() for n, t in reader.tensors.items()} == {
            "e": [],
            "a": [1],
            "c": [2],
            "z": [],
            "b": [3, 4],
        }
        assert reader.read(reader.tensors["b"], 1, 1).tolist() == [4]


@given(position=st.integers(0, 400), value=st.integers(0, 255), cut=st.integers(0, 3000))
def test_no_byte_makes_the_reader_fail_otherwise(position: int, value: int, cut: int) -> None:
    """Whatever byte is changed or cut off: a `CheckpointError`, or a sound file."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "model.safetensors"
        sound: dict[str, NDArray[Any]] = {
            "w": np.ones((2, 32), np.float32),
            "b": np.ones(7, np.float16),
        }
        raw = bytearray(checkpoints.write(path, sound, {"format": "pt"}).read_bytes())
        raw[position % len(raw)] = value
        path.write_bytes(raw[: max(len(raw) - cut, 0)] if cut > 1000 else raw)
        with contextlib.suppress(CheckpointError), SafetensorsReader(path) as reader:
            total = sum(reader.read(tensor).nbytes for tensor in reader.tensors.values())
            assert total <= len(raw)


@pytest.mark.parametrize("inner", ['{"a":[%s]}', '{"w":{"dtype":"F32","shape":[%s]}}'])
def test_headers_of_nothing_but_lists_end_soon(tmp_path: Path, inner: str) -> None:
    """Ninety megabytes of empty lists took half a minute."""
    header = (inner % ",".join(["[]"] * 30_000_000)).encode()
    path = write_raw(tmp_path / "m", header, b"")
    began = time.process_time()
    with pytest.raises(CheckpointError, match="must have a dtype, a shape and data_offsets"):
        load_mx(path)
    assert time.process_time() - began < 6
