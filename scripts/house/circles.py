"""No circle between modules, in Python and inside each Rust crate.

In Python a package's imports of its own submodules do not count; in Rust a parent with its children
does not. Each arrow of a circle is a finding: a circle is mended when one of them goes.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import networkx as nx

from house.finding import Finding, Rules, once
from house.python_source import package_at
from house.rust_source import Crate, RustFile, Use, crates, files


def find_python(root: Path, _: Rules) -> list[Finding]:
    """Return the arrows of circles between Python modules."""
    package = package_at(root / "python" / "trn3")
    arrows: dict[tuple[str, str], str] = {}
    for name, imports in package.imports.items():
        for taken in imports:
            if taken.target in package.modules and not taken.target.startswith(f"{name}."):
                place = f"{package.modules[name].path.relative_to(root)}:{taken.line}"
                arrows.setdefault((name, taken.target), place)
    return in_circles(arrows)


def find_rust(root: Path, _: Rules) -> list[Finding]:
    """Return the arrows of circles between the modules of each crate."""
    return [finding for crate in crates(root) for finding in circles_of(crate, root)]


def circles_of(crate: Crate, root: Path) -> list[Finding]:
    """Return the arrows of circles inside one crate."""
    modules = {file.module: file for file in files(crate)}
    arrows: dict[tuple[str, str], str] = {}
    for module, file in modules.items():
        for use in file.uses:
            target = resolve(file, use, modules)
            related = target is None or is_inside(target, module) or is_inside(module, target)
            if target is not None and not related:
                place = f"{file.path.relative_to(root)}:{use.line}"
                arrows.setdefault((name_of(crate, module), name_of(crate, target)), place)
    return in_circles(arrows)


def resolve(
    file: RustFile, use: Use, modules: dict[tuple[str, ...], RustFile]
) -> tuple[str, ...] | None:
    """Return the module of this crate that a path leads to; None for another crate's."""
    head, rest = use.path[0], use.path[1:]
    base = file.module
    if head == "crate":
        base = ()
    elif head == "super":
        depth = use.depth - 1
        base = base[: len(base) + min(depth, 0)]
        while rest[:1] == ("super",):
            depth -= 1
            base = base[:-1] if depth < 0 else base
            rest = rest[1:]
    elif head == "self":
        pass
    elif (*base, head) in modules:
        rest = use.path
    else:
        return None
    for length in range(len(rest), -1, -1):
        if (*base, *rest[:length]) in modules:
            return (*base, *rest[:length])
    return base


def is_inside(inner: tuple[str, ...], outer: tuple[str, ...]) -> bool:
    """Whether a module is another one or below it."""
    return inner[: len(outer)] == outer


def name_of(crate: Crate, module: tuple[str, ...]) -> str:
    """Return a module's name as Rust spells it."""
    return "::".join([crate.name, *module])


def in_circles(arrows: dict[tuple[str, str], str]) -> list[Finding]:
    """Return those arrows whose ends reach each other."""
    graph = nx.DiGraph(list(arrows))
    found = []
    for knot in nx.strongly_connected_components(graph):
        for one, other in graph.subgraph(knot).edges:
            text = f"is part of a circle of {len(knot)}: {shown(knot)}"
            found.append(Finding(f"{one} -> {other}", arrows[one, other], text))
    return once(found)


def shown(knot: Iterable[str]) -> str:
    """Return the members of a circle, the first few of many."""
    names = sorted(knot)
    return ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
