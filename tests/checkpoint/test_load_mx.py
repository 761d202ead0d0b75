"""Reading back: a lazy mapping, and errors that say what is wrong with the file."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import trn3
from support import checkpoints
from trn3.checkpoint import CheckpointError, MXCheckpoint, pack_fp4, unpack_fp4
from trn3.numerics import MXArray

SCALES = {"dtype": "F8_E8M0", "shape": [1, 1], "data_offsets": [0, 1]}
ELEMENTS = {"dtype": "F8_E4M3", "shape": [1, 32], "data_offsets": [1, 33]}


@pytest.fixture
def quantized(run: Callable[..., Any], model: Path, tmp_path: Path) -> Path:
    out = tmp_path / "quantized.safetensors"
    assert run("quantize", model, "--to", "mxfp4-e2m1", "--out", out).code == 0
    return out


def write_mx(path: Path, described: Any, **tensors: Any) -> Path:
    """Write a file of one matrix and its scales with this description of it."""
    text = described if isinstance(described, str) else json.dumps(described)
    header = {
        "__metadata__": {"trn3.mx": text},
        "s": SCALES,
        "w": ELEMENTS,
        **tensors,
    }
    end = max(value["data_offsets"][1] for name, value in header.items() if "__" not in name)
    return checkpoints.write_header(path, header, bytes(end))


def describe(**changes: Any) -> dict[str, Any]:
    return {"version": 1, "tensors": {"w": {"axis": -1, "scales": "s", **changes}}}


def test_mapping(quantized: Path) -> None:
    with trn3.load_mx(quantized) as tensors:
        assert isinstance(tensors, MXCheckpoint)
        assert len(tensors) == len(list(tensors)) == len(checkpoints.some_tensors())
        assert "embed.weight" in tensors
        assert "embed.weight_scales" not in tensors
        assert "absent" not in tensors
        assert isinstance(tensors["embed.weight"], MXArray)
        assert isinstance(tensors.get("layer.0.bias"), np.ndarray)
        assert tensors.get("absent") is None
        for name in ("absent", "embed.weight_scales"):
            with pytest.raises(KeyError, match=name):
                tensors[name]
        assert tensors.metadata["format"] == "pt"
        assert "10 tensors, 3 quantized" in repr(tensors)


def test_arrays_outlive_the_file(quantized: Path) -> None:
    with trn3.load_mx(str(quantized)) as tensors:
        matrix, step = tensors["embed.weight"], tensors["step"]
    quantized.write_bytes(b"gone")
    assert isinstance(matrix, MXArray)
    assert isinstance(step, np.ndarray)
    assert matrix.dequantize().shape == (48, 64)
    assert step.shape == ()
    assert step == 17
    assert step.flags.writeable


def test_closing(quantized: Path) -> None:
    tensors = trn3.load_mx(quantized)
    tensors.close()
    tensors.close()
    assert "closed" in repr(tensors)
    assert "step" in tensors
    with pytest.raises(ValueError, match=r"quantized\.safetensors was closed"):
        tensors["step"]


def test_a_tensor_is_read_when_asked_for(quantized: Path) -> None:
    """Damage to one tensor's bytes after opening shows in that tensor only, so none was read."""
    with trn3.load_mx(quantized) as tensors:
        header, data = checkpoints.read(quantized)
        begin = header["step"]["data_offsets"][0]
        with quantized.open("r+b") as file:
            file.seek(quantized.stat().st_size - len(data) + begin)
            file.write(np.int64(18).tobytes())
        assert tensors["step"] == 18


def test_plain_checkpoint(model: Path) -> None:
    with pytest.raises(CheckpointError, match=r"holds no MX tensors.*trn3 quantize"):
        trn3.load_mx(model)
    assert issubclass(CheckpointError, ValueError)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        trn3.load_mx(tmp_path / "absent")


