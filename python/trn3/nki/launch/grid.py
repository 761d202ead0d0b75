"""Launch brackets: how many instances of a kernel run, and on which core each of them does."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from operator import index
from typing import Any, Final, Literal

__all__ = ["Launch", "nc", "par_dim", "spmd_dim"]

_ALLOWED: Final = (
    "allowed in brackets: a number of cores, 1 or 2; or the lengths of a launch grid, each a whole "
    "number from 1, with nl.nc(cores) for what is spread over cores"
)


class par_dim(int):
    """Length of a tile's partition axis: the first; in the legacy dialect after those of blocks."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Spread:
    """An axis of a launch grid whose instances are spread over cores.

    Attributes
    ----------
    cores : int
        How many.
    length : int
        Instances of the axis on each core.
    order : {"blocks", "cyclic"}
        Whether neighbours share a core, or follow one another around the cores.
    """

    cores: int
    length: int = 1
    order: Literal["blocks", "cyclic"] = "blocks"

    def __mul__(self, length: int) -> Spread:
        return spmd_dim(self, length)

    def __rmul__(self, length: int) -> Spread:
        return spmd_dim(length, self)

    @property
    def total(self) -> int:
        """Length of the axis."""
        return self.cores * self.length

    def core(self, index: int) -> int:
        """Return the core of an instance by its place on the axis."""
        return index % self.cores if self.order == "cyclic" else index // self.length


def nc(cores: int) -> Spread:
    """Return an axis of a launch grid that has one instance on each of some cores.

    ``nl.nc(2) * n`` has n on each, neighbours together; ``n * nl.nc(2)`` deals them in turn.

    Raises
    ------
    TypeError
        If `cores` is no whole number from 1.

    Examples
    --------
    >>> import trn3.nki.language as nl
    >>> [(nl.nc(2) * 3).core(i) for i in range(6)], [(3 * nl.nc(2)).core(i) for i in range(6)]
    ([0, 0, 0, 1, 1, 1], [0, 1, 0, 1, 0, 1])
    """
    if not _is_length(cores):
        message = f"nc of {cores!r}; allowed: a number of cores, from 1"
        raise TypeError(message)
    return Spread(cores)


def spmd_dim(outer: int | Spread, inner: int | Spread) -> Spread:
    """Return an axis of a launch grid, one factor of which is `nc` of some cores.

    Parameters
    ----------
    outer, inner : int or nl.nc(cores)
        With the cores outside, neighbours share a core; inside, they follow one another around.

    Raises
    ------
    TypeError
        If not exactly one of them is `nc`.

    Examples
    --------
    >>> import trn3.nki.language as nl
    >>> nl.spmd_dim(nl.nc(2), 4) == nl.nc(2) * 4
    True
    """
    for spread, length, order in ((outer, inner, "blocks"), (inner, outer, "cyclic")):
        if isinstance(spread, Spread) and spread.length == 1 and _is_length(length):
            return Spread(spread.cores, length, order)  # type: ignore[arg-type]
    message = f"spmd_dim of {outer!r} and {inner!r}; allowed: a whole number and nl.nc(cores)"
    raise TypeError(message)


def _plain(axis: Any) -> Any:
    """Return NumPy's whole numbers as Python's."""
    return axis if isinstance(axis, bool) or not hasattr(axis, "__index__") else index(axis)


def _is_length(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


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

    @property
    def is_spmd_pair(self) -> bool:
        """Whether each core runs one instance: what ``kernel[2]`` means."""
        return self.cores == len(self.placement) and self.cores > 1

    def program_ids(self) -> list[tuple[int, ...]]:
        """Return the place of each instance along the axes."""
        return list(itertools.product(*map(range, self.grid)))


def as_brackets(value: Any, kernel: str) -> tuple[int | Spread, ...]:
    """Return the axes that stand in ``kernel[...]``.

    Raises
    ------
    TypeError
        If they are no lengths.
    """
    axes = tuple(map(_plain, value if isinstance(value, tuple) else (value,)))
    if not axes or not all(_is_length(axis) or isinstance(axis, Spread) for axis in axes):
        message = f"{kernel}[{value!r}]: {_ALLOWED}"
        raise TypeError(message)
    return axes


def launch_of(axes: tuple[int | Spread, ...], *, legacy: bool) -> Launch:
    """Return what brackets ask for.

    One number alone is a number of cores; in the legacy dialect it is the length of a grid, as any
    number is beside others.

    Examples
    --------
    >>> launch_of((2,), legacy=False)
    Launch(grid=(2,), cores=2, placement=(0, 1))
    >>> launch_of((2, 2), legacy=False)
    Launch(grid=(2, 2), cores=1, placement=(0, 0, 0, 0))
    """
    if not axes:
        return Launch()
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
