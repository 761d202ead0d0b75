"""Ctrl-C while something is loaded that would make an error of its own of it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_noted() -> Iterator[None]:
    """Only take note of Ctrl-C for a while; an ignored one, and other people's handlers, stay.

    Raises
    ------
    KeyboardInterrupt
        At the end, if there was one.
    """
    caught: list[int] = []
    handler = signal.getsignal(signal.SIGINT)
    is_ours = handler is signal.default_int_handler
    if not is_ours or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, lambda number, _: caught.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if caught:
        raise KeyboardInterrupt
