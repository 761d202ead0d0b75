"""Launch brackets: how many instances of a kernel run, and on which core each of them does."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from operator import index
from typing import Any, Final

from trn3.nki.ranks.context import Context
from trn3.nki.values.axes import Spread, is_length, nc, par_dim, spmd_dim

__all__ = ["Launch", "nc", "par_dim", "spmd_dim"]

_ALLOWED: Final = (
    "allowed in brackets: a number of cores, 1 or 2; or the lengths of a launch grid, each a whole "
    "number from 1, with nl.nc(cores) for what is spread over cores"
)

#: Instances of one launch, each of which is kept until all have ended **(choice)**.
MOST_INSTANCES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Launch:
    """Instances of one launch.

    Attributes
    ----------
    grid : tuple of int
        Lengths of the axes; empty without brackets.
    cores : int
        How many cores run.
    placement : tuple of int
        The core of each instance, in row-major order of the grid. Instances of one core run one
        after the other.
    """

    grid: tuple[int, ...] = ()
    cores: int = 1
    placement: tuple[int, ...] = (0,)

    def program_ids(self) -> list[tuple[int, ...]]:
        """Return the place of each instance along the axes."""
        return list(itertools.product(*map(range, self.grid))) if self.grid else [()]


def _plain(axis: Any) -> Any:
    """Return NumPy's whole numbers as Python's."""
    return axis if isinstance(axis, bool) or not hasattr(axis, "__index__") else index(axis)


def as_brackets(value: Any, kernel: str) -> tuple[int | Spread, ...]:
    """Return the axes that stand in ``kernel[...]``.

    Raises
    ------
    TypeError
        If they are no lengths.
    """
    axes = tuple(map(_plain, value if isinstance(value, tuple) else (value,)))
    if not axes or not all(is_length(axis) or isinstance(axis, Spread) for axis in axes):
        message = f"{kernel}[{value!r}]: {_ALLOWED}"
        raise TypeError(message)
    return axes


def launch_of(axes: tuple[int | Spread, ...], *, legacy: bool) -> Launch:
    """Return what brackets ask for.

    One number alone is a number of cores; in the legacy dialect it is the length of a grid, as any
    number is beside others.

    Raises
    ------
    ValueError
        If they are more than `MOST_INSTANCES`.

    Examples
    --------
    >>> launch_of((2,), legacy=False)
    Launch(grid=(2,), cores=2, placement=(0, 1))
    >>> launch_of((2, 2), legacy=False)
    Launch(grid=(2, 2), cores=1, placement=(0, 0, 0, 0))
    """
    if not axes:
        return Launch()
    total = math.prod(axis if isinstance(axis, int) else axis.total for axis in axes)
    if total > MOST_INSTANCES:
        message = f"brackets {axes} ask for {total} instances; allowed: up to {MOST_INSTANCES}"
        raise ValueError(message)
    first = axes[0]
    if len(axes) == 1 and isinstance(first, int) and not legacy:
        return Launch((first,), first, tuple(range(first)))
    spreads = [axis if isinstance(axis, Spread) else Spread(1, axis) for axis in axes]
    places = itertools.product(*(map(each.core, range(each.total)) for each in spreads))
    counts = [each.cores for each in spreads]
    placement = []
    for place in places:
        number = 0
        for core, count in zip(place, counts, strict=True):
            number = number * count + core
        placement.append(number)
    return Launch(tuple(each.total for each in spreads), math.prod(counts), tuple(placement))


def check_inner(kernel: Any, running: Context) -> None:
    """Refuse brackets that ask a kernel called by another for cores that one does not have."""
    wanted = kernel.launched().cores
    have = 1 if running.logical is None else len(running.logical.cores)
    if wanted != have:
        message = (
            f"{running.core.line()}: {kernel!r} is called by a kernel that runs on {have} "
            f"core{'s' if have > 1 else ''}; allowed: {kernel.__name__}(...) without brackets"
        )
        raise ValueError(message)
