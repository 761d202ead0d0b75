"""``python -m trn3`` and the command ``trn3``: `trn3.cli.app` does it."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    arguments
        The words after ``trn3``; by default those of the process.
    """
    with _interrupts_noted() as caught:
        # What takes a while, and turns a Ctrl-C into errors of its own (NumPy: a failed import).
        from trn3 import _trn3  # noqa: F401
        from trn3.cli import app
    if caught:
        print("trn3: error: interrupted", file=sys.stderr)  # noqa: T201
        return 130
    return app.main(arguments)


@contextmanager
def _interrupts_noted() -> Iterator[list[int]]:
    """Only take note of Ctrl-C for a while; an ignored one, and other people's handlers, stay."""
    caught: list[int] = []
    handler = signal.getsignal(signal.SIGINT)
    is_ours = handler is signal.default_int_handler
    if not is_ours or threading.current_thread() is not threading.main_thread():
        yield caught
        return
    signal.signal(signal.SIGINT, lambda number, _: caught.append(number))
    try:
        yield caught
    finally:
        signal.signal(signal.SIGINT, handler)


if __name__ == "__main__":
    sys.exit(main())
