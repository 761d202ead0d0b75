"""Join what draws reports: python/trn3/report/web becomes report.js and report.css beside it.

``python scripts/join_report.py`` writes both; with ``--check`` it says whether they are as they
should be. docs/reference/report-data.md has the rules of the modules.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOM = Path(__file__).resolve().parents[1] / "python" / "trn3" / "report"
ENTRY = "main.js"

IMPORT = re.compile(
    r"^import\s*(?:\{[^}]*\}\s*from\s*)?[\"']\./([\w-]+\.js)[\"'];?[ \t]*\n", re.MULTILINE
)
EXPORT = re.compile(r"^export (?=(?:async )?function\b|const\b|let\b|class\b)", re.MULTILINE)
NAMED = re.compile(
    r"^(?:async )?(?:function\*?|const|let|class)\s+([A-Za-z_$][\w$]*)", re.MULTILINE
)
DROPPED = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


class JoinError(ValueError):
    """Modules that cannot be joined."""


def _visit(name: str, room: Path, order: list[str], under_way: tuple[str, ...]) -> None:
    if name in order:
        return
    if name in under_way:
        message = f"{name} imports itself: {' -> '.join([*under_way, name])}"
        raise JoinError(message)
    text = (room / name).read_text("utf-8")
    for other in IMPORT.findall(text):
        _visit(other, room, order, (*under_way, name))
    order.append(name)


def script(room: Path = ROOM / "web") -> str:
    """Return the modules that the entry needs as one, what is imported first."""
    order: list[str] = []
    _visit(ENTRY, room, order, ())
    owners: dict[str, str] = {}
    parts = []
    for name in order:
        text = EXPORT.sub("", IMPORT.sub("", (room / name).read_text("utf-8")))
        if left := DROPPED.search(text):
            message = f"{name}: {left[0]!r} is no import or export that is joined"
            raise JoinError(message)
        for found in NAMED.findall(text):
            if found in owners:
                message = f"{name}: {found} is a name of {owners[found]} too"
                raise JoinError(message)
            owners[found] = name
        parts.append(f"// {name}\n{text.strip()}\n")
    unused = {path.name for path in room.glob("*.js")} - set(order)
    if unused:
        message = f"nothing imports {', '.join(sorted(unused))}"
        raise JoinError(message)
    joined = "\n".join(parts)
    if "</script" in joined.lower():
        message = "a module holds </script, which would end the page's script"
        raise JoinError(message)
    return joined


def style(room: Path = ROOM / "web") -> str:
    """Return the styles as one, by their files' names."""
    return "\n".join(path.read_text("utf-8").strip() for path in sorted(room.glob("*.css"))) + "\n"


def main(arguments: list[str]) -> int:
    """Write the files, or check them."""
    wanted = {ROOM / "report.js": script(), ROOM / "report.css": style()}
    stale = [
        path
        for path, text in wanted.items()
        if not path.is_file() or path.read_text("utf-8") != text
    ]
    for path in stale:
        if "--check" in arguments:
            print(f"{path.name} is not what the modules join to: run scripts/join_report.py")
        else:
            path.write_text(wanted[path], "utf-8")
    return int("--check" in arguments and bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
