"""Integers of 64 bits: those known to fit 32 are held so, and bits of random numbers by halves.

JAX counts random numbers with the first, and has states of generators of the second kind.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

from trn3.graph.writing import TensorType

if TYPE_CHECKING:
    from collections.abc import Callable

    from trn3.graph.writing import BodyWriter
    from trn3.jax.hlo import HloOperation

__all__ = ["WIDE", "WideIntegers"]

WIDE = frozenset({"int64", "uint64"})
# The least and the greatest value.
Bounds: TypeAlias = tuple[int, int]

_NARROW: dict[str, Bounds] = {"bool": (0, 1)}
_NARROW |= {f"uint{bits}": (0, 2**bits - 1) for bits in (8, 16, 32)}
_NARROW |= {f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32)}
_MOVES = {"broadcast_in_dim", "convert", "reshape", "slice", "transpose"}


def _extremes(function: Callable[[int, int], int], x: Bounds, y: Bounds) -> Bounds:
    corners = [function(left, right) for left in x for right in y]
    return min(corners), max(corners)


def _shifted(x: Bounds, y: Bounds) -> Bounds | None:
    return (x[0] >> y[1], x[1] >> y[0]) if min(*x, *y) >= 0 else None


_FUNCTIONS: dict[str, Callable[[Bounds, Bounds], Bounds | None]] = {
    "add": lambda x, y: _extremes(lambda left, right: left + right, x, y),
    "subtract": lambda x, y: _extremes(lambda left, right: left - right, x, y),
    "multiply": lambda x, y: _extremes(lambda left, right: left * right, x, y),
    "shift_right_logical": _shifted,
}


class WideIntegers:
    """The 64-bit values of one body, by their numbers in StableHLO: each is held in 32 bits."""

    def __init__(self, writer: BodyWriter) -> None:
        self._writer = writer
        self._bounds: dict[int, Bounds] = {}
        # Those that are pairs of 32-bit words along one more axis, the low one first.
        self._pairs: set[int] = set()

    def concerns(self, operation: HloOperation) -> bool:
        """Whether an operation takes or gives such values."""
        takes = any(value in self._bounds or value in self._pairs for value in operation.operands)
        return takes or any(kind.dtype in WIDE for kind in operation.types)

    def pass_on(self, given: list[int], taken: list[int]) -> None:
        """Note that values are others, under new numbers."""
        for old, new in zip(given, taken, strict=True):
            self._bounds.pop(new, None)
            self._pairs.discard(new)
            if old in self._pairs:
                self._pairs.add(new)
            if old in self._bounds:
                self._bounds[new] = self._bounds[old]

    def write(
        self, operation: HloOperation, operands: list[int], attributes: dict[str, Any]
    ) -> list[int] | None:
        """Write an operation that takes or gives such values; None where it cannot be."""
        if operation.name == "stablehlo.bitcast_convert":
            return self._bitcast(operation, operands)
        if operation.name == "stablehlo.rng_bit_generator":
            return self._random_bits(operation, operands, attributes)
        made = self._bounded(operation, operands, attributes)
        return None if made is None else [made]

    def _bitcast(self, operation: HloOperation, operands: list[int]) -> list[int] | None:
        if operation.operands[0] in self._pairs:
            words = self._writer.types[operands[0]]
            return operands if operation.types == [words] else None
        if (
            self._writer.types[operands[0]].dtype != "uint32"
            or operation.types[0].dtype not in WIDE
        ):
            return None
        self._pairs.add(operation.results[0])
        return operands

    def _random_bits(
        self, operation: HloOperation, operands: list[int], attributes: dict[str, Any]
    ) -> list[int] | None:
        if operation.operands[0] not in self._pairs or operation.types[1].dtype in WIDE:
            return None
        pairs = self._writer.types[operands[0]]
        words = TensorType(pairs.dtype, (math.prod(pairs.shape),))
        state = self._writer.one("reshape", operands, words)
        kinds = [words, operation.types[1]]
        state, bits = self._writer.add("rng_bit_generator", [state], kinds, attributes)
        self._pairs.add(operation.results[0])
        return [self._writer.one("reshape", [state], pairs), bits]

    def _bounded(
        self, operation: HloOperation, operands: list[int], attributes: dict[str, Any]
    ) -> int | None:
        if len(operation.types) != 1:
            return None
        name, kind = operation.name.removeprefix("stablehlo."), operation.types[0]
        known = [self._bounds.get(value) for value in operation.operands]
        if name == "convert":
            known = known if known[0] else [_NARROW.get(self._writer.types[operands[0]].dtype)]
        if None in known:
            return None
        bounds = _bounds_of(name, operation, [taken for taken in known if taken is not None])
        if name == "convert" and kind.dtype not in WIDE:
            return self._writer.convert(operands[0], kind.dtype)
        dtype = _holder(bounds)
        if bounds is None or dtype is None or kind.dtype not in WIDE:
            return None
        if kind.dtype == "uint64" and bounds[0] < 0:
            return None
        self._bounds[operation.results[0]] = bounds
        held = TensorType(dtype, kind.shape)
        if name == "constant":
            return self._writer.constant(operation.attributes["value"].astype(dtype), held)
        # Shifts are of values that are not negative; all else is right by its low 32 bits.
        taken = [self._writer.convert(number, dtype) for number in operands]
        return taken[0] if name == "convert" else self._writer.one(name, taken, held, attributes)


def _bounds_of(name: str, operation: HloOperation, known: list[Bounds]) -> Bounds | None:
    """Return what the result can be; None where that is not known."""
    if name == "constant":
        value = operation.attributes["value"]
        return (int(value.min()), int(value.max())) if value.size else None
    if name == "iota":
        return 0, max(operation.types[0].shape[operation.attributes["iota_dimension"]] - 1, 0)
    if name in _MOVES:
        return known[0]
    function = _FUNCTIONS.get(name)
    return function(known[0], known[1]) if function else None


def _holder(bounds: Bounds | None) -> str | None:
    """Name the 32-bit type that has these values."""
    for dtype in ("uint32", "int32"):
        low, high = _NARROW[dtype]
        if bounds is not None and low <= bounds[0] and bounds[1] <= high:
            return dtype
    return None
