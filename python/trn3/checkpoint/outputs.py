"""Files that are about to be written: refused before any work is done, not after it."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from trn3.checkpoint.safetensors import CheckpointError


def real_path(path: str | os.PathLike[str]) -> Path:
    """Return where a path leads; `Path.resolve` raises what no caller expects on a loop of links.

    >>> real_path("/a/../b")
    PosixPath('/b')
    """
    return Path(os.path.realpath(path))


def is_same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Return whether two paths lead to one file, be it there or not.

    >>> is_same_file("a", "b/../a")
    True
    """
    left, right = real_path(one), real_path(other)
    return left == right or (left.exists() and right.exists() and left.samefile(right))


def check_outputs(paths: Sequence[Path], source: str | os.PathLike[str], *, replace: bool) -> None:
    """Refuse files that cannot be written, or must not be.

    Raises
    ------
    CheckpointError
        If one is the source or another one of them, or no regular file.
    OSError
        If one is a directory, is there and not to be replaced, or has no directory to be in.
    """
    for number, path in enumerate(paths):
        if is_same_file(path, source):
            message = f"{path}: is the input, which is never overwritten"
            raise CheckpointError(message)
        if path.is_dir() or not path.name:
            raise IsADirectoryError(
                errno.EISDIR, "is a directory; a file name is needed", str(path)
            )
        if real_path(path).is_symlink():
            raise OSError(errno.ELOOP, "is a link that leads in a circle", str(path))
        if path.exists() and not path.is_file():
            message = f"{path}: exists and is not a regular file"
            raise CheckpointError(message)
        if path.exists() and not replace:
            raise FileExistsError(errno.EEXIST, "exists; replace=True replaces it", str(path))
        folder = real_path(path).parent
        if not folder.is_dir():
            raise FileNotFoundError(errno.ENOENT, f"there is no directory {folder}", str(path))
        if any(is_same_file(path, before) for before in paths[:number]):
            message = f"{path}: is the file of two outputs"
            raise CheckpointError(message)
