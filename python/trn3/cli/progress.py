"""The progress bar of long runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

# A faster run needs no progress bar.
PATIENCE_SECONDS = 2.0


@contextmanager
def progress_on_stderr() -> Iterator[Callable[[int, int], None] | None]:
    """Give a function that shows progress once the run has taken a while; None off a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
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
