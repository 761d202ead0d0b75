"""A safetensors file written piece by piece, which appears only when it is complete.

The public library needs every tensor in memory at once; a checkpoint larger than memory has none of
that.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import secrets
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from trn3._safetensors import DTYPES, TensorEntry, bytes_of
from trn3.files import naming


class SafetensorsWriter:
    """A new safetensors file that appears under its name only when it is complete.

    Used as a context manager: leaving it without `commit`, for whatever reason, removes every
    trace. Where the platform can, the whole size is reserved first, so that a full disk is known at
    once.

    Parameters
    ----------
    path
        Where the file will appear. Its directory must exist; a file there is replaced on `commit`.
    tensors
        Names, dtypes and shapes. They are laid out by falling alignment, as the reference
        implementation does, else in the given order.
    metadata
        Strings to strings.

    Raises
    ------
    OSError
        If the file cannot be made, reserved or written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        tensors: Iterable[tuple[str, str, tuple[int, ...]]],
        metadata: Mapping[str, str],
    ) -> None:
        self.path = Path(path)
        self.tensors: dict[str, TensorEntry] = {}
        position = 0
        for name, dtype, shape in sorted(tensors, key=lambda tensor: -DTYPES[tensor[1]][0]):
            end = position + bytes_of(dtype, shape)
            self.tensors[name] = TensorEntry(name, dtype, shape, position, end)
            position = end
        header = _encode_header(self.tensors.values(), metadata)
        self._data_begin = len(header)
        self.num_bytes = self._data_begin + position
        self._missing = position
        # The same directory, so that the rename is atomic; a name of our own, so that the umask
        # decides about permissions.
        self._temporary = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}.tmp")
        with naming(self.path):
            self._file: io.FileIO | None = io.FileIO(self._temporary, "xb")
        try:
            with naming(self.path):
                _reserve(self._file.fileno(), self.num_bytes)
            self._write_at(0, memoryview(header))
        except BaseException:
            self.discard()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.discard()

    def write(self, name: str, start: int, data: NDArray[np.uint8]) -> None:
        """Write bytes of a tensor from byte `start` of it; every byte must be written once."""
        entry = self.tensors[name]
        if start + data.nbytes > entry.num_bytes:
            message = f"{data.nbytes} bytes at {start} of {name!r}, which has {entry.num_bytes}"
            raise ValueError(message)
        if data.size:
            self._write_at(self._data_begin + entry.begin + start, data.data.cast("B"))
        self._missing -= data.nbytes

    def finish(self) -> None:
        """Bring the complete file to the disk, still under its temporary name."""
        assert self._file is not None
        if self._missing:
            message = f"{self._missing} bytes of {self.path} were never written"
            raise RuntimeError(message)
        with naming(self.path):
            os.fsync(self._file.fileno())
        self._file.close()

    def commit(self) -> None:
        """Make the file appear under its name; `finish` must have been called."""
        with naming(self.path):
            self._temporary.replace(self.path)
        self._file = None
        # Makes the rename last through a power cut; the file itself is already on the disk.
        with contextlib.suppress(OSError):
            directory = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)

    def discard(self) -> None:
        """Remove what was written unless it was committed."""
        if self._file is not None:
            self._file.close()
            self._file = None
            self._temporary.unlink(missing_ok=True)

    def _write_at(self, position: int, view: memoryview) -> None:
        assert self._file is not None
        with naming(self.path):
            self._file.seek(position)
            while view:
                view = view[self._file.write(view) :]


def _encode_header(entries: Iterable[TensorEntry], metadata: Mapping[str, str]) -> bytes:
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    for entry in entries:
        header[entry.name] = {
            "dtype": entry.dtype,
            "shape": list(entry.shape),
            "data_offsets": [entry.begin, entry.end],
        }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def _reserve(descriptor: int, num_bytes: int) -> None:
    if not hasattr(os, "posix_fallocate"):
        return
    try:
        os.posix_fallocate(descriptor, 0, num_bytes)
    except OSError as error:
        # Some file systems cannot reserve; on them a full disk shows while writing.
        if error.errno not in {errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}:
            raise
