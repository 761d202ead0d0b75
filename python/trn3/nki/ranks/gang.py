"""Host threads that take turns: one runs, the others wait, and only a wait hands the turn over.

What the members do therefore happens in one order, whatever the host's scheduler does: the lowest
member that can go on has the turn next.
"""

from __future__ import annotations

import contextvars
import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

__all__ = ["DeadlockError", "Gang"]


#: Seconds after which a wait looks for interrupts: one that comes just before it blocks wakes none.
_PATIENCE: Final = 0.5


class DeadlockError(RuntimeError):
    """Members of a launch wait for one another and none can go on; the text says where each is."""


class _GangAbandoned(BaseException):
    """Ends the function of a member whose fellow failed; ``except Exception`` does not see it."""


def _closed() -> threading.Lock:
    """Return a lock that is taken: the next to take it waits until it is given."""
    lock = threading.Lock()
    lock.acquire()
    return lock


class _Member:
    __slots__ = (
        "begun", "body", "context", "ended", "heir", "name", "number", "ready", "result", "thread",
        "turn", "where",
    )  # fmt: skip

    def __init__(self, number: int, name: str) -> None:
        self.number = number
        self.name = name
        self.turn = _closed()
        self.body: Callable[[], Any] | None = None
        self.context: contextvars.Context | None = None
        self.begun = False
        #: Who begins on its thread once it has ended.
        self.heir: _Member | None = None
        self.ready: Callable[[], bool] | None = None
        self.where: Callable[[], str] | None = None
        self.ended = False
        self.result: Any = None
        self.thread: int | None = None


class _Spare:
    """A thread that waits for a member that is to begin; None ends it."""

    __slots__ = ("is_ready", "member", "turn")

    def __init__(self) -> None:
        self.is_ready = False
        self.member: _Member | None = None
        self.turn = _closed()


