"""Functions that move tiles: between memories, across axes, through TensorE."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from trn3._trn3.machine import NkiTensor
from trn3.nki import isa
from trn3.nki.language.creation import ndarray
from trn3.nki.language.tile_sizes import tile_size
from trn3.nki.language.tiles import converted, in_sbuf, require_tile
from trn3.nki.ranks.context import context
from trn3.nki.typing import DTypeLike
from trn3.nki.values.element_types import float32, uint8, uint32
from trn3.nki.values.memory_regions import is_hbm, is_psum, psum


def _require_hbm(function: str, argument: str, value: Any) -> NkiTensor:
    if not isinstance(value, NkiTensor):
        message = (
            f"nl.{function} {argument} is of type {type(value).__name__}; allowed: a tensor in HBM"
        )
        raise TypeError(message)
    if not is_hbm(value):
        message = f"nl.{function} {argument} lies in {value.buffer}; allowed: HBM"
        raise ValueError(message)
    return value


def load(src: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return a new SBUF tile of a tensor in HBM.

    Parameters
    ----------
    src : tensor in HBM
        Axis 0 becomes the partitions. With one axis: up to 128 elements become (n, 1), more
        become (1, n) (**choice**).
    dtype, optional
        Element type of the tile; src's by default.

    Returns
    -------
    tile
        By one ``nki.isa.dma_copy``.

    Raises
    ------
    TypeError, ValueError
        If `src` is no tensor in HBM.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def column(x):
    ...     out = nl.ndarray((3, 1), x.dtype, buffer=nl.shared_hbm)
    ...     nl.store(out, nl.load(x[0:3, 1]))
    ...     return out
    >>> column(np.arange(6, dtype=np.float32).reshape(3, 2)).ravel().tolist()
    [1.0, 3.0, 5.0]
    """
    source = _require_hbm("load", "src", src)
    shape = source.shape
    if len(shape) == 1:
        shape = (shape[0], 1) if shape[0] <= tile_size.pmax else (1, shape[0])
    tile = ndarray(shape, source.dtype if dtype is None else dtype)
    isa.dma_copy(tile, source)
    return tile


def store(dst: NkiTensor, value: Any) -> None:
    """Copy a tile into a tensor in HBM.

    Parameters
    ----------
    dst : tensor in HBM
        As many elements as `value`; types are converted.
    value : tile
        In SBUF. From PSUM it goes through a tile in SBUF, with a warning: compilers refuse it.

    Raises
    ------
    TypeError, ValueError
        If `dst` is no tensor in HBM, or `value` no tensor.
    """
    target = _require_hbm("store", "dst", dst)
    if not isinstance(value, NkiTensor):
        message = f"nl.store value is of type {type(value).__name__}; allowed: a tile"
        raise TypeError(message)
    if is_psum(value):
        running = context()
        if running.watch is not None:
            running.watch.psum_store(running.core, value)
        if "store_psum" not in running.warned:
            running.warned.add("store_psum")
            message = "nl.store of a PSUM tile: copied to SBUF first; compilers refuse it"
            warnings.warn(message, stacklevel=2)
        value = in_sbuf(value)
    isa.dma_copy(target, value)


