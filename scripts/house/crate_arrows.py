"""Rust crates depend only on the crates that the table of `house.toml` lets them know."""

from __future__ import annotations

from pathlib import Path

from house.finding import Finding, Rules
from house.rust_source import crates
from house.table import Table


def find(root: Path, rules: Rules) -> list[Finding]:
    """Return every dependency that the table forbids, and every crate that it does not have."""
    table = Table(rules["rust"])
    found = []
    for crate in crates(root):
        place = str((crate.folder / "Cargo.toml").relative_to(root))
        if not table.knows(crate.name):
            found.append(Finding(crate.name, place, "has no row in house.toml"))
        for other in crate.dependencies:
            if not table.may(crate.name, other):
                text = f"{crate.name} must not know {other}"
                found.append(Finding(f"{crate.name} -> {other}", place, text))
    return found