class Gang:
    """Functions that run side by side, one at a time.

    The first runs on the caller's thread, so that debuggers and traces work there. One that begins
    when another has ended goes on on the thread of that; one that begins while all others wait has
    a thread of its own. All have the caller's context variables.

    Parameters
    ----------
    names : sequence of str
        What the members are called in errors, such as ``core 0``.

    Examples
    --------
    >>> gang = Gang(["a", "b"])
    >>> said = []
    >>> def first():
    ...     said.append(1)
    ...     gang.wait(0, lambda: 2 in said, lambda: "a waits for 2")
    ...     said.append(3)
    >>> gang.run([first, lambda: said.append(2)])
    [None, None]
    >>> said
    [1, 2, 3]
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._members = [_Member(number, name) for number, name in enumerate(names)]
        self._done = _closed()
        self._failure: BaseException | None = None
        self._running: _Member | None = None
        self._threads: list[threading.Thread] = []
        self._spare = _Spare()

    def run(self, bodies: Sequence[Callable[[], Any]]) -> list[Any]:
        """Run one function a member to the end, and return what each returned.

        Raises
        ------
        DeadlockError
            If members wait for what cannot come.
        MemoryError
            If the host has no room for the members' threads.
        BaseException
            What the first function to fail raised; the others are ended where they wait.
        """
        first = self._members[0]
        for member, body in zip(self._members, bodies, strict=True):
            member.body = body
            if member is not first:
                member.context = contextvars.copy_context()
        first.begun = True
        self._running = first
        self._lead(first)
        try:
            self._acquire(self._done)
        except KeyboardInterrupt as error:
            self._interrupt(error)
            self._acquire(self._done)
        self._spare.turn.release()
        for thread in self._threads:
            thread.join()
        for member in self._members:
            # Bodies reach the cores, which would wait for the garbage collector with all they hold.
            member.body = member.context = member.heir = None
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return [member.result for member in self._members]

    def wait(self, number: int, ready: Callable[[], bool], where: Callable[[], str]) -> None:
        """Give the turn away until a condition holds; called by the member that has it.

        Parameters
        ----------
        number : int
            The member that waits.
        ready : callable
            Whether it can go on; asked whenever the turn is free.
        where : callable
            Says in a deadlock where it stands and what for.
        """
        if not self._spare.is_ready:
            self._start_spare()
        if self._failed() is not None:
            raise _GangAbandoned
        member = self._members[number]
        member.ready, member.where = ready, where
        self._next()
        self._acquire(member.turn)
        member.ready = member.where = None
        failure = self._failed()
        if isinstance(failure, DeadlockError) and failure.__traceback__ is None:
            raise failure
        if failure is not None:
            raise _GangAbandoned

    def _failed(self) -> BaseException | None:
        return self._failure

    def name(self, number: int) -> str:
        """Return what a member is called."""
        return self._members[number].name

    def is_ended(self, number: int) -> bool:
        """Return whether a member's function has ended."""
        return self._members[number].ended

    def _start_spare(self) -> None:
        """Start the thread that a member needs to begin while others wait, if there is one."""
        unbegun = [member for member in self._members if not member.begun]
        if not unbegun:
            return
        self._spare = spare = _Spare()
        name = unbegun[0].name
        thread = threading.Thread(target=self._follow, args=(spare,), name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            failure = MemoryError(f"{name}: no room for another thread: {error}")
            self._failure = self._failure or failure
            for member in unbegun:
                member.ended = True
            return
        self._threads.append(thread)
        spare.is_ready = True

    def _follow(self, spare: _Spare) -> None:
        spare.turn.acquire()
        self._lead(spare.member)

    def _lead(self, member: _Member | None) -> None:
        """Run a member, and those that begin on its thread."""
        while member is not None:
            try:
                if not member.ended and member.context is None:
                    self._body(member)
                elif not member.ended and member.context is not None:
                    member.context.run(self._body, member)
                member = member.heir
            except (KeyboardInterrupt, _GangAbandoned) as error:
                # Between two: the next turn of the loop does what is still to be done.
                self._failure = self._failure or error

    def _body(self, member: _Member) -> None:
        member.thread = threading.get_ident()
        try:
            if self._failure is None and member.body is not None:
                member.result = member.body()
        except _GangAbandoned:
            pass
        except BaseException as error:
            if self._failure is None or self._failure is error:
                self._failure = error
        member.ended = True
        try:
            self._end(member)
        except (KeyboardInterrupt, _GangAbandoned) as error:
            self._failure = self._failure or error
            self._end(member)

    def _end(self, member: _Member) -> None:
        """Give the turn of a member that has ended away."""
        if self._running is member:
            self._next(member)
        elif self._failure is not None:
            # An interrupt came when it had given its turn away, but did not wait yet.
            self._interrupt(self._failure)

    def _next(self, ended: _Member | None = None) -> None:
        """Give the turn to the lowest member that can go on.

        An interrupt may end this early; whoever is the running member then has the turn.

        Parameters
        ----------
        ended : _Member, optional
            The member whose turn it was, if it has ended: another can begin on its thread.
        """
        waiting = [member for member in self._members if not member.ended]
        if not waiting:
            self._running = None
            self._done.release()
            return
        for member in waiting:
            if self._failure is not None or member.ready is None or member.ready():
                break
        else:
            member = waiting[0]
            lines = [each.where() for each in waiting if each.where is not None]
            lines += [f"{each.name} has ended" for each in self._members if each.ended]
            self._failure = DeadlockError("deadlock: " + "; ".join(lines))
        turn = member.turn
        # From here on no interrupt is taken: Python takes them after calls and on jumps back.
        if not member.begun and ended is not None:
            member.begun, ended.heir, self._running = True, member, member
            return
        if not member.begun:
            spare = self._spare
            member.begun, spare.is_ready, spare.member, turn = True, False, member, spare.turn
        self._running = member
        turn.release()

    def _acquire(self, turn: threading.Lock) -> None:
        """Wait for a turn; an interrupt of the caller's thread ends whoever runs."""
        while True:
            try:
                while not turn.acquire(timeout=_PATIENCE):
                    pass
                return
            except KeyboardInterrupt as error:
                self._interrupt(error)

    def _interrupt(self, error: BaseException) -> None:
        """End the member that has the turn, which is another one."""
        self._failure = self._failure or error
        running = self._running
        if running is not None and running.thread not in (None, threading.get_ident()):
            # Its kernel may never wait again: the interrupt reaches it between bytecodes.
            identity = ctypes.c_ulong(running.thread or 0)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(identity, ctypes.py_object(_GangAbandoned))
