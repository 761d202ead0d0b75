"""Making tensors: `ndarray`, `zeros` and their like, with block axes and allocators."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from trn3._trn3.machine import NkiTensor
from trn3.nki.dialects.legacy import issuing
from trn3.nki.dialects.legacy.blocks import Blocks
from trn3.nki.dialects.legacy.compiler import Allocator
from trn3.nki.dialects.legacy.indices import par_dim
from trn3.nki.dialects.legacy.issuing import error
from trn3.nki.dialects.legacy.views import Tensor, View
from trn3.nki.language import creation, rand as modern_rand
from trn3.nki.language.creation import fill, new_tensor
from trn3.nki.language.tile_sizes import tile_size
from trn3.nki.values.element_types import canonicalise, float32, uint8
from trn3.nki.values.memory_regions import MemoryRegion, is_hbm, psum, sbuf

__all__ = [
    "empty_like",
    "full",
    "ndarray",
    "ones",
    "rand",
    "shared_constant",
    "shared_identity_matrix",
    "zeros",
    "zeros_like",
]

_NAMES: Final = {"sbuf": sbuf, "psum": psum}


class _LegacyNdarrayType(type):
    """Makes ``nl.ndarray(...)`` a call and ``isinstance(x, nl.ndarray)`` a question."""

    def __call__(
        cls, shape: Any, dtype: Any = None, *, buffer: Any = None, name: str = "", **options: Any
    ) -> Tensor:
        del options  # of compilers: lazy_initialization and others
        return create(shape, dtype, buffer, name, None)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor)


class ndarray(metaclass=_LegacyNdarrayType):
    """Return a new tensor of unspecified values.

    Parameters
    ----------
    shape : sequence of int
        On chip, the axis given as ``nl.par_dim(n)`` numbers partitions and those before it blocks,
        each a tile of its own; without it the first one numbers partitions.
    dtype
        Any spelling of an element type.
    buffer : optional
        ``nl.sbuf`` by default, ``nl.psum``, ``nl.hbm``, ``nl.shared_hbm``, or an allocator of
        `nki.compiler`.
    name : str, optional
        Shown in errors and profiles.

    Raises
    ------
    TypeError
        If `dtype` or `buffer` means none.
    ValueError
        If the memory cannot hold the shape.
    """


def create(shape: Any, dtype: Any, buffer: Any, name: str, value: float | None) -> Tensor:
    """Return a new tensor, filled where a value is given."""
    issuing.flush()
    lengths = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if dtype is None:
        message = "ndarray() missing 1 required positional argument: 'dtype'"
        raise error(TypeError, message)
    element = canonicalise(dtype)
    allocator, region = _place(buffer)
    plain = tuple(int(length) for length in lengths)
    if is_hbm(region):
        return _filled(View(new_tensor(plain, element, region, name)), value)
    partition = next((i for i, n in enumerate(lengths) if isinstance(n, par_dim)), 0)
    if sum(isinstance(length, par_dim) for length in lengths) > 1:
        message = f"shape {plain} has several nl.par_dim; allowed: one"
        raise error(ValueError, message)
    blocks, own = plain[:partition], plain[partition:]
    if len(own) < 2:
        own = (*own, 1)
    pmax = tile_size.pmax
    if own[0] > pmax:
        message = (
            f"shape {plain}: {own[0]} partitions; allowed: up to {pmax}. Axes before "
            "nl.par_dim(n) are blocks"
        )
        raise error(ValueError, message)
    count = int(np.prod(own[1:])) * element.itemsize

    def make(block: tuple[int, ...]) -> NkiTensor:
        address = None if allocator is None else allocator.address(block, blocks, own[0], count)
        tile = new_tensor(own, element, region, name, address)
        if value is not None:
            fill(tile, value)
            if value != 0 and region is psum:
                issuing.state.filled.add(tile.storage_id)
        return tile

    if not blocks:
        return View(make(()))
    made = Blocks((*blocks, *own), len(blocks), element, region, make, name=name)
    if value is not None:
        for block in np.ndindex(*blocks):
            made.tile(block)
    return made


def _place(buffer: Any) -> tuple[Allocator | None, MemoryRegion]:
    if buffer is None:
        return None, sbuf
    if isinstance(buffer, Allocator):
        return (buffer if buffer.addresses is not None else None), _NAMES[buffer.memory]
    if isinstance(buffer, MemoryRegion):
        return None, buffer
    if isinstance(buffer, str) and buffer in MemoryRegion.__members__:
        return None, MemoryRegion[buffer]
    allowed = (
        "nl.sbuf, nl.psum, nl.hbm, nl.shared_hbm, nl.private_hbm, an allocator of nki.compiler"
    )
    raise error(TypeError, f"buffer is {buffer!r}; allowed: {allowed}")


def _filled(tensor: View, value: float | None) -> View:
    if value is not None:
        fill(tensor.view, value)
    return tensor


def full(
    shape: Any, fill_value: float, dtype: Any, *, buffer: Any = None, name: str = "", **_: Any
) -> Tensor:
    """Return a new tensor of one value; else as `ndarray`."""
    return create(shape, dtype, buffer, name, fill_value)


def zeros(shape: Any, dtype: Any, *, buffer: Any = None, name: str = "", **_: Any) -> Tensor:
    """Return a new tensor of zeros; else as `ndarray`."""
    return create(shape, dtype, buffer, name, 0)


def ones(shape: Any, dtype: Any, *, buffer: Any = None, name: str = "", **_: Any) -> Tensor:
    """Return a new tensor of ones; else as `ndarray`."""
    return create(shape, dtype, buffer, name, 1)


def zeros_like(
    a: Tensor, dtype: Any = None, *, buffer: Any = None, name: str = "", **_: Any
) -> Tensor:
    """Return zeros of another tensor's shape; type and memory default to its own."""
    return create(_shape_of(a), dtype or a.dtype, buffer or a.buffer, name, 0)


def empty_like(
    a: Tensor, dtype: Any = None, *, buffer: Any = None, name: str = "", **_: Any
) -> Tensor:
    """Return a new tensor of another's shape; type and memory default to its own."""
    return create(_shape_of(a), dtype or a.dtype, buffer or a.buffer, name, None)


def _shape_of(tensor: Tensor) -> tuple[int, ...]:
    rank = tensor.block_rank
    return tuple(par_dim(n) if i == rank else n for i, n in enumerate(tensor.shape))


def rand(shape: Sequence[int], dtype: Any = float32, **_: Any) -> Tensor:
    """Return a new tile of uniform random numbers from 0 to below 1."""
    issuing.flush()
    return View(modern_rand(tuple(int(length) for length in shape), dtype))


def shared_constant(constant: Any, dtype: Any = None, **_: Any) -> Tensor:
    """Return an HBM tensor of an array, or of a ``.npy`` file, known when the kernel is built."""
    issuing.flush()
    array = constant if isinstance(constant, (str, os.PathLike)) else np.asarray(constant)
    return View(creation.shared_constant(array, dtype))


def shared_identity_matrix(n: int, dtype: Any = uint8, **_: Any) -> Tensor:
    """Return an identity matrix of n rows in SBUF."""
    issuing.flush()
    return View(creation.shared_identity_matrix(int(n), dtype))
