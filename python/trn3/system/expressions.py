"""Arithmetic in spec files: ``derived: 144*2.517``, and formulas over named figures.

Only numbers, names, ``+ - * / **``, signs, parentheses, ``min`` and ``max`` are read; nothing of
Python's is called, so that a spec file from anywhere can be evaluated.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

#: Longer texts are no arithmetic on a figure.
LONGEST: Final = 400
#: Larger exponents make numbers that are no figure either, and take long.
LARGEST_EXPONENT: Final = 64

_OPERATORS: Final[Mapping[type[ast.operator], Callable[[float, float], float]]] = MappingProxyType(
    {
        ast.Add: operator.add,
        ast.Sub: operator.sub,
        ast.Mult: operator.mul,
        ast.Div: operator.truediv,
    }
)
_FUNCTIONS: Final[Mapping[str, Callable[..., float]]] = MappingProxyType({"min": min, "max": max})


class ExpressionError(ValueError):
    """A text is no arithmetic, or has no finite value."""


def evaluate(text: str, names: Mapping[str, float] | None = None) -> float:
    """Return the value of an expression.

    Parameters
    ----------
    text
        The expression. A name may have dots: ``core.clock_tensor``.
    names
        What the names stand for.

    Raises
    ------
    ExpressionError
        If the text is something else, names what is not there, or has no finite value.

    Examples
    --------
    >>> evaluate("512*128*2*2.4e9*8/1e12")
    2516.5824
    >>> evaluate("chips * chip.hbm_bandwidth", {"chips": 144, "chip.hbm_bandwidth": 4.9e12})
    705600000000000.0
    """
    try:
        value = float(_value(_tree(text), names or {}, text))
    except (ArithmeticError, RecursionError) as error:
        message = f"{text!r} has no value: {error}"
        raise ExpressionError(message) from error
    if not math.isfinite(value):
        message = f"{text!r} is {value}; must be finite"
        raise ExpressionError(message)
    return value


def names_in(text: str) -> tuple[str, ...]:
    """Return the names that an expression reads, sorted.

    Examples
    --------
    >>> names_in("cores * core.pe_rows * max(2, cores)")
    ('core.pe_rows', 'cores')
    """
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, (ast.Name, ast.Attribute)):
            found.add(_dotted(node, text))
        elif isinstance(node, ast.Call):
            for argument in node.args:
                visit(argument)
        else:
            for child in ast.iter_child_nodes(node):
                visit(child)

    visit(_tree(text))
    return tuple(sorted(found))


def _tree(text: str) -> ast.expr:
    if len(text) > LONGEST:
        message = f"an expression has {len(text)} characters; at most {LONGEST}"
        raise ExpressionError(message)
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        message = f"{text!r} is no arithmetic: {error}"
        raise ExpressionError(message) from error


def _dotted(node: ast.expr, text: str) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value, text)}.{node.attr}"
    message = f"{text!r}: {ast.unparse(node)} is no name"
    raise ExpressionError(message)


def _value(node: ast.expr, names: Mapping[str, float], text: str) -> float:
    match node:
        case ast.Constant(value=bool()):
            pass
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.Name() | ast.Attribute():
            name = _dotted(node, text)
            if name in names:
                return names[name]
            message = f"{text!r}: {name} is not known; known: {', '.join(sorted(names)) or 'none'}"
            raise ExpressionError(message)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, names, text)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            exponent = _value(right, names, text)
            if abs(exponent) > LARGEST_EXPONENT:
                message = f"{text!r}: exponent {exponent:g}; at most {LARGEST_EXPONENT}"
                raise ExpressionError(message)
            return math.pow(_value(left, names, text), exponent)
        case ast.BinOp(left=left, op=kind, right=right) if type(kind) in _OPERATORS:
            apply = _OPERATORS[type(kind)]
            return apply(_value(left, names, text), _value(right, names, text))
        case ast.Call(func=ast.Name(id=name), args=[_, _, *_] as arguments, keywords=[]) if (
            name in _FUNCTIONS
        ):
            return _FUNCTIONS[name](*(_value(argument, names, text) for argument in arguments))
        case _:
            pass
    message = f"{text!r}: {ast.unparse(node)} is not allowed; numbers, names, + - * / **, min, max"
    raise ExpressionError(message)
