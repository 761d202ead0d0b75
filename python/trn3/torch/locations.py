"""Lines of the user's model, of the traces that torch notes."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import torch

from trn3.graph.writing import Frame

__all__ = ["at_line", "is_own", "user_frame"]

_LINE = re.compile(r'File "([^"]+)", line (\d+), in (.+)')


def user_frame(node: Any) -> Frame | None:
    r"""Return the innermost line of the user's own that a node of torch's graph was traced at.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> trace = 'File "model.py", line 7, in forward\n  return x @ w'
    >>> user_frame(SimpleNamespace(meta={"stack_trace": trace}))
    Frame(file='model.py', line=7, function='forward')
    """
    found = _LINE.findall(node.meta.get("stack_trace") or "")
    frames = [Frame(file, int(line), function.strip()) for file, line, function in found]
    users = [frame for frame in frames if not is_own(frame.file)]
    return next(reversed(users or frames), None)


def at_line(frame: Frame | None, operation: str, reason: str) -> str:
    """Write a refusal as `trn3.graph` does.

    Examples
    --------
    >>> at_line(Frame("model.py", 7, "f"), "aten.fft", "is no operation of graphs")
    'model.py:7: aten.fft: is no operation of graphs'
    """
    line = f"{frame.file}:{frame.line}: " if frame else ""
    return f"{line}{operation}: {reason}"


@functools.cache
def is_own(file: str) -> bool:
    """Whether a file is torch's, or ours: no line of the user's model stands in it."""
    here = Path(__file__).parent
    # Kernels are called through trn3.nki.
    folders = (*torch.__path__, here, here.parent / "nki")
    return any(Path(folder) in Path(file).parents for folder in folders)
