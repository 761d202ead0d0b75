"""What a kernel calls a thing that it made without a name: the variable it is bound to."""

from __future__ import annotations

import contextlib
import itertools
import linecache
import os
import re
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from trn3.nki.values.callers import is_own

__all__ = ["bound_name", "named"]

#: Longer expressions are cut.
_LONGEST: Final = 40
#: Places remembered at once; kernels that are made anew again and again fill no memory.
_MOST: Final = 10_000
#: ``acc = ``, ``acc: nl.ndarray = ``, ``first = second = ``, ``self.acc = ``, ``tiles[i] = ``.
_ASSIGNED: Final = re.compile(
    r"(?:^|[=;:])\s*([\w.]+(?:\[[^=\]]*\])?)\s*(?::[^=;]+)?[-+*/@&|^]?=\s*\(?\s*$"
)
#: ``tiles.append(``: an element of ``tiles``.
_APPENDED: Final = re.compile(r"([\w.]+)\.append\(\s*$")
#: ``for row in ``: the place of what a loop yields is its iterable, or before Python 3.12 the loop.
_LOOPED: Final = re.compile(r"\bfor\s+(\w+)\s+in\s+$")
_LOOP: Final = re.compile(r"for\s+(\w+)\s+in\b")
_RETURNED: Final = re.compile(r"^\s*(?:return|yield)\s*\(?\s*$")

#: Looked up once for each place in the code; None: what called the function says, as of all code
#: that binds nothing of a kernel's. By the address of the code, which takes long to hash, and how
#: far into it: its instructions lie inside of it, so that no other place has that sum. The values
#: keep it alive.
_names: Final[dict[int, tuple[types.CodeType, str | None]]] = {}
#: Code under these folders binds nothing of a kernel's: Python's library and NumPy call back.
_LIBRARIES: Final = tuple(str(Path(each).parent) + os.sep for each in (os.__file__, np.__file__))


class _Held(threading.local):
    """The names of `named` blocks around, of each thread."""

    def __init__(self) -> None:
        self.names: list[str] = []


_held: Final = _Held()
#: One element for each `named` block of any thread: a thread's own names take longer to look at.
_open: Final[list[None]] = []


@contextlib.contextmanager
def named(name: str) -> Iterator[None]:
    """Let what is made in a ``with`` block have one name: what was put off is made elsewhere."""
    _held.names.append(name)
    _open.append(None)
    try:
        yield
    finally:
        _open.pop()
        _held.names.pop()


def _is_passed_over(code: types.CodeType) -> bool:
    file = code.co_filename
    foreign = file.startswith(_LIBRARIES) and (
        "site-packages" not in file or file.startswith(_LIBRARIES[1])
    )
    return foreign or is_own(code)


def bound_name(above: int = 0) -> str:
    """Return the name that the kernel gives to what is made now, from its line's text.

    `above` says how many callers are known to be the package's own: a tensor is made often.

    It is the variable that the call's result is bound to; of a call that is part of an expression
    the call's own text, as far as it fits; of a function's result, what its caller calls it.
    Empty where there is no source to read.
    """
    if _open and _held.names:
        return _held.names[-1]
    frame: types.FrameType | None = sys._getframe(1 + above)
    while frame is not None:
        code = frame.f_code
        place = id(code) + frame.f_lasti
        known = _names.get(place)
        if known is None:
            if len(_names) >= _MOST:
                _names.clear()
            name = None if _is_passed_over(code) else _read(code, frame.f_lasti)
            known = _names[place] = (code, name)
        if known[1] is not None:
            return known[1]
        frame = frame.f_back
    return ""


def _read(code: types.CodeType, at: int) -> str | None:
    position = next(itertools.islice(code.co_positions(), at // 2, None), None)
    if position is None or None in position:
        return ""
    line, end_line, column, end_column = position
    assert line is not None
    text = linecache.getline(code.co_filename, line).encode()
    before, call = text[:column].decode(errors="replace"), text[column:]
    if _RETURNED.match(before):
        return None
    for pattern, form in ((_ASSIGNED, "{}"), (_APPENDED, "{}[...]"), (_LOOPED, "{}")):
        found = pattern.search(before)
        if found:
            return form.format(found[1])
    loop = _LOOP.match(call.decode(errors="replace"))
    if loop:
        return loop[1]
    whole = call[: end_column - (column or 0)] if line == end_line and end_column else call
    shown = whole.decode(errors="replace").strip()
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 3]}..."
