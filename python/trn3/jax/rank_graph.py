"""A function's graph on the ranks of its mesh: whole arrays in and out, parts within."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from trn3.graph import OperationGraph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trn3.jax.sharding import ArraySharding
    from trn3.jax.written import WrittenGraph

__all__ = ["RankGraph"]


@dataclass(frozen=True)
class RankGraph:
    """A graph that was read, with how its ranks' values are cut from the function's own."""

    graph: OperationGraph
    inputs: list[ArraySharding | None]
    outputs: list[ArraySharding | None]
    whole: str

    @classmethod
    def of(cls, converted: WrittenGraph, kernels: Sequence[Any] = ()) -> RankGraph:
        """Read and check what was written; `kernels` are those that it calls, by number."""
        graph = OperationGraph.from_json(converted.text, converted.data, kernels)
        return cls(graph, converted.inputs, converted.outputs, converted.whole)

    def split(self, arrays: Sequence[NDArray[Any]]) -> list[list[NDArray[Any]]]:
        """Return what each rank has of the function's arguments."""
        ranks = self.graph.ranks
        cut = zip(arrays, self.inputs, strict=True)
        parts = [[array] * ranks if cut is None else cut.split(array) for array, cut in cut]
        return [[own[rank] for own in parts] for rank in range(ranks)]

    def execute(self, arrays: Sequence[NDArray[Any]], matmul: str) -> list[NDArray[Any]]:
        """Run by operation."""
        if self.graph.ranks == 1:
            return self.graph.execute(arrays, matmul)
        return self._assembled(self.graph.execute_ranks(self.split(arrays), matmul))

    def beside(
        self, own: list[NDArray[Any]], arrays: Sequence[NDArray[Any]], matmul: str
    ) -> list[NDArray[Any]]:
        """Return what the function gives, where the first rank's part is there already."""
        found = self.graph.execute_ranks(self.split(arrays), matmul)
        return self._assembled([own, *found[1:]])

    def _assembled(self, found: list[list[NDArray[Any]]]) -> list[NDArray[Any]]:
        return [
            found[0][place] if cut is None else cut.assemble([own[place] for own in found])
            for place, cut in enumerate(self.outputs)
        ]
