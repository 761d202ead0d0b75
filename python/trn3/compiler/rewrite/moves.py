"""What is written otherwise and computes the same: each function takes a text and returns one."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from contextlib import suppress

from trn3.compiler.rewrite.loops import CountedLoop, counted
from trn3.compiler.rewrite.text import (
    ByHandError,
    KernelText,
    TextLine,
    free_names,
    indented,
    names,
)

__all__ = [
    "give_engine",
    "issue_ahead",
    "lines_that_name",
    "made_name",
    "make_all_in_loop",
    "make_in_loop",
    "remove",
]


def made_name(statement: ast.stmt) -> str:
    """Return the name that a statement gives to a new tensor.

    Raises
    ------
    ByHandError
        If it is another statement.
    """
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
        (target, *others) = statement.targets
        if isinstance(target, ast.Name) and not others:
            return target.id
    message = f"line {statement.lineno} does not give one tensor a name"
    raise ByHandError(message)


def make_in_loop(text: KernelText, line: int) -> KernelText:
    """Make the tensor of a line in the innermost loop that has all its uses.

    Raises
    ------
    ByHandError
        If it is used in several places, or its shape is of a loop's.
    """
    path = text.path(line)
    name, body = made_name(made := path[-1]), text.siblings(path)
    home: ast.stmt | None = None
    while True:
        users = [s for s in body if s is not made and name in names(s) | names(s, stored=True)]
        (first, *others) = users or [made]
        if others or not isinstance(first, ast.For) or first.orelse or name in names(first.iter):
            break
        home, body = home or first, first.body
    if home is None or not users:
        message = f"`{name}` is used in more than one place"
        raise ByHandError(message)
    if name in names(home, stored=True) or names(made) & names(home, stored=True):
        message = f"`{name}` changes in the loop"
        raise ByHandError(message)
    block = indented(text.block(made), text.indent(first))
    last = made.end_lineno or made.lineno
    return text.changed([(first.lineno, first.lineno - 1, block), (made.lineno, last, [])])


def make_all_in_loop(text: KernelText, lines: Sequence[int]) -> KernelText:
    """Make those tensors of some lines in their loops that can be.

    Raises
    ------
    ByHandError
        If none can be.
    """
    before, marks = text, [text.lines[line - 1] for line in lines]
    problem = ByHandError("no tensor to make")
    for mark in marks:
        try:
            text = make_in_loop(text, text.line_of(mark))
        except ByHandError as error:
            problem = error
    if text is before:
        raise problem
    return text


def give_engine(
    text: KernelText,
    line: int,
    engines: Sequence[str],
    takes_engine: Callable[[ast.expr], bool],
    *,
    is_queue: bool = False,
) -> KernelText:
    """Give the instruction at a line an engine; several take turns over the innermost loop.

    Parameters
    ----------
    takes_engine
        Tells whether an expression is a function of `nki.isa` that has the argument.
    is_queue
        Whether the engine is that whose sequencer triggers a transfer.

    Raises
    ------
    ByHandError
        If there is no such instruction, or its arguments are not all in the text.
    """
    *loops, statement = text.path(line)
    calls = [
        node
        for node in ast.walk(statement)
        if isinstance(node, ast.Call) and takes_engine(node.func)
    ]
    if len(calls) != 1 or not isinstance(calls[0].func, ast.Attribute):
        message = f"line {line} has no one instruction of nki.isa that takes an engine"
        raise ByHandError(message)
    (call,) = calls
    given = {each.arg: each.value for each in call.keywords}
    if None in given or (is_queue and {"engine", "dge_mode"} & set(given)):
        message = f"line {line} names its engine otherwise"
        raise ByHandError(message)
    module = ast.unparse(calls[0].func.value)
    chosen = [f"{module}.{engine}_engine" for engine in engines]
    words = chosen[0]
    if len(chosen) > 1:
        count = _counted_around(loops, line)
        late = f"{count.name} > {ast.unparse(count.start)}"
        if any(isinstance(each, ast.If) and ast.unparse(each.test) == late for each in loops):
            # What stands behind the first iteration alone is one behind.
            chosen = [chosen[-1], *chosen[:-1]]
        turn = count.words(f"(i - start) // step % {len(chosen)}")
        words = f"({', '.join(chosen)})[{ast.unparse(turn)}]"
    if named := given.get("engine"):
        if named.lineno != named.end_lineno:
            message = f"line {line} names its engine in several lines"
            raise ByHandError(message)
        return _between(text, named.lineno, named.col_offset, named.end_col_offset or 0, words)
    words = f"engine={words}"
    words = f"dge_mode={module}.dge_mode.hwdge, {words}" if is_queue else words
    at, column = max((each.end_lineno or 0, each.end_col_offset or 0) for each in _arguments(call))
    return _between(text, at, column, column, f", {words}")


def _counted_around(path: Sequence[ast.stmt], line: int) -> CountedLoop:
    loop = next((each for each in reversed(path) if isinstance(each, ast.For)), None)
    if loop is None:
        message = f"line {line} is in no loop"
        raise ByHandError(message)
    return counted(loop)


def lines_that_name(text: KernelText, takes: Callable[[ast.expr], bool]) -> dict[int, bool]:
    """Return the lines of calls that can name an engine, and whether they can name several in turn.

    Parameters
    ----------
    takes
        As `give_engine` has it.
    """
    found = {}
    for node in (each for function in text.functions for each in ast.walk(function)):
        if isinstance(node, ast.Call) and takes(node.func):
            with suppress(ByHandError):
                found[node.lineno] = False
                found[node.lineno] = bool(_counted_around(text.path(node.lineno), node.lineno))
    return found


def _between(text: KernelText, line: int, first: int, last: int, words: str) -> KernelText:
    """Return the text with words in the place of some bytes of a line."""
    old, origin = text.lines[line - 1]
    raw = old.encode()
    made = f"{raw[:first].decode()}{words}{raw[last:].decode()}"
    return text.changed([(line, line, [(made, origin)])])


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(each.value for each in call.keywords)]


def remove(text: KernelText, lines: Sequence[int]) -> KernelText:
    """Leave statements out.

    Raises
    ------
    ByHandError
        If one of them is no instruction alone, or another one of its loop is left alone.
    """
    changes = []
    for line in lines:
        statement = text.path(line)[-1]
        made = statement.value if isinstance(statement, ast.Assign) else None
        function = made.func if isinstance(made, ast.Call) else None
        if isinstance(function, ast.Attribute) and function.attr == "zeros":
            # What fills as it makes makes alone.
            at, end = function.end_lineno or 0, function.end_col_offset or 0
            text = _between(text, at, end - len("zeros"), end, "ndarray")
            continue
        if not isinstance(statement, ast.Expr):
            message = f"line {line} is no instruction alone"
            raise ByHandError(message)
        kept = [(text.indent(statement) + "pass", 0)]
        alone = len(text.siblings(text.path(line))) == 1
        text.block(statement)
        last = statement.end_lineno or statement.lineno
        changes.append((statement.lineno, last, kept if alone else []))
    return text.changed(changes)


def issue_ahead(text: KernelText, cut: int, tensors: Sequence[int]) -> KernelText:
    """Issue what stands before a line of a loop for the next iteration before what follows it.

    Parameters
    ----------
    cut
        The line.
    tensors
        Lines that make tensors; those that can be are made in the loop.

    Raises
    ------
    ByHandError
        If the loop does not count from 0, or an iteration needs names of the one before.
    """
    marked = text.lines[cut - 1]
    with suppress(ByHandError):
        text = make_all_in_loop(text, tensors)
    *outer, statement = text.path(text.line_of(marked))
    if not outer or not isinstance(loop := outer[-1], ast.For):
        message = f"line {cut} is in no loop"
        raise ByHandError(message)
    count = counted(loop)
    name = count.name
    if any(isinstance(each, ast.If) and name in names(each.test) for each in loop.body):
        message = f"line {loop.lineno}: iterations of the loop differ"
        raise ByHandError(message)
    split = loop.body.index(statement)
    head, tail = loop.body[:split], loop.body[split:]
    # What only the second part uses is made there.
    late = [
        each
        for each in head
        if isinstance(each, ast.Assign)
        and isinstance(each.value, ast.Call)
        and ast.unparse(each.value.func).endswith("ndarray")
        and not any(names(each, stored=True) & names(other) for other in head)
        and not (names(each) & names(*head, stored=True))
    ]
    head = [each for each in head if each not in late]
    if not head or any(isinstance(node, (ast.Break, ast.Continue)) for node in ast.walk(loop)):
        message = f"line {loop.lineno}: nothing to issue before"
        raise ByHandError(message)
    needed = free_names(tail)
    carried = sorted(needed & names(*head, stored=True))
    given = names(*tail, stored=True)
    clash = (given & free_names(head)) | (given & set(carried)) | ({name} & given)
    if clash:
        message = f"`{min(clash)}` is of both parts of the loop at line {loop.lineno}"
        raise ByHandError(message)
    to = {each: text.unused(f"{each}_before") for each in carried}
    index = text.unused(f"{name}_before")
    renamed = text.renamed(tail, {**to, name: index})
    inner = text.indent(head[0])
    first = [line for each in late for line in text.block(each)]
    header = _header(text, loop, count)
    lines: list[TextLine] = [*header]
    if carried:
        lines.append((f"{inner}if {name} > {ast.unparse(count.start)}:", 0))
        saved = f"{', '.join(to.values())} = {', '.join(to)}"
        lines.append((f"{inner}{text.step}{saved}", 0))
    below = ast.unparse(ast.Compare(ast.Name(name), [ast.Lt()], [count.stop]))
    lines.append((f"{inner}if {below}:", 0))
    gone = {at for each in late for at in range(each.lineno, (each.end_lineno or 0) + 1)}
    start = (loop.iter.end_lineno or loop.lineno) + 1
    ending = start + len(text.lines[start - 1 : _before(text, statement) - 1])
    own = [text.lines[at - 1] for at in range(start, ending) if at not in gone]
    text.block(head[0], head[-1])
    lines += indented(own, text.step)
    lines.append((f"{inner}if {name} > {ast.unparse(count.start)}:", 0))
    if name in needed:
        before = ast.unparse(count.words("i - step"))
        lines.append((f"{inner}{text.step}{index} = {before}", 0))
    lines += indented(first, inner + text.step)
    text.block(tail[0], tail[-1])
    last = loop.end_lineno or loop.lineno
    lines += indented(renamed.lines[ending - 1 : last], text.step)
    return text.changed([(loop.lineno, last, lines)])


def _before(text: KernelText, statement: ast.stmt) -> int:
    """Return where a statement begins with the comments above it."""
    at = statement.lineno
    while text.lines[at - 2][0].lstrip().startswith("#"):
        at -= 1
    return at


def _header(text: KernelText, loop: ast.For, count: CountedLoop) -> list[TextLine]:
    """Return the head of a loop of one iteration more, whose iterations are in order."""
    words = count.longer(count.function.replace("affine_range", "sequential_range"))
    return [(text.indent(loop) + words, text.lines[loop.lineno - 1][1])]
