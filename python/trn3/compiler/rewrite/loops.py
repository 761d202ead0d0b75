"""Loops that count: their first, last and next iterations, in words of the text."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from trn3.compiler.rewrite.text import ByHandError

__all__ = ["CountedLoop", "counted", "exchanged", "is_of_indices"]

#: Functions whose loops count upwards from their first argument to their second one.
RANGES: Final = frozenset({"affine_range", "sequential_range", "static_range", "range"})
_OF_INDICES: Final = frozenset({"slice", "ds", "min", "max", "len", "int", "abs"})
_EXACT: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}


@dataclass(frozen=True)
class CountedLoop:
    """A loop over numbers: its index, and from which number to which and by which it counts."""

    name: str
    function: str
    start: ast.expr
    stop: ast.expr
    step: ast.expr

    def words(self, expression: str) -> ast.expr:
        """Return an expression of ``i``, ``start``, ``stop`` and ``step`` in the loop's own."""
        own = {"i": ast.Name(self.name), "start": self.start, "stop": self.stop, "step": self.step}
        found: ast.expr = exchanged(ast.parse(expression, mode="eval").body, own)
        return found

    @property
    def trip(self) -> ast.expr:
        """How many iterations it has."""
        return self.words("stop - start" if _is(self.step, 1) else "len(range(start, stop, step))")

    @property
    def last(self) -> ast.expr:
        """Its index in the last iteration."""
        long = "start + (len(range(start, stop, step)) - 1) * step"
        return self.words("stop - 1" if _is(self.step, 1) else long)

    def longer(self, function: str) -> str:
        """Return the head of a loop of one iteration more."""
        given = [self.start, self.words("stop + step"), self.step]
        given = given[: 2 if _is(self.step, 1) else 3]
        given = given[1:] if len(given) == 2 and _is(self.start, 0) else given
        return f"for {self.name} in {function}({', '.join(map(ast.unparse, given))}):"


def counted(loop: ast.For) -> CountedLoop:
    """Return how a loop counts.

    Raises
    ------
    ByHandError
        If it does not count upwards.
    """
    call, target = loop.iter, loop.target
    if isinstance(call, ast.Call) and isinstance(target, ast.Name) and not call.keywords:
        function = ast.unparse(call.func)
        downwards = any(isinstance(each, ast.UnaryOp) for each in call.args[2:])
        if function.rpartition(".")[2] in RANGES and 1 <= len(call.args) <= 3 and not downwards:
            given = call.args if len(call.args) > 1 else [ast.Constant(0), *call.args]
            return CountedLoop(target.id, function, *[*given, ast.Constant(1)][:3])
    message = f"line {loop.lineno}: the loop does not count upwards"
    raise ByHandError(message)


def is_of_indices(value: ast.expr) -> bool:
    """Return whether an expression computes indices and nothing else."""
    calls = [ast.unparse(node.func) for node in ast.walk(value) if isinstance(node, ast.Call)]
    return all(call.rpartition(".")[2] in _OF_INDICES for call in calls)


class _Exchanged(ast.NodeTransformer):
    def __init__(self, to: dict[str, ast.expr]) -> None:
        self._to = to

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return deepcopy(self._to.get(node.id, node)) if isinstance(node.ctx, ast.Load) else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return _shorter(node.left, node.op, node.right)


def exchanged(node: Any, to: dict[str, ast.expr]) -> Any:
    """Return a copy of an expression with names exchanged, and sums with 0 and 1 made shorter."""
    return _Exchanged(to).visit(deepcopy(node))


def _is(node: ast.expr, number: int) -> bool:
    return isinstance(node, ast.Constant) and node.value == number


def _same(one: ast.expr, other: ast.expr) -> bool:
    return ast.dump(one) == ast.dump(other)


def _shorter(left: ast.expr, op: ast.operator, right: ast.expr) -> ast.expr:
    """Return an operation, or what is the same and shorter."""
    sums, products = isinstance(op, (ast.Add, ast.Sub)), isinstance(op, ast.Mult)
    if isinstance(left, ast.Constant) and isinstance(right, ast.Constant) and type(op) in _EXACT:
        return ast.Constant(_EXACT[type(op)](left.value, right.value))
    if (sums and _is(right, 0)) or (isinstance(op, (ast.Mult, ast.FloorDiv)) and _is(right, 1)):
        return left
    if (isinstance(op, ast.Add) and _is(left, 0)) or (products and _is(left, 1)):
        return right
    if products and (_is(left, 0) or _is(right, 0)):
        return ast.Constant(0)
    pair = {type(getattr(left, "op", None)), type(op)}
    if isinstance(left, ast.BinOp) and pair == {ast.Add, ast.Sub} and _same(left.right, right):
        return left.left
    return ast.BinOp(left, op, right)
