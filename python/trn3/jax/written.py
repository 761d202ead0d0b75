"""What the conversion of a function gives, and what it notes on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from trn3.graph.writing import GraphTables

if TYPE_CHECKING:
    from trn3.jax.sharding import ArraySharding

__all__ = ["RankTables", "WrittenGraph"]


@dataclass(frozen=True)
class WrittenGraph:
    """A graph as front ends write it, and what its ranks have of the function's values.

    Attributes
    ----------
    text : str
        The graph as JSON.
    data : list of array
        Arrays of its constants.
    inputs, outputs : list
        How each value is cut; None: every rank has all of it.
    whole : str
        Why no core's time is that of the function: what is asked to be cut and is computed whole.
    kernels : list
        Kernels of the user's that it calls, by number.
    """

    text: str
    data: list[NDArray[Any]]
    inputs: list[ArraySharding | None]
    outputs: list[ArraySharding | None]
    whole: str
    kernels: list[Any]


class RankTables(GraphTables):
    """And whether the function runs on ranks, and what of it is computed whole."""

    def __init__(self) -> None:
        super().__init__()
        self.runs_on_ranks = False
        self.whole = ""
