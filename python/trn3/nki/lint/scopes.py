"""What names in a kernel's source mean, as far as that is certain."""

from __future__ import annotations

import ast
import builtins
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

#: What `resolve` returns for what it does not know.
UNKNOWN: Final = object()
FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True, slots=True)
class NameBinding:
    """One place where a name gets its value.

    Attributes
    ----------
    kind : str
        ``"value"``: an expression is assigned; ``"loop"``: the name runs over it; ``"other"``: the
        name is a parameter, an import, or part of something taken apart.
    expression : ast.expr or None
    """

    kind: Literal["value", "loop", "other"]
    expression: ast.expr | None = None


_OTHER: Final = NameBinding("other")


@dataclass(slots=True)
class Scope:
    """The names of one function, inside those around it."""

    node: ast.AST
    outer: Scope | None
    globals: dict[str, Any]
    bindings: dict[str, list[NameBinding]] = field(default_factory=dict)

    def find(self, name: str) -> tuple[NameBinding, ...]:
        """Return where a name that is local here, or around here, gets its value; () if none is."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.bindings:
                return tuple(scope.bindings[name])
            scope = scope.outer
        return ()

    def resolve(self, node: ast.AST) -> Any:
        """Return the object that a name, or names joined by dots, stands for; else `UNKNOWN`.

        Attributes are looked up in modules and classes alone, where that runs no code of the user.
        """
        if isinstance(node, ast.Name):
            if self.find(node.id):
                return UNKNOWN
            if node.id in self.globals:
                return self.globals[node.id]
            return getattr(builtins, node.id, UNKNOWN)
        if isinstance(node, ast.Attribute):
            owner = self.resolve(node.value)
            if isinstance(owner, types.ModuleType):
                # What modules make on request may warn or import.
                return vars(owner).get(node.attr, UNKNOWN)
            if isinstance(owner, type):
                return getattr(owner, node.attr, UNKNOWN)
        return UNKNOWN


def globals_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return what the names of a function mean that are not its own: closure over module."""
    known = dict(getattr(function, "__globals__", {}))
    code = getattr(function, "__code__", None)
    cells = getattr(function, "__closure__", None) or ()
    for name, cell in zip(code.co_freevars if code else (), cells, strict=False):
        try:
            known[name] = cell.cell_contents
        except ValueError:  # not set yet
            known.pop(name, None)
    return known


def scope_of(node: ast.AST, outer: Scope | None, known: dict[str, Any]) -> Scope:
    """Return the scope of a function, a lambda or a comprehension."""
    scope = Scope(node, outer, known)
    bind = scope.bindings
    arguments = getattr(node, "args", None)
    if isinstance(arguments, ast.arguments):
        for each in parameters(arguments):
            bind.setdefault(each.arg, []).append(_OTHER)
    outside: set[str] = set()
    for child in _own_nodes(node):
        if isinstance(child, (ast.Global, ast.Nonlocal)):
            outside.update(child.names)
        elif isinstance(child, ast.Assign):
            for target in child.targets:
                _bind(bind, target, NameBinding("value", child.value))
        elif isinstance(child, (ast.AnnAssign, ast.NamedExpr)):
            value = NameBinding("value", child.value) if child.value is not None else _OTHER
            _bind(bind, child.target, value)
        elif isinstance(child, ast.AugAssign):
            _bind(bind, child.target, _OTHER)
        elif isinstance(child, (ast.For, ast.AsyncFor, ast.comprehension)):
            _bind(bind, child.target, NameBinding("loop", child.iter))
        elif isinstance(child, ast.withitem) and child.optional_vars is not None:
            _bind(bind, child.optional_vars, _OTHER)
        elif isinstance(child, (*_FUNCTIONS[:2], ast.ClassDef)):
            bind.setdefault(child.name, []).append(_OTHER)
        elif isinstance(child, (ast.Import, ast.ImportFrom)):
            for alias in child.names:
                name = alias.asname or alias.name.partition(".")[0]
                bind.setdefault(name, []).append(_OTHER)
        elif isinstance(child, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and child.name:
            bind.setdefault(child.name, []).append(_OTHER)
    for name in outside:
        bind.pop(name, None)
    return scope


def parameters(arguments: ast.arguments) -> Iterator[ast.arg]:
    """Yield every parameter."""
    yield from (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    if arguments.vararg is not None:
        yield arguments.vararg
    if arguments.kwarg is not None:
        yield arguments.kwarg


def _bind(bindings: dict[str, list[NameBinding]], target: ast.AST, binding: NameBinding) -> None:
    if isinstance(target, ast.Name):
        bindings.setdefault(target.id, []).append(binding)
    elif isinstance(target, (ast.Tuple, ast.List)):
        value = binding.expression
        pairs = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts)
        for i, element in enumerate(target.elts):
            part = _OTHER
            if binding.kind == "value" and pairs and isinstance(value, (ast.Tuple, ast.List)):
                part = NameBinding("value", value.elts[i])
            _bind(bindings, element, part)
    elif isinstance(target, ast.Starred):
        _bind(bindings, target.value, _OTHER)


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a scope without those of scopes in it, whose first node it yields."""
    bodies: list[ast.AST] = []
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        yield from node.generators
        return
    body = getattr(node, "body", [])
    bodies.extend(body if isinstance(body, list) else [body])
    while bodies:
        child = bodies.pop(0)
        yield child
        if isinstance(child, (*_FUNCTIONS, ast.ClassDef)):
            continue
        if isinstance(child, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            # Only names bound by := leave a comprehension.
            bodies.extend(each for each in ast.walk(child) if isinstance(each, ast.NamedExpr))
            continue
        bodies.extend(ast.iter_child_nodes(child))
