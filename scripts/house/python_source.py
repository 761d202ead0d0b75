"""Python modules as their text has them: parsed, with every import and what it names.

Nothing is executed. Imports inside functions and under ``TYPE_CHECKING`` count like others, and so
do `import_module` with a literal name and what is reached through ``import trn3`` or ``_trn3``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path


@dataclass(frozen=True, slots=True, order=True)
class Import:
    """One name that a module takes from another; no name if it takes the module itself."""

    target: str
    name: str
    line: int


@dataclass(frozen=True)
class Module:
    """One source file."""

    name: str
    path: Path
    is_package: bool

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed file."""
        return ast.parse(self.path.read_text(encoding="utf-8"), str(self.path))

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of the tree."""
        return list(ast.walk(self.tree))

    @property
    def package(self) -> str:
        """The package that relative imports start from: the module itself if it is one."""
        return self.name if self.is_package else self.name.rpartition(".")[0]


class Package:
    """All modules of one Python package on disk.

    Stubs of compiled modules (``.pyi``) are known by name and not read.
    """

    def __init__(self, folder: Path) -> None:
        self.name = folder.name
        self.root = folder.parent
        self.modules = {module.name: module for module in self._modules(folder)}
        self.stubs = {self._name(path) for path in folder.rglob("*.pyi")}

    def _name(self, path: Path) -> str:
        parts = path.relative_to(self.root).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def _modules(self, folder: Path) -> Iterator[Module]:
        for path in sorted(folder.rglob("*.py")):
            yield Module(self._name(path), path, path.name == "__init__.py")

    @cached_property
    def _known(self) -> set[str]:
        return self.modules.keys() | self.stubs

    @cached_property
    def imports(self) -> dict[str, list[Import]]:
        """What every module takes from modules of this package, itself excepted."""
        found: dict[str, list[Import]] = {}
        for module in self.modules.values():
            known = {self._home(taken) for taken in self._taken(module)}
            found[module.name] = sorted(
                taken for taken in known if taken.target not in {module.name, ""}
            )
        return found

    def _taken(self, module: Module) -> Iterator[Import]:
        # Names that are bound to a package, through which modules below it are reached.
        whole: dict[str, str] = {}
        for node in module.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name == self.name:
                        whole[alias.asname or alias.name] = self.name
                    else:
                        yield Import(alias.name, "", node.lineno)
            elif isinstance(node, ast.ImportFrom):
                base = source_of(module, node)
                for alias in node.names:
                    if f"{base}.{alias.name}" in self.stubs:
                        whole[alias.asname or alias.name] = f"{base}.{alias.name}"
                    yield Import(base, alias.name, node.lineno)
            elif name := literal_import(node):
                yield Import(name, "", node.lineno)  # type: ignore[attr-defined]  # a call
        for node in module.nodes if whole else ():
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id in whole
            ):
                yield Import(whole[node.value.id], node.attr, node.lineno)

    def _home(self, taken: Import) -> Import:
        """Return the import with the module that holds the name; no target if it is not ours."""
        target, name = taken.target, taken.name
        if target.partition(".")[0] != self.name:
            return Import("", "", taken.line)
        if name and f"{target}.{name}" in self._known:
            target, name = f"{target}.{name}", ""
        elif target == self.name and name in self._offered:
            # What the package's own page offers counts as taken from where it stands.
            target, name = self._offered[name]
        while target and target not in self._known:
            target, _, name = target.rpartition(".")
        return Import(target, name, taken.line)

    @cached_property
    def _offered(self) -> dict[str, tuple[str, str]]:
        """Names that the package's ``__init__`` takes from modules below, lazily or not."""
        offered: dict[str, tuple[str, str]] = {}
        top = self.modules.get(self.name)
        for node in top.nodes if top else ():
            if isinstance(node, ast.ImportFrom) and top is not None:
                base = source_of(top, node)
                for alias in node.names:
                    if base.startswith(f"{self.name}."):
                        offered[alias.asname or alias.name] = (base, alias.name)
        return offered


@cache
def package_at(folder: Path) -> Package:
    """Return the package in a folder, read once."""
    return Package(folder)


def source_of(module: Module, node: ast.ImportFrom) -> str:
    """Return the absolute name of the module that a ``from`` import names."""
    if not node.level:
        return node.module or ""
    parts = module.package.split(".")
    base = parts[: len(parts) - node.level + 1]
    return ".".join([*base, *([node.module] if node.module else [])])


def literal_import(node: ast.AST) -> str:
    """Return the module that ``import_module("...")`` or ``__import__("...")`` loads, if any."""
    if not isinstance(node, ast.Call) or not node.args:
        return ""
    function, first = node.func, node.args[0]
    called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if called not in {"import_module", "__import__"} or not isinstance(first, ast.Constant):
        return ""
    return first.value if isinstance(first.value, str) else ""
