"""Which functions and classes are the user's own, as against libraries'."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
import types
from pathlib import Path
from typing import Any

from trn3.nki.values.callers import OWN_FOLDER


@functools.cache
def _folders() -> tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    found = [sysconfig.get_paths()[name] for name in names]
    return tuple(str(Path(folder).resolve()) + os.sep for folder in dict.fromkeys(found))


@functools.cache
def _is_library(file: str) -> bool:
    if file.startswith("<frozen"):
        return True
    real = str(Path(file).resolve()) if not file.startswith("<") else file
    return real.startswith((OWN_FOLDER, *_folders()))


def is_users(thing: Any, beside: str | None = None) -> bool:
    """Return whether a function or class is the user's: no part of trn3, Python or a library.

    Parameters
    ----------
    thing : function or class
    beside : str, optional
        A module. What is in its own top-level package counts as the user's even where that package
        is installed among libraries.

    Examples
    --------
    >>> is_users(Path), is_users(is_users)
    (False, False)
    """
    module = getattr(thing, "__module__", None) or ""
    if module in sys.builtin_module_names:
        return False
    if isinstance(thing, types.FunctionType):
        file: str | None = thing.__code__.co_filename
    else:
        file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        # Of a session or a test: there is no file, but no library either.
        return module == "__main__"
    if not _is_library(file):
        return True
    top = (beside or "").partition(".")[0]
    return bool(top) and top != "trn3" and module.partition(".")[0] == top
