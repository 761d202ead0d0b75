"""How a sweep shows how far it is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Self, TypeAlias

#: Called with how many points are finished and how many there are, None if nobody knows.
ProgressFunction: TypeAlias = Callable[[int, int | None], object]

# A faster sweep needs no progress bar.
PATIENCE_SECONDS = 2.0


def make_progress(progress: object) -> Silent:
    """Return what `progress` of `trn3.sweep` asks for.

    Raises
    ------
    TypeError
        If it is none of None, True, False and a function.
    """
    if progress is None:
        return Bar(PATIENCE_SECONDS) if sys.stderr.isatty() else Silent()
    if progress is True:
        return Bar(0.0)
    if progress is False:
        return Silent()
    if callable(progress):
        return Calls(progress)
    message = (
        f"progress is {progress!r}, must be None (a bar on a terminal, after two seconds), True, "
        "False or a function of the number of finished points and of the number of all points"
    )
    raise TypeError(message)


class Silent:
    """Is told of every finished point, and often in between, and shows nothing; others derive."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def update(self, done: int, failed: int, total: int | None) -> None:
        """Take note of the counts."""


class Calls(Silent):
    """Calls a function when the count has changed."""

    def __init__(self, function: ProgressFunction) -> None:
        self._function = function
        self._last = -1

    def update(self, done: int, failed: int, total: int | None) -> None:
        """Call the function."""
        del failed
        if done != self._last:
            self._last = done
            self._function(done, total)


class Bar(Silent):
    """A bar on stderr, once the sweep has taken a while."""

    def __init__(self, patience: float) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress as RichProgress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self._bar = RichProgress(
            TextColumn("sweeping"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task("sweeping", total=None, note="")
        self._show_at = time.monotonic() + patience
        self._is_shown = False

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            self._bar.stop()

    def update(self, done: int, failed: int, total: int | None) -> None:
        """Move the bar."""
        if not self._is_shown and time.monotonic() >= self._show_at:
            self._bar.start()
            self._is_shown = True
        note = f"[red]{failed} failed" if failed else ""
        self._bar.update(self._task, completed=done, total=total, note=note)
