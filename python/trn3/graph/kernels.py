"""Kernels of the user's own inside graphs: which there are, and how graphs call them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import ml_dtypes

from trn3.machine import arch as find_arch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from trn3.machine.archs import ArchLike

__all__ = ["KERNELS", "KernelInGraph", "KernelThere"]


class KernelInGraph(Protocol):
    """A kernel with all its arguments but arrays."""

    name: str

    def __call__(self, *arrays: Any) -> list[NDArray[Any]]:
        """Run the kernel on arrays."""

    def latency_us(self, kinds: Sequence[tuple[Any, Sequence[int]]], arch: Any = None) -> float:
        """Return how long a run takes, of arrays of these types and shapes."""


#: Kernels that a front end's own text names: who runs a graph need not know who made them.
KERNELS: dict[str, KernelInGraph] = {}


class KernelThere:
    """A kernel on the machine that a graph is compiled for, as `OperationGraph` takes it."""

    def __init__(self, kernel: KernelInGraph, arch: ArchLike | None) -> None:
        self.name = kernel.name
        self._kernel = kernel
        self._arch = None if arch is None else find_arch(arch)

    def __call__(self, arrays: list[NDArray[Any]]) -> list[NDArray[Any]]:
        """Run the kernel on arrays."""
        return self._kernel(*arrays)

    def latency_us(self, kinds: list[tuple[str, list[int]]]) -> float:
        """Return how long its own run takes."""
        named = [(getattr(ml_dtypes, name, name), shape) for name, shape in kinds]
        return self._kernel.latency_us(named, self._arch)
