"""Safetensors files as streams: `SafetensorsReader` over the checked reader of the core.

A tensor larger than memory comes in pieces, as bytes; the core (`rust/checkpoint`) checks every
name and number of a header before it is used, so that a truncated or lying file gives a
`CheckpointError` and nothing else.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from trn3._trn3.checkpoint import CheckpointError, SafetensorsFile

__all__ = ["DTYPES", "CheckpointError", "SafetensorsReader", "TensorEntry", "bytes_of"]

# Bits per value and the NumPy dtype whose memory the bytes are; no dtype where NumPy has none or
# (F4) where the file packs several values to a byte.
DTYPES: dict[str, tuple[int, np.dtype[Any] | None]] = {
    "BOOL": (8, np.dtype(np.bool_)),
    "U8": (8, np.dtype(np.uint8)),
    "I8": (8, np.dtype(np.int8)),
    "U16": (16, np.dtype(np.uint16)),
    "I16": (16, np.dtype(np.int16)),
    "U32": (32, np.dtype(np.uint32)),
    "I32": (32, np.dtype(np.int32)),
    "U64": (64, np.dtype(np.uint64)),
    "I64": (64, np.dtype(np.int64)),
    "F16": (16, np.dtype(np.float16)),
    "BF16": (16, np.dtype(ml_dtypes.bfloat16)),
    "F32": (32, np.dtype(np.float32)),
    "F64": (64, np.dtype(np.float64)),
    "C64": (64, np.dtype(np.complex64)),
    "F8_E4M3": (8, np.dtype(ml_dtypes.float8_e4m3fn)),
    "F8_E5M2": (8, np.dtype(ml_dtypes.float8_e5m2)),
    "F8_E8M0": (8, np.dtype(ml_dtypes.float8_e8m0fnu)),
    "F8_E4M3FNUZ": (8, np.dtype(ml_dtypes.float8_e4m3fnuz)),
    "F8_E5M2FNUZ": (8, np.dtype(ml_dtypes.float8_e5m2fnuz)),
    "F6_E2M3": (6, None),
    "F6_E3M2": (6, None),
    "F4": (4, None),
}


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One tensor of a file: its name, safetensors dtype, shape and byte range in the data part."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def num_bytes(self) -> int:
        """Bytes the tensor takes in the file."""
        return self.end - self.begin

    @property
    def num_values(self) -> int:
        """Number of values, the product of the shape."""
        return math.prod(self.shape)


def bytes_of(dtype: str, shape: Iterable[int]) -> int:
    """Return the bytes that `shape` values of a safetensors dtype take, packed.

    >>> bytes_of("F4", (3, 32))
    48

    Raises
    ------
    CheckpointError
        If values of less than a byte do not fill whole bytes.
    """
    bits = DTYPES[dtype][0] * math.prod(shape)
    if bits % 8:
        message = f"{dtype} values of shape {list(shape)} do not fill whole bytes"
        raise CheckpointError(message)
    return bits // 8


class SafetensorsReader:
    """A checked safetensors file, open for reading by range.

    Parameters
    ----------
    path
        A regular file.

    Raises
    ------
    OSError
        If the file cannot be opened or read.
    CheckpointError
        If it is not a regular file, or its header does not describe exactly the bytes that follow.

    Attributes
    ----------
    metadata
        The file's ``__metadata__``, strings to strings.
    tensors
        Name to `TensorEntry`, in the order of their bytes.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if sys.byteorder != "little":
            message = "checkpoints hold little-endian numbers and this machine is big-endian"
            raise CheckpointError(message)
        file = SafetensorsFile(self.path)
        self._file: SafetensorsFile | None = file
        self.num_bytes = file.num_bytes
        self.metadata: Mapping[str, str] = dict(file.metadata())
        self.tensors: Mapping[str, TensorEntry] = {
            name: TensorEntry(name, dtype, tuple(shape), begin, end)
            for name, dtype, shape, begin, end in file.tensors()
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; closing twice is fine."""
        self._file = None

    @property
    def closed(self) -> bool:
        """Whether the file was closed."""
        return self._file is None

    def read(
        self, entry: TensorEntry, start: int = 0, count: int | None = None
    ) -> NDArray[np.uint8]:
        """Return `count` bytes of a tensor from byte `start` of it, by default all of them.

        Raises
        ------
        ValueError
            If the reader was closed.
        CheckpointError
            If the file got shorter since its header was checked.
        """
        if self._file is None:
            message = f"{self.path} was closed"
            raise ValueError(message)
        data = np.empty(entry.num_bytes - start if count is None else count, np.uint8)
        self._file.read(entry.begin + start, data, f"tensor {entry.name!r}")
        return data
