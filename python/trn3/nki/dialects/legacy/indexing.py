"""``tensor[...]`` in the legacy dialect: what an index expression addresses."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trn3._trn3 import machine
from trn3._trn3.machine import NkiTensor, VirtualRegister, ds
from trn3.nki.dialects.legacy.actions import action
from trn3.nki.dialects.legacy.blocks import Blocks
from trn3.nki.dialects.legacy.indices import LoopRange
from trn3.nki.dialects.legacy.issuing import error, flush
from trn3.nki.dialects.legacy.pieces import Box, is_whole, part_of, whole
from trn3.nki.dialects.legacy.views import Tensor, View
from trn3.nki.language.tiles import converted, in_sbuf
from trn3.nki.values.element_types import int32
from trn3.nki.values.memory_regions import is_on_chip

_ALLOWED = "allowed: whole numbers, slices, nl.ds, nl.arange or nl.mgrid expressions, index tiles"


@action("index")
def index(tensor: Tensor, key: Any) -> Tensor:
    """Return what a key addresses; out of bounds it is an error unless a mask leaves that out.

    Raises
    ------
    IndexError
        For too many elements, or an address outside the tensor that no mask can leave out.
    TypeError
        If an element of the key is no index.
    """
    parts = _expanded(tensor, key)
    if isinstance(tensor, Blocks):
        count = 0
        while count < tensor.block_rank and isinstance(parts[count], int):
            count += 1
        if count:
            inner = tensor.inner(tuple(int(number) for number in parts[:count]))
            rest = tuple(parts[count:])
            full = all(isinstance(part, slice) and part == slice(None) for part in rest)
            return inner if full else index(inner, rest)
    elif tensor.is_even and _is_inside(tensor, parts):
        return View(tensor.place[tuple(parts)])
    return _advanced(tensor, parts)


def _expanded(tensor: Tensor, key: Any) -> list[Any]:
    """Return one element of the key for each axis."""
    given = list(key) if isinstance(key, tuple) else [key]
    parts = [_element(part) for part in given]
    missing = tensor.ndim - sum(part is not Ellipsis for part in parts)
    if missing < 0:
        message = f"tensor `{tensor.name}` has {tensor.ndim} axes; the index has {len(given)}"
        raise error(IndexError, message)
    place = next((i for i, part in enumerate(parts) if part is Ellipsis), None)
    if place is None:
        return parts + [slice(None)] * missing
    return parts[:place] + [slice(None)] * missing + parts[place + 1 :]


def _element(part: Any) -> Any:
    if part is Ellipsis or isinstance(part, (slice, Tensor)):
        return part
    if isinstance(part, (bool, np.bool_)):
        raise error(TypeError, f"an index is {part!r}; {_ALLOWED}")
    if isinstance(part, (int, np.integer)):
        return int(part)
    if isinstance(part, ds):
        if isinstance(part.start, int):
            return slice(part.start, part.start + part.size)
        return part
    if isinstance(part, LoopRange):
        return part.as_slice()
    if isinstance(part, range):
        return slice(part.start, part.stop, part.step)
    if isinstance(part, np.ndarray) and part.dtype.kind in "iu":
        return int(part) if part.ndim == 0 else part
    if isinstance(part, NkiTensor):
        return View(part)
    if isinstance(part, VirtualRegister):
        return ds(part, 1)
    raise error(TypeError, f"an index is of type {type(part).__name__}; {_ALLOWED}")


def _is_inside(tensor: Tensor, parts: list[Any]) -> bool:
    """Return whether an index is one of the machine's own, inside the tensor."""
    for part, length in zip(parts, tensor.shape, strict=True):
        if not isinstance(part, (int, slice, ds)):
            return False
        if isinstance(part, int) and not -length <= part < length:
            return False
        if isinstance(part, slice) and not (part.stop is None or part.stop <= length):
            return False
    return True


