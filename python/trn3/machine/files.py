"""Files that appear complete or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from trn3._safetensors import naming


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
    temporary = {
        path: path.with_name(f".{path.stem}.{secrets.token_hex(4)}.tmp{path.suffix}")
        for path in writers
    }
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
