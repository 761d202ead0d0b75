"""Transfers and copies that go since another one does their work."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from trn3.compiler.rewrite.loops import CountedLoop, counted, exchanged, is_of_indices
from trn3.compiler.rewrite.text import (
    ByHandError,
    Change,
    KernelText,
    TextLine,
    names,
    written_to,
)

__all__ = ["join_transfers", "read_source"]


def join_transfers(text: KernelText, line: int) -> KernelText:
    """Make the transfers of a loop one: before the loop, or of a store after it.

    Parameters
    ----------
    line
        A ``dma_copy`` whose places in both tensors count with the loop around it.

    Raises
    ------
    ByHandError
        If it stands in no such loop, or depends on what the loop makes.
    """
    *outer, statement = text.path(line)
    if not outer or not isinstance(loop := outer[-1], ast.For) or loop.orelse:
        message = f"line {line} is in no loop"
        raise ByHandError(message)
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or ast.unparse(call.func).split(".")[-1] != "dma_copy":
        message = f"line {line} is no dma_copy alone"
        raise ByHandError(message)
    text.block(statement)
    count = counted(loop)
    known, helpers = _helpers(loop, names(call))
    call = exchanged(call, known)
    made = names(*loop.body, stored=True)
    if left := names(call) & made:
        message = f"`{min(left)}` is of each iteration"
        raise ByHandError(message)
    joined = ast.fix_missing_locations(_Joined(count).visit(call))
    if count.name in names(joined):
        message = f"line {line}: its places do not count with `{count.name}`"
        raise ByHandError(message)
    origin = text.lines[statement.lineno - 1][1]
    row: TextLine = (text.indent(loop) + ast.unparse(joined), origin)
    end = loop.end_lineno or loop.lineno
    others = [each for each in loop.body if each is not statement and each not in helpers]
    if not others:
        return text.changed([(loop.lineno, end, [row])])
    target = next(iter(written_to(statement)), "")
    # What the loop reads is there before it; what it makes goes after it.
    is_load = any(target in names(each) for each in others)
    at = loop.lineno if is_load else end + 1
    gone: Change = (statement.lineno, statement.end_lineno or statement.lineno, [])
    return text.changed([(at, at - 1, [row]), gone])


def _helpers(loop: ast.For, wanted: set[str]) -> tuple[dict[str, ast.expr], list[ast.stmt]]:
    """Return what the names in a loop's body stand for that are wanted, and who says so."""
    known: dict[str, ast.expr] = {}
    found: list[ast.stmt] = []
    for each in loop.body:
        if isinstance(each, ast.Assign) and is_of_indices(each.value):
            given = names(each, stored=True)
            if len(given) == 1 and given <= wanted:
                known[given.pop()] = exchanged(each.value, known)
                found.append(each)
    return known, found


class _Joined(ast.NodeTransformer):
    """Places of one iteration become those of all."""

    def __init__(self, count: CountedLoop) -> None:
        self._count = count

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.slice, ast.Tuple):
            node.slice.elts = [self._place(each) for each in node.slice.elts]
        else:
            node.slice = self._place(node.slice)
        return node

    def _place(self, place: ast.expr) -> ast.expr:
        lower: ast.expr = place
        upper: ast.expr = ast.BinOp(place, ast.Add(), ast.Constant(1))
        if isinstance(place, ast.Slice) and place.lower and place.upper and not place.step:
            lower, upper = place.lower, place.upper
        elif isinstance(place, ast.Call) and len(place.args) == 2:
            lower, upper = place.args
            if ast.unparse(place.func).endswith("ds"):
                upper = ast.BinOp(lower, ast.Add(), upper)
        elif not isinstance(place, (ast.Name, ast.BinOp)):
            return place
        if self._count.name not in names(place):
            return place
        first, last = ({self._count.name: at} for at in (self._count.start, self._count.last))
        return ast.Slice(exchanged(lower, first), exchanged(upper, last))


def read_source(text: KernelText, lines: Sequence[int]) -> KernelText:
    """Read what a ``tensor_copy`` copies instead of the copy, and leave it out.

    Parameters
    ----------
    lines
        Its line, and those that read the copy.

    Raises
    ------
    ByHandError
        If it copies other than one named tensor to another one, or others use the copy.
    """
    copy, *readers = lines
    path = text.path(copy)
    statement, body = path[-1], text.siblings(path)
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or ast.unparse(call.func).split(".")[-1] != "tensor_copy":
        message = f"line {copy} is no tensor_copy alone"
        raise ByHandError(message)
    given = {each.arg: each.value for each in call.keywords}
    given |= dict(zip(("dst", "src"), call.args, strict=False))
    target, source = given.get("dst"), given.get("src")
    if not isinstance(target, ast.Name) or not isinstance(source, ast.Name):
        message = f"line {copy} copies parts of tensors"
        raise ByHandError(message)
    function = text.function_at(copy)
    makers = [each for each in ast.walk(function) if isinstance(each, ast.Assign)]
    makers = [each for each in makers if target.id in names(each, stored=True)]
    after = body[body.index(statement) + 1 :]
    users = [each for each in after if target.id in names(each)]
    inside = [line for each in users for line in range(each.lineno, (each.end_lineno or 0) + 1)]
    uses = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == target.id]
    known = {n for each in (*users, *makers, statement) for n in ast.walk(each)}
    if not users or len(makers) != 1 or not all(use in known for use in uses):
        message = f"`{target.id}` is used elsewhere"
        raise ByHandError(message)
    if not all(line in inside for line in readers) or any(
        source.id in names(each, stored=True) for each in after
    ):
        message = f"`{source.id}` is not what it was where `{target.id}` is read"
        raise ByHandError(message)
    text.block(statement)
    text.block(makers[0])
    both = (statement, makers[0])
    gone: list[Change] = [(each.lineno, each.end_lineno or each.lineno, []) for each in both]
    return text.renamed(users, {target.id: source.id}).changed(gone)
