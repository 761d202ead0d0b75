"""Which operator each token of `op=` arguments means.

Tokens are the functions of `nki.language` themselves, NumPy's, Python's ``max``, ``min``, ``abs``
and ``pow``, and the names as strings. `nki.language` registers its own when it is imported.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np

from trn3.nki.values.suggestions import or_nearest

F = TypeVar("F", bound=Callable[..., Any])

# What NumPy calls as `nki.language` does.
_SAME: Final = (
    "abs", "add", "arctan", "bitwise_and", "bitwise_or", "bitwise_xor", "copy", "divide", "equal",
    "exp", "greater", "greater_equal", "invert", "left_shift", "less", "less_equal", "log",
    "logical_and", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "not_equal",
    "power", "reciprocal", "right_shift", "sign", "sin", "sqrt", "square", "subtract", "tanh",
)  # fmt: skip

#: Operator names, as `nki.language` spells them, by token.
OPERATORS: Final[dict[object, str]] = {
    **{getattr(np, name): name for name in _SAME},
    np.max: "maximum",
    np.min: "minimum",
    np.sum: "add",
    np.prod: "multiply",
    np.mean: "average",
    builtins.max: "maximum",
    builtins.min: "minimum",
    builtins.abs: "abs",
    builtins.pow: "power",
}

# Names that mean another one, as strings.
_ALIASES: Final = {"max": "maximum", "min": "minimum", "absolute": "abs", "pow": "power"}


def tokens(*functions: Callable[..., Any]) -> None:
    """Make functions stand for the operators of their names in ``op=`` arguments."""
    OPERATORS.update({function: function.__name__ for function in functions})


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
    hint = or_nearest(op, _names()) if isinstance(op, str) else ""
    message = f"op is {op!r}; allowed: {allowed}, NumPy functions of the same meaning{hint}"
    raise TypeError(message)


def _names() -> set[str]:
    return set(OPERATORS.values())
