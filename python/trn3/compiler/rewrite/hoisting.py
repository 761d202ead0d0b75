"""Tensors that are filled once: before the loop that repeats it, or in its first iteration."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from contextlib import suppress

from trn3.compiler.rewrite.loops import counted, is_of_indices
from trn3.compiler.rewrite.moves import made_name, make_in_loop
from trn3.compiler.rewrite.text import (
    ByHandError,
    KernelText,
    TextLine,
    free_names,
    indented,
    names,
    written_to,
)

__all__ = ["fill_once"]


def fill_once(text: KernelText, line: int, fills: Sequence[int]) -> KernelText:
    """Make the tensor of a line, and what fills it, once where loops repeat it.

    Parameters
    ----------
    line
        Makes the tensor.
    fills
        Lines that write it.

    Raises
    ------
    ByHandError
        If each iteration fills it with something else, as far as names tell, or the loops around it
        do not count from 0.
    """
    of_fills = [text.lines[each - 1] for each in fills]
    _, origin = text.lines[line - 1]
    with suppress(ByHandError):
        text = make_in_loop(text, line)
        line = next(at for at, (_, of) in enumerate(text.lines, 1) if of == origin)
    fills = [text.line_of(each) for each in of_fills]
    *outer, made = path = text.path(line)
    loops = [each for each in outer if isinstance(each, ast.For) and not each.orelse]
    if not loops or not all(each in loops or _is_first_ones(each, loops) for each in outer):
        message = f"line {line} is in no loop, or in a branch"
        raise ByHandError(message)
    name, body = made_name(made), text.siblings(path)
    filling = [s for s in body if any(s.lineno <= at <= (s.end_lineno or 0) for at in fills)]
    group = [each for each in filling if each is not made]
    between = body[body.index(made) + 1 : body.index(group[-1]) + 1] if group else []
    again = any(name in names(each, stored=True) for each in body if each is not made)
    if not filling or again or any(s not in group and name in names(s) for s in between):
        message = f"`{name}` is not filled in the loop that makes it"
        raise ByHandError(message)
    if any(set(written_to(each)) != {name} for each in group):
        message = f"what fills `{name}` fills others too"
        raise ByHandError(message)
    needs = _Needs(outer)
    needs.follow(free_names([made, *group]) - {name})
    same = [number for number in range(len(loops)) if number not in needs.loops]
    if not same:
        message = f"`{name}` is another one in each iteration"
        raise ByHandError(message)
    # Loops from here inwards leave it as it is.
    start = len(loops)
    while start - 1 in same and not any(level >= start - 1 for level in needs.tensors):
        start -= 1
    guards = [number for number in same if number < start]
    copied = [each for level, each in needs.helpers if level >= start]
    block = [row for each in (*copied, made, *group) for row in text.block(each)]
    if guards:
        block = _guarded(text, name, block, [loops[number] for number in guards], loops, start)
    home = loops[start] if start < len(loops) else (group or [made])[0]
    changes = [(home.lineno, home.lineno - 1, indented(block, text.indent(home)))]
    if guards:
        first = loops[guards[0]]
        empty = [(f"{text.indent(first)}{_listed(text, name)} = []", 0)]
        changes.append((first.lineno, first.lineno - 1, empty))
    changes += [(each.lineno, each.end_lineno or each.lineno, []) for each in (made, *group)]
    if start < len(loops) and all(each in (made, *group) for each in body):
        message = f"line {loops[-1].lineno}: the loop would be empty"
        raise ByHandError(message)
    return text.changed(changes)


def _listed(text: KernelText, name: str) -> str:
    return text.unused(f"{name}_of")


def _guarded(
    text: KernelText,
    name: str,
    block: list[TextLine],
    guards: Sequence[ast.For],
    loops: Sequence[ast.For],
    start: int,
) -> list[TextLine]:
    """Return the lines that fill tensors in the first iterations and find them in all others."""
    listed = _listed(text, name)
    index = ""
    inner = [each for each in loops[loops.index(guards[0]) + 1 : start] if each not in guards]
    for loop in map(counted, inner):
        count, number = (
            ast.unparse(each) for each in (loop.trip, loop.words("(i - start) // step"))
        )
        count = count if isinstance(loop.trip, (ast.Name, ast.Constant, ast.Call)) else f"({count})"
        index = f"({index}) * {count} + {number}" if " " in index else index
        index = index if " " in index else f"{index} * {count} + {number}" if index else number
    of = map(counted, guards)
    first = " and ".join(f"{each.name} == {ast.unparse(each.start)}" for each in of)
    found = [(f"{name} = {listed}[{index or 0}]", 0)]
    return [
        (f"if {first}:", 0),
        *indented([*block, (f"{listed}.append({name})", 0)], text.step),
        *found,
    ]


class _Needs:
    """What statements need of the loops around them: their indices, names of these, tensors.

    Attributes
    ----------
    loops : set of int
        Loops whose index it depends on.
    helpers : list of (int, ast.stmt)
        Statements that compute indices, and the loop whose body has them.
    tensors : set of int
        Loops whose bodies make tensors that it reads.
    """

    def __init__(self, outer: Sequence[ast.stmt]) -> None:
        self._around = [each for each in outer if isinstance(each, ast.For)]
        self._outer = outer
        self.loops: set[int] = set()
        self.helpers: list[tuple[int, ast.stmt]] = []
        self.tensors: set[int] = set()
        self._seen: set[str] = set()

    def follow(self, wanted: set[str]) -> None:
        """Add what names stand for."""
        for name in sorted(wanted - self._seen):
            self._seen.add(name)
            for level in reversed(range(len(self._around))):
                if self._given(name, level):
                    break
                if name in names(self._around[level].target, stored=True):
                    self.loops.add(level)
                    break

    def _given(self, name: str, level: int) -> bool:
        """Add what a name stands for that the body of a loop gives a value; whether it does."""
        own = self._own(self._around[level].body)
        given = [each for each in own if name in names(each, stored=True)]
        if not given:
            return False
        if len(given) > 1 or not isinstance(given[0], ast.Assign):
            message = f"`{name}` gets several values"
            raise ByHandError(message)
        if is_of_indices(given[0].value):
            self.follow(names(given[0].value))
            self.helpers.append((level, given[0]))
            return True
        self.tensors.add(level)
        writers = [each for each in own if name in written_to(each)]
        self.follow(free_names([given[0], *writers]) - {name})
        return True

    def _own(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return the statements of a body, and those of its branch around what needs them."""
        own = [each for each in body if each not in self._outer]
        branches = [each for each in body if isinstance(each, ast.If) and each in self._outer]
        return own + [each for branch in branches for each in self._own(branch.body)]


def _is_first_ones(branch: ast.stmt, loops: Sequence[ast.For]) -> bool:
    """Return whether a statement is a branch for the first iterations of a loop."""
    if not isinstance(branch, ast.If) or not isinstance(branch.test, ast.Compare):
        return False
    left, (how, *others) = branch.test.left, branch.test.ops
    indices = {name for loop in loops for name in names(loop.target, stored=True)}
    return (
        isinstance(left, ast.Name) and left.id in indices and isinstance(how, ast.Lt) and not others
    )
