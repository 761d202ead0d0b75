"""``python -m trn3`` and the command ``trn3``: `trn3.cli.app` does it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from trn3.cli.interrupts import interrupts_noted


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    arguments
        The words after ``trn3``; by default those of the process.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with interrupts_noted():
            run = _runner(words)
    except KeyboardInterrupt:
        print("trn3: error: interrupted", file=sys.stderr)  # noqa: T201
        return 130
    return run(words)


def _runner(words: Sequence[str]) -> Callable[[Sequence[str]], int]:
    """Return what runs the command line; no more is loaded than these words need."""
    from trn3.cli import front_page

    if front_page.has(words):
        return front_page.show
    from trn3.cli import app

    return app.main


if __name__ == "__main__":
    sys.exit(main())
