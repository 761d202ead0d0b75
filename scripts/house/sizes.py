"""No product file is over the limit, and no two of a tree have names that are nearly the same."""

from __future__ import annotations

import itertools
import re
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path

from house.finding import Finding, Rules, once
from house.rust_source import is_of_tests

_LAST_LETTER = re.compile(r"[a-z]$")
_LAST_NUMBER = re.compile(r"\d+$")


def product(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield the sources of the product, without tests, each with the tree that it stands in."""
    for top in ("trn3", "trn3_pytest"):
        for path in sorted((root / "python" / top).rglob("*.py*")):
            if path.suffix in {".py", ".pyi"}:
                yield f"python/{top}", path
    for folder in sorted((root / "rust").glob("*/src")):
        for path in sorted(folder.rglob("*.rs")):
            if not any(map(is_of_tests, path.relative_to(folder).with_suffix("").parts)):
                yield str(folder.relative_to(root)), path


def lines(path: Path) -> int:
    """Return how many lines a file has."""
    return path.read_bytes().count(b"\n")


def median(root: Path) -> float:
    """Return the median of the lines of the product's files."""
    return statistics.median(lines(path) for _, path in product(root))


def find_long(root: Path, rules: Rules) -> list[Finding]:
    """Return the files over the limit."""
    limit: int = rules["files"]["lines"]
    found = []
    for _, path in product(root):
        if lines(path) > limit:
            name = str(path.relative_to(root))
            found.append(Finding(name, name, f"{lines(path)} lines; at most {limit}"))
    return found


def find_alike(root: Path, rules: Rules) -> list[Finding]:
    """Return pairs of files of one tree whose names differ by a last letter or number."""
    trees: defaultdict[str, dict[str, Path]] = defaultdict(dict)
    for tree, path in product(root):
        if path.suffix != ".pyi":
            trees[tree].setdefault(name_of(path), path)
    excuses, used, found = rules["files"]["alike"], set(), []
    for tree, names in trees.items():
        for name, other in alike(names):
            if f"{name} {other}" in excuses:
                used.add(f"{name} {other}")
                continue
            first, second = (str(names[each].relative_to(root)) for each in (name, other))
            text = f"is nearly the name of {second}"
            found.append(Finding(f"{tree} {name} {other}", first, text))
    idle = excuses.keys() - used
    found += [Finding(f"excuse {pair}", "house.toml", "no such pair") for pair in idle]
    return once(found)


def alike(names: Collection[str]) -> list[tuple[str, str]]:
    """Return the pairs of names that differ by a letter or a number at the end.

    >>> alike(["dtype", "dtypes", "fp4", "fp8", "core", "score"])
    [('dtype', 'dtypes'), ('fp4', 'fp8')]
    """
    pairs = {(_LAST_LETTER.sub("", name), name) for name in names}
    stems: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        stems[_LAST_NUMBER.sub("", name)].append(name)
    for family in stems.values():
        pairs |= set(itertools.combinations(sorted(family), 2))
    return sorted((one, other) for one, other in pairs if one in names and one != other)


def name_of(path: Path) -> str:
    """Return what a reader calls a file: its name, or its folder's for the folder's own page."""
    return path.parent.name if path.stem in {"__init__", "mod"} else path.stem
