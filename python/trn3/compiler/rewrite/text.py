"""The text of a kernel: its statements, the names in them, and lines that are put elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

__all__ = ["ByHandError", "Change", "KernelText", "TextLine", "free_names", "names", "written_to"]

#: A line, and the line of the file as it was first that it comes from; 0 for a new one.
TextLine: TypeAlias = tuple[str, int]
#: Lines that come in the place of those from the first to the last, counted from 1.
Change: TypeAlias = tuple[int, int, Sequence[TextLine]]


class ByHandError(Exception):
    """A change that this text does not let be made mechanically; the text says why."""


@dataclass(frozen=True)
class KernelText:
    """A file's text with one kernel in it.

    Parameters
    ----------
    lines : tuple of (str, int)
        Each with the line that it was in the file as it was first.
    kernel : str
        Name of the kernel's function.
    """

    lines: tuple[TextLine, ...]
    kernel: str

    @classmethod
    def of(cls, text: str, kernel: str) -> KernelText:
        r"""Return the text of a file as it is.

        Examples
        --------
        >>> KernelText.of("def f(x):\n    return x\n", "f").function.name
        'f'
        """
        return cls(tuple((line, at) for at, line in enumerate(text.splitlines(), 1)), kernel)

    @property
    def source(self) -> str:
        """The text."""
        return "".join(f"{line}\n" for line, _ in self.lines)

    @cached_property
    def functions(self) -> list[ast.FunctionDef]:
        """The file's functions, inner ones after those around them."""
        nodes = ast.walk(ast.parse(self.source))
        return [node for node in nodes if isinstance(node, ast.FunctionDef)]

    @property
    def function(self) -> ast.FunctionDef:
        """The kernel's function.

        Raises
        ------
        ByHandError
            If the file does not define it.
        """
        for node in self.functions:
            if node.name == self.kernel:
                return node
        message = f"the file defines no function {self.kernel}"
        raise ByHandError(message)

    @property
    def step(self) -> str:
        """By how much the kernel's function indents its body."""
        return self.indent(self.function.body[0])[self.function.col_offset :]

    def indent(self, statement: ast.stmt) -> str:
        """Return what stands before a statement in its line."""
        return self.lines[statement.lineno - 1][0][: statement.col_offset]

    def loops(self) -> list[list[tuple[int, int]]]:
        """Return first and last line of each statement of each loop."""
        nodes = (node for function in self.functions for node in ast.walk(function))
        found = {node for node in nodes if isinstance(node, ast.For)}
        ordered = sorted(found, key=lambda loop: loop.lineno)
        return [[(each.lineno, each.end_lineno or 0) for each in loop.body] for loop in ordered]

    def function_at(self, line: int) -> ast.FunctionDef:
        """Return the innermost function around a line.

        Raises
        ------
        ByHandError
            If it is in none.
        """
        for node in reversed(self.functions):
            if node.lineno <= line <= (node.end_lineno or 0):
                return node
        message = f"line {line} is in no function"
        raise ByHandError(message)

    def origin(self, line: int) -> int:
        """Return the line of the first text that one comes from; of a new one that above it."""
        return next((origin for _, origin in reversed(self.lines[:line]) if origin), 1)

    def line_of(self, line: TextLine) -> int:
        """Return where a line of this text, or of one that it was made from, is now."""
        return next(at for at, each in enumerate(self.lines, 1) if each is line)

    def path(self, line: int) -> list[ast.stmt]:
        """Return the statement at a line after the loops and branches around it, outermost first.

        Raises
        ------
        ByHandError
            If the line is in no function.
        """
        found: list[ast.stmt] = []
        body: Sequence[ast.stmt] = self.function_at(line).body
        while inner := next((s for s in body if s.lineno <= line <= (s.end_lineno or 0)), None):
            found.append(inner)
            body = bodies(inner)
        if not found:
            message = f"line {line} is no statement"
            raise ByHandError(message)
        return found

    def siblings(self, path: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return the statements among which the last one of a path stands."""
        for around in reversed(path[:-1]):
            return next(body for body in _branches(around) if path[-1] in body)
        return self.function_at(path[-1].lineno).body

    def block(self, first: ast.stmt, last: ast.stmt | None = None) -> list[TextLine]:
        """Return the lines of statements that follow one another, without their indentation.

        Raises
        ------
        ByHandError
            If they share a line with others, or hold a text of several lines.
        """
        last = last or first
        for node in ast.walk(ast.Module([first, last], [])):
            if isinstance(node, (ast.Constant, ast.JoinedStr)) and node.lineno != node.end_lineno:
                message = f"line {node.lineno}: a text of several lines"
                raise ByHandError(message)
        lines = self.lines[first.lineno - 1 : last.end_lineno]
        before = lines[0][0][: first.col_offset]
        after = lines[-1][0].encode()[last.end_col_offset :].decode().strip()
        if before.strip() or (after and not after.startswith("#")):
            message = f"line {first.lineno}: several statements in one line"
            raise ByHandError(message)
        if any(text.strip() and not text.startswith(before) for text, _ in lines):
            message = f"line {first.lineno}: lines are indented less than their statement"
            raise ByHandError(message)
        return [(text[len(before) :], origin) for text, origin in lines]

    def changed(self, changes: Iterable[Change]) -> KernelText:
        """Return the text with lines replaced; what is put before a line comes before it."""
        lines = list(self.lines)
        for first, last, instead in sorted(changes, key=lambda change: change[:2], reverse=True):
            lines[first - 1 : last] = instead
        return KernelText(tuple(lines), self.kernel)

    def renamed(self, nodes: Sequence[ast.stmt], to: dict[str, str]) -> KernelText:
        """Return the text with names exchanged in some statements."""
        found = [n for s in nodes for n in ast.walk(s) if isinstance(n, ast.Name) and n.id in to]
        lines = list(self.lines)
        for name in sorted(found, key=lambda n: (n.lineno, n.col_offset), reverse=True):
            text, origin = lines[name.lineno - 1]
            raw, end = text.encode(), name.end_col_offset or 0
            made = raw[: name.col_offset] + to[name.id].encode() + raw[end:]
            lines[name.lineno - 1] = (made.decode(), origin)
        return KernelText(tuple(lines), self.kernel)

    def unused(self, wanted: str) -> str:
        """Return a name that the file does not use."""
        taken = {node.id for node in ast.walk(ast.parse(self.source)) if isinstance(node, ast.Name)}
        while wanted in taken:
            wanted += "_"
        return wanted


def _branches(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for field in ("body", "orelse"):
        yield getattr(statement, field, [])


def bodies(statement: ast.stmt) -> list[ast.stmt]:
    """Return the statements inside of another one."""
    return [inner for body in _branches(statement) for inner in body]


def indented(lines: Iterable[TextLine], by: str) -> list[TextLine]:
    """Return lines further in; empty ones stay so."""
    return [(by + text if text.strip() else text, origin) for text, origin in lines]


def names(*nodes: ast.AST, stored: bool = False) -> set[str]:
    """Return the names that are read in some nodes, or those that get a value."""
    wanted = ast.Store if stored else ast.Load
    found = (each for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name))
    return {each.id for each in found if isinstance(each.ctx, wanted)}


def free_names(statements: Iterable[ast.stmt]) -> set[str]:
    r"""Return the names that statements read and that they have not given a value before.

    >>> sorted(free_names(ast.parse("y = x\nfor i in n:\n    z = y + i").body))
    ['n', 'x']
    """
    found: set[str] = set()
    bound: set[str] = set()
    for statement in statements:
        if isinstance(statement, ast.For):
            found |= names(statement.iter) - bound
            found |= free_names(statement.body) - bound - names(statement.target, stored=True)
        elif isinstance(statement, ast.If):
            found |= names(statement.test) - bound
            found |= (free_names(statement.body) | free_names(statement.orelse)) - bound
        else:
            found |= names(statement) - bound
        bound |= names(statement, stored=True)
    return found


def written_to(statement: ast.AST) -> Iterator[str]:
    """Yield the names of tensors that instructions in a statement write: ``dst``, or the first."""
    for node in ast.walk(statement):
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
            continue
        call = node.value
        given = [each.value for each in call.keywords if each.arg == "dst"] or call.args[:1]
        for target in given:
            root: ast.AST = target
            while isinstance(root, (ast.Subscript, ast.Attribute, ast.Call)):
                root = root.func if isinstance(root, ast.Call) else root.value
            if isinstance(root, ast.Name):
                yield root.id
