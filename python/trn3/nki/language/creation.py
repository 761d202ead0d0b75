"""How tensors are made."""

from __future__ import annotations

import operator
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from trn3._trn3.machine import NkiTensor
from trn3.nki import isa
from trn3.nki.language.tile_sizes import tile_size
from trn3.nki.ranks.context import context, core, slot
from trn3.nki.values import arrays
from trn3.nki.values.bound_names import bound_name
from trn3.nki.values.element_types import DType, canonicalise, uint8
from trn3.nki.values.memory_regions import (
    Buffer,
    MemoryRegion,
    is_on_chip,
    region_of,
    sbuf,
    shared_hbm,
)

if TYPE_CHECKING:
    from trn3.nki.typing import DTypeLike

__all__ = [
    "empty_like",
    "full",
    "ndarray",
    "ones",
    "shared_constant",
    "shared_identity_matrix",
    "zeros",
    "zeros_like",
]


def new_tensor(
    shape: Sequence[SupportsIndex] | SupportsIndex,
    dtype: DTypeLike,
    buffer: Buffer = sbuf,
    name: str | None = "",
    address: tuple[int, int] | None = None,
) -> NkiTensor:
    """Return a new tensor of unspecified values.

    `ndarray` is the class of tensors too, for annotations and ``isinstance``.

    Reading them before they are written gives NaN (integers: 4) and a finding of the run, or an
    error in strict runs.

    Parameters
    ----------
    shape : sequence of int
        On chip, partitions first, at least two axes; a single ``1`` means ``(1, 1)`` (**choice**).
    dtype
        Any spelling of an element type.
    buffer : MemoryRegion, optional
        Strings are accepted as older kernels spell it.
    name : str, optional
        Shown in errors and profiles; without one it is what the kernel calls the tensor: the
        variable that it is bound to. It need not be the only one of its name; under
        ``TRN3_NKI_STRICT=1`` the first that is not is warned of (**choice**).
        In ``nl.shared_hbm`` it says which tensor of the launch's other instances this is: the k-th
        of one name is one tensor, and so is the k-th without a name.
    address : (int, int), optional
        On chip, first partition and first *byte* within each partition. PSUM addresses are
        multiples of a bank. Tensors at overlapping addresses share bytes; a matmul's first write to
        each of them overwrites all the same. Without an address the tensor shares bytes with none;
        it is placed now and freed when its last view is gone. Where nothing is free it gets the
        bytes of those used longest ago, as of a list's tiles that a loop makes anew while the list
        still holds the last turn's; using such a tensor again is the capacity error (**choice**).

    Raises
    ------
    TypeError
        If `dtype` or `buffer` means none.
    ValueError
        If the memory cannot hold the shape, or the address is no place.
    SbufCapacityError, PsumCapacityError, HbmCapacityError
        If it does not fit; the text lists the live tiles. Of a tensor whose bytes another one got,
        when an instruction uses it.
    RuntimeError
        Outside a kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def shapes(x):
    ...     tile = nl.ndarray((128, 512), dtype=nl.bfloat16, buffer=nl.sbuf, name="tile")
    ...     print(tile.shape, tile.dtype, tile[:, 0:4].shape)
    ...     return x
    >>> _ = shapes(np.zeros((1,), np.float32))
    (128, 512) bfloat16 (128, 4)
    """
    if type(dtype) is not DType:
        dtype = canonicalise(dtype)
    if type(buffer) is not MemoryRegion:
        buffer = region_of(buffer)
    lengths = shape if type(shape) is tuple else _lengths(shape)
    if buffer.code < 2 and len(lengths) < 2:
        if lengths != (1,):
            message = (
                "SBUF and PSUM tensors must have at least 2 dimensions (partition-dim and "
                f"free-dim); tensor {name or bound_name() or 'without name'} has shape {lengths}"
            )
            raise ValueError(message)
        lengths = (1, 1)
    if name:
        _note_name(name)
    if buffer is shared_hbm:
        return _shared(lengths, dtype.name, name or "", address)
    try:
        place = address if address is None else _address(address)
        return core().allocate(lengths, dtype.name, buffer.code, name or bound_name(1), place)
    except (TypeError, OverflowError):
        _check_spelling(lengths, name)
        raise


def _check_spelling(shape: Any, name: Any) -> None:
    """Name the argument that is no shape or no name."""
    if name is not None and not isinstance(name, str):
        message = f"ndarray() name is {name!r}; allowed: a string or None"
        raise TypeError(message)
    if not all(isinstance(length, SupportsIndex) and length.__index__() >= 0 for length in shape):
        message = f"ndarray() shape is {shape!r}; allowed: whole numbers of at least 1"
        raise TypeError(message)


