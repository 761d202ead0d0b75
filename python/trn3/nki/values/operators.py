"""Which operator each token of `op=` arguments means.

Tokens are the functions of `nki.language` themselves, NumPy's, Python's ``max``, ``min``, ``abs``
and ``pow``, and the names as strings. `nki.language` registers its own when it is imported.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])

#: Operator names, as `nki.language` spells them, by token.
OPERATORS: Final[dict[object, str]] = {
    np.add: "add",
    np.subtract: "subtract",
    np.multiply: "multiply",
    np.divide: "divide",
    np.maximum: "maximum",
    np.minimum: "minimum",
    np.max: "maximum",
    np.min: "minimum",
    np.sum: "add",
    np.prod: "multiply",
    np.mean: "average",
    builtins.max: "maximum",
    builtins.min: "minimum",
    builtins.abs: "abs",
    builtins.pow: "power",
    np.power: "power",
    np.abs: "abs",
    np.square: "square",
    np.reciprocal: "reciprocal",
    np.invert: "invert",
    np.bitwise_and: "bitwise_and",
    np.bitwise_or: "bitwise_or",
    np.bitwise_xor: "bitwise_xor",
    np.left_shift: "left_shift",
    np.right_shift: "right_shift",
    np.equal: "equal",
    np.not_equal: "not_equal",
    np.greater_equal: "greater_equal",
    np.greater: "greater",
    np.less_equal: "less_equal",
    np.less: "less",
    np.logical_and: "logical_and",
    np.logical_or: "logical_or",
    np.logical_xor: "logical_xor",
    np.copy: "copy",
    np.exp: "exp",
    np.log: "log",
    np.sin: "sin",
    np.arctan: "arctan",
    np.tanh: "tanh",
    np.sqrt: "sqrt",
    np.sign: "sign",
}

# Names that mean another one, as strings.
_ALIASES: Final = {"max": "maximum", "min": "minimum", "absolute": "abs", "pow": "power"}


def token(name: str) -> Callable[[F], F]:
    """Make a function stand for an operator in ``op=`` arguments."""

    def register(function: F) -> F:
        OPERATORS[function] = name
        return function

    return register


def op_name(op: Any) -> str:
    """Return the name of the operator or activation function that a token means.

    Parameters
    ----------
    op
        A function of `nki.language`, a NumPy function of the same meaning, or a name.

    Raises
    ------
    TypeError
        If the token means none.
    """
    try:
        return OPERATORS[op]
    except (KeyError, TypeError):
        return look_up(op)


def optional_op_name(op: Any) -> str | None:
    """Return the name of an operator, or None for None."""
    return None if op is None else op_name(op)


def look_up(op: Any) -> str:
    """Return an operator's name for a token that `OPERATORS` does not hold.

    Raises
    ------
    TypeError
        If the token means none.
    """
    if isinstance(op, str):
        name = op.rpartition(".")[2]
        name = _ALIASES.get(name, name)
        if name in _names():
            # The next call finds the spelling at once.
            OPERATORS[op] = name
            return name
    allowed = ", ".join(f"nl.{name}" for name in sorted(_names()))
    message = f"op is {op!r}; allowed: {allowed}, NumPy functions of the same meaning"
    raise TypeError(message)


def _names() -> set[str]:
    return set(OPERATORS.values())
