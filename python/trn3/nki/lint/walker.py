"""Goes through the source of a kernel, and of the user's functions that it calls."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import types
from collections.abc import Iterator
from typing import Any, Final

# Each registers its checks.
from trn3.nki.lint import interface, language, registers, rules  # noqa: F401
from trn3.nki.lint.breaches import CHECKS, Breach, Place
from trn3.nki.lint.findings import PortabilityFinding
from trn3.nki.lint.scopes import Scope, globals_of, scope_of
from trn3.nki.lint.sources import tree_of
from trn3.nki.lint.users import is_users
from trn3.nki.values.kernel_function import KernelFunction

_SCOPES: Final = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp,
    ast.GeneratorExp,
)  # fmt: skip
_CLASSES_OF_FUNCTIONS: Final = ("__init__", "__post_init__")


class Walk:
    """One search of a kernel.

    Parameters
    ----------
    kernel : KernelFunction

    Attributes
    ----------
    kernel : KernelFunction
    findings : set of PortabilityFinding
    complete : bool
        Whether the kernel's own source was there.
    """

    def __init__(self, kernel: KernelFunction) -> None:
        self.findings: set[PortabilityFinding] = set()
        self.kernel = kernel
        self._seen: set[types.CodeType] = set()
        self._waiting: list[types.FunctionType] = []
        function = inspect.unwrap(kernel.__wrapped__)
        self._module = getattr(function, "__module__", None)
        self.complete = isinstance(function, types.FunctionType) and tree_of(function) is not None
        if not self.complete:
            return
        self._launched = function
        if kernel.is_legacy:
            self._whole(rules.LEGACY_KERNEL, "a kernel of `neuronxcc.nki`")
            # What else it holds belongs to its dialect.
            if rules.LEGACY_KERNEL.applies:
                return
        if kernel.has_own_target:
            self._whole(rules.PLATFORM_TARGET, f"`platform_target` of `{kernel.name}`")
        self._follow(function)
        while self._waiting:
            self._function(self._waiting.pop(0))

    def _whole(self, rule: rules.PortabilityRule, text: str) -> None:
        """Report what is true of the kernel as a whole, at its first line."""
        found = tree_of(self._launched)
        if found is not None:
            file, node = found
            first = node.decorator_list[0] if node.decorator_list else node
            self._report((rule, first, text), file, node.name)

    def _report(self, breach: Breach, file: str, function: str) -> None:
        rule, node, text = breach
        if not rule.applies:
            return
        line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
        self.findings.add(rule.at(file, line, column + 1, function, text))

    def _follow(self, thing: Any) -> None:
        """Search a function too, if it is the user's and was not searched yet."""
        function = inspect.unwrap(thing.__wrapped__ if isinstance(thing, KernelFunction) else thing)
        if not isinstance(function, types.FunctionType) or function.__code__ in self._seen:
            return
        if function is self._launched or is_users(function, self._module):
            self._seen.add(function.__code__)
            self._waiting.append(function)

    def _function(self, function: types.FunctionType) -> None:
        found = tree_of(function)
        if found is None:
            return
        file, node = found
        outside = Scope(node, None, globals_of(function))
        self._tree(node, file, Place(node.name, outside, (), function is self._launched))

    def _tree(self, root: ast.AST, file: str, place: Place) -> None:
        # A stack of its own: sums of a thousand terms are trees of that depth.
        waiting = [(root, place)]
        while waiting:
            node, place = waiting.pop()
            for check in CHECKS.get(type(node), ()):
                for breach in check(node, place):
                    self._report(breach, file, place.function)
            if isinstance(node, ast.Call):
                self._call(node, place)
            inner = dataclasses.replace(place, parents=(*place.parents, node))
            if isinstance(node, _SCOPES):
                outer = place.scope if place.parents else None
                scope = scope_of(node, outer, place.scope.globals)
                name = getattr(node, "name", place.function)
                inner = dataclasses.replace(inner, function=name, scope=scope)
            waiting.extend((child, inner) for child in _executed(node))

    def _call(self, node: ast.Call, place: Place) -> None:
        """Note what a call runs: the function, and functions among its arguments."""
        called = place.resolve(node.func)
        for thing in (called, *map(place.resolve, node.args)):
            if isinstance(thing, (types.FunctionType, KernelFunction)):
                self._follow(thing)
        if isinstance(called, type) and is_users(called, self._module):
            for name in _CLASSES_OF_FUNCTIONS:
                self._follow_method(called, name)
        elif isinstance(node.func, ast.Attribute):
            kinds = {
                place.resolve(binding.expression.func)
                for binding in place.values(node.func.value)
                if isinstance(binding.expression, ast.Call) and binding.kind == "value"
            }
            if len(kinds) == 1 and isinstance(kind := kinds.pop(), type):
                self._follow_method(kind, node.func.attr)

    def _follow_method(self, kind: type, name: str) -> None:
        method = inspect.getattr_static(kind, name, None)
        if isinstance(method, (staticmethod, classmethod)):
            method = method.__func__
        if isinstance(method, types.FunctionType):
            self._follow(method)


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a node that a compiler would translate: no annotations or decorators."""
    skipped: tuple[str, ...] = ("annotation", "returns", "decorator_list", "type_params")
    if isinstance(node, ast.arguments):
        # Of parameters only defaults are code.
        skipped = ("posonlyargs", "args", "vararg", "kwonlyargs", "kwarg")
    for name, value in ast.iter_fields(node):
        if name in skipped:
            continue
        if isinstance(value, ast.AST):
            yield value
        elif isinstance(value, list):
            yield from (each for each in value if isinstance(each, ast.AST))
