"""What long runs show on a terminal, on the standard error, once they have taken a while."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from trn3.text import printable

# A faster run needs no progress bar.
PATIENCE_SECONDS = 2.0


@contextmanager
def progress_on_stderr() -> Iterator[Callable[[int, int], None] | None]:
    """Give a function that shows progress once the run has taken a while; None off a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    progress = Progress(
        TextColumn("quantizing"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = progress.add_task("quantizing", total=None)
    started = time.monotonic()
    is_shown = False

    def on_progress(done: int, total: int) -> None:
        nonlocal is_shown
        if not is_shown and time.monotonic() - started > PATIENCE_SECONDS:
            progress.start()
            is_shown = True
        progress.update(task, completed=done, total=total)

    try:
        yield on_progress
    finally:
        progress.stop()


@contextmanager
def working(text: str) -> Iterator[Callable[[str, int, int], None]]:
    """Show what goes on and for how long, on a terminal and once it has taken a while.

    Gives a function of what is done now, how many such are done and how many there are: then there
    is a bar too.
    """
    if not sys.stderr.isatty():
        yield lambda _text, _done, _total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        # What is piped elsewhere must not come out here.
        redirect_stdout=sys.stdout.isatty(),
    )
    task = progress.add_task(printable(text), total=None)
    finished = threading.Event()

    def show() -> None:
        if not finished.wait(PATIENCE_SECONDS):
            with progress:
                finished.wait()

    def update(text: str, done: int, total: int) -> None:
        progress.update(task, description=printable(text), completed=done, total=total)

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield update
    finally:
        finished.set()
        thread.join()
