"""Graphs written with the habits of torch: shapes that broadcast, numbers among tensors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from trn3.graph.writing import BodyWriter, TensorType
from trn3.torch.aten.refusal import AtenError
from trn3.torch.held_tensors import INT32, numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["NARROW", "AtenWriter", "is_float", "is_held_exactly"]

# Floats that torch computes with in float32.
NARROW = frozenset({"float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"})


def is_float(dtype: str) -> bool:
    """Whether elements of a type are floats."""
    return dtype in NARROW or dtype == "float32"


def is_held_exactly(value: float, dtype: str) -> bool:
    """Whether a number of Python is one of a type's own."""
    held = float(np.array(value, np.float64).astype(numpy_dtype(dtype)))
    return held == value or math.isnan(value)


class AtenWriter(BodyWriter):
    """A body of a graph, and the steps that many operators are made of."""

    #: How many ranks run it side by side.
    ranks = 1

    def shape(self, number: int) -> tuple[int, ...]:
        """Shape of a value."""
        return self.types[number].shape

    def dtype(self, number: int) -> str:
        """Element type of a value."""
        return self.types[number].dtype

    def filled(self, value: Any, dtype: str, shape: Sequence[int] = ()) -> int:
        """Add a constant whose elements are all one number."""
        if dtype == "int32" and isinstance(value, int) and not INT32.min <= value <= INT32.max:
            raise AtenError(f"has the whole number {value}; allowed: those of 32 bits")
        target = numpy_dtype(dtype)
        with np.errstate(over="ignore"):
            array = np.array(value, np.float64 if is_float(dtype) else None).astype(target)
        return self.constant(array, TensorType(dtype, tuple(shape)))

    def broadcast(self, number: int, shape: Sequence[int]) -> int:
        """Repeat a value along axes that it lacks in front, and those of length 1."""
        own, shape = self.shape(number), tuple(shape)
        if own == shape:
            return number
        dimensions = list(range(len(shape) - len(own), len(shape)))
        kind = TensorType(self.dtype(number), shape)
        return self.one("broadcast_in_dim", [number], kind, {"dimensions": dimensions})

    def placed(self, number: int, shape: Sequence[int], dimensions: Sequence[int]) -> int:
        """Repeat a value whose axes are these of the result."""
        kind = TensorType(self.dtype(number), tuple(shape))
        return self.one("broadcast_in_dim", [number], kind, {"dimensions": list(dimensions)})

    def reshape(self, number: int, shape: Sequence[int]) -> int:
        """Give a value another shape."""
        if self.shape(number) == tuple(shape):
            return number
        return self.one("reshape", [number], TensorType(self.dtype(number), tuple(shape)))

    def transpose(self, number: int, permutation: Sequence[int]) -> int:
        """Order axes anew: those of the operand, by axis of the result."""
        permutation = list(permutation)
        if permutation == list(range(len(permutation))):
            return number
        shape = tuple(self.shape(number)[axis] for axis in permutation)
        kind = TensorType(self.dtype(number), shape)
        return self.one("transpose", [number], kind, {"permutation": permutation})

    def unary(self, op: str, number: int) -> int:
        """Add a function of one value of its own type."""
        return self.one(op, [number], self.types[number])

    def binary(self, op: str, left: int, right: int) -> int:
        """Add a function of two values of one type, of shapes that broadcast."""
        left, right = self.together(left, right)
        return self.one(op, [left, right], self.types[left])

    def scaled(self, op: str, left: int, right: float) -> int:
        """Add a function of a value and a number."""
        return self.binary(op, left, self.filled(right, self.dtype(left)))

    def together(self, *numbers: int) -> list[int]:
        """Broadcast values to one shape."""
        shape = np.broadcast_shapes(*(self.shape(number) for number in numbers))
        return [self.broadcast(number, shape) for number in numbers]

    def compare(self, direction: str, left: int, right: int) -> int:
        """Compare two values of one type."""
        left, right = self.together(left, right)
        kind = TensorType("bool", self.shape(left))
        return self.one("compare", [left, right], kind, {"direction": direction})

    def select(self, condition: int, left: int, right: int) -> int:
        """Choose between two values of one type."""
        operands = self.together(condition, left, right)
        return self.one("select", operands, self.types[operands[1]])

    def reduce(self, function: str, number: int, dimensions: Sequence[int]) -> int:
        """Join axes to one element each, which go."""
        own = self.shape(number)
        if not dimensions:
            return number
        dtype = self.dtype(number)
        shape = tuple(own[axis] for axis in range(len(own)) if axis not in dimensions)
        first = self.filled(neutral(function, dtype), dtype)
        attributes = {"dimensions": sorted(dimensions), "function": function}
        return self.one("reduce", [number, first], TensorType(dtype, shape), attributes)

    def iota(self, shape: Sequence[int], dimension: int) -> int:
        """Count along an axis, in whole numbers."""
        kind = TensorType("int32", tuple(shape))
        return self.one("iota", [], kind, {"dimension": dimension})

    def slice(
        self,
        number: int,
        start: Sequence[int],
        limit: Sequence[int],
        stride: Sequence[int] | None = None,
    ) -> int:
        """Take a part."""
        own = self.shape(number)
        stride = list(stride or [1] * len(own))
        lengths = zip(start, limit, stride, strict=True)
        shape = tuple(max(-(-(last - first) // step), 0) for first, last, step in lengths)
        if shape == own:
            return number
        attributes = {"start": list(start), "limit": list(limit), "stride": stride}
        return self.one("slice", [number], TensorType(self.dtype(number), shape), attributes)

    def part(self, number: int, dimension: int, start: int, limit: int, step: int = 1) -> int:
        """Take a part along one axis."""
        own = self.shape(number)
        starts, limits, steps = [0] * len(own), list(own), [1] * len(own)
        starts[dimension], limits[dimension], steps[dimension] = start, limit, step
        return self.slice(number, starts, limits, steps)

    def pad(
        self,
        number: int,
        value: int,
        low: Sequence[int],
        high: Sequence[int],
        interior: Sequence[int] | None = None,
    ) -> int:
        """Add elements around, and between; negative numbers cut."""
        own = self.shape(number)
        between = list(interior or [0] * len(own))
        sides = zip(own, low, high, between, strict=True)
        shape = tuple(
            length + first + last + max(length - 1, 0) * step for length, first, last, step in sides
        )
        attributes = {"low": list(low), "high": list(high), "interior": between}
        kind = TensorType(self.dtype(number), shape)
        return self.one("pad", [number, value], kind, attributes)

    def concatenate(self, numbers: Sequence[int], dimension: int) -> int:
        """Put values one after another along an axis."""
        if len(numbers) == 1:
            return numbers[0]
        shape = list(self.shape(numbers[0]))
        shape[dimension] = sum(self.shape(number)[dimension] for number in numbers)
        kind = TensorType(self.dtype(numbers[0]), tuple(shape))
        return self.one("concatenate", numbers, kind, {"dimension": dimension})

    def dot(
        self,
        left: int,
        right: int,
        contracting: tuple[list[int], list[int]],
        batch: tuple[list[int], list[int]] = ([], []),
    ) -> int:
        """Multiply and sum: batch axes first, then what is left of both."""
        shape = [self.shape(left)[axis] for axis in batch[0]]
        for side, number in enumerate((left, right)):
            gone = {*contracting[side], *batch[side]}
            own = self.shape(number)
            shape += [own[axis] for axis in range(len(own)) if axis not in gone]
        kind = TensorType(self.dtype(left), tuple(shape))
        attributes = {"contracting": list(contracting), "batch": list(batch)}
        return self.one("dot_general", [left, right], kind, attributes)


def neutral(function: str, dtype: str) -> Any:
    """Return the number that changes nothing when it is joined."""
    if function in {"add", "or", "xor"}:
        return 0
    if function == "multiply":
        return 1
    if function == "and":
        return 1 if dtype == "bool" else -1
    if dtype == "bool":
        return function == "minimum"
    if is_float(dtype):
        return -np.inf if function == "maximum" else np.inf
    limits = np.iinfo(dtype)
    return int(limits.min if function == "maximum" else limits.max)
