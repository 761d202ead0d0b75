"""Tensors of the legacy dialect: index expressions, block axes, operators, assignment.

Each is made of the machine's own tensors (`NkiTensor`), which do the work.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from trn3._trn3.machine import NkiTensor
from trn3.nki.dialects.legacy import issuing
from trn3.nki.dialects.legacy.issuing import error
from trn3.nki.dialects.legacy.overloads import Operators
from trn3.nki.dialects.legacy.pieces import Box, is_whole
from trn3.nki.dialects.legacy.temporaries import TEMPORARY
from trn3.nki.language.assignment import show
from trn3.nki.language.creation import MemoryRegion, is_on_chip, new_tensor
from trn3.nki.values.element_types import DType, canonicalise

__all__ = ["Blocks", "Result", "Tensor", "View", "require"]


class Tensor(Operators):
    """A tensor of a legacy kernel; also the annotation ``nki.tensor``.

    Attributes
    ----------
    shape : tuple of int
        Lengths; block axes first.
    dtype : DType
    buffer : MemoryRegion
    name : str
    mask : array of bool, False or None
        Where a masked instruction wrote; assigning the tensor writes there alone.
    """

    shape: tuple[int, ...]
    dtype: DType
    buffer: MemoryRegion
    name: str = ""
    mask: Any = None
    #: How many of the first axes number blocks.
    block_rank: int = 0

    # What instructions ask for.

    @property
    def view(self) -> NkiTensor:
        """The machine's tensor.

        Raises
        ------
        ValueError
            If it is no single one.
        """
        raise NotImplementedError

    def resolve(self, box: Box) -> NkiTensor:
        """Return the machine's view of a box of the tensor."""
        return self.place if is_whole(box, self.shape) else self.place[box]

    def uneven(self) -> list[NDArray[np.int64]]:
        """Return index expressions that must be affine within a box."""
        return []

    def fixed(self) -> list[NDArray[np.int64]]:
        """Return index expressions that must be constant within a box."""
        return []

    @property
    def is_even(self) -> bool:
        """Whether the whole tensor is one of the machine's."""
        return True

    @property
    def place(self) -> NkiTensor:
        """The machine's tensor, for views of it alone: an instruction may wait."""
        return self.view

    def tile(self, block: tuple[int, ...]) -> NkiTensor:
        """Return the machine's tensor of a block."""
        del block
        return self.place

    # What kernels ask for.

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> NoReturn:
        message = f"tensor {self.name or self.shape} cannot be iterated; allowed: index it"
        raise error(TypeError, message)

    def __bool__(self) -> NoReturn:
        message = (
            "the truth of a tensor is not known when a kernel is built; allowed: mask=, nl.where"
        )
        raise error(TypeError, message)

    def __repr__(self) -> str:
        return show(self.view)

    def __getitem__(self, key: Any) -> Tensor:
        from trn3.nki.dialects.legacy.indexing import index

        return index(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        from trn3.nki.dialects.legacy.assigning import assign_item

        is_spare = sys.getrefcount(value) <= TEMPORARY
        assign_item(self, key, value, is_spare=is_spare)

    def assert_shape(self, shape: Sequence[int]) -> Tensor:
        """Return the tensor itself.

        Raises
        ------
        ValueError
            If it has another shape.
        """
        if tuple(shape) != self.shape:
            message = f"tensor `{self.name}` has shape {self.shape}; asserted: {tuple(shape)}"
            raise error(ValueError, message)
        return self

    def reshape(self, *shape: Any) -> Tensor:
        """Return the elements under another shape; on chip the partitions stay."""
        lengths = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        return View(self.view.reshape(tuple(int(length) for length in lengths)))

    def expand_dims(self, axis: int) -> Tensor:
        """Return a view with an axis of length 1 more."""
        return View(self.view.expand_dim(axis + self.ndim + 1 if axis < 0 else axis))

    def broadcast_to(self, shape: Sequence[int], **_options: Any) -> Tensor:
        """Return the tile with axes of length 1 repeated, partitions too."""
        from trn3.nki.dialects.legacy.language.movement import broadcast_to

        return broadcast_to(self, shape)

    def astype(self, dtype: Any) -> Tensor:
        """Return a copy in another element type."""
        from trn3.nki.dialects.legacy.language.elementwise import copy

        return copy(self, dtype=dtype)

    def view_as(self, dtype: Any) -> Tensor:
        """Return the bytes as another element type."""
        return View(self.view.view(dtype))

    def is_indirect(self) -> bool:
        """Whether an address is known only when the kernel runs."""
        return self.view.is_indirect()


class View(Tensor):
    """One of the machine's tensors."""

    def __init__(self, view: NkiTensor) -> None:
        self._view = view
        self.shape = view.shape
        self.dtype = view.dtype
        self.buffer = view.buffer
        self.name = view.name

    @property
    def view(self) -> NkiTensor:
        """The machine's tensor."""
        issuing.flush()
        return self._view

    @property
    def place(self) -> NkiTensor:
        """The machine's tensor, for views of it alone: an instruction may wait."""
        return self._view


class Result(Tensor):
    """What an instruction returns; the instruction may still wait.

    Attributes
    ----------
    kind : str
        ``"matmul"`` for products, which PSUM accumulates.
    is_simple : bool
        Whether one instruction makes all of it.
    accumulate : bool or None
        Of a product: whether it adds to what lies where it goes, as `nki.isa.nc_matmul` takes it.
    """

    def __init__(
        self,
        shape: Sequence[int],
        dtype: Any,
        buffer: MemoryRegion,
        run: Callable[..., Any],
        *,
        kind: str = "",
        is_simple: bool = True,
        mask: Any = None,
    ) -> None:
        self.shape = tuple(int(length) for length in shape)
        self.dtype = canonicalise(dtype)
        self.buffer = buffer
        self.kind = kind
        self.is_simple = is_simple
        self.mask = mask
        self.accumulate: bool | None = False
        self._made: NkiTensor | None = None
        self._run: Callable[..., Any] | None = run
        self._line = issuing.line()
        issuing.flush()
        issuing.state.pending = self

    @property
    def view(self) -> NkiTensor:
        """The machine's tensor; the instruction has run."""
        issuing.flush()
        if self._made is None:
            message = "a tile is used whose instruction was given to another tile"
            raise error(RuntimeError, message)
        return self._made

    @property
    def place(self) -> NkiTensor:
        """The machine's tensor, for views of it alone: another instruction may wait."""
        return self.view if self._made is None else self._made

    @property
    def is_pending(self) -> bool:
        """Whether the instruction waits for where its result goes."""
        return issuing.state.pending is self

    def materialise(self, into: NkiTensor | None = None) -> None:
        """Run the instruction, into a tensor of the same shape or into a new one."""
        if issuing.state.pending is self:
            issuing.state.pending = None

        def run() -> None:
            made = into
            if made is None:
                made = new_tensor(self.shape, self.dtype, self.buffer)
            self._made = made
            # Not kept: it holds the operands, whose memory is to be free again.
            emit, self._run = self._run, None
            if emit is None:
                return
            if self.kind == "matmul":
                emit(made, self.accumulate)
            else:
                emit(made)

        issuing.at_line(self._line, run)


class Blocks(Tensor):
    """Tiles numbered by leading axes; each is made when it is first used."""

    def __init__(
        self,
        shape: Sequence[int],
        block_rank: int,
        dtype: Any,
        buffer: MemoryRegion,
        make: Callable[[tuple[int, ...]], NkiTensor],
        *,
        name: str = "",
        made: dict[tuple[int, ...], NkiTensor] | None = None,
        prefix: tuple[int, ...] = (),
    ) -> None:
        self.shape = tuple(int(length) for length in shape)
        self.block_rank = block_rank
        self.dtype = canonicalise(dtype)
        self.buffer = buffer
        self.name = name
        self._make = make
        self._tiles = {} if made is None else made
        self._prefix = prefix

    @property
    def view(self) -> NkiTensor:
        """Refuse: there are several."""
        blocks = self.shape[: self.block_rank]
        message = (
            f"tensor {self.name or 'without name'} of shape {self.shape} has block axes {blocks}; "
            "allowed: index them first, t[block, ...]"
        )
        raise error(ValueError, message)

    @property
    def is_even(self) -> bool:
        """False: there are several tiles."""
        return False

    def tile(self, block: tuple[int, ...]) -> NkiTensor:
        """Return the tile of a block."""
        place = (*self._prefix, *block)
        known = self._tiles.get(place)
        if known is None:
            issuing.flush()
            known = self._tiles[place] = self._make(place)
        return known

    def inner(self, block: tuple[int, ...]) -> Tensor:
        """Return what a number for each of the first block axes leaves."""
        for axis, (number, length) in enumerate(zip(block, self.shape, strict=False)):
            if not -length <= number < length:
                message = (
                    f"Out-of-bound access for tensor `{self.name}` on dimension {axis}: index "
                    f"{number} exceed dimension size of {length}"
                )
                raise error(IndexError, message)
        block = tuple(number % length for number, length in zip(block, self.shape, strict=False))
        if len(block) == self.block_rank:
            return View(self.tile(block))
        return Blocks(
            self.shape[len(block) :], self.block_rank - len(block), self.dtype, self.buffer,
            self._make, name=self.name, made=self._tiles, prefix=(*self._prefix, *block),
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"tensor {self.name} {self.shape} {self.dtype}, {self.block_rank} block axes"


def require(function: str, argument: str, value: Any, *, on_chip: bool = True) -> Tensor:
    """Return a tensor of the legacy dialect.

    Raises
    ------
    TypeError
        If it is none.
    ValueError
        If it lies in HBM where it must be on chip.
    """
    if isinstance(value, NkiTensor):
        value = View(value)
    if not isinstance(value, Tensor):
        message = f"{function} {argument} is of type {type(value).__name__}; allowed: a tile"
        raise error(TypeError, message)
    if on_chip and not is_on_chip(value.buffer):
        message = (
            f"{function} {argument} lies in {value.buffer}; allowed: SBUF or PSUM, as nl.load "
            "gives it"
        )
        raise error(ValueError, message)
    return value
