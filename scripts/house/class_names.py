"""A class name is used once in all of Python, a public type's once in all Rust crates.

A binding may be called as what it binds. Names that the vendor dictates, or that
custom wants everywhere, stand in `house.toml` with the reason.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from house.finding import Finding, Rules, once
from house.python_source import package_at
from house.rust_source import crates, files


def find_python(root: Path, rules: Rules) -> list[Finding]:
    """Return the classes of Python whose name another class has."""
    places: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for top in ("trn3", "trn3_pytest"):
        for module in package_at(root / "python" / top).modules.values():
            for node in module.nodes:
                if isinstance(node, ast.ClassDef):
                    place = f"{module.path.relative_to(root)}:{node.lineno}"
                    places[node.name].append((module.name, place))
    return unexcused(repeated(places), rules["class_names"]["python"])


def find_rust(root: Path, rules: Rules) -> list[Finding]:
    """Return the public types of Rust whose name another has, bindings with their own apart."""
    bindings: set[str] = set(rules["class_names"]["bindings"])
    places: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    bound: defaultdict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for crate in crates(root):
        for file in files(crate):
            for name, line in file.public_types:
                module = "::".join([crate.name, *file.module])
                entry = (module, f"{file.path.relative_to(root)}:{line}")
                if crate.name in bindings:
                    bound[name, crate.name].append(entry)
                else:
                    places[name].append(entry)
    twice = {f"{name} of {crate}": entries for (name, crate), entries in bound.items()}
    return unexcused(repeated(places) + repeated(twice), rules["class_names"]["rust"])


def repeated(places: dict[str, list[tuple[str, str]]]) -> list[Finding]:
    """Return a finding for every place of a name that has several."""
    found = []
    for name, entries in places.items():
        for module, place in entries if len(entries) > 1 else ():
            others = ", ".join(sorted(other for _, other in entries if other != place))
            text = f"the name {name} is used again: {others}"
            found.append(Finding(f"{name} in {module}", place, text))
    return once(found)


def unexcused(found: list[Finding], excuses: Mapping[str, str]) -> list[Finding]:
    """Return the findings whose name has no excuse, and a finding for each that is not needed."""
    names = {finding.key.partition(" ")[0] for finding in found}
    idle = [
        Finding(f"excuse {name}", "house.toml", "the name is used once")
        for name in excuses.keys() - names
    ]
    return [finding for finding in found if finding.key.partition(" ")[0] not in excuses] + idle
