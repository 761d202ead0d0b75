"""Reductions by any function: pairs of neighbours, level by level, on whole tensors at a time.

StableHLO leaves the order of a reduction to who runs it, as long as what stands left of something
else stays left of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trn3.graph.writing import TensorType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trn3.graph.writing import BodyWriter

__all__ = ["TensorJoins"]


@dataclass(frozen=True, slots=True)
class TensorJoins:
    """Reductions of several values at once by a function of two elements each.

    Attributes
    ----------
    writer : BodyWriter
        What the operations are added to.
    join : callable
        Writes the function for values of one shape, the left ones and the right ones.
    """

    writer: BodyWriter
    join: Callable[[list[int], list[int]], list[int]]

    def reduced(self, values: list[int], first: list[int], dimensions: Sequence[int]) -> list[int]:
        """Join all elements along some dimensions; `first` comes before all of them."""
        shape = self.writer.types[values[0]].shape
        reduced = sorted(dimensions)
        kept = [axis for axis in range(len(shape)) if axis not in reduced]
        lengths = tuple(shape[axis] for axis in kept)
        count = math.prod(shape[axis] for axis in reduced)
        started = [self._everywhere(number, lengths) for number in first]
        if count == 0:
            return started
        rows = [self._moved(number, [*reduced, *kept], (count, *lengths)) for number in values]
        while count > 1:
            even = count // 2 * 2
            pairs = [[self._taken(x, 0, start, even, 2) for x in rows] for start in (0, 1)]
            joined = self.join(*pairs)
            if even < count:
                last = (self._taken(x, 0, even, count) for x in rows)
                joined = [self._appended(x, y) for x, y in zip(joined, last, strict=True)]
            rows, count = joined, (count + 1) // 2
        kinds = [TensorType(self.writer.types[number].dtype, lengths) for number in rows]
        found = [self.writer.one("reshape", [x], kind) for x, kind in zip(rows, kinds, strict=True)]
        return self.join(started, found)

    def windows(self, values: list[int], first: list[int], attributes: dict[str, Any]) -> list[int]:
        """Join the elements of windows; `first` changes nothing, and fills what lies outside."""
        padding, inner = attributes["padding"], attributes["base_dilations"]
        edges = {"low": [low for low, _ in padding], "high": [high for _, high in padding]}
        edges["interior"] = [step - 1 for step in inner]
        values = [self._padded(x, start, edges) for x, start in zip(values, first, strict=True)]
        for axis in reversed(range(len(padding))):
            length, step = attributes["window"][axis], attributes["window_dilations"][axis]
            values = self._along(values, axis, length, step)
            whole = self.writer.types[values[0]].shape[axis]
            stride = attributes["strides"][axis]
            if stride > 1:
                values = [self._taken(x, axis, 0, whole, stride) for x in values]
        return values

    def _along(self, values: list[int], axis: int, length: int, step: int) -> list[int]:
        """Join `length` neighbours, `step` apart: of twice as many, then of those that are left."""
        whole = self.writer.types[values[0]].shape[axis]
        places = max(whole - (length - 1) * step, 0)
        found: list[int] = []
        done, width = 0, 1
        while True:
            if length & width:
                at = done * step
                part = [self._taken(x, axis, at, at + places) for x in values]
                found = self.join(found, part) if found else part
                done += width
            if done == length:
                return found
            reach = self.writer.types[values[0]].shape[axis] - width * step
            near = [self._taken(x, axis, 0, reach) for x in values]
            far = [self._taken(x, axis, width * step, width * step + reach) for x in values]
            values, width = self.join(near, far), 2 * width

    def _everywhere(self, number: int, shape: tuple[int, ...]) -> int:
        kind = TensorType(self.writer.types[number].dtype, shape)
        return self.writer.one("broadcast_in_dim", [number], kind, {"dimensions": []})

    def _moved(self, number: int, order: list[int], shape: tuple[int, ...]) -> int:
        kind = self.writer.types[number]
        if order != sorted(order):
            turned = TensorType(kind.dtype, tuple(kind.shape[axis] for axis in order))
            number = self.writer.one("transpose", [number], turned, {"permutation": order})
        return self.writer.one("reshape", [number], TensorType(kind.dtype, shape))

    def _taken(self, number: int, axis: int, start: int, limit: int, stride: int = 1) -> int:
        kind = self.writer.types[number]
        if (start, limit, stride) == (0, kind.shape[axis], 1):
            return number
        starts = [0] * len(kind.shape)
        limits, strides = list(kind.shape), [1] * len(kind.shape)
        starts[axis], limits[axis], strides[axis] = start, limit, stride
        shape = list(kind.shape)
        shape[axis] = max(-((start - limit) // stride), 0)
        attributes = {"start": starts, "limit": limits, "stride": strides}
        return self.writer.one("slice", [number], TensorType(kind.dtype, tuple(shape)), attributes)

    def _appended(self, number: int, last: int) -> int:
        kind = self.writer.types[number]
        longer = TensorType(kind.dtype, (kind.shape[0] + 1, *kind.shape[1:]))
        return self.writer.one("concatenate", [number, last], longer, {"dimension": 0})

    def _padded(self, number: int, value: int, edges: dict[str, list[int]]) -> int:
        kind = self.writer.types[number]
        if not any(map(any, edges.values())):
            return number
        sizes = zip(kind.shape, *edges.values(), strict=True)
        shape = tuple(
            low + high + length + max(length - 1, 0) * interior
            for length, low, high, interior in sizes
        )
        return self.writer.one("pad", [number, value], TensorType(kind.dtype, shape), edges)
