"""Lines of the user's code, of the frames that JAX noted."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trn3.graph.writing import Frame

__all__ = ["TracedFunction", "at_line", "user_frame"]

# Libraries that models are written with: the line that calls them is the user's.
_LIBRARIES = ("jax", "jaxlib", "flax", "optax", "chex", "equinox", "haiku", "trn3")
# JAX's own names for bodies, whose frames are theirs.
_BODIES = ("closed_call", "checkpoint", "remat", "custom_jvp_call", "custom_vjp_call", "main")


@dataclass(frozen=True, slots=True)
class TracedFunction:
    """A function whose operations are put in the place of a call: its name, and the call's frame.

    JAX traces a function of its own once and keeps what it found, with the line that called it
    first. Frames of such operations say nothing; the call's do.
    """

    name: str
    call: Frame | None


def user_frame(frames: Sequence[Frame], function: TracedFunction) -> Frame | None:
    """Return the innermost line of the user's own, of an operation that stands in `function`."""
    name = re.sub(r"_\d+$", "", function.name)
    if function.call is not None and not name.startswith(_BODIES):
        named = [place for place, frame in enumerate(frames) if _symbol(frame.function) == name]
        if not named:
            return function.call
        frames = frames[: named[-1] + 1]
    users = (frame for frame in frames if not _is_library(frame.file))
    return next(users, function.call or next(iter(frames), None))


def at_line(frame: Frame | None, operation: str, reason: str) -> str:
    """Write a refusal as `trn3.graph` does."""
    line = f"{frame.file}:{frame.line}: " if frame else ""
    return f"{line}{operation}: {reason}"


def _symbol(function: str) -> str:
    """Return the name that MLIR gives to a function."""
    return re.sub(r"\W", "_", function.rpartition(".")[2])


@functools.cache
def _is_library(file: str) -> bool:
    loaded = (sys.modules.get(name) for name in _LIBRARIES)
    folders = (folder for module in loaded if module for folder in module.__path__)
    return any(Path(folder) in Path(file).parents for folder in folders)
