"""What stands on a page: its programs and its tables."""

from __future__ import annotations

import re
from collections.abc import Iterator


def blocks_of(text: str) -> list[str]:
    """Return the Python programs of a page."""
    return re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def rows_of(text: str) -> Iterator[list[str]]:
    """Yield the rows of all tables of a page, as texts of their cells."""
    for line in text.splitlines():
        if line.startswith("| "):
            yield [cell.strip() for cell in line.strip("|").split("|")]
