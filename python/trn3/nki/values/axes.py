"""Axes: of tiles, and of launch grids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Spread", "is_length", "nc", "par_dim", "spmd_dim"]


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
    if not is_length(cores):
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
        if isinstance(spread, Spread) and spread.length == 1 and is_length(length):
            return Spread(spread.cores, length, order)  # type: ignore[arg-type]
    message = f"spmd_dim of {outer!r} and {inner!r}; allowed: a whole number and nl.nc(cores)"
    raise TypeError(message)


def is_length(value: Any) -> bool:
    """Return whether a value is a whole number from 1."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
