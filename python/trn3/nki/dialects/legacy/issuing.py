"""When instructions run: those that return a tile wait for where the kernel puts it.

``dst[...] = nl.exp(x)`` is one instruction that writes to ``dst``, as compilers make it; ``exp``
alone writes to a new tile. So an instruction that returns a tile is kept back until the next line
asks for something: an assignment of the tile takes it over, anything else runs it first. Order and
values are those of running at once, and it is of the line that it was written in.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any, Protocol

from trn3.nki.ranks.context import context, core


class Waiting(Protocol):
    """An instruction that waits."""

    def materialise(self) -> None:
        """Run it."""


class _State(threading.local):
    pending: Waiting | None = None
    # How many legacy kernels are on this thread's stack.
    depth: int = 0

    def __init__(self) -> None:
        # PSUM storages that something else than a product wrote to.
        self.filled: set[int] = set()


state = _State()


def line() -> str:
    """Return the kernel line that is calling, as ``file:line``."""
    return core().line()


def error(kind: Callable[[str], Exception], text: str) -> Exception:
    """Return an exception whose text begins with the kernel's line."""
    return kind(f"{line()}: {text}")


def flush() -> None:
    """Run the instruction that waits, if one does."""
    waiting = state.pending
    if waiting is not None:
        state.pending = None
        waiting.materialise()


@contextlib.contextmanager
def kept_back() -> Iterator[None]:
    """Keep the instruction that waits waiting, whatever is issued meanwhile."""
    waiting, state.pending = state.pending, None
    try:
        yield
    finally:
        flush()
        state.pending = waiting


def discard() -> None:
    """Forget the instruction that waits: its kernel has failed."""
    state.pending = None


@functools.lru_cache(maxsize=4096)
def _code(file: str, number: int) -> CodeType:
    return compile("\n" * (number - 1) + "run()", file, "exec")


def at_line(place: str, run: Callable[[], Any]) -> None:
    """Run a function so that errors and profiles show it at a line of the kernel."""
    file, _, number = place.rpartition(":")
    if not number.isdigit() or int(number) < 1:
        run()
        return
    # The machine takes the line of the innermost frame outside the package.
    exec(_code(file, int(number)), {"run": run})


def in_scope(scope: int, place: str, run: Callable[[], Any]) -> None:
    """Run a function as `at_line` does, as part of an iteration, which may have ended since."""
    running = core()
    now = running.scope()
    if now == scope:
        at_line(place, run)
        return
    running.set_scope(scope)
    try:
        at_line(place, run)
    finally:
        running.set_scope(now)


def warn_not_of_patterns() -> None:
    """Keep quiet about patterns on views: here they are this package's own."""
    context().warned.add("ap_on_view")
