"""The table of the newcomer's drill: written from its data into its page."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

FOLDER = Path("docs") / "maintainers"
BEGIN, END = "<!-- drill: begin -->\n", "<!-- drill: end -->\n"


def changes(root: Path) -> list[dict[str, Any]]:
    """Return the changes: what, the file, what it holds, what to do there."""
    text = (root / FOLDER / "drill.toml").read_text(encoding="utf-8")
    found: list[dict[str, Any]] = tomllib.loads(text)["change"]
    return found


def page(root: Path) -> str:
    """Return the page with the table of the changes between its marks.

    Raises
    ------
    ValueError
        If it has no marks.
    """
    text = (root / FOLDER / "drill.md").read_text(encoding="utf-8")
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{FOLDER / 'drill.md'} lacks {BEGIN.strip()} or {END.strip()}")
    rows = [f"| {one['what']} | `{one['file']}` | {one['do']} |" for one in changes(root)]
    table = "\n".join(["| change | file | there |", "| --- | --- | --- |", *rows])
    return f"{head}{BEGIN}\n{table}\n\n{END}{tail}"


def misses(root: Path) -> list[str]:
    """Return what of the drill is not true: files that are gone, or lack what is said of them."""
    found = []
    for one in changes(root):
        path = root / one["file"]
        if not path.is_file():
            found.append(f"{one['file']} is gone ({one['what']})")
        elif one["holds"] not in path.read_text(encoding="utf-8"):
            found.append(f"{one['file']} does not hold {one['holds']!r} ({one['what']})")
    return found
