"""What Python's own errors about a kernel do not say: the nearest name, and how one writes it."""

from __future__ import annotations

import inspect
import linecache
import re
import types
from collections.abc import Iterator
from typing import Any, Final

from trn3._trn3.machine import NkiInstruction, NkiTensor
from trn3.nki.values.suggestions import or_nearest

__all__ = ["advise"]

_KEYWORD: Final = re.compile(r"^(?:\w+\.)*(\w+)\(\) got an unexpected keyword argument '(\w+)'$")
_OPERATOR: Final = re.compile(
    r"^(?:unsupported operand type\(s\) for ([^:]+)|bad operand type for unary (\S)): (.*)$"
)
_ATTRIBUTE: Final = re.compile(r"^'NkiTensor' object has no attribute '(\w+)'$")
_ACCUMULATE: Final = (
    "; a product is accumulated in PSUM by the instruction: nisa.nc_matmul(dst, stationary, "
    "moving, accumulate=True); nisa.tensor_tensor(dst, dst, product, op=nl.add) adds a finished one"
)
#: Functions of `nki.language` by operator.
_FUNCTIONS: Final = {
    "+": "add", "-": "subtract", "*": "multiply", "/": "divide", "**": "power", "%": "mod",
    "**or pow()": "power", "&": "bitwise_and", "|": "bitwise_or", "^": "bitwise_xor",
    "<<": "left_shift", ">>": "right_shift",
}  # fmt: skip


def advise(error: BaseException) -> None:
    """Add to the text of an error that a kernel raised, where Python's says too little."""
    if not isinstance(error, (TypeError, AttributeError)) or len(error.args) != 1:
        return
    text = error.args[0]
    frames = list(_frames(error))
    if not isinstance(text, str) or not frames:
        return
    advice = _of_keyword(text, frames) or _of_operator(text, frames[-1]) or _of_attribute(text)
    if advice:
        error.args = (text + advice,)


def _frames(error: BaseException) -> Iterator[types.TracebackType]:
    trace = error.__traceback__
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _of_keyword(text: str, frames: list[types.TracebackType]) -> str:
    found = _KEYWORD.match(text)
    if found is None:
        return ""
    function, word = found.groups()
    for trace in reversed(frames):
        frame = trace.tb_frame
        line = linecache.getline(frame.f_code.co_filename, trace.tb_lineno)
        for alias in re.findall(rf"\b(\w+)\.{function}\(", line):
            module = frame.f_locals.get(alias, frame.f_globals.get(alias))
            called: Any = getattr(module, function, None)
            if getattr(module, "__name__", "").startswith("trn3.nki") and callable(called):
                names = _keywords(called)
                return f"{or_nearest(word, names)}; allowed: {', '.join(names)}"
    return ""


def _keywords(called: Any) -> list[str]:
    parameters = inspect.signature(called).parameters.values()
    rest = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [each.name for each in parameters if each.kind not in rest]


def _of_operator(text: str, trace: types.TracebackType) -> str:
    found = _OPERATOR.match(text)
    if found is None or f"'{NkiTensor.__module__}.NkiTensor'" not in found[3]:
        return ""
    operator = (found[1] or found[2]).strip()
    line = linecache.getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
    of_instruction = f"'{NkiInstruction.__module__}.NkiInstruction'" in found[3]
    if operator == "+=" and (of_instruction or "matmul" in line):
        return _ACCUMULATE
    name = _FUNCTIONS.get(operator.removesuffix("=") or operator, "")
    if not name or found[2]:
        return "; tensors have no operators: functions of nki.language give new tiles"
    form = f"nisa.tensor_tensor(dst, x, y, op=nl.{name})"
    return f"; tensors have no operators: nl.{name}(x, y) gives a new tile, {form} writes to one"


def _of_attribute(text: str) -> str:
    found = _ATTRIBUTE.match(text)
    if found is None:
        return ""
    from trn3.nki import language

    name = found[1]
    if callable(vars(language).get(name)):
        return f"; nl.{name}(tensor) is a function"
    return or_nearest(name, [each for each in dir(NkiTensor) if not each.startswith("_")])