def _note_name(name: str) -> None:
    """Say once in a strict run that a name is given to two tensors."""
    running = slot.context
    if running is None or running.watch is None:
        return
    if name not in running.names:
        running.names.add(name)
    elif "names" not in running.warned:
        running.warned.add("names")
        message = (
            f"{running.core.line()}: name `{name}` is given to a second tensor; compilers and "
            "reports want names that are unique in a kernel"
        )
        warnings.warn(message, stacklevel=4)


def _address(address: Any) -> tuple[int, int]:
    """Return an address as two whole numbers; kernels write lists and NumPy's integers too."""
    if type(address) is tuple and len(address) == 2:
        return address
    try:
        partition, byte = address
        return operator.index(partition), operator.index(byte)
    except (TypeError, ValueError):
        message = (
            f"ndarray() address is {address!r}; allowed: (first partition, first byte of each "
            "partition) or None"
        )
        raise TypeError(message) from None


def _shared(
    shape: tuple[int, ...], dtype: str, name: str, address: tuple[int, int] | None
) -> NkiTensor:
    """Return a new tensor in HBM that other instances of the launch reach, or the one of theirs."""
    running = context()
    core = running.core

    def make() -> NkiTensor:
        return core.allocate(shape, dtype, shared_hbm.code, name or bound_name(), address)

    if running.shared is None:
        return make()
    return running.shared.take(running.instance, core, shape, dtype, name, make)


if TYPE_CHECKING:
    # Checkers know no class whose call makes an object of another; they annotate with NkiTensor.
    ndarray = new_tensor
else:

    class _NdarrayType(type):
        # Called by this name, errors about its arguments say so.
        new_tensor.__name__ = new_tensor.__qualname__ = "ndarray"
        __call__ = staticmethod(new_tensor)

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, NkiTensor)

    class ndarray(metaclass=_NdarrayType):  # noqa: D101 the docstring is the function's
        __doc__ = new_tensor.__doc__


def _lengths(shape: Any) -> tuple[int, ...]:
    if isinstance(shape, SupportsIndex):
        return (shape.__index__(),)
    try:
        return tuple(shape)
    except TypeError:
        message = f"ndarray() shape is {shape!r}; allowed: whole numbers of at least 1"
        raise TypeError(message) from None


def full(
    shape: Sequence[SupportsIndex] | SupportsIndex,
    fill_value: float,
    dtype: DTypeLike,
    buffer: Buffer = sbuf,
    name: str | None = "",
    address: tuple[int, int] | None = None,
) -> NkiTensor:
    """Return a new tensor of one value.

    On chip one ``memset``; in HBM an SBUF tile is set and copied by DMA.

    Parameters
    ----------
    fill_value : number
        Must be representable: whole and in range for integers, finite where given finite, 0 for
        packed types.

    Other parameters and errors are those of `ndarray`.

    Raises
    ------
    ValueError
        If `dtype` does not hold `fill_value`.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def halves(x):
    ...     out = nl.ndarray((2, 3), x.dtype, buffer=nl.shared_hbm)
    ...     nl.store(out, nl.full((2, 3), 0.5, nl.float32))
    ...     return out
    >>> halves(np.zeros((1,), np.float32)).tolist()
    [[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]]
    """
    element = canonicalise(dtype)
    _check_representable(fill_value, element)
    tensor = ndarray(shape, element, buffer, name, address)
    fill(tensor, fill_value)
    return tensor


