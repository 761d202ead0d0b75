"""Files that appear complete or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

#: What drawings can be written as.
PLOT_SUFFIXES = (".png", ".svg", ".pdf")


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
