"""What the bodies of reductions, sorts and scatters compute, as one word."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from trn3.jax.hlo import HloBody, HloOperation

__all__ = [
    "arg_function",
    "captured",
    "comparison_order",
    "joining_function",
    "least",
    "selecting_direction",
]

# An expression over a body's inputs: numbers of inputs, arrays of constants, or an operation's name
# with its operands. Values from around the body are named by their numbers.
Expression: TypeAlias = tuple[Any, ...]

_JOINS = {"add", "multiply", "maximum", "minimum", "and", "or", "xor", "subtract"}
_COMMUTATIVE = _JOINS - {"subtract"}


def _expressions(body: HloBody) -> list[Expression]:
    known: dict[int, Expression] = {
        number: ("input", place) for place, number in enumerate(body.inputs)
    }
    for operation in body.operations:
        operands = [known.get(number, ("outer", number)) for number in operation.operands]
        made = _expression(operation, operands)
        for place, number in enumerate(operation.results):
            known[number] = made if len(operation.results) == 1 else ("result", place, made)
    return [known.get(number, ("outer", number)) for number in body.outputs]


def _expression(operation: HloOperation, operands: list[Expression]) -> Expression:
    name = operation.name.removeprefix("stablehlo.")
    if name == "constant":
        value = operation.attributes["value"]
        return ("number", float(value)) if value.ndim == 0 else ("constant", operation.results[0])
    if name == "compare":
        return ("compare", operation.attributes["comparison_direction"], *operands)
    if operation.bodies or name == "call":
        return ("opaque", operation.results[0])
    if name == "select" and _is_canonical(*operands):
        return operands[2]
    if name in _COMMUTATIVE:
        operands = sorted(operands, key=repr)
    return (name, *operands)


def _is_canonical(condition: Expression, chosen: Expression, value: Expression) -> bool:
    """Whether a choice only makes one zero of both, and one NaN of all, for a total order."""
    if condition[0] != "compare" or chosen[0] != "number":
        return False
    zero = ("compare", "EQ", value, ("number", 0.0))
    unequal = ("compare", "NE", value, value)
    number = chosen[1]
    return (condition == zero and number == 0) or (condition == unequal and math.isnan(number))


def joining_function(body: HloBody) -> str | None:
    """Name the function by which a body joins two values; ``replace`` gives the second."""
    found = _expressions(body)
    if found == [("input", 1)]:
        return "replace"
    if len(found) == 1 and found[0][0] in _JOINS:
        name, *operands = found[0]
        if operands == [("input", 0), ("input", 1)]:
            return str(name)
    return None


def selecting_direction(body: HloBody) -> str | None:
    """Name the comparison of a body that compares its first value with its second."""
    match _expressions(body):
        case [("compare", direction, ("input", 0), ("input", 1))]:
            return str(direction).lower()
    return None


def arg_function(body: HloBody) -> str | None:
    """Which extreme a body keeps with its index: NaN wins, then the lower index."""
    x, index, y, other = (("input", place) for place in range(4))
    for direction, name in (("GT", "maximum"), ("LT", "minimum")):
        is_nan = ("compare", "NE", x, x)
        wins = ("or", *sorted((("compare", direction, x, y), is_nan), key=repr))
        is_equal, is_lower = ("compare", "EQ", x, y), ("compare", "LT", index, other)
        ties = ("and", *sorted((is_equal, is_lower), key=repr))
        keeps = ("or", *sorted((wins, ties), key=repr))
        if _expressions(body) == [("select", wins, x, y), ("select", keeps, index, other)]:
            return name
    return None


def comparison_order(body: HloBody) -> tuple[int, bool] | None:
    """How many leading operands a body sorts by, and whether downwards."""
    found = _expressions(body)
    return _order_of(found[0], 0) if len(found) == 1 else None


def _order_of(expression: Expression, key: int) -> tuple[int, bool] | None:
    x, y = ("input", 2 * key), ("input", 2 * key + 1)
    match expression:
        case ("compare", "LT" | "GT" as direction, left, right) if (left, right) == (x, y):
            return key + 1, direction == "GT"
        case ("or", first, second):
            for strict, rest in ((first, second), (second, first)):
                order = _order_of(strict, key)
                equal = ("compare", "EQ", x, y)
                if order is None or order[0] != key + 1 or rest[0] != "and":
                    continue
                for tie, later in ((rest[1], rest[2]), (rest[2], rest[1])):
                    below = _order_of(later, key + 1) if tie == equal else None
                    if below is not None and below[1] == order[1]:
                        return below
    return None


def captured(bodies: list[HloBody]) -> list[int]:
    """Values that bodies take from around them."""
    found: dict[int, None] = {}
    for body in bodies:
        made = set(body.inputs)
        for operation in body.operations:
            inner = captured(operation.bodies)
            found.update(
                (value, None) for value in (*operation.operands, *inner) if value not in made
            )
            made.update(operation.results)
        found.update((value, None) for value in body.outputs if value not in made)
    return list(found)


def least(dtype: str, function: str) -> Any:
    """Return the number that every other one wins against."""
    if dtype == "bool":
        return function == "minimum"
    if not dtype.startswith(("int", "uint")):
        return -np.inf if function == "maximum" else np.inf
    limits = np.iinfo(dtype)
    return limits.min if function == "maximum" else limits.max
