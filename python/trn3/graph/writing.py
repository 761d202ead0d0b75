"""Writes graphs in the format of `trn3.graph`: what front ends have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["BodyWriter", "Frame", "GraphTables", "TensorType"]


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type, as NumPy and ml_dtypes call it, and shape of a value."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


@dataclass(frozen=True, slots=True)
class Frame:
    """A line that was being run when an operation was traced."""

    file: str
    line: int
    function: str


class GraphTables:
    """What all bodies of a graph share: arrays of constants, kernels, and lines."""

    def __init__(self) -> None:
        self.data: list[NDArray[Any]] = []
        self.kernels: list[Any] = []
        self._locations: dict[Frame, int] = {}

    def location(self, frame: Frame) -> int:
        """Give a line its number."""
        return self._locations.setdefault(frame, len(self._locations))

    def kernel(self, kernel: Any) -> int:
        """Give a kernel its number."""
        if kernel not in self.kernels:
            self.kernels.append(kernel)
        return self.kernels.index(kernel)

    def locations(self) -> list[dict[str, Any]]:
        """Every line, by number."""
        return [
            {"file": frame.file, "line": frame.line, "function": frame.function}
            for frame in self._locations
        ]


class BodyWriter:
    """Operations of one body, in order; values have numbers, inputs first."""

    def __init__(self, tables: GraphTables, inputs: Sequence[TensorType]) -> None:
        self.tables = tables
        self.types = list(inputs)
        self.frame: Frame | None = None
        self._inputs = len(inputs)
        self._operations: list[dict[str, Any]] = []
        # The operation that makes a value, and its first result.
        self._makers: dict[int, tuple[dict[str, Any], int]] = {}

    def add(
        self,
        op: str,
        operands: Sequence[int],
        types: Sequence[TensorType],
        attributes: dict[str, Any] | None = None,
    ) -> list[int]:
        """Add an operation on the current line; the numbers of its results."""
        operation: dict[str, Any] = {"op": op, "operands": list(operands)}
        operation["results"] = [{"dtype": kind.dtype, "shape": kind.shape} for kind in types]
        operation["attributes"] = attributes or {}
        if self.frame is not None:
            operation["location"] = self.tables.location(self.frame)
        first = len(self.types)
        numbers = list(range(first, first + len(types)))
        self.types.extend(types)
        self._operations.append(operation)
        self._makers.update((number, (operation, first)) for number in numbers)
        return numbers

    def one(
        self,
        op: str,
        operands: Sequence[int],
        kind: TensorType,
        attributes: dict[str, Any] | None = None,
    ) -> int:
        """Add an operation with one result."""
        return self.add(op, operands, [kind], attributes)[0]

    def constant(self, value: NDArray[Any], kind: TensorType) -> int:
        """Add a constant; an array of no axes stands for all elements."""
        self.tables.data.append(value)
        attributes = {"data": len(self.tables.data) - 1}
        if value.shape == kind.shape:
            return self.one("constant", [], kind, attributes)
        scalar = self.one("constant", [], TensorType(kind.dtype, ()), attributes)
        return self.one("broadcast_in_dim", [scalar], kind, {"dimensions": []})

    def convert(self, number: int, dtype: str) -> int:
        """Write the same numbers in another element type."""
        kind = self.types[number]
        if kind.dtype == dtype:
            return number
        return self.one("convert", [number], TensorType(dtype, kind.shape))

    def maker(self, number: int) -> dict[str, Any] | None:
        """Return the operation that makes a value; None for inputs."""
        made = self._makers.get(number)
        return made[0] if made else None

    def splat(self, number: int) -> Any | None:
        """Return the number that all elements are known to be; None where they are not."""
        maker = self.maker(number)
        while maker is not None and maker["op"] in {"broadcast_in_dim", "reshape"}:
            maker = self.maker(maker["operands"][0])
        if maker is None or maker["op"] != "constant":
            return None
        value = self.tables.data[maker["attributes"]["data"]]
        return value.flat[0] if value.size and (value == value.flat[0]).all() else None

    def body(self, outputs: Sequence[int]) -> dict[str, Any]:
        """Return the body as JSON has it, without operations that nobody needs."""
        needed = set(outputs)
        kept: list[tuple[dict[str, Any], int]] = []
        first = len(self.types)
        for operation in reversed(self._operations):
            first -= len(operation["results"])
            if not needed.isdisjoint(range(first, first + len(operation["results"]))):
                needed.update(operation["operands"])
                kept.append((operation, first))
        numbers = {number: number for number in range(self._inputs)}
        written: list[dict[str, Any]] = []
        for operation, first in reversed(kept):
            operands = [numbers[number] for number in operation["operands"]]
            written.append({**operation, "operands": operands})
            for offset in range(len(operation["results"])):
                numbers[first + offset] = len(numbers)
        return {
            "inputs": [
                {"dtype": kind.dtype, "shape": kind.shape} for kind in self.types[: self._inputs]
            ],
            "operations": written,
            "outputs": [numbers[number] for number in outputs],
        }
