"""A kernel inside a function that another library traces: all but arrays is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trn3._trn3.machine import SkippedValueError

__all__ = ["GivenKernel"]


class GivenKernel:
    """A kernel with all its arguments but arrays, which come with each call.

    Parameters
    ----------
    kernel : Kernel
    leaves : list
        What its arguments hold; those at `places` are arrays.
    places : list of int
    unflatten : callable
        Makes ``(args, kwargs)`` of such leaves.

    Attributes
    ----------
    name : str
    """

    def __init__(
        self,
        kernel: Any,
        leaves: list[Any],
        places: list[int],
        unflatten: Callable[[list[Any]], tuple[tuple[Any, ...], dict[str, Any]]],
    ) -> None:
        self._kernel = kernel
        self._leaves = leaves
        self._places = places
        self._unflatten = unflatten
        self.name: str = kernel.name

    def _arguments(self, arrays: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        given = list(self._leaves)
        for place, array in zip(self._places, arrays, strict=True):
            given[place] = array
        return self._unflatten(given)

    def latency_us(self, kinds: Sequence[tuple[Any, Sequence[int]]], arch: Any = None) -> float:
        """Return how long a run of its own takes, of arrays of these types and shapes.

        Values are skipped; where control flow asks for them they are zeros (**choice**).

        Parameters
        ----------
        kinds : sequence of (dtype, shape)
        arch : str or ArchSpec, optional
            Machine instead of the kernel's target.
        """
        # Reports need more imports than running kernels does.
        from trn3.profile import profile_of

        for has_values in (False, True):
            args, kwargs = self._arguments([np.zeros(shape, dtype) for dtype, shape in kinds])
            cores = self._kernel.cores(arch, values=has_values)
            try:
                self._kernel.launch(cores, args, kwargs)
            except SkippedValueError:
                continue
            return profile_of(cores, self.name).latency_us
        raise AssertionError
