"""Python rooms know only the rooms that the table of `house.toml` lets them know.

A room is a folder or a module right below the package. A door (`cli`, `nki`, ...) that may know
another door knows its public modules and nothing inside. A compiled module ``_trn3.x`` is known to
the room ``x`` alone, and to those that `house.toml` names beside it.
"""

from __future__ import annotations

from pathlib import Path

from house.finding import Finding, Rules, once
from house.python_source import Import, package_at
from house.table import Table


def find(root: Path, rules: Rules) -> list[Finding]:
    """Return every import that the table forbids, and every module that no room holds."""
    table = Table(rules["python"])
    package = package_at(root / "python" / "trn3")
    tops = {name.split(".")[1] for name in package.modules if "." in name}
    found = [
        Finding(f"today {name}", "house.toml", "is a folder of today and is gone")
        for name in table.today.keys() - tops
    ]
    found += [
        Finding(name, str(module.path.relative_to(root)), "stands in no room of house.toml")
        for name, module in package.modules.items()
        if not table.knows(room_of(name, table))
    ]
    for name, imports in package.imports.items():
        here = room_of(name, table)
        for taken in imports:
            if reason := refusal(here, taken, table):
                place = f"{package.modules[name].path.relative_to(root)}:{taken.line}"
                found.append(Finding(f"{name} -> {taken.target}", place, reason))
    return once(found)


def room_of(module: str, table: Table) -> str:
    """Return the room that a module stands in; the package itself is the room ``trn3``.

    >>> room_of("trn3.planner.plans", Table({"rooms": {}}))
    'planner'
    """
    parts = module.split(".")
    if parts[:2] == ["trn3", "_trn3"]:
        return ".".join(parts[1:3])
    return table.renamed(parts[1]) if len(parts) > 1 else "trn3"


def refusal(here: str, taken: Import, table: Table) -> str:
    """Return why a room must not take something; empty if it may."""
    there = room_of(taken.target, table)
    if there in {here, "trn3", "_trn3"} or here == "trn3":
        return ""
    if there.startswith("_trn3."):
        column = table.binding(there.removeprefix("_trn3."))
        return "" if here in column else f"{there} is the binding of {' and '.join(column)}"
    if not table.may(here, there):
        return f"{here} must not know {there}"
    if there in table.doors and taken.target not in table.public(there):
        return f"{taken.target} is inside {there}, which offers {', '.join(table.public(there))}"
    return ""
