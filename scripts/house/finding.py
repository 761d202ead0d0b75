"""What a check finds, and the rules that it is compared by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One breach of a rule.

    `key` names it in `debt.toml` and holds no line numbers, so that it stays while the file around
    it changes; `place` is where a reader looks.
    """

    key: str
    place: str
    text: str


#: The parsed `house.toml`.
Rules: TypeAlias = Mapping[str, Any]
#: A check takes the root of the repository and the rules.
Check: TypeAlias = Callable[[Path, Rules], list[Finding]]


def once(findings: list[Finding]) -> list[Finding]:
    """Return the findings sorted, the first of each key."""
    first: dict[str, Finding] = {}
    for finding in sorted(findings):
        first.setdefault(finding.key, finding)
    return list(first.values())
