"""Files of users: read when they are what they should be, written complete or not at all."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

#: What drawings can be written as.
PLOT_SUFFIXES = (".png", ".svg", ".pdf")

#: The most bytes that are read of a file, by what it holds **(choice)**: each is many times what
#: any that we have seen has, and little enough to be held in memory.
LIMITS: Final[Mapping[str, int]] = {
    "spec file": 16 << 20,
    "model configuration": 16 << 20,
    "process groups": 64 << 20,
    "Kubernetes objects": 64 << 20,
    "budget": 64 << 20,
    "plan": 64 << 20,
    "traffic matrix": 1 << 30,
    "program": 1 << 30,
    "profile": 1 << 30,
    "trace": 1 << 30,
}

# Not every system has each.
_OPENING = sum(getattr(os, name, 0) for name in ("O_BINARY", "O_CLOEXEC", "O_NONBLOCK"))


def open_regular(path: str | os.PathLike[str], refused: type[ValueError] = ValueError) -> BinaryIO:
    """Open a regular file for reading; what waits for a writer or never ends is refused.

    Raises
    ------
    OSError
        If it cannot be opened; it names the file.
    ValueError
        If it is a pipe, a device or a socket; of the type `refused`.
    """
    # Else opening a pipe would wait for its writer before it can be refused.
    descriptor = os.open(path, os.O_RDONLY | _OPENING)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    message = f"{os.fspath(path)}: is not a regular file"
    raise refused(message)


def read_bytes(
    path: str | os.PathLike[str], kind: str, refused: type[ValueError] = ValueError
) -> bytes:
    """Return what a regular file holds, if that is no more than `LIMITS` has for its kind.

    Raises
    ------
    OSError
        If it cannot be read.
    ValueError
        If it is no regular file or too long; of the type `refused`.
    """
    with open_regular(path, refused) as file:
        size = os.fstat(file.fileno()).st_size
        # A file may grow, and those of /proc say that they are empty.
        raw = file.read(LIMITS[kind] + 1) if size <= LIMITS[kind] else b""
    if max(size, len(raw)) > LIMITS[kind]:
        message = (
            f"{os.fspath(path)}: is a file of {max(size, len(raw)):,} bytes; "
            f"a {kind} has at most {LIMITS[kind]:,}"
        )
        raise refused(message)
    return raw


def read_text(
    path: str | os.PathLike[str], kind: str, refused: type[ValueError] = ValueError
) -> str:
    """Return the UTF-8 text of a regular file; raises as `read_bytes`, and if it is no text."""
    try:
        return read_bytes(path, kind, refused).decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"{os.fspath(path)}: is not UTF-8 text: {error.reason} at byte {error.start}"
        raise refused(message) from error


def parse_json(
    text: str | bytes,
    name: str | os.PathLike[str],
    refused: type[ValueError] = ValueError,
    wrong: str = "is not JSON",
) -> Any:
    """Return what a JSON text of somebody else's holds; errors say that `name` is `wrong`, and why.

    >>> parse_json("[" * 100_000, "deep.json")
    Traceback (most recent call last):
        ...
    ValueError: deep.json: is not JSON: it is nested too deeply

    Raises
    ------
    ValueError
        If it is not JSON; of the type `refused`.
    """
    try:
        return json.loads(text)
    except RecursionError:
        reason = "it is nested too deeply"
    except ValueError as error:
        reason = str(error)
    message = f"{os.fspath(name)}: {wrong}: {reason}"
    raise refused(message)


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Make errors of the system name `path`; those on an open file name none."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def temporary_name(path: Path) -> Path:
    """Return a new hidden name in a file's folder, short however long the file's own name is.

    It ends as the file does, for those who write what the ending says.
    """
    return path.with_name(f".{secrets.token_hex(8)}.tmp{path.suffix[:16]}")


def write_files(writers: Mapping[Path, Callable[[Path], object]]) -> None:
    """Let each function write its file, and make all of them appear once all are written.

    Parameters
    ----------
    writers
        For each file the function that writes it, given a path in the same directory. A file there
        is replaced.

    Raises
    ------
    OSError
        If a file cannot be written; it names the file, and no file has appeared or changed.
    """
    temporary = {path: temporary_name(path) for path in writers}
    for path in writers:
        # The one thing of which renaming would complain only when other files have appeared.
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    try:
        for path, write in writers.items():
            with naming(path):
                write(temporary[path])
        for path, written in temporary.items():
            with naming(path):
                written.replace(path)
    finally:
        for written in temporary.values():
            written.unlink(missing_ok=True)


def write_bytes(path: str | os.PathLike[str], chunks: Iterable[bytes]) -> None:
    """Write one file from pieces; it appears when it is complete."""

    def write(temporary: Path) -> None:
        with temporary.open("xb") as file:
            file.writelines(chunks)

    write_files({Path(path): write})
