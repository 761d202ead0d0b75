"""Loops as the compiler hears of them: where one begins, each iteration, and where it ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from trn3.nki.ranks.context import Context, context, core as running_core, slot

__all__ = ["DynamicLoop", "LoopMark", "MarkedRange", "end_loops", "is_traced", "marked"]

#: Longer loops are to the compiler as those whose length nobody knows.
_MOST_ITERATIONS: Final = 2**32 - 1


def is_traced() -> bool:
    """Return whether the compiler, or a program, hears of loops of this thread's kernel."""
    return slot.core is not None and slot.core.notes_loops


class LoopMark:
    """One run of a loop, as its core is told of it: well nested, whatever Python makes of it.

    Of a loop that goes on, those begun inside of it have ended; one that an outer loop has left
    behind begins anew when it goes on, as the second argument of ``zip`` does.

    Parameters
    ----------
    kind : str
        The function of `nki.language` that made the loop.
    trip : int or None
        How many iterations it has; None where a value on the device decides.
    """

    __slots__ = ("_context", "_kind", "_trip")

    def __init__(self, kind: str, trip: int | None) -> None:
        self._context = context()
        self._kind = kind
        self._trip = None if trip is None or trip > _MOST_ITERATIONS else trip

    def advance(self) -> None:
        """Tell the core that an iteration begins."""
        core, loops = self._context.core, self._context.loops
        if self in loops:
            while loops[-1] is not self:
                loops.pop()
                core.end_loop()
        else:
            core.begin_loop(self._kind, self._trip)
            loops.append(self)
        core.next_iteration()

    def end(self) -> None:
        """Tell the core that the loop has ended, and those inside of it; once is enough."""
        while self in self._context.loops:
            self._context.loops.pop()
            self._context.core.end_loop()


def end_loops(context: Context) -> None:
    """Tell the core that all loops of a kernel have ended, which itself has."""
    while context.loops:
        context.loops.pop()
        context.core.end_loop()


def marked(numbers: range, kind: str) -> Iterator[int]:
    """Yield numbers, each an iteration of a loop of the kernel that runs on this thread."""
    mark = LoopMark(kind, len(numbers))
    try:
        for number in numbers:
            mark.advance()
            yield number
    finally:
        mark.end()


class DynamicLoop:
    """Tells the core which instructions are of one loop; orders between loops have no meaning."""

    def __init__(self, trip: int | None = None) -> None:
        self._mark = LoopMark("dynamic_range", trip)

    def __enter__(self) -> LoopMark:
        self._core = running_core()
        self._core.enter_loop()
        return self._mark

    def __exit__(self, *_: object) -> None:
        self._mark.end()
        self._core.leave_loop()


class MarkedRange:
    """A ``range`` that tells the core of its iterations; in all else it is that range."""

    __slots__ = ("_kind", "_range")

    def __init__(self, numbers: range, kind: str) -> None:
        self._range, self._kind = numbers, kind

    def __iter__(self) -> Iterator[int]:
        return marked(self._range, self._kind)

    def __reversed__(self) -> Iterator[int]:
        return marked(self._range[::-1], self._kind)

    def __len__(self) -> int:
        return len(self._range)

    def __getitem__(self, place: Any) -> Any:
        found = self._range[place]
        return MarkedRange(found, self._kind) if isinstance(found, range) else found

    def __contains__(self, number: object) -> bool:
        return number in self._range

    def __eq__(self, other: object) -> bool:
        return self._range == (other._range if isinstance(other, MarkedRange) else other)

    def __hash__(self) -> int:
        return hash(self._range)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._range, name)

    def __repr__(self) -> str:
        return repr(self._range)
