"""Checks of how a kernel uses `nki.language`, `nki.isa` and `nki.collectives`."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from typing import Final

from trn3.machine.instructions import dropped_keywords, instructions
from trn3.nki.lint import rules
from trn3.nki.lint.breaches import Breach, Place, argument, check, number
from trn3.nki.lint.registers import is_register
from trn3.nki.lint.scopes import NameBinding
from trn3.nki.values.element_types import ALL

_INTEGERS: Final = frozenset(each.name for each in ALL if each.is_integer) - {"bool"}
_NO_INSTRUCTION: Final = frozenset(("divide", "mod", "fmod"))
_LEGACY: Final = frozenset(
    (
        "all_reduce", "arange", "atomic_rmw", "loop_reduce", "mgrid", "nc", "par_dim", "spmd_dim",
        "static_cast",
    )
)  # fmt: skip
_LEGACY_RUNNERS: Final = frozenset(("baremetal", "benchmark", "simulate_kernel", "trace"))
_BUFFERS: Final = frozenset(("sbuf", "psum", "hbm", "private_hbm", "shared_hbm"))
_CREATORS: Final = {
    "ndarray": 2, "zeros": 2, "ones": 2, "full": 3, "zeros_like": 2, "empty_like": 2, "rand": 2,
}  # fmt: skip


@functools.cache
def _enums() -> dict[str, str]:
    """Return the keywords of instructions that take members of enums, and the enum of each."""
    rows = (argument for row in instructions().values() for argument in row.arguments)
    known = {argument.name: argument.enum for argument in rows if argument.enum is not None}
    # What the core takes is a flag.
    return known | {"perf_mode": "matmul_perf_mode"}


@check(ast.Attribute, ast.Name)
def names(node: ast.Attribute | ast.Name, place: Place) -> Iterator[Breach]:
    """Find names that hardware has not, that are the legacy dialect's, or trn3's own."""
    name = place.name(node)
    if name is None or not isinstance(node.ctx, ast.Load):
        return
    if name.module == "nl" and name.name in _NO_INSTRUCTION:
        yield rules.NO_INSTRUCTION, node, f"`{name}`"
    elif (
        name.module.startswith("legacy")
        or (name.module == "nl" and name.name in _LEGACY)
        or (name.module == "nki" and name.name in _LEGACY_RUNNERS)
    ):
        yield rules.LEGACY_NAME, node, f"`{name}`"
    elif name.module == "nisa" and name.name in instructions() and instructions()[name.name].is_own:
        yield rules.OWN_NAME, node, f"`{name}`"


@check(ast.Call)
def keywords(node: ast.Call, place: Place) -> Iterator[Breach]:
    """Find keywords of calls: masks, enums as numbers, dropped ones."""
    name = place.called(node)
    if name is None or name.module not in ("nl", "nisa", "ncc"):
        return
    for keyword in node.keywords:
        dropped = dropped_keywords().get((name.name, keyword.arg or ""))
        if dropped and name.module != "nl":
            yield rules.OLD_KEYWORD, keyword, f"`{name}({keyword.arg}=)`, {dropped}"
        if keyword.arg == "mask":
            yield rules.LEGACY_NAME, keyword, f"`{name}(mask=)`"
        enum = _enums().get(keyword.arg or "") if name.module == "nisa" else None
        if enum and number(keyword.value) is not None:
            text = f"`{keyword.arg}={ast.unparse(keyword.value)}` is no `nisa.{enum}`"
            yield rules.ENUM_NUMBER, keyword.value, text


@check(ast.Call)
def forms(node: ast.Call, place: Place) -> Iterator[Breach]:
    """Find forms of functions that have no instruction."""
    name = place.called(node)
    if name == ("nl", "power"):
        for each in (argument(node, 0, "x"), argument(node, 1, "y")):
            if number(each) is not None:
                yield rules.SCALAR_POWER, node, f"`{ast.unparse(node)}`"
    elif name == ("nl", "store"):
        value = argument(node, 1, "value")
        if value is not None and _memory(value, place) == "psum":
            yield rules.PSUM_STORE, node, f"`nl.store` of `{ast.unparse(value)}`, which is in PSUM"
    elif name == ("nl", "matmul"):
        transposed = argument(node, 2, "transpose_x")
        starred = any(each.arg is None for each in node.keywords)
        false = isinstance(transposed, ast.Constant) and not transposed.value
        if false or (transposed is None and not starred):
            yield rules.MATMUL_FORM, node, f"`{ast.unparse(node)}`"
    elif name == ("nisa", "memset"):
        value, target = argument(node, 1, "value"), argument(node, 0, "dst")
        if isinstance(number(value), float) and target is not None and _is_integer(target, place):
            text = f"`{ast.unparse(node)}` of an integer tile"
            yield rules.MEMSET_VALUE, node, text


@check(ast.Call)
def string_buffer(node: ast.Call, place: Place) -> Iterator[Breach]:
    """Find buffers given as strings."""
    name = place.called(node)
    if name is None or name.module != "nl" or name.name not in _CREATORS:
        return
    buffer = argument(node, _CREATORS[name.name], "buffer")
    if isinstance(buffer, ast.Constant) and isinstance(buffer.value, str):
        yield rules.STRING_BUFFER, buffer, f"`buffer={buffer.value!r}`"


@check(ast.Return)
def returned(node: ast.Return, place: Place) -> Iterator[Breach]:
    """Find results in memory that only one core reaches."""
    if not place.is_launched or any(
        isinstance(each, ast.FunctionDef) for each in place.parents[1:]
    ):
        return
    several = isinstance(node.value, (ast.Tuple, ast.List))
    for value in node.value.elts if several else [node.value]:  # type: ignore[union-attr]
        if value is not None and _memory(value, place) in ("hbm", "private_hbm"):
            yield rules.PRIVATE_RESULT, value, f"`{ast.unparse(value)}` is in private HBM"


@check(ast.For, ast.While, ast.Call)
def ordered(node: ast.For | ast.While | ast.Call, place: Place) -> Iterator[Breach]:
    """Find dynamic loops inside `no_reorder`."""
    if not any(_is_ordering(each, place) for each in place.parents):
        return
    if isinstance(node, ast.While) and is_register(node.test, place):
        yield rules.DYNAMIC_ORDERED, node, "`while` a register inside `nl.no_reorder`"
    name = place.called(node.iter if isinstance(node, ast.For) else node)
    dynamic = {ast.For: ("dynamic_range",), ast.Call: ("fori_loop", "while_loop")}
    if name is not None and name.module == "nl" and name.name in dynamic.get(type(node), ()):
        yield rules.DYNAMIC_ORDERED, node, f"`{name}` inside `nl.no_reorder`"


def _is_ordering(node: ast.AST, place: Place) -> bool:
    return isinstance(node, ast.With) and any(
        place.called(item.context_expr) == ("nl", "no_reorder") for item in node.items
    )


def _memory(node: ast.expr, place: Place) -> str | None:
    """Return the memory that a tensor, or a view of it, is certainly in."""
    if isinstance(node, ast.Subscript):
        return _memory(node.value, place)
    if isinstance(node, ast.Call):
        return _memory_of_call(node, place)
    found = {
        _memory_of_call(binding.expression, place) if binding.kind == "value" else None
        for binding in place.values(node)
    }
    return found.pop() if len(found) == 1 else None


def _memory_of_call(node: ast.expr | None, place: Place) -> str | None:
    name = place.called(node)
    if name is None or name.module != "nl" or not isinstance(node, ast.Call):
        return None
    if name.name in ("matmul", "transpose"):
        return "psum"
    if name.name not in _CREATORS:
        return None
    buffer = argument(node, _CREATORS[name.name], "buffer")
    known = None if buffer is None else place.name(buffer)
    return known.name if known is not None and known.name in _BUFFERS else None


def _is_integer(node: ast.expr, place: Place) -> bool:
    """Whether a tile, or a view of it, is certainly one of whole numbers."""
    while isinstance(node, ast.Subscript):
        node = node.value

    def made(binding: NameBinding) -> bool:
        name = place.called(binding.expression)
        if name is None or name.module != "nl" or name.name not in ("ndarray", "zeros", "ones"):
            return False
        call = binding.expression
        dtype = argument(call, 1, "dtype") if isinstance(call, ast.Call) else None
        known = None if dtype is None else place.name(dtype)
        return known is not None and known.module == "nl" and known.name in _INTEGERS

    return place.is_always(node, made)
