"""One program of all ranks, of the graphs that torch captured for each."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from trn3.graph import GraphError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from trn3.graph import OperationGraph
    from trn3.torch.conversion import ConvertedGraph

__all__ = ["RankProgram"]


@dataclass(frozen=True)
class RankProgram:
    """A graph of all ranks, and the inputs that each has besides those that torch gives it."""

    graph: OperationGraph
    own: list[list[NDArray[Any]]]

    @classmethod
    def of(cls, captured: Sequence[ConvertedGraph]) -> RankProgram:
        """Join graphs of the same operations.

        Constants that differ, as a rank's number that torch computed with, and where parts begin
        that are cut out, become inputs.

        Raises
        ------
        GraphError
            If the graphs differ in more.
        """
        first = captured[0]
        if all(other.text == first.text and _same(other.data, first.data) for other in captured):
            return cls(first.graph(), [[] for _ in captured])
        return _Joining(captured).joined()


def _same(data: Sequence[NDArray[Any]], other: Sequence[NDArray[Any]]) -> bool:
    pairs = zip(data, other, strict=True)
    return all(_bits(one) == _bits(two) for one, two in pairs)


def _bits(array: NDArray[Any]) -> tuple[Any, ...]:
    return array.dtype, array.shape, array.tobytes()


class _Joining:
    def __init__(self, captured: Sequence[ConvertedGraph]) -> None:
        self._captured = captured
        self._graphs: list[dict[str, Any]] = [json.loads(one.text) for one in captured]
        self._inputs: list[dict[str, Any]] = list(self._graphs[0]["inputs"])
        self._own: list[list[NDArray[Any]]] = [[] for _ in captured]

    def joined(self) -> RankProgram:
        graphs = self._graphs
        lists = [graph["operations"] for graph in graphs]
        for place, row in enumerate(zip_longest(*lists)):
            self._agree(f"operation {place}", [each["op"] if each else "none" for each in row])
        for key in ("inputs", "outputs"):
            self._agree(f"{key} of the graphs", [graph[key] for graph in graphs])
        given = len(self._inputs)
        # Inputs of ranks stand before all that is computed: they are known first.
        rows = [self._starts(row) for row in zip(*lists, strict=True)]
        names, made, written = list(range(given)), len(self._inputs), []
        for operation, extra in rows:
            if operation["op"] == "constant" and extra:
                names += extra
                continue
            operands = [*(names[number] for number in operation["operands"]), *extra]
            written.append({**operation, "operands": operands})
            names += range(made, made + len(operation["results"]))
            made += len(operation["results"])
        outputs = [names[number] for number in graphs[0]["outputs"]]
        text = {**graphs[0], "inputs": self._inputs, "operations": written, "outputs": outputs}
        joined = replace(self._captured[0], text=json.dumps(text))
        return RankProgram(joined.graph(), self._own)

    def _starts(self, row: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], list[int]]:
        """Return an operation of all ranks, and its operands that are inputs of each."""
        first = row[0]
        for key in ("op", "operands", "results"):
            self._agree(f"{key} of {first['op']}", [each[key] for each in row])
        attributes = [each["attributes"] for each in row]
        if first["op"] == "constant":
            pairs = zip(self._captured, attributes, strict=True)
            arrays = [one.data[own["data"]] for one, own in pairs]
            if all(_bits(array) == _bits(arrays[0]) for array in arrays):
                return first, []
            return first, [self._input(first["results"][0], arrays)]
        if all(own == attributes[0] for own in attributes):
            return first, []
        if "replica_groups" in first["attributes"]:
            groups = self._groups([own.pop("replica_groups") for own in attributes])
            self._agree(f"attributes of {first['op']}", attributes)
            return {**first, "attributes": {**attributes[0], "replica_groups": groups}}, []
        is_cut = first["op"] == "slice" and all(set(own["stride"]) == {1} for own in attributes)
        if not is_cut:
            self._agree(f"attributes of {first['op']}", attributes)
        starts = np.array([own["start"] for own in attributes], np.int32)
        kind = {"dtype": "int32", "shape": []}
        extra = [self._input(kind, list(map(np.asarray, column))) for column in starts.T]
        sizes = {"slice_sizes": first["results"][0]["shape"]}
        return {**first, "op": "dynamic_slice", "attributes": sizes}, extra

    def _groups(self, known: Sequence[list[list[int]]]) -> list[list[int]]:
        """Return the groups of a collective: each rank knows its own, and guesses the others'."""
        own = [
            next(group for group in groups if rank in group) for rank, groups in enumerate(known)
        ]
        for group in own:
            self._agree("groups of a collective", [own[member] for member in group])
        return [group for rank, group in enumerate(own) if rank == min(group)]

    def _input(self, kind: dict[str, Any], arrays: Sequence[NDArray[Any]]) -> int:
        self._inputs.append({"name": f"of each rank {len(self._own[0])}", **kind})
        for own, array in zip(self._own, arrays, strict=True):
            own.append(array)
        return len(self._inputs) - 1

    @staticmethod
    def _agree(what: str, values: Sequence[Any]) -> None:
        for rank, value in enumerate(values):
            if value != values[0]:
                came = f"{what}: rank 0 has {values[0]}, rank {rank} has {value}"
                raise GraphError(f"{came}; allowed: ranks that run the same operations")