def fill(tensor: NkiTensor, value: float) -> None:
    """Set every element of a new tensor, on chip or in HBM."""
    if is_on_chip(tensor):
        isa.memset(tensor, value)
        return
    partitions = tile_size.pmax
    count = tensor.size
    columns = min(-(-count // partitions), tile_size.psum_fmax)
    rows = min(-(-count // columns), partitions)
    tile = ndarray((rows, columns), tensor.dtype)
    isa.memset(tile, value)
    flat = tensor.reshape((count,))
    done = 0
    while done < count:
        rows = min((count - done) // columns, rows)
        part = tile[0:rows] if rows else tile[0:1, 0 : count - done]
        isa.dma_copy(flat[done : done + part.size], part)
        done += part.size


def _check_representable(value: float, dtype: DType) -> None:
    problem = None
    if dtype.is_packed:
        problem = "0" if value != 0 else None
    elif dtype.is_integer and dtype.dtype.kind != "b":
        limits = np.iinfo(dtype.dtype)
        if value != int(value) or not limits.min <= value <= limits.max:
            problem = f"whole numbers from {limits.min} to {limits.max}"
    elif dtype.is_float and np.isfinite(value):
        with np.errstate(over="ignore"):
            stored = np.asarray(value, np.float32).astype(dtype.dtype)
        if not np.isfinite(stored.astype(np.float32)):
            problem = "finite values that the type holds"
    if problem is not None:
        message = f"fill_value is {value!r} for dtype {dtype}; allowed: {problem}"
        raise ValueError(message)


def zeros(
    shape: Sequence[SupportsIndex] | SupportsIndex,
    dtype: DTypeLike,
    buffer: Buffer = sbuf,
    name: str | None = "",
    address: tuple[int, int] | None = None,
) -> NkiTensor:
    """Return a new tensor of zeros; parameters and errors as `full`.

    Examples
    --------
    >>> import trn3.nki.language as nl
    >>> tile = nl.zeros((128, 512), nl.float32)  # doctest: +SKIP
    """
    return full(shape, 0, dtype, buffer, name, address)


def ones(
    shape: Sequence[SupportsIndex] | SupportsIndex,
    dtype: DTypeLike,
    buffer: Buffer = sbuf,
    name: str | None = "",
    address: tuple[int, int] | None = None,
) -> NkiTensor:
    """Return a new tensor of ones; parameters and errors as `full`.

    Examples
    --------
    >>> import trn3.nki.language as nl
    >>> tile = nl.ones((128, 1), nl.bfloat16)  # doctest: +SKIP
    """
    return full(shape, 1, dtype, buffer, name, address)


def zeros_like(
    x: NkiTensor,
    dtype: DTypeLike | None = None,
    buffer: Buffer | None = None,
    name: str | None = "",
    address: tuple[int, int] | None = None,
) -> NkiTensor:
    """Return zeros of another tensor's shape; dtype and buffer default to its own."""
    return full(x.shape, 0, dtype or x.dtype, buffer or x.buffer, name, address)


def empty_like(
    x: NkiTensor,
    dtype: DTypeLike | None = None,
    buffer: Buffer | None = None,
    name: str | None = "",
    address: tuple[int, int] | None = None,
) -> NkiTensor:
    """Return a new tensor of another's shape; dtype and buffer default to its own."""
    return ndarray(x.shape, dtype or x.dtype, buffer or x.buffer, name, address)


def shared_constant(
    constant: NDArray[Any] | str | os.PathLike[str], dtype: DTypeLike | None = None
) -> NkiTensor:
    """Return an HBM tensor that holds an array known when the kernel is built.

    Equal constants of a run are one tensor.

    Parameters
    ----------
    constant : array or path
        An array, or a ``.npy`` file of one.
    dtype, optional
        What to convert it to first.

    Raises
    ------
    TypeError
        If it is neither, or has an element type that the hardware lacks.
    ValueError
        If it has no axis or no element.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def constant(x):
    ...     return nl.shared_constant(np.arange(4, dtype=np.int32))
    >>> constant(np.zeros((1,), np.float32))
    array([0, 1, 2, 3], dtype=int32)
    """
    running = context()
    given: Any = constant
    if isinstance(given, (str, os.PathLike)):
        array = np.load(Path(given))
    elif isinstance(given, np.ndarray):
        array = given
    else:
        message = (
            f"shared_constant constant is of type {type(given).__name__}; allowed: a NumPy array "
            "or the path of a .npy file"
        )
        raise TypeError(message)
    if dtype is not None:
        array = array.astype(canonicalise(dtype).dtype)
    array, element = arrays.checked(array, "constant")
    key = (array.shape, element.name, array.tobytes())
    known = running.constants.get(key)
    if known is None:
        name = f"constant_{len(running.constants)}"
        known = arrays.to_tensor(running.core, array, element, shared_hbm.code, name)
        running.constants[key] = known
    return known


def shared_identity_matrix(
    n: int, dtype: DTypeLike = uint8, dst: NkiTensor | None = None
) -> NkiTensor:
    """Return an identity matrix of n rows in SBUF.

    It comes from a constant in HBM by one DMA (**choice**).

    Parameters
    ----------
    n : int
        From 1 to the number of partitions.
    dtype, optional
        Element type; ignored where `dst` is given, whose own counts.
    dst : NkiTensor, optional
        Where to write it instead of a new tile: n by n, in SBUF.

    Raises
    ------
    ValueError
        If `n` is out of range or `dst` has another shape.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def identity(x):
    ...     out = nl.ndarray((3, 3), nl.uint8, buffer=nl.shared_hbm)
    ...     nl.store(out, nl.shared_identity_matrix(3))
    ...     return out
    >>> identity(np.zeros((1,), np.float32)).tolist()
    [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    """
    if not 1 <= n <= tile_size.pmax:
        message = f"n is {n}; allowed: from 1 to {tile_size.pmax}, the number of partitions"
        raise ValueError(message)
    if dst is None:
        dst = ndarray((n, n), dtype)
    elif dst.shape != (n, n):
        message = f"dst has shape {dst.shape}; allowed: {(n, n)}"
        raise ValueError(message)
    isa.dma_copy(dst, shared_constant(np.identity(n, dtype=dst.dtype.dtype)))
    return dst
