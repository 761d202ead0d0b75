# Graphs of tensor operations, as the front ends use them.

from collections.abc import Sequence
from typing import Any, final

from numpy.typing import ArrayLike, NDArray

from trn3._trn3.machine import NeuronCore
from trn3._trn3.system import Collectives

__all__ = ["GraphError", "OperationGraph", "matmul_paths", "operations"]

class GraphError(ValueError): ...

@final
class OperationGraph:
    @staticmethod
    def from_json(
        text: str,
        data: Sequence[ArrayLike] | None = None,
        kernels: Sequence[Any] | None = None,
    ) -> OperationGraph: ...
    @property
    def name(self) -> str: ...
    @property
    def ranks(self) -> int: ...
    @property
    def inputs(self) -> list[tuple[str, str, list[int]]]: ...
    @property
    def outputs(self) -> list[tuple[str, list[int]]]: ...
    def execute(
        self, inputs: Sequence[ArrayLike], matmul: str = "as_typed"
    ) -> list[NDArray[Any]]: ...
    def execute_ranks(
        self, inputs: Sequence[Sequence[ArrayLike]], matmul: str = "as_typed"
    ) -> list[list[NDArray[Any]]]: ...
    def run_rank_on_core(
        self,
        arch: str | tuple[str, str],
        collectives: Collectives,
        name: str,
        ranks: tuple[int, int, int | None],
        inputs: Sequence[Sequence[ArrayLike]] | None,
        matmul: str,
        level: str,
        cores: int = 1,
    ) -> tuple[list[NDArray[Any] | None], list[NeuronCore], dict[str, Any]]: ...
    def run_on_core(
        self,
        arch: str | tuple[str, str],
        inputs: Sequence[ArrayLike] | None,
        matmul: str,
        level: str,
        whole_below: int = ...,
        fuse: bool = True,
        cores: int = 1,
    ) -> tuple[list[NDArray[Any] | None], list[NeuronCore], dict[str, Any]]: ...

def matmul_paths() -> list[str]: ...
def operations() -> list[dict[str, Any]]: ...