def load_transpose2d(src: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return a new SBUF tile (b, a) of a tensor (a, b) in HBM, by a DMA transpose.

    Raises
    ------
    ValueError
        If `src` has not two axes, or lies on chip.
    """
    source = _require_hbm("load_transpose2d", "src", src)
    if source.ndim != 2:
        message = f"nl.load_transpose2d src has shape {source.shape}; allowed: two axes"
        raise ValueError(message)
    tile = ndarray(source.shape[::-1], source.dtype)
    isa.dma_transpose(tile, source)
    return tile if dtype is None else converted(tile, dtype)


def transpose(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return a tile (P, F) as (F, P) in PSUM, through TensorE.

    Elements of one byte lie two bytes apart there, as ``nki.isa.nc_transpose`` writes them.

    Parameters
    ----------
    x : tile, [P, F]
        F up to 128. In SBUF; from PSUM it is copied there first.
    dtype, optional
        Element type of the result; x's by default.

    Raises
    ------
    ValueError
        For other shapes.
    """
    tile = require_tile("transpose", "x", x)
    if tile.ndim != 2 or tile.shape[1] > tile_size.pmax:
        message = (
            f"nl.transpose x has shape {tile.shape}; allowed: (P, F), F up to {tile_size.pmax}"
        )
        raise ValueError(message)
    if dtype is not None:
        tile = converted(tile, dtype)
    rows, columns = tile.shape
    if tile.dtype.itemsize == 1:
        # TensorE moves 16 bits an element: a byte lands in the lower half of them.
        result = ndarray((columns, 2 * rows), tile.dtype, buffer=psum)[:, ::2]
    else:
        result = ndarray((columns, rows), tile.dtype, buffer=psum)
    isa.nc_transpose(result, in_sbuf(tile), engine=isa.tensor_engine)
    return result


def matmul(x: NkiTensor, y: NkiTensor, transpose_x: bool = False) -> NkiTensor:
    """Return the matrix product in PSUM, in float32.

    Parameters
    ----------
    x : tile
        (K, M) with `transpose_x`, else (M, K), which is transposed through TensorE first.
    y : tile, [K, N]
        K and M up to 128, N up to 512.
    transpose_x : bool, optional
        Whether the product is ``x.T @ y``, as TensorE computes it.

    Raises
    ------
    ValueError
        For other shapes.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def product(x, y):
    ...     out = nl.ndarray((2, 2), nl.float32, buffer=nl.shared_hbm)
    ...     tile = nl.matmul(nl.load(x), nl.load(y), transpose_x=True)
    ...     nl.store(out, nl.copy(tile))
    ...     return out
    >>> x = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    >>> product(x, np.eye(2, dtype=np.float32)).tolist()
    [[1.0, 3.0], [2.0, 4.0]]
    """
    left, right = require_tile("matmul", "x", x), require_tile("matmul", "y", y)
    if left.ndim != 2 or right.ndim != 2:
        message = (
            f"nl.matmul operands have shapes {left.shape} and {right.shape}; allowed: two axes"
        )
        raise ValueError(message)
    for argument, tile, which in (("x", left, slice(0, 2)), ("y", right, slice(0, 1))):
        if max(tile.shape[which]) > tile_size.pmax:
            message = (
                f"nl.matmul {argument} has shape {tile.shape}; allowed: K and M up to "
                f"{tile_size.pmax}, tiles of a larger product are added up"
            )
            raise ValueError(message)
    most = tile_size.gemm_moving_fmax
    if right.shape[1] > most:
        message = f"nl.matmul y has shape {right.shape}; allowed: up to {most} columns"
        raise ValueError(message)
    stationary = in_sbuf(left) if transpose_x else in_sbuf(transpose(left))
    result = ndarray((stationary.shape[1], right.shape[1]), float32, buffer=psum)
    isa.nc_matmul(result, stationary, in_sbuf(right))
    return result


def broadcast_to(x: NkiTensor, shape: Sequence[int], dtype: DTypeLike | None = None) -> NkiTensor:
    """Return a tile with axes of length 1 repeated; x itself if shape and type are its own.

    Free axes are repeated by a copy, partitions by a product with ones on TensorE; every value
    stays as it is.

    Parameters
    ----------
    x : tile
        In SBUF or PSUM.
    shape : sequence of int
        As many axes as x.
    dtype, optional
        Element type of the result; that of x by default.

    Raises
    ------
    ValueError
        If an axis of another length than 1 differs.
    """
    tile = require_tile("broadcast_to", "x", x)
    if dtype is not None:
        x = tile = converted(tile, dtype)
    wanted = tuple(int(length) for length in shape)
    fits = len(wanted) == tile.ndim and not any(
        length not in (1, target) for length, target in zip(tile.shape, wanted, strict=False)
    )
    if not fits:
        message = (
            f"nl.broadcast_to shape is {wanted}, x has {tile.shape}; only axes of length 1 stretch"
        )
        raise ValueError(message)
    if wanted == tile.shape:
        return tile
    for axis in range(1, tile.ndim):
        if tile.shape[axis] != wanted[axis]:
            tile = tile.broadcast(axis, wanted[axis])
    result = ndarray(wanted, x.dtype)
    if tile.shape[0] == wanted[0]:
        isa.tensor_copy(result, tile)
        return result
    row = ndarray(tile.shape, x.dtype)
    isa.tensor_copy(row, tile)
    _repeat_partition(result.reshape((wanted[0], -1)), row.reshape((1, -1)))
    return result


def _repeat_partition(result: NkiTensor, row: NkiTensor) -> None:
    if row.dtype.is_float and not row.dtype.is_packed and row.dtype.itemsize > 1:
        values, target = row, result
    else:
        # Bytes are exact in every float type, whatever they mean.
        values, target = converted(row.view(uint8), float32), result.view(uint8)
    ones = ndarray((1, target.shape[0]), values.dtype)
    isa.memset(ones, 1.0)
    step = tile_size.gemm_moving_fmax
    for start in range(0, target.shape[1], step):
        stop = min(target.shape[1], start + step)
        product = ndarray((target.shape[0], stop - start), float32, buffer=psum)
        isa.nc_matmul(product, ones, values[:, start:stop])
        isa.tensor_copy(target[:, start:stop], product)


def expand_dims(x: NkiTensor, axis: int) -> NkiTensor:
    """Return a view with a new axis of length 1; negative axes count from the end of the result."""
    return x.expand_dim(axis + x.ndim + 1 if axis < 0 else axis)


def gather_flattened(
    data: NkiTensor, indices: NkiTensor, axis: int | DTypeLike = 0, dtype: DTypeLike | None = None
) -> NkiTensor:
    """Return elements of each partition by their places in it.

    ``out[p, i] = data[p, indices[p, i]]`` over flattened free axes, by ``nki.isa.nc_n_gather``.

    Parameters
    ----------
    data : tile, [P, ...]
    indices : tile, [P, ...]
        Integers from 0; the result has its shape.
    axis : int
        0 **(choice)**: free axes are flattened, so there is no other to gather along. An element
        type in this place, where version 0.1.0 had it, is taken as `dtype`.
    dtype, optional
        Element type of the result; data's by default.

    Raises
    ------
    ValueError
        For another axis.
    """
    if not isinstance(axis, int) and dtype is None:
        axis, dtype = 0, axis
    if axis != 0:
        message = f"nl.gather_flattened axis is {axis!r}; allowed: 0"
        raise ValueError(message)
    source = in_sbuf(require_tile("gather_flattened", "data", data))
    places = in_sbuf(converted(require_tile("gather_flattened", "indices", indices), uint32))
    result = ndarray(places.shape, source.dtype)
    isa.nc_n_gather(result, source, places)
    return result if dtype is None else converted(result, dtype)