def _advanced(tensor: Tensor, parts: list[Any]) -> Tensor:
    """Return the grid that index expressions span over a tensor."""
    dynamic: tuple[int, Tensor] | None = None
    indexes: list[NDArray[np.int64] | tuple[int, int, int]] = []
    for dim, part in enumerate(parts):
        if isinstance(part, Tensor):
            if dynamic is not None:
                message = "two index tiles in one index; allowed: one"
                raise error(IndexError, message)
            dynamic = (dim, part)
            # A place on the grid for each index; their values are the machine's.
            indexes.append(np.zeros(part.shape if part.size > 1 else (), np.int64))
        elif isinstance(part, np.ndarray):
            indexes.append(np.asarray(part.view(np.ndarray), np.int64, order="C"))
        elif isinstance(part, int):
            length = tensor.shape[dim]
            indexes.append(np.asarray(part + length if part < 0 else part, np.int64))
        elif isinstance(part, ds):
            message = "a dynamic nl.ds beside index expressions; allowed: one or the other"
            raise error(IndexError, message)
        else:
            indexes.append(_run(tensor, dim, part))
    partition = tensor.block_rank if is_on_chip(tensor.buffer) else None
    try:
        grid, numbers = machine.span_indexes(tensor.name, indexes, partition)
    except IndexError as refused:
        raise error(IndexError, str(refused)) from None
    access = Access(tensor, tuple(grid), numbers, dynamic)
    return access.simplified()


def _run(tensor: Tensor, dim: int, part: slice) -> tuple[int, int, int]:
    """Return the start, count and step of the numbers of a slice."""
    length = tensor.shape[dim]
    stop = length if part.stop is None else part.stop
    own = range(part.start or 0, stop + length if stop < 0 else stop, part.step or 1)
    if not own:
        raise error(IndexError, f"tensor `{tensor.name}`: the slice {part} is empty")
    return own.start, len(own), own.step


class _Axis(NamedTuple):
    """One axis' index expression within a box: its range, and its first number and its steps."""

    low: int
    high: int
    pattern: tuple[int, list[int]] | None

    @property
    def is_even(self) -> bool:
        """Whether it has steps, and none runs backwards."""
        return self.pattern is not None and min(self.pattern[1], default=0) >= 0


def _axis(numbers: NDArray[np.int64]) -> _Axis:
    return _Axis(*machine.reach(np.asarray(numbers, np.int64, order="C")))


