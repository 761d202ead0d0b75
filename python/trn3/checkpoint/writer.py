"""A safetensors file written piece by piece, which appears only when it is complete.

The public library needs every tensor in memory at once; a checkpoint larger than memory has none of
that.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import io
import json
import os
import secrets
import stat
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from trn3.checkpoint.safetensors import DTYPES, TensorEntry, bytes_of
from trn3.files import naming

_SUFFIX = ".tmp"


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
        _remove_abandoned(self.path)
        with naming(self.path):
            self._temporary, file = _make_temporary(self.path)
        self._file: io.FileIO | None = file
        try:
            with naming(self.path):
                _reserve(self._file.fileno(), self.num_bytes)
            self._write_at(0, memoryview(header))
        except BaseException:
            self.discard()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
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

    def commit(self) -> None:
        """Make the file appear under its name; `finish` must have been called."""
        assert self._file is not None
        with naming(self.path):
            self._temporary.replace(self.path)
        # Open until here, hence locked: another run of the same output takes it for no leaving.
        self._file.close()
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


def _stem(path: Path) -> str:
    """Return how the hidden files of an output begin, short however long its own name is."""
    return f".trn3-{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:16]}-"


def _make_temporary(path: Path) -> tuple[Path, io.FileIO]:
    """Make a hidden file beside an output, locked while it is open.

    It is in the same directory, so that the rename is atomic, and has a name of our own, so that
    the umask decides about permissions.
    """
    while True:
        temporary = path.with_name(f"{_stem(path)}{secrets.token_hex(4)}{_SUFFIX}")
        file = io.FileIO(temporary, "xb")
        _lock(file.fileno())
        # Another run may have looked before it was locked.
        if temporary.exists():
            return temporary, file
        file.close()


def _lock(descriptor: int) -> bool:
    """Lock an open file until it is closed; return whether nobody else has."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # somebody has, or the file system knows no locks
        return False
    return True


def _remove_abandoned(path: Path) -> None:
    """Remove what runs that were killed left of this output; nobody holds it any more."""
    begin = _stem(path)
    try:
        names = [name for name in os.listdir(path.parent) if name.startswith(begin)]  # noqa: PTH208
    except OSError:  # the file cannot be made either, which tells more
        return
    for name in names:
        if not name.endswith(_SUFFIX):
            continue
        with contextlib.suppress(OSError):
            descriptor = os.open(
                path.with_name(name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            )
            try:
                if stat.S_ISREG(os.fstat(descriptor).st_mode) and _lock(descriptor):
                    path.with_name(name).unlink()
            finally:
                os.close(descriptor)


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
