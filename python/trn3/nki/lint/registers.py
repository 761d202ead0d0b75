"""Checks of registers: values that only a running kernel knows."""

from __future__ import annotations

import ast
import builtins
import dataclasses
from collections.abc import Iterator
from typing import Final

from trn3.nki.lint import rules
from trn3.nki.lint.breaches import Breach, Place, check
from trn3.nki.lint.scopes import NameBinding
from trn3.nki.values.releases import LOOP_INDEX

_MAKERS: Final = {
    ("nisa", "register_alloc"),
    ("ncc", "rank_id"),
    ("ncc", "collective_permute_implicit_current_processing_rank_id"),
}
_STATIC_RANGES: Final = {"affine_range", "sequential_range", "static_range", "range"}
_NUMBERS: Final = (builtins.int, builtins.float, builtins.bool)


def is_register(node: ast.AST | None, place: Place) -> bool:
    """Return whether an expression is certainly a register.

    A variable counts as one if all that it is ever given are registers, and nothing asks for its
    type: code that does handles both.
    """
    if isinstance(node, ast.Call):
        return place.called(node) in _MAKERS
    if not isinstance(node, ast.Name):
        return False
    made = place.is_always(node, lambda each: _is_made(each, place))
    # Newer releases hand scalars to bodies of loops, with which a kernel may reckon.
    handed = LOOP_INDEX.value() == "register" and _is_loop_variable(node.id, place)
    return (made or handed) and not _is_asked(node.id, place)


def _is_loop_variable(name: str, place: Place) -> bool:
    """Whether a name is what a loop of the language hands to the function here as its body."""
    body, outer = place.scope.node, place.scope.outer
    if not isinstance(body, ast.FunctionDef) or outer is None or len(place.values_of(name)) != 1:
        return False
    if not body.args.args or body.args.args[0].arg != name:
        return False
    around = dataclasses.replace(place, scope=outer)
    calls = [
        node
        for node in ast.walk(outer.node)
        if isinstance(node, ast.Call)
        and any(isinstance(each, ast.Name) and each.id == body.name for each in _given(node))
    ]
    names = {around.called(call) for call in calls}
    return bool(names) and names <= {("nl", "fori_loop"), ("nl", "while_loop")}


def _given(call: ast.Call) -> list[ast.expr]:
    """Return the arguments of a call, and what it calls."""
    return [call.func, *call.args, *(each.value for each in call.keywords)]


def _is_made(binding: NameBinding, place: Place) -> bool:
    name = place.called(binding.expression)
    if binding.kind == "value":
        return name in _MAKERS
    return binding.kind == "loop" and name == ("nl", "dynamic_range")


def _is_asked(name: str, place: Place) -> bool:
    """Whether the function asks for a variable's type."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("isinstance", "type")
        and node.args
        and isinstance(node.args[0], ast.Name)
        and node.args[0].id == name
        for node in ast.walk(place.scope.node)
    )


@check(ast.Call)
def as_number(node: ast.Call, place: Place) -> Iterator[Breach]:
    """Find registers made Python numbers."""
    if not node.args or not is_register(node.args[0], place):
        return
    for kind in _NUMBERS:
        if place.resolve(node.func) is kind:
            yield rules.REGISTER_NUMBER, node, f"`{ast.unparse(node)}` of a register"


@check(ast.Call)
def as_length(node: ast.Call, place: Place) -> Iterator[Breach]:
    """Find static ranges over registers."""
    name = place.name(node.func)
    static = name is not None and name.module == "nl" and name.name in _STATIC_RANGES
    if (static or place.resolve(node.func) is range) and any(
        is_register(each, place) for each in node.args
    ):
        yield rules.REGISTER_RANGE, node, f"`{ast.unparse(node)}` with a register"


@check(ast.If, ast.IfExp, ast.Assert)
def as_condition(node: ast.If | ast.IfExp | ast.Assert, place: Place) -> Iterator[Breach]:
    """Find static branches on registers."""
    if is_register(node.test, place):
        yield rules.REGISTER_TEST, node.test, f"a branch on the register `{ast.unparse(node.test)}`"


@check(ast.Compare)
def compared(node: ast.Compare, place: Place) -> Iterator[Breach]:
    """Find comparisons of registers."""
    if any(is_register(each, place) for each in (node.left, *node.comparators)):
        yield rules.REGISTER_TEST, node, f"`{ast.unparse(node)}` with a register"


@check(ast.BinOp, ast.BoolOp)
def reckoned(node: ast.BinOp | ast.BoolOp, place: Place) -> Iterator[Breach]:
    """Find arithmetic and logic of registers."""
    parts = node.values if isinstance(node, ast.BoolOp) else [node.left, node.right]
    if any(is_register(each, place) for each in parts):
        yield rules.REGISTER_TEST, node, f"`{ast.unparse(node)}` with a register"


@check(ast.While)
def looped(node: ast.While, place: Place) -> Iterator[Breach]:
    """Find loops while a register holds something."""
    if is_register(node.test, place):
        yield rules.DYNAMIC_LOOP, node, f"`while {ast.unparse(node.test)}`"


@check(ast.Call)
def dynamic(node: ast.Call, place: Place) -> Iterator[Breach]:
    """Find loops over `nl.dynamic_range`."""
    if place.called(node) == ("nl", "dynamic_range"):
        yield rules.DYNAMIC_LOOP, node, "`nl.dynamic_range`"
