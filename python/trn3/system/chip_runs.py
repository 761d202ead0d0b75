"""Kernels on the cores of a chip: which cores each takes, and what has to run them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

__all__ = ["KernelRunner", "KernelWidth", "placed_kernels"]


class KernelWidth(Protocol):
    """Says on how many cores a kernel runs."""

    def __call__(self, kernel: Any) -> int:
        """Return the number; refuse what is no kernel."""
        ...


class KernelRunner(Protocol):
    """Runs kernels with their arguments on cores of one chip, whose HBM they share."""

    def __call__(
        self,
        arch: Any,
        kernels: Mapping[int, Sequence[Any]],
        *,
        values: bool,
        compile: str | None,  # noqa: A002 -- what kernels' runs call it
    ) -> tuple[dict[int, Any], Any]:
        """Return results by core, and the profile."""
        ...


def placed_kernels(
    kernels: Any, cores: int, lnc: int, width: KernelWidth
) -> dict[int, tuple[Any, ...]]:
    """Return kernels and their arguments by core, where each core has one at most.

    Parameters
    ----------
    kernels : mapping of int to sequence
        By core, a kernel and its arguments; one of two cores stands at the lower one.
    cores, lnc : int
        Of the chip, and of each of its logical cores.
    width : callable
        Says on how many cores a kernel runs.

    Raises
    ------
    TypeError, ValueError
        If it is no such mapping, or cores do not fit.
    """
    if not isinstance(kernels, Mapping):
        message = f"kernels is of type {type(kernels).__name__}; allowed: a dict by core"
        raise TypeError(message)
    if not kernels:
        message = "kernels is empty; allowed: one kernel or more"
        raise ValueError(message)
    placed: dict[int, tuple[Any, ...]] = {}
    taken: dict[int, int] = {}
    for core, given in kernels.items():
        if not isinstance(core, int) or isinstance(core, bool) or not 0 <= core < cores:
            message = f"core is {core!r}; allowed: 0 to {cores - 1}"
            raise ValueError(message)
        if not isinstance(given, (tuple, list)) or not given:
            message = f"kernels[{core}] is {type(given).__name__}; allowed: (kernel, *arguments)"
            raise TypeError(message)
        wanted = width(given[0])
        if wanted > lnc:
            message = f"kernels[{core}] runs on {wanted} cores; logical cores have {lnc} (lnc)"
            raise ValueError(message)
        if core % wanted:
            first = core - core % wanted
            message = (
                f"kernels[{core}] runs on {wanted} cores, which are those of a logical core; "
                f"allowed: the first of them, {first}"
            )
            raise ValueError(message)
        for each in range(core, core + wanted):
            if each in taken:
                message = f"core {each} is taken by kernels[{taken[each]}] and kernels[{core}]"
                raise ValueError(message)
            taken[each] = core
        placed[core] = tuple(given)
    return placed
