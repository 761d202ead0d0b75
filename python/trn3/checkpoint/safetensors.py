"""Safetensors files as streams: a strict header parser and reads by range.

The public library gives NumPy whole tensors, and none of bfloat16 or narrower types; here a tensor
larger than memory comes in pieces, as bytes. Every number of a header is checked before it is used,
so that a truncated or lying file gives a `CheckpointError` and nothing else.
"""

from __future__ import annotations

import io
import json
import math
import os
import stat
import struct
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from trn3.files import naming

# The reference implementation refuses larger headers too; real ones are a few megabytes.
MAX_HEADER_BYTES = 100_000_000
# NumPy's own limits.
MAX_AXES = 64
MAX_SIZE = 2**63 - 1

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


class CheckpointError(ValueError):
    """A file is not the checkpoint it claims to be, or cannot be handled; the text says how."""


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
        # Without O_NONBLOCK, opening a pipe would wait for its writer before it can be refused.
        descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            kind = "a directory" if stat.S_ISDIR(status.st_mode) else "not a regular file"
            self._fail(f"is {kind}; a safetensors file is needed")
        self._file = io.FileIO(descriptor, "rb")
        self.num_bytes = status.st_size
        try:
            header, self._data_begin = self._read_header()
            self.metadata = self._parse_metadata(header.pop("__metadata__", {}))
            self.tensors = self._parse_tensors(header)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; closing twice is fine."""
        self._file.close()

    @property
    def closed(self) -> bool:
        """Whether the file was closed."""
        return self._file.closed

    def read(
        self, entry: TensorEntry, start: int = 0, count: int | None = None
    ) -> NDArray[np.uint8]:
        """Return `count` bytes of a tensor from byte `start` of it, by default all of them.

        Raises
        ------
        CheckpointError
            If the file got shorter since its header was checked.
        """
        count = entry.num_bytes - start if count is None else count
        data = np.empty(count, np.uint8)
        self._file.seek(self._data_begin + entry.begin + start)
        view = data.data
        done = 0
        while done < count:
            with naming(self.path):
                got = self._file.readinto(view[done:])
            if not got:
                self._fail(f"ended inside tensor {entry.name!r}: the file has changed")
            done += got
        return data

    def _fail(self, problem: str) -> NoReturn:
        message = f"{self.path}: {problem}"
        raise CheckpointError(message)

    def _read_header(self) -> tuple[dict[str, Any], int]:
        prefix = self._file.read(8)
        if len(prefix) < 8:
            self._fail(
                f"not a safetensors file: it holds {self.num_bytes} bytes, "
                "and the header's length alone takes 8"
            )
        (length,) = struct.unpack("<Q", prefix)
        if length > self.num_bytes - 8:
            self._fail(
                "not a safetensors file, or a truncated one: "
                f"it announces a header of {length} bytes, and {self.num_bytes - 8} follow"
            )
        if length > MAX_HEADER_BYTES:
            self._fail(f"header of {length} bytes; at most {MAX_HEADER_BYTES} are accepted")
        raw = bytearray()
        while len(raw) < length:
            part = self._file.read(length - len(raw))
            if not part:
                self._fail("ended inside its header: the file has changed")
            raw += part
        if not raw.startswith(b"{"):
            self._fail("not a safetensors file: its header does not start with '{'")
        try:
            header = json.loads(
                raw.decode("utf-8"),
                object_pairs_hook=_refuse_duplicates,
                parse_constant=_refuse_constant,
            )
        except UnicodeDecodeError as error:
            self._fail(f"header is not UTF-8 (byte {error.start})")
        except RecursionError:
            self._fail("header is nested too deeply")
        except CheckpointError as error:
            self._fail(str(error))
        except json.JSONDecodeError as error:
            self._fail(f"header is not JSON: {error.msg} at character {error.pos}")
        except ValueError:  # Python's limit on the digits of an integer
            self._fail("header holds an absurdly long number")
        return header, 8 + length

    def _parse_metadata(self, found: object) -> dict[str, str]:
        if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
            self._fail("__metadata__ must map strings to strings")
        for text in (*found.keys(), *found.values()):
            self._check_text("__metadata__", text)
        return found

    def _check_text(self, what: str, text: str) -> None:
        # JSON can spell half a surrogate pair, which no UTF-8 file can hold.
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            self._fail(f"{what} {text!r} is not valid Unicode")

    def _parse_tensors(self, header: Mapping[str, Any]) -> dict[str, TensorEntry]:
        entries = [self._parse_entry(name, value) for name, value in header.items()]
        entries.sort(key=lambda entry: (entry.begin, entry.end))
        position = 0
        for entry in entries:
            if entry.begin < position:
                self._fail(f"tensor {entry.name!r} overlaps another at byte {entry.begin}")
            if entry.begin > position:
                self._fail(
                    f"bytes {position} to {entry.begin} of the data belong to no tensor "
                    f"(before {entry.name!r})"
                )
            position = entry.end
        held = self.num_bytes - self._data_begin
        if position > held:
            self._fail(f"truncated: its tensors take {position} bytes, {held} follow the header")
        if position < held:
            self._fail(f"{held - position} bytes after the last tensor belong to none")
        return {entry.name: entry for entry in entries}

    def _parse_entry(self, name: str, value: object) -> TensorEntry:
        self._check_text("tensor name", name)
        where = f"tensor {name!r}"
        if not isinstance(value, dict) or not {"dtype", "shape", "data_offsets"} <= value.keys():
            self._fail(f"{where} must have a dtype, a shape and data_offsets")
        dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
        if not isinstance(dtype, str) or dtype not in DTYPES:
            self._fail(f"{where} has unknown dtype {_short(dtype)}; known are {', '.join(DTYPES)}")
        if not _are_sizes(shape) or len(shape) > MAX_AXES:
            self._fail(
                f"{where} has shape {_short(shape)}; "
                f"at most {MAX_AXES} whole numbers from 0 to 2^63 - 1 are allowed"
            )
        if not _are_sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
            self._fail(f"{where} has data_offsets {_short(offsets)}; [begin, end] is needed")
        begin, end = offsets
        try:
            needed = bytes_of(dtype, shape)
        except CheckpointError as error:
            self._fail(f"{where}: {error}")
        if needed != end - begin:
            self._fail(
                f"{where}: {dtype} of shape {_short(shape)} takes {_short(needed)} bytes, "
                f"its offsets give {end - begin}"
            )
        return TensorEntry(name, dtype, tuple(shape), begin, end)


def _are_sizes(value: object) -> bool:
    # bool is an int to Python, but `true` is no size.
    return isinstance(value, list) and all(
        type(item) is int and 0 <= item <= MAX_SIZE for item in value
    )


def _short(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # more digits than Python prints
        return "an absurd number"
    return text if len(text) <= 80 else f"{text[:77]}..."


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        message = f"header has {_short(twice)} twice"
        raise CheckpointError(message)
    return found


def _refuse_constant(text: str) -> NoReturn:
    message = f"header holds {text}, which is not JSON"
    raise CheckpointError(message)
