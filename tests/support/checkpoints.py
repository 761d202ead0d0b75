"""Small checkpoints for tests, sound and otherwise, written without the code under test."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

CODES = {
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float64": "F64",
    "int64": "I64",
    "uint8": "U8",
    "bool": "BOOL",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e8m0fnu": "F8_E8M0",
}


def write_raw(path: Path, header: bytes, data: bytes = b"", length: int | None = None) -> Path:
    """Write a file from its parts, the announced length of the header included."""
    path.write_bytes(struct.pack("<Q", len(header) if length is None else length) + header + data)
    return path


def write_header(path: Path, header: Any, data: bytes = b"") -> Path:
    """Write a file whose header is this JSON."""
    return write_raw(path, json.dumps(header).encode(), data)


def write(
    path: Path, tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str] | None = None
) -> Path:
    """Write a sound file, tensors in the given order."""
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    data = b""
    for name, array in tensors.items():
        raw = np.ascontiguousarray(array).tobytes()
        header[name] = {
            "dtype": CODES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    return write_header(path, header, data)


def read(path: Path) -> tuple[dict[str, Any], bytes]:
    """Return the header and the data part of a file, unchecked."""
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    return json.loads(raw[8 : 8 + length]), raw[8 + length :]


def tensor_bytes(path: Path, name: str) -> bytes:
    """Return the stored bytes of one tensor."""
    header, data = read(path)
    begin, end = header[name]["data_offsets"]
    return data[begin:end]


def some_tensors(seed: int = 7) -> dict[str, NDArray[Any]]:
    """Return a small model: matrices of each source dtype, and things that are no matrices."""
    rng = np.random.default_rng(seed)
    return {
        "embed.weight": rng.standard_normal((48, 64)).astype(np.float32),
        "layer.0.weight": rng.standard_normal((32, 96)).astype(ml_dtypes.bfloat16),
        "layer.1.weight": rng.standard_normal((3, 5, 32)).astype(np.float16),
        "layer.0.bias": rng.standard_normal(64).astype(np.float32),
        "odd.weight": rng.standard_normal((32, 33)).astype(np.float32),
        "double.weight": rng.standard_normal((4, 32)),
        "ids": np.arange(64, dtype=np.int64).reshape(2, 32),
        "step": np.array(17, np.int64),
        "empty": np.zeros((0, 32), np.float32),
        "flags": np.array([True, False, True]),
    }


MATRICES = ("embed.weight", "layer.0.weight", "layer.1.weight")