class Access(Tensor):
    """Elements of a tensor picked by index expressions, resolved box by box.

    Attributes
    ----------
    base : Tensor
        Whose elements they are.
    is_updated : bool
        Whether ``+=`` wrote them already.
    """

    def __init__(
        self,
        base: Tensor,
        grid: tuple[int, ...],
        numbers: list[NDArray[np.int64]],
        dynamic: tuple[int, Tensor] | None,
    ) -> None:
        self.base = base
        self.shape = grid
        self.dtype = base.dtype
        self.buffer = base.buffer
        self.name = base.name
        self.is_updated = False
        self._numbers = numbers
        self._dynamic = dynamic
        self._axes: list[_Axis] | None = None

    def simplified(self) -> Tensor:
        """Return a plain view where the whole grid is one inside the tensor."""
        if self._dynamic is None and self.is_even and self._outside(self._whole()) is None:
            return View(self.resolve(whole(self.shape)))
        return self

    @property
    def view(self) -> NkiTensor:
        """Elements as one of the machine's tensors."""
        if not self.is_even:
            message = (
                f"the index of tensor `{self.name}` is no even pattern; allowed here: steps that "
                "are the same along each axis. Copy the elements by nl.copy or nl.load first"
            )
            raise error(IndexError, message)
        flush()
        return self.resolve(whole(self.shape))

    @property
    def is_even(self) -> bool:
        """Whether the index is one even pattern."""
        rank = self.base.block_rank
        if self._has_columns():
            return False
        return all(axis.is_even for axis in self._whole()) and all(
            axis.low == axis.high for axis in self._whole()[:rank]
        )

    @property
    def picks_rows(self) -> bool:
        """Whether an index tile picks a row for each place."""
        return self._dynamic is not None and self._dynamic[1].size > 1

    def uneven(self) -> list[NDArray[np.int64]]:
        """Return the expressions of the tile's axes."""
        return self._numbers[self.base.block_rank :]

    def fixed(self) -> list[NDArray[np.int64]]:
        """Return the expressions of the block axes."""
        fixed = self._numbers[: self.base.block_rank]
        if self._has_columns():
            # One column of the index tile at a time.
            assert self._dynamic is not None
            columns = self._numbers[self._dynamic[0]].shape[1:]
            fixed = [*fixed, np.arange(math.prod(columns)).reshape((1, *columns))]
        return fixed

    def _has_columns(self) -> bool:
        """Whether an index tile holds several numbers a partition."""
        return self._dynamic is not None and self._dynamic[1].size > self._dynamic[1].shape[0]

    def _whole(self) -> list[_Axis]:
        if self._axes is None:
            self._axes = [_axis(array) for array in self._numbers]
        return self._axes

    def _outside(self, axes: list[_Axis]) -> str | None:
        for dim, (axis, length) in enumerate(zip(axes, self.base.shape, strict=True)):
            if axis.low < 0 or axis.high >= length:
                return (
                    f"Out-of-bound access for tensor `{self.name}` on dimension {dim}: index "
                    f"range [{axis.low}, {axis.high}] exceed dimension size of {length}; allowed: "
                    "less, or a mask= that leaves the rest out"
                )
        return None

    def resolve(self, box: Box) -> NkiTensor:
        """Return the elements of a box of the grid."""
        if is_whole(box, self.shape):
            axes = self._whole()
        else:
            axes = [_axis(part_of(array, box)) for array in self._numbers]
        problem = self._outside(axes)
        if problem is not None:
            raise error(IndexError, problem)
        rank = self.base.block_rank
        tile = self.base.tile(tuple(axis.low for axis in axes[:rank]))
        offset = 0
        steps = [0] * len(box)
        for axis, stride in zip(axes[rank:], tile.strides, strict=True):
            if axis.pattern is None:
                message = f"the index of tensor `{self.name}` is no even pattern"
                raise error(IndexError, message)
            start, own = axis.pattern
            offset += start * stride
            steps = [step + each * stride for step, each in zip(steps, own, strict=True)]
        if min(steps) < 0:
            message = f"the index of tensor `{self.name}` runs backwards; allowed: steps from 0"
            raise error(IndexError, message)
        counts = [part.stop - part.start for part in box]
        pattern = [list(pair) for pair in zip(steps, counts, strict=True)]
        if self._dynamic is None:
            return tile.ap(pattern, offset)
        return self._indirect(tile, pattern, offset, box)

    def _indirect(
        self, tile: NkiTensor, pattern: list[list[int]], offset: int, box: Box
    ) -> NkiTensor:
        assert self._dynamic is not None
        dim, places = self._dynamic
        if places.size == 1:
            return tile.ap(pattern, offset, scalar_offset=_whole_numbers(places), indirect_dim=dim)
        grid = self._numbers[dim].shape
        if is_on_chip(self.buffer) or grid[0] != places.shape[0] or places.ndim > len(grid):
            message = (
                f"index tile of shape {places.shape} on axis {dim} of tensor `{self.name}` in "
                f"{self.buffer}; allowed: a number for each partition, for a tensor in HBM; or a "
                "single number"
            )
            raise error(IndexError, message)
        own = [slice(0, 1) if length == 1 else part for part, length in zip(box, grid, strict=True)]
        numbers = _whole_numbers(places)
        if numbers.ndim < len(grid):
            numbers = numbers.reshape(grid)
        rows = numbers[tuple(own)]
        # Rows are of the first axis of what the pattern is of.
        for _ in range(dim):
            tile = tile.select(0, 0)
        column = rows if rows.ndim == 2 else rows.reshape((rows.shape[0], 1))
        return tile.ap(pattern, offset, vector_offset=column, indirect_dim=0)


def _whole_numbers(places: Tensor) -> NkiTensor:
    """Return an index tile in SBUF, of a type that addresses have."""
    if places.dtype.is_integer and places.dtype.itemsize == int32.itemsize:
        return in_sbuf(places.view)
    return in_sbuf(converted(places.view, int32))
