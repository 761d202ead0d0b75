"""Checks of the Python that a kernel is written in."""

from __future__ import annotations

import ast
import dataclasses
import enum
from collections.abc import Iterator
from typing import Final

from trn3.nki.lint import rules
from trn3.nki.lint.breaches import Breach, Place, check
from trn3.nki.lint.scopes import FunctionNode, NameBinding, scope_of
from trn3.nki.lint.users import is_users
from trn3.nki.values.objects import NKIObject

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


@check(ast.Compare)
def identity(node: ast.Compare, _place: Place) -> Iterator[Breach]:
    """Find `is` and `is not`."""
    for operator in node.ops:
        if isinstance(operator, (ast.Is, ast.IsNot)):
            word = "is" if isinstance(operator, ast.Is) else "is not"
            yield rules.IDENTITY, node, f"`{word}`"


@check(*_FUNCTIONS)
def keyword_only(node: FunctionNode, _place: Place) -> Iterator[Breach]:
    """Find parameters after a star."""
    for parameter in node.args.kwonlyargs:
        yield rules.KEYWORD_ONLY, parameter, f"keyword-only parameter `{parameter.arg}`"


@check(*_FUNCTIONS)
def list_default(node: FunctionNode, place: Place) -> Iterator[Breach]:
    """Find lists as defaults of the kernel's parameters."""
    if not place.is_launched or place.parents:
        return
    ordinary = [*node.args.posonlyargs, *node.args.args]
    defaults = node.args.defaults
    for parameter, default in zip(ordinary[len(ordinary) - len(defaults) :], defaults, strict=True):
        if isinstance(default, (ast.List, ast.ListComp)):
            yield rules.LIST_ARGUMENT, default, f"parameter `{parameter.arg}` is a list"


@check(ast.Dict)
def dict_literal(node: ast.Dict, place: Place) -> Iterator[Breach]:
    """Find keys of dicts that are certainly no strings."""
    for key in node.keys:
        if key is not None and (kind := _no_string(key, place)):
            yield rules.DICT_KEY, key, f"dict key is {kind}"


@check(ast.DictComp)
def dict_comprehension(node: ast.DictComp, place: Place) -> Iterator[Breach]:
    """Find keys of comprehensions that are certainly no strings."""
    scope = scope_of(node, place.scope, place.scope.globals)
    if kind := _no_string(node.key, dataclasses.replace(place, scope=scope)):
        yield rules.DICT_KEY, node.key, f"dict key is {kind}"


@check(ast.Subscript)
def dict_store(node: ast.Subscript, place: Place) -> Iterator[Breach]:
    """Find items stored in dicts of the function under keys that are certainly no strings."""
    if isinstance(node.ctx, ast.Store) and place.is_always(node.value, _is_dict):
        kind = _no_string(node.slice, place)
        if kind:
            yield rules.DICT_KEY, node.slice, f"dict key is {kind}"


def _is_dict(binding: NameBinding) -> bool:
    value = binding.expression
    if binding.kind != "value":
        return False
    empty_call = (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "dict"
    )
    return isinstance(value, (ast.Dict, ast.DictComp)) or empty_call


def _no_string(key: ast.expr, place: Place) -> str | None:
    """Return what a key is, if it is certainly no string."""
    if isinstance(key, ast.Constant):
        return None if isinstance(key.value, str) else f"`{key.value!r}`"
    if isinstance(key, (ast.Tuple, ast.List, ast.Set, ast.Dict)):
        return f"a {type(key).__name__.lower()}"
    if isinstance(key, ast.Name) and place.is_always(key, lambda each: _counts(each, place)):
        return f"the number `{key.id}`"
    return None


def _counts(binding: NameBinding, place: Place) -> bool:
    """Whether a variable runs over whole numbers."""
    iterated = binding.expression
    if binding.kind == "loop" and isinstance(iterated, ast.Name):
        return place.is_always(iterated, lambda each: _is_range(each.expression, place))
    return binding.kind == "loop" and _is_range(iterated, place)


def _is_range(iterated: ast.expr | None, place: Place) -> bool:
    if not isinstance(iterated, ast.Call):
        return False
    name = place.name(iterated.func)
    static = {"affine_range", "sequential_range", "static_range", "range"}
    return place.resolve(iterated.func) is range or (
        name is not None and name.module == "nl" and name.name in static
    )


@check(ast.Call)
def object_made(node: ast.Call, place: Place) -> Iterator[Breach]:
    """Find objects of classes that derive from nothing the compiler knows."""
    kind = place.resolve(node.func)
    if not isinstance(kind, type) or not is_users(kind):
        return
    allowed = (NKIObject, enum.Enum, BaseException, tuple)
    # Numbers and strings of a class of their own are none of the compiler's objects either, but no
    # text speaks of them.
    if not issubclass(kind, (*allowed, int, float, str)):
        of = "dataclass" if dataclasses.is_dataclass(kind) else "class"
        yield rules.PLAIN_CLASS, node, f"{of} `{kind.__name__}` does not derive from NKIObject"


@check(ast.ClassDef)
def class_made(node: ast.ClassDef, _place: Place) -> Iterator[Breach]:
    """Find classes defined in the kernel without a base."""
    if not node.bases:
        yield rules.PLAIN_CLASS, node, f"class `{node.name}` does not derive from NKIObject"


@check(ast.Subscript)
def nested_slice(node: ast.Subscript, place: Place) -> Iterator[Breach]:
    """Find slices of slices of tensors; lists of tensors and of lists are none."""
    inner = node.value
    if isinstance(inner, ast.Subscript) and _slices_tensor(inner.slice, place):
        yield rules.NESTED_SLICE, node, f"`{ast.unparse(node)}`"


def _slices_tensor(index: ast.expr, place: Place) -> bool:
    """Whether an index holds what only tensors take: slices beside others, or `nl.ds`."""
    several = index.elts if isinstance(index, ast.Tuple) else []
    made = [place.called(each) for each in several or [index]]
    return any(isinstance(each, ast.Slice) for each in several) or any(
        name is not None and name.module == "nl" and name.name == "ds" for name in made
    )


@check(ast.Lambda)
def function_without_name(node: ast.Lambda, _place: Place) -> Iterator[Breach]:
    """Find `lambda`."""
    yield rules.LAMBDA, node, "`lambda`"


@check(ast.Try, ast.TryStar)
def attempt(node: ast.Try, _place: Place) -> Iterator[Breach]:
    """Find `try`."""
    yield rules.TRY, node, "`try`"


@check(ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)
def generator(node: ast.AST, _place: Place) -> Iterator[Breach]:
    """Find what runs in parts."""
    word = "yield" if isinstance(node, (ast.Yield, ast.YieldFrom)) else "async"
    yield rules.GENERATOR, node, f"`{word}`"
