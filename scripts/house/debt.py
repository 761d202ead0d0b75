"""What still breaks a rule, by check: a list that only shrinks."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path

from house.finding import Finding

_HEAD = """\
# What still breaks a rule of the house, by check. A breach without a line fails `make lint`, and so
# does a line without a breach: who mends something takes its lines out, who moves a file renames
# them (`PYTHONPATH=scripts python -m house --settle` does both, and never lets a list grow).
"""


def read(path: Path) -> dict[str, list[str]]:
    """Return the lists of a debt file."""
    lists: dict[str, list[str]] = tomllib.loads(path.read_text(encoding="utf-8"))
    return lists


def write(path: Path, lists: Mapping[str, Collection[str]]) -> None:
    """Write a debt file, one breach a line so that branches merge."""
    pieces = [_HEAD]
    for name, keys in lists.items():
        body = "".join(f"  {json.dumps(key)},\n" for key in sorted(keys))
        pieces.append(f"\n{name} = [\n{body}]\n" if keys else f"\n{name} = []\n")
    path.write_text("".join(pieces), encoding="utf-8")


def settled(
    listed: Mapping[str, Collection[str]], found: Mapping[str, Collection[Finding]]
) -> dict[str, list[str]]:
    """Return the lists as they are found; a breach that moved with its file changes its line.

    Raises
    ------
    ValueError
        If a list would become longer.
    """
    lists = {name: sorted(finding.key for finding in findings) for name, findings in found.items()}
    for name, keys in lists.items():
        if len(keys) > len(listed.get(name, ())):
            new = ", ".join(sorted(set(keys) - set(listed.get(name, ()))))
            raise ValueError(f"{name} would grow to {len(keys)}; mend what is new: {new}")
    return lists


def compare(
    listed: Mapping[str, Collection[str]], found: Mapping[str, Collection[Finding]]
) -> list[str]:
    """Return a message for each breach that is not listed and each listed one that is gone."""
    messages = [f"debt.toml: no check is called {name!r}" for name in listed.keys() - found.keys()]
    for name, findings in found.items():
        known = set(listed.get(name, ()))
        messages += [
            f"{finding.place}: {finding.key}: {finding.text} [{name}]"
            for finding in findings
            if finding.key not in known
        ]
        gone = known - {finding.key for finding in findings}
        messages += [
            f"debt.toml: {key!r} is mended: take the line out [{name}]" for key in sorted(gone)
        ]
    return messages