def test_scales_may_be_plain_bytes(tmp_path: Path) -> None:
    path = write_mx(tmp_path / "m", describe(), s={**SCALES, "dtype": "U8"})
    with trn3.load_mx(path) as tensors:
        matrix = tensors["w"]
        assert isinstance(matrix, MXArray)
        assert matrix.scales.dtype.name == "float8_e8m0fnu"


@pytest.mark.parametrize(
    ("described", "tensors", "expected"),
    [
        ("{", {}, "is not JSON"),
        ("[" * 100_000, {}, "is not JSON"),
        ("[]", {}, "has no 'tensors'"),
        ({"version": 1, "tensors": []}, {}, "has no 'tensors'"),
        ({"tensors": {}}, {}, "has version None; this program reads 1"),
        ({"version": 2, "tensors": {}}, {}, "has version 2"),
        ({"version": 1, "tensors": {"v": {}}}, {}, "names tensor 'v', which the file does not"),
        ({"version": 1, "tensors": {"w": 1}}, {}, "does not describe tensor 'w'"),
        (describe(axis=2), {}, "gives tensor 'w' axis 2; it has 2 axes"),
        (describe(axis=-3), {}, "gives tensor 'w' axis -3"),
        (describe(axis=True), {}, "gives tensor 'w' axis True"),
        (describe(axis="last"), {}, "gives tensor 'w' axis 'last'"),
        (describe(axis=0), {}, "F8_E4M3 [1, 32], which is not MX"),
        (describe(), {"w": {**ELEMENTS, "dtype": "I8"}}, "I8 [1, 32], which is not MX"),
        (describe(scales="t"), {}, "scales 't', which the file does not hold"),
        (describe(scales=None), {}, "scales None"),
        (describe(scales="w"), {}, "scales 'w'"),
        (describe(), {"s": {**SCALES, "dtype": "I8"}}, "scales of I8 [1, 1]"),
        (describe(), {"s": {**SCALES, "shape": [1]}}, "F8_E8M0 [1, 1] is needed"),
    ],
)
def test_metadata_that_lies(tmp_path: Path, described: Any, tensors: Any, expected: str) -> None:
    path = write_mx(tmp_path / "m", described, **tensors)
    with pytest.raises(CheckpointError) as caught:
        trn3.load_mx(path)
    assert str(caught.value).startswith(f"{path}: metadata 'trn3.mx' ")
    assert expected in str(caught.value)


def test_types_numpy_lacks(tmp_path: Path) -> None:
    six = {"dtype": "F6_E3M2", "shape": [4], "data_offsets": [33, 36]}
    huge = {"dtype": "U8", "shape": [0, 2**62, 2**62], "data_offsets": [36, 36]}
    path = write_mx(tmp_path / "m", describe(), six=six, huge=huge)
    with trn3.load_mx(path) as tensors:
        assert len(tensors) == 3
        with pytest.raises(CheckpointError, match="'six' is F6_E3M2, which NumPy has no type for"):
            tensors["six"]
        with pytest.raises(CheckpointError, match=r"'huge' has shape .* too large for NumPy"):
            tensors["huge"]


@given(st.lists(st.integers(0, 15), max_size=40))
def test_packing_keeps_every_pattern(codes: list[int]) -> None:
    codes += [0] * (len(codes) % 2)
    elements = np.array(codes, np.uint8)
    packed = pack_fp4(elements)
    assert packed.tolist() == [
        low + 16 * high for low, high in zip(codes[::2], codes[1::2], strict=True)
    ]
    back = unpack_fp4(packed, (len(codes),))
    np.testing.assert_array_equal(back.view(np.uint8), elements)


def test_import_of_the_package_stays_light() -> None:
    """`import trn3` loads neither what reads checkpoints nor what draws tables."""
    script = (
        "import sys, trn3; "
        "heavy = {'typer', 'rich', 'safetensors', 'matplotlib', 'trn3.checkpoint', 'numpy'}; "
        "print(sorted(heavy & set(sys.modules))); trn3.load_mx; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["[]", "['numpy', 'trn3.checkpoint']"]
