"""Where tables go: as wide as the terminal, and as wide as they need elsewhere."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

#: A pipe or a file has no width to fit into.
UNLIMITED_WIDTH = 10_000


def output() -> Console:
    """Return the console of the standard output."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else UNLIMITED_WIDTH, highlight=False)
