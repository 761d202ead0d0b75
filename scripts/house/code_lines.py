"""How much of the product is Python, by room, without docstrings, comments and blank lines.

Python assembles, shows and speaks to people; what computes is Rust. A limit holds the sum, and a
page says of each room why it is Python.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

from house.arrows import room_of
from house.finding import Finding, Rules
from house.python_source import package_at
from house.table import Table

PAGE = Path("docs") / "maintainers" / "architecture.md"
BEGIN, END = "<!-- lines: begin -->\n", "<!-- lines: end -->\n"
_SILENT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER,
}  # fmt: skip


def count(text: str) -> int:
    r"""Return how many lines of a module are code; a string that stands alone documents.

    >>> count("'A module.'\n\n# Why.\nx = (\n    1,\n)\n'What x is.'\n")
    3
    """
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _SILENT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                lines.difference_update(range(node.lineno, (node.end_lineno or 0) + 1))
    return len(lines)


def by_room(root: Path, rules: Rules) -> Counter[str]:
    """Return the lines of each room; rooms that have a reason of their own count by themselves."""
    table, parts = Table(rules["python"]), rules["python_lines"]["why"]
    found: Counter[str] = Counter()
    for name, module in package_at(root / "python" / "trn3").modules.items():
        names = [name.removeprefix("trn3.")]
        while "." in names[-1]:
            names.append(names[-1].rpartition(".")[0])
        room = next((each for each in names if each in parts), room_of(name, table))
        found[room] += count(module.path.read_text(encoding="utf-8"))
    for path in sorted((root / "python" / "trn3_pytest").rglob("*.py")):
        found["trn3_pytest"] += count(path.read_text(encoding="utf-8"))
    return found


def find(root: Path, rules: Rules) -> list[Finding]:
    """Return a breach if the rooms together are over the limit, and rooms without a reason."""
    limit, why = rules["python_lines"]["limit"], rules["python_lines"]["why"]
    rooms = by_room(root, rules)
    found = [
        Finding(f"why {name}", "house.toml", "a room without a reason, or a reason without a room")
        for name in sorted(rooms.keys() ^ why.keys())
    ]
    if rooms.total() > limit:
        found.append(Finding("python", "python", f"{rooms.total()} lines of code; at most {limit}"))
    return found


def shown(root: Path, rules: Rules, digits: int = 0) -> str:
    """Return the table of the rooms, the largest first, with the reason of each.

    Numbers are rounded to tens, hundreds and so on for `digits` of 1, 2 and so on.
    """
    why, rooms = rules["python_lines"]["why"], by_room(root, rules)
    order = sorted(rooms, key=lambda name: (-round(rooms[name], -digits), name))
    rows = [
        f"| `{name}` | {round(rooms[name], -digits):,} | {why.get(name, '')} |" for name in order
    ]
    head = ["| room | lines | why it is Python |", "| --- | --: | --- |"]
    return "\n".join([*head, *rows, f"| all | {round(rooms.total(), -digits):,} | |"])


def page(root: Path, rules: Rules) -> str:
    """Return the page with the table between its marks, in tens of lines.

    Raises
    ------
    ValueError
        If it has no marks.
    """
    head, begin, rest = (root / PAGE).read_text(encoding="utf-8").partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE} lacks {BEGIN.strip()} or {END.strip()}")
    return f"{head}{BEGIN}\n{shown(root, rules, 1)}\n\n{END}{tail}"
