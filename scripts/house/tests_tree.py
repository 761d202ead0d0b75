"""Tests stand as the packages do, helpers in one place, the compiled modules behind one wall."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from pathlib import Path

from house.finding import Finding, Rules
from house.python_source import literal_import

_COMPILED = "trn3._trn3"


def find(root: Path, rules: Rules) -> list[Finding]:
    """Return folders of tests and packages that lack each other, and modules out of their place."""
    asked, tests = rules["tests"], root / "tests"
    found = [
        Finding(f"excuse tests/{name}", "house.toml", "no such folder")
        for name in asked["others"]
        if not (tests / name).is_dir()
    ]
    found += unlike(root, "", asked["others"])
    for path in sorted(tests.rglob("*.py")):
        name = str(path.relative_to(root))
        room = path.relative_to(tests).parts[0]
        text = path.read_text(encoding="utf-8")
        if not is_test(path) and room not in asked["helpers"]:
            where = " or ".join(asked["helpers"])
            found.append(Finding(f"{name} helps", name, f"is no test; helpers stand in {where}"))
        if text.count("\n") > asked["lines"]:
            long = f"{text.count(chr(10))} lines; at most {asked['lines']}"
            found.append(Finding(f"{name} is long", name, long))
        if room not in asked["compiled"] and reaches_compiled(ast.parse(text, name)):
            where = " or ".join(asked["compiled"])
            text = f"{_COMPILED} is private; tests of it stand in {where}"
            found.append(Finding(f"{name} -> {_COMPILED}", name, text))
    return sorted(found)


def unlike(root: Path, below: str, others: Collection[str] = ()) -> Iterator[Finding]:
    """Yield folders without a package of their name, and packages without a folder.

    Packages below another need folders where one of them has one.
    """
    tests, package = root / "tests" / below, root / "python" / "trn3" / below
    folders = {each.parent.relative_to(tests).parts[0] for each in tests.glob("*/**/*.py")}
    packages = {each.parent.name for each in package.glob("[!_]*/__init__.py")}
    for name in sorted(folders - packages - set(others)):
        place = str(Path("tests", below, name))
        yield Finding(f"{place} mirrors nothing", place, f"no {Path('trn3', below, name)} is there")
    for name in sorted(packages - folders if folders else ()):
        place = str(Path("tests", below, name))
        yield Finding(f"{place} is missing", str(package / name), f"its tests stand in {place}")
    for name in sorted(packages & folders):
        yield from unlike(root, str(Path(below, name)))


def is_test(path: Path) -> bool:
    """Whether pytest reads a module by its name.

    >>> is_test(Path("tests/nki/test_views.py")), is_test(Path("tests/nki/views.py"))
    (True, False)
    """
    return path.stem.startswith("test_") or path.stem in {"conftest", "__init__"}


def reaches_compiled(tree: ast.Module) -> bool:
    """Whether a module imports a compiled one, or what lies in it.

    >>> reaches_compiled(ast.parse("from trn3 import _trn3"))
    True
    >>> reaches_compiled(ast.parse("from trn3 import machine"))
    False
    """
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif name := literal_import(node):
            names.append(name)
    return any(f"{name}.".startswith(f"{_COMPILED}.") for name in names)
