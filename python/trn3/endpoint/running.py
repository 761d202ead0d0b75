"""An endpoint from its start to the signal that ends it."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from trn3.endpoint.door import Endpoint
from trn3.endpoint.live_server import LiveServerProtocol
from trn3.endpoint.options import EndpointOptions

_SIGNALS: Final = ("SIGINT", "SIGTERM", "SIGHUP")


def say(line: str) -> None:
    """Print a line on the standard output, at once."""
    print(line, flush=True)  # noqa: T201 - for programs that wait for it


def say_aside(line: str) -> None:
    """Print a line on the standard error, at once."""
    print(f"trn3: {line}", file=sys.stderr, flush=True)  # noqa: T201 - for people


def run(
    machine: LiveServerProtocol,
    options: EndpointOptions | None = None,
    *,
    announce: Callable[[str], object] = say,
    notice: Callable[[str], object] = say_aside,
    **changes: Any,
) -> int:
    """Serve until a signal comes, and return the exit code that says which.

    Parameters
    ----------
    machine
        The machine behind the endpoint.
    options
        Where it listens, how fast time runs, and what it bears.
    announce
        Takes the one line ``listening on http://...``, when clients may come.
    notice
        Takes lines for people: what is assumed, and what goes wrong.
    **changes
        Options that differ from `options`, by the names that `EndpointOptions` has for them.

    Returns
    -------
    int
        130, 143 or 129 after SIGINT, SIGTERM or SIGHUP. Signals that the process ignores stay
        ignored. In a thread other than the main one there are none.

    Raises
    ------
    OSError
        If the address cannot be used.
    RuntimeError
        If the simulation fails.
    ValueError
        If an option is out of range.
    ValueError, ImportError
        If the tokenizer cannot be used.

    Examples
    --------
    >>> import signal
    >>> from types import SimpleNamespace
    >>> machine = SimpleNamespace(
    ...     model="m", longest_context=8, now=0.0, next_event=lambda: None, state=dict
    ... )
    >>> def stop(line):
    ...     print(line.rpartition(":")[0])
    ...     signal.raise_signal(signal.SIGTERM)
    >>> run(machine, announce=stop, notice=print)
    without a tokenizer, tokens of texts are counted as 4 bytes of UTF-8 a token
    listening on http://127.0.0.1
    143
    """
    chosen = replace(options or EndpointOptions(), **changes)
    endpoint = Endpoint(machine, chosen, notice)
    if chosen.tokenizer is None:
        notice(f"without a tokenizer, tokens of texts are counted as {endpoint.token_description}")
    with _signals_noted() as signals, _collecting_as_before():
        return asyncio.run(_serve(endpoint, signals, announce))


class _Signals:
    """Notes the first signal, and wakes who waits for it."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.waiting: Callable[[], object] | None = None

    def note(self, number: int, _frame: object) -> None:
        if self.number is None:
            self.number = number
        if self.waiting is not None:
            self.waiting()


async def _serve(endpoint: Endpoint, signals: _Signals, announce: Callable[[str], object]) -> int:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    signals.waiting = lambda: loop.call_soon_threadsafe(stopped.set)
    try:
        async with endpoint:
            announce(f"listening on {endpoint.url}")
            tasks = [loop.create_task(each) for each in (stopped.wait(), endpoint.wait())]
            if signals.number is None:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            # What is open falls apart by itself; looking for circles in it takes longer than all.
            gc.disable()
            for task in tasks:
                task.cancel()
            if signals.number is None:
                await tasks[1]
    finally:
        signals.waiting = None
    return 128 + (signals.number or 0)


@contextmanager
def _collecting_as_before() -> Iterator[None]:
    was_enabled = gc.isenabled()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def _signals_noted() -> Iterator[_Signals]:
    """Note signals instead of ending, for a while; ignored ones stay ignored."""
    signals = _Signals()
    previous = {}
    if threading.current_thread() is threading.main_thread():
        for name in _SIGNALS:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                previous[number] = signal.signal(number, signals.note)
    try:
        yield signals
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
