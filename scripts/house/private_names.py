"""No private name crosses a room.

A name with a leading underscore may be used in the folder that holds its module, and below it. For
an attribute ``thing._x`` the owner is found by the name: some module of the same folder has to
define ``_x``. Names that nothing of ours defines belong to other libraries and are left alone.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from house.finding import Finding, Rules, once
from house.python_source import Module, package_at


def find(root: Path, rules: Rules) -> list[Finding]:
    """Return every use of a private name from outside the package that holds it."""
    package = package_at(root / "python" / "trn3")
    found = []
    owners: defaultdict[str, set[str]] = defaultdict(set)
    for module in package.modules.values():
        for name in defined(module):
            owners[name].add(holder(module.name))
    for module in package.modules.values():
        place = module.path.relative_to(root)
        for taken in package.imports[module.name]:
            if owner := stranger(module.name, taken.target, taken.name):
                key = f"{module.name} uses {owner}"
                found.append(Finding(key, f"{place}:{taken.line}", f"{owner} is private"))
        for name, line in reached(module):
            if name in rules["private_names"]:
                continue
            if name in owners and not any(is_within(module.name, home) for home in owners[name]):
                text = f"._{name[1:]} is private to {', '.join(sorted(owners[name]))}"
                found.append(Finding(f"{module.name} uses .{name}", f"{place}:{line}", text))
    return once(found)


def is_private(name: str) -> bool:
    """Whether a name says that it is nobody else's: ``_x``, not ``__x__`` and not ``_``.

    >>> is_private("_file"), is_private("__init__"), is_private("_")
    (True, False, False)
    """
    dunder = name.startswith("__") and name.endswith("__")
    return name.startswith("_") and not dunder and bool(name.strip("_"))


def holder(module: str) -> str:
    """Return the package that holds a module; right below the top each module is a room itself.

    >>> holder("trn3.k8s.search"), holder("trn3.flows")
    ('trn3.k8s', 'trn3.flows')
    """
    return module.rpartition(".")[0] if module.count(".") > 1 else module


def is_within(module: str, package: str) -> bool:
    """Whether a module is a package or below it."""
    return f"{module}.".startswith(f"{package}.")


def stranger(module: str, target: str, name: str) -> str:
    """Return the private part of what `module` takes that it must not use, or nothing.

    >>> stranger("trn3.cli.plan", "trn3.planner._tables", "rows")
    'trn3.planner._tables'
    >>> stranger("trn3.nki.memory", "trn3.nki.kernel", "_bind")
    ''
    """
    parts = target.split(".")
    for length, part in enumerate(parts):
        if is_private(part) and part != "_trn3" and not is_within(module, ".".join(parts[:length])):
            return ".".join(parts[: length + 1])
    return f"{target}.{name}" if is_private(name) and not is_within(module, holder(target)) else ""


def defined(module: Module) -> Iterator[str]:
    """Yield the private names that a module defines, at any depth."""
    for node in module.nodes:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names = [node.name]
            case ast.Attribute(ctx=ast.Store()):
                names = [node.attr]
            case ast.AnnAssign(target=ast.Name()) | ast.AnnAssign(target=ast.Attribute()):
                names = [getattr(node.target, "id", "") or getattr(node.target, "attr", "")]
            case ast.Assign():
                names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            case _:
                continue
        yield from filter(is_private, names)


def reached(module: Module) -> Iterator[tuple[str, int]]:
    """Yield the private attributes that a module reads, and those it asks for by literal name."""
    for node in module.nodes:
        match node:
            case ast.Attribute():
                name = node.attr
            case ast.Call(
                func=ast.Name(id="getattr" | "setattr" | "hasattr" | "delattr"),
                args=[_, ast.Constant(value=str(name)), *_],
            ):
                pass
            case _:
                continue
        if is_private(name):
            yield name, node.lineno
