"""The source of functions, as trees."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import types

from trn3.nki.lint.scopes import FunctionNode


@functools.lru_cache(maxsize=256)
def _functions(file: str, text: str) -> dict[tuple[str, int], FunctionNode]:
    """Return the functions of a file by name and first line, decorators included."""
    del file  # two files may hold the same text, but errors name one
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return {}
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            found[node.name, first] = node
    return found


def tree_of(function: types.FunctionType) -> tuple[str, FunctionNode] | None:
    """Return the file and the tree of a function; None where there is no source, as of `exec`."""
    code = function.__code__
    try:
        file = inspect.getsourcefile(function) or code.co_filename
    except TypeError:
        return None
    linecache.checkcache(file)
    text = "".join(linecache.getlines(file, function.__globals__))
    node = _functions(file, text).get((code.co_name, code.co_firstlineno)) if text else None
    return None if node is None else (file, node)
