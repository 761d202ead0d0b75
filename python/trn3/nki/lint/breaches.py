"""A node of a kernel's source with what is known around it, and the checks that look at it."""

from __future__ import annotations

import ast
import functools
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from trn3.nki.lint.rules import PortabilityRule
from trn3.nki.lint.scopes import UNKNOWN, NameBinding, Scope


class Name(NamedTuple):
    """A name of the language: the module as kernels call it (``nl``, ``nisa``, ...) and its own."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


#: Modules by what kernels call them. Those of the legacy dialect begin so.
_MODULES: Final = {
    "nki": "trn3.nki",
    "nl": "trn3.nki.language",
    "nisa": "trn3.nki.isa",
    "ncc": "trn3.nki.collectives",
    "legacy nki": "trn3.nki.dialects.legacy",
    "legacy nl": "trn3.nki.dialects.legacy.language",
    "legacy nisa": "trn3.nki.dialects.legacy.isa",
}


def _known_module(module: types.ModuleType) -> str | None:
    for name, full in _MODULES.items():
        if sys.modules.get(full) is module:
            return name
    return None


@functools.cache
def _origins() -> dict[int, Name]:
    """Return the functions of the language by identity, for those imported by name."""
    found: dict[int, Name] = {}
    for short in ("nl", "nisa", "ncc"):
        module = sys.modules.get(_MODULES[short])
        for name in getattr(module, "__all__", ()):
            value = vars(module).get(name)
            own = getattr(value, "__module__", None) or ""
            if callable(value) and own.startswith("trn3."):
                found.setdefault(id(value), Name(short, name))
    return found


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node stands.

    Attributes
    ----------
    function : str
        Of the innermost function.
    scope : Scope
        Its names.
    parents : tuple of ast.AST
        The nodes around it in the same source, outermost first.
    is_launched : bool
        Whether the function is the kernel itself, and none that it calls.
    """

    function: str
    scope: Scope
    parents: tuple[ast.AST, ...]
    is_launched: bool

    def resolve(self, node: ast.AST) -> Any:
        """Return the object that an expression stands for, or `UNKNOWN`."""
        return self.scope.resolve(node)

    def name(self, node: ast.AST) -> Name | None:
        """Return the name of the language that an expression is; None if it is none."""
        if isinstance(node, ast.Attribute):
            owner = self.scope.resolve(node.value)
            if isinstance(owner, types.ModuleType):
                module = _known_module(owner)
                return None if module is None else Name(module, node.attr)
            return None
        if isinstance(node, ast.Name):
            found = self.scope.resolve(node)
            return None if found is UNKNOWN else _origins().get(id(found))
        return None

    def called(self, node: ast.AST | None) -> Name | None:
        """Return the name of the language that a call calls; None if it is no such call."""
        return self.name(node.func) if isinstance(node, ast.Call) else None

    def values(self, node: ast.AST) -> tuple[NameBinding, ...]:
        """Return what a variable can hold; () if the node is none, or a global."""
        return self.scope.find(node.id) if isinstance(node, ast.Name) else ()

    def values_of(self, name: str) -> tuple[NameBinding, ...]:
        """Return what a variable of this name can hold."""
        return self.scope.find(name)

    def is_always(self, node: ast.AST, test: Callable[[NameBinding], bool]) -> bool:
        """Return whether all that a variable can hold passes a test, and there is something."""
        values = self.values(node)
        return bool(values) and all(map(test, values))


#: A rule that is broken, where, and what stands there.
Breach: TypeAlias = tuple[PortabilityRule, ast.AST, str]
Check: TypeAlias = Callable[[Any, Place], Iterator[Breach]]
F = TypeVar("F", bound=Callable[..., Iterator[Breach]])

#: The checks, by the class of the nodes they look at.
CHECKS: Final[dict[type[ast.AST], list[Check]]] = {}


def check(*kinds: type[ast.AST]) -> Callable[[F], F]:
    """Register a check for nodes of these classes."""

    def register(function: F) -> F:
        for kind in kinds:
            CHECKS.setdefault(kind, []).append(function)
        return function

    return register


def argument(call: ast.Call, position: int, keyword: str) -> ast.expr | None:
    """Return an argument of a call by place or name; None if it is not written out."""
    for each in call.keywords:
        if each.arg == keyword:
            return each.value
    plain = not any(isinstance(each, ast.Starred) for each in call.args[: position + 1])
    return call.args[position] if plain and position < len(call.args) else None


def number(node: ast.AST | None) -> float | None:
    """Return the number that an expression is, if it is written as one."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        inner = number(node.operand)
        return None if inner is None else -inner if isinstance(node.op, ast.USub) else inner
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        value: float = node.value  # type: ignore[assignment]
        return value
    return None
