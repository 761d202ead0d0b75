"""Tensors of the legacy dialect: index expressions, block axes, operators, assignment.

Each is made of the machine's own tensors (`NkiTensor`), which do the work.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from trn3._trn3.machine import NkiTensor
from trn3.nki.dialects.legacy import issuing
from trn3.nki.dialects.legacy.actions import ACTIONS
from trn3.nki.dialects.legacy.issuing import error
from trn3.nki.dialects.legacy.pieces import Box, is_whole
from trn3.nki.dialects.legacy.temporaries import TEMPORARY
from trn3.nki.language.assignment import show
from trn3.nki.values.element_types import DType
from trn3.nki.values.memory_regions import MemoryRegion, is_on_chip

__all__ = ["Tensor", "View", "require"]

T = TypeVar("T")


def _operate(name: str, *operands: Any) -> Tensor:
    return ACTIONS[name](*operands)  # type: ignore[no-any-return]


def _updated(name: str, target: T, value: Any, *, is_spare: bool = False) -> T:
    return ACTIONS["update"](name, target, value, is_spare=is_spare)  # type: ignore[no-any-return]


def _with(name: str) -> Callable[[Any, Any], Tensor]:
    return lambda self, other: _operate(name, self, other)


def _after(name: str) -> Callable[[Any, Any], Tensor]:
    return lambda self, other: _operate(name, other, self)


def _alone(name: str) -> Callable[[Any], Tensor]:
    return lambda self: _operate(name, self)


def _in_place(name: str) -> Callable[[T, Any], T]:
    return lambda self, other: _updated(name, self, other)


class Operators:
    """What tiles do under Python's operators."""

    __hash__ = object.__hash__

    __add__ = _with("add")
    __radd__ = _after("add")
    __sub__ = _with("subtract")
    __rsub__ = _after("subtract")
    __mul__ = _with("multiply")
    __rmul__ = _after("multiply")
    __truediv__ = _with("divide")
    __rtruediv__ = _after("divide")
    __mod__ = _with("mod")
    __rmod__ = _after("mod")
    __pow__ = _with("power")
    __rpow__ = _after("power")
    __and__ = _with("bitwise_and")
    __rand__ = _after("bitwise_and")
    __or__ = _with("bitwise_or")
    __ror__ = _after("bitwise_or")
    __xor__ = _with("bitwise_xor")
    __rxor__ = _after("bitwise_xor")
    __lshift__ = _with("left_shift")
    __rshift__ = _with("right_shift")
    __lt__ = _with("less")
    __le__ = _with("less_equal")
    __gt__ = _with("greater")
    __ge__ = _with("greater_equal")
    __matmul__ = _with("matmul")
    __neg__ = _alone("negative")
    __invert__ = _alone("invert")
    __isub__ = _in_place("subtract")
    __imul__ = _in_place("multiply")
    __itruediv__ = _in_place("divide")
    __iand__ = _in_place("bitwise_and")
    __ior__ = _in_place("bitwise_or")
    __ixor__ = _in_place("bitwise_xor")

    def __eq__(self, other: object) -> Any:
        if other is None or isinstance(other, (str, type)):
            return False
        return _operate("equal", self, other)

    def __ne__(self, other: object) -> Any:
        if other is None or isinstance(other, (str, type)):
            return True
        return _operate("not_equal", self, other)

    def __iadd__(self, other: Any) -> Self:
        is_spare = sys.getrefcount(other) <= TEMPORARY
        return _updated("add", self, other, is_spare=is_spare)


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
        return _operate("index", self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        is_spare = sys.getrefcount(value) <= TEMPORARY
        ACTIONS["assign_item"](self, key, value, is_spare=is_spare)

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
        return _operate("broadcast_to", self, shape)

    def astype(self, dtype: Any) -> Tensor:
        """Return a copy in another element type."""
        return _operate("copy", self, dtype)

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
