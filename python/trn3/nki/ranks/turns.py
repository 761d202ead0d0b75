"""Instances of one launch on one core: one after the other, until one waits for others."""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from trn3.nki.ranks.gang import DeadlockError

__all__ = ["Turns"]


class _TurnAbandoned(BaseException):
    """Ends an instance whose fellow failed; ``except Exception`` does not see it."""


class Turns:
    """Functions of which one runs at a time: in order, on the caller's thread.

    Only a function that waits makes threads: the following ones go on beside it, and the lowest
    that can go on has the turn next. Results therefore do not depend on the host's scheduler.

    Parameters
    ----------
    bodies : sequence of callable

    Attributes
    ----------
    board : dict
        What functions leave for one another.

    Examples
    --------
    >>> said = []
    >>> def first():
    ...     turns.wait(0, lambda: 2 in said, lambda: "the first waits for 2")
    ...     said.append(3)
    >>> turns = Turns([first, lambda: said.append(2)])
    >>> turns.run()
    >>> said
    [2, 3]
    """

    def __init__(self, bodies: Sequence[Callable[[], Any]]) -> None:
        self.board: dict[Any, Any] = {}
        self._bodies = list(bodies)
        self._pending = deque(range(len(bodies)))
        self._waiting: dict[
            int, tuple[Callable[[], bool], Callable[[], str], threading.Semaphore]
        ] = {}
        self._threads: list[threading.Thread] = []
        self._failure: BaseException | None = None

    def run(self) -> None:
        """Run all functions to their ends.

        Raises
        ------
        DeadlockError
            If some wait for what cannot come.
        BaseException
            What the first function to fail raised; the others are ended where they wait.
        """
        self._work()
        joined = 0
        while joined < len(self._threads):
            self._threads[joined].join()
            joined += 1
        if self._failure is not None:
            raise self._failure

    def wait(self, number: int, ready: Callable[[], bool], where: Callable[[], str]) -> None:
        """Give the turn away until a condition holds; called by the function that has it.

        Parameters
        ----------
        number : int
            Of the function.
        ready : callable
            Whether it can go on.
        where : callable
            Says in a deadlock where it stands and what for.
        """
        if ready():
            return
        turn = threading.Semaphore(0)
        self._waiting[number] = (ready, where, turn)
        self._next()
        turn.acquire()
        if self._failure is not None:
            raise _TurnAbandoned

    def _work(self) -> None:
        try:
            while self._pending and self._failure is None:
                self._bodies[self._pending.popleft()]()
        except _TurnAbandoned:
            pass
        except BaseException as error:
            self._failure = self._failure or error
        self._next()

    def _next(self) -> None:
        """Hand the turn on."""
        for number in sorted(self._waiting):
            ready, _, turn = self._waiting[number]
            if self._failure is not None or ready():
                del self._waiting[number]
                turn.release()
                return
        if self._pending and self._failure is None:
            context = contextvars.copy_context()
            thread = threading.Thread(target=context.run, args=(self._work,), daemon=True)
            self._threads.append(thread)
            thread.start()
        elif self._waiting:
            places = "; ".join(self._waiting[number][1]() for number in sorted(self._waiting))
            self._failure = DeadlockError(places)
            self._next()
