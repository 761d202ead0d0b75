"""Which part of an array each rank of a mesh has."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from numpy.typing import NDArray

from trn3.graph import GraphError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["ArraySharding", "RankMesh", "mesh"]

_AXIS = re.compile(r'"([^"]*)"=(\d+)')
_NAMES = re.compile(r'"([^"]*)"')
# One value's: the mesh, then the axes of each dimension; what may stand after them says nothing.
_VALUE = re.compile(r"<@([^,>]+), \[((?:\{[^}]*\}(?:, )?)*)\][^>]*>")
# As older versions of JAX write it: tiles of ranks, in the order of a mesh that may be turned.
_TILES = re.compile(
    r"\{devices=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?"
    r"(?: last_tile_dim_replicate| last_tile_dims=\{[^}]*\})?\}"
)
_DIMENSION = re.compile(r"\{([^}]*)\}")


def mesh(axes: Mapping[str, int]) -> jax.sharding.AbstractMesh:
    """Make a mesh of simulated ranks, for `jax.shard_map`.

    JAX itself needs one device only; ranks are numbered as the mesh lies, its last axis fastest.

    Parameters
    ----------
    axes : mapping of str to int
        Lengths of the axes by their names.

    Examples
    --------
    >>> from trn3.jax import mesh
    >>> dict(mesh({"data": 4, "model": 2}).shape)
    {'data': 4, 'model': 2}
    """
    for name, length in axes.items():
        if length < 1:
            raise ValueError(f"axis {name!r} has length {length}; allowed: 1 or more")
    abstract: Any = jax.sharding.AbstractMesh
    try:
        made = abstract(tuple(axes.values()), tuple(axes))
    except TypeError:  # before JAX 0.5
        made = abstract(tuple(axes.items()))
    return made  # type: ignore[no-any-return]


@dataclass(frozen=True)
class RankMesh:
    """Ranks by axes with names; the last axis is the fastest."""

    axes: tuple[tuple[str, int], ...]

    @classmethod
    def read(cls, text: str) -> RankMesh:
        """Read the mesh that a module declares."""
        if "device_ids" in text:
            raise GraphError(
                f"mesh {text}: devices have an order of their own; allowed: 0, 1, 2 ..."
            )
        return cls(tuple((name, int(length)) for name, length in _AXIS.findall(text)))

    @property
    def ranks(self) -> int:
        """How many there are."""
        return int(np.prod([length for _, length in self.axes], dtype=np.int64))

    def sharding(self, dimensions: Sequence[Sequence[str]]) -> ArraySharding:
        """Return the parts of an array whose dimensions are cut along these axes."""
        lengths = dict(self.axes)
        places = np.indices([length for _, length in self.axes]).reshape(len(self.axes), self.ranks)
        coordinates = dict(zip(lengths, places, strict=True))
        parts, indices = [], []
        for axes in dimensions:
            index = np.zeros(self.ranks, np.int64)
            for axis in axes:
                index = index * lengths[axis] + coordinates[axis]
            indices.append(index)
            parts.append(int(np.prod([lengths[axis] for axis in axes], dtype=np.int64)))
        rows = np.array(indices, np.int64).reshape(len(parts), self.ranks).T
        return ArraySharding(tuple(parts), tuple(map(tuple, rows.tolist())))

    def shardings(self, text: str, manual: set[str]) -> list[ArraySharding]:
        """Read those of several values; axes that are not manual cut nothing."""
        found = []
        for _, dimensions in _VALUE.findall(text):
            if ":(" in dimensions:
                raise GraphError(f"sharding {dimensions}: parts of an axis; allowed: whole axes")
            cut = [_NAMES.findall(each) for each in _DIMENSION.findall(dimensions)]
            found.append(self.sharding([[axis for axis in axes if axis in manual] for axes in cut]))
        return found


@dataclass(frozen=True)
class ArraySharding:
    """Into how many parts each dimension is cut, and which of them each rank has."""

    parts: tuple[int, ...]
    indices: tuple[tuple[int, ...], ...]

    @classmethod
    def of_tiles(cls, text: str, axes: int) -> ArraySharding | None:
        """Read one of a value with so many axes as older versions of JAX write it.

        None stands for one that cuts nothing.
        """
        if text in {"{replicated}", "{manual}"}:
            return None
        found = _TILES.fullmatch(text)
        if found is None:
            raise GraphError(f"sharding {text} is not understood")
        tiles, lengths, turn = (
            [int(number) for number in (numbers or "").split(",") if number]
            for numbers in found.groups()
        )
        ranks = np.arange(np.prod(lengths)).reshape(lengths).transpose(turn or None).reshape(tiles)
        order = np.argsort(ranks.ravel(), kind="stable")
        places = np.stack(np.unravel_index(order, tiles), 1)[:, :axes]
        return cls(tuple(tiles[:axes]), tuple(map(tuple, places.tolist())))

    @property
    def is_whole(self) -> bool:
        """Whether each rank has all."""
        return all(count == 1 for count in self.parts)

    def local(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of a part."""
        return tuple(length // count for length, count in zip(shape, self.parts, strict=True))

    @cached_property
    def replicas(self) -> tuple[int, ...]:
        """Of each rank, how many before it have the same part."""
        seen: Counter[tuple[int, ...]] = Counter()
        found = []
        for index in self.indices:
            found.append(seen[index])
            seen[index] += 1
        return tuple(found)

    def groups(self, dimension: int) -> list[list[int]]:
        """Return the ranks that have one row of parts along a dimension, in its order."""

        def row(rank: int) -> tuple[Any, ...]:
            index = self.indices[rank]
            return (*index[:dimension], *index[dimension + 1 :], self.replicas[rank])

        ordered = sorted(
            range(len(self.indices)), key=lambda rank: (row(rank), self.indices[rank][dimension])
        )
        return [list(group) for _, group in itertools.groupby(ordered, row)]

    def _slices(self, rank: int, shape: Sequence[int]) -> tuple[slice, ...]:
        places = zip(self.indices[rank], self.local(shape), strict=True)
        return tuple(slice(index * length, (index + 1) * length) for index, length in places)

    def split(self, array: NDArray[Any]) -> list[NDArray[Any]]:
        """Return the part of each rank."""
        return [array[self._slices(rank, array.shape)] for rank in range(len(self.indices))]

    def assemble(self, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Return the whole; of equal places the first rank's part stands."""
        shape = [length * n for length, n in zip(parts[0].shape, self.parts, strict=True)]
        whole: NDArray[Any] = np.empty(shape, parts[0].dtype)
        for rank in reversed(range(len(parts))):
            whole[self._slices(rank, shape)] = parts[rank]
        return whole
