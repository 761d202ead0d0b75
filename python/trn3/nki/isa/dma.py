"""DMA: data moved between HBM and SBUF, cast, transposed and summed on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trn3._trn3.machine import NkiInstruction, NkiTensor, isa
from trn3.nki.isa.constants import (
    dge_mode as dge_modes,
    engine as engines,
    oob_mode as oob_modes,
)
from trn3.nki.ranks.context import core

__all__ = ["dma_compute", "dma_copy", "dma_transpose"]


def dma_copy(
    dst: NkiTensor,
    src: NkiTensor,
    priority: int | None = None,
    oob_mode: oob_modes = oob_modes.error,
    dge_mode: dge_modes = dge_modes.unknown,
    engine: engines = engines.unknown,
    name: str | None = None,
    *,
    dst_rmw_op: Any = None,
    unique_indices: bool = True,
) -> NkiInstruction:
    """Copy between HBM and SBUF, or within one of them.

    Equal element types are copied bit for bit, others go through float32. Elements are taken in C
    order; shapes may differ.

    Parameters
    ----------
    dst, src : tensor
        In HBM or SBUF, as many elements. One of them may have rows picked by an index tile
        (``vector_offset``): a gather or a scatter; of rows picked twice the last written stays
        (**choice**). Packed types to themselves, and bit by bit from and to unsigned integers of
        their size, which frameworks without these types pass in their place (**choice**).
    priority : int, optional
        Class of service, 0 (first) to 3; gen4.
    oob_mode : nki.isa.oob_mode, optional
        ``error``: dynamic addresses outside the tensor raise. ``skip``: such rows are not moved.
    dge_mode : nki.isa.dge_mode, optional
        Who makes the descriptors. ``hwdge`` (gen3 on) takes equal types and no ``vector_offset``.
        ``unknown``: ``swdge`` for a ``vector_offset``, ``none`` for static addresses, else
        ``hwdge`` where it can be (**choice**).
    engine : nki.isa.engine, optional
        ``sync`` or ``scalar``, with ``hwdge`` alone: whose sequencer triggers the transfer.
    name : str, optional
        Label in profiles.
    dst_rmw_op : operator of `nki.language`, optional
        Of NKI 0.2: ``nl.add`` adds to what `dst` holds, as `dma_compute` of both.
    unique_indices : bool, optional
        With `dst_rmw_op`, as of `dma_compute`.

    Returns
    -------
    NkiInstruction

    Raises
    ------
    NkiValidationError
        If a tensor is in PSUM, the numbers of elements differ, or another rule is broken.
    IndexError
        If a dynamic address lies outside the tensor and `oob_mode` is ``error``.

    Notes
    -----
    Cost: rows (SBUF partitions; between HBM addresses 16 equal parts, **choice**) are dealt to the
    16 DMA engines; each contiguous piece of a row is a descriptor.

    Examples
    --------
    Rows of a table, picked by an index tile:

    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.isa as nisa
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def pick(table, rows):
    ...     index = nl.ndarray(rows.shape, rows.dtype)
    ...     nisa.dma_copy(index, rows)
    ...     tile = nl.ndarray((rows.shape[0], table.shape[1]), table.dtype)
    ...     nisa.dma_copy(tile, table.vector_select(0, index))
    ...     out = nl.ndarray(tile.shape, tile.dtype, buffer=nl.shared_hbm)
    ...     nisa.dma_copy(out, tile)
    ...     return out
    >>> table = np.array([[0, 1], [2, 3], [4, 5]], np.float32)
    >>> pick(table, np.array([[2], [0]], np.int32)).tolist()
    [[4.0, 5.0], [0.0, 1.0]]
    """
    if dst_rmw_op is not None:
        return dma_compute(
            dst, [dst, src], dst_rmw_op, unique_indices=unique_indices, oob_mode=oob_mode, name=name
        )
    return isa.dma_copy(core(), dst, src, priority, oob_mode, dge_mode, engine, name)


def dma_transpose(
    dst: NkiTensor,
    src: NkiTensor,
    axes: Sequence[int] | None = None,
    priority: int | None = None,
    dge_mode: dge_modes = dge_modes.unknown,
    oob_mode: oob_modes = oob_modes.error,
    name: str | None = None,
) -> NkiInstruction:
    """Exchange the first and the last axis on the way into SBUF.

    Parameters
    ----------
    dst : tensor
        In SBUF, of the permuted shape and the type of `src`.
    src : tensor
        In HBM or SBUF, of 2 to 4 axes. Static addresses: types of 2 or 4 bytes. ``hwdge``: types of
        2 bytes, at most 128 in the last axis, and 16 rows in two axes, or in more 1, 2, 4, 8 or 16
        with ``shape[0] * shape[-2]`` a multiple of 16. With rows picked by an index tile (gen3 on):
        2 bytes, at most 128 in the last axis, a multiple of 16 rows.
    axes : sequence of int, optional
        ``(1, 0)``, ``(2, 1, 0)`` or ``(3, 1, 2, 0)``, by the number of axes.
    priority : int, optional
        Class of service, 0 (first) to 3; gen4.
    dge_mode : nki.isa.dge_mode, optional
        Who makes the descriptors.
    oob_mode : nki.isa.oob_mode, optional
        ``skip``, with dynamic `src` alone: rows outside the tensor leave `dst` as it is.
    name : str, optional
        Label in profiles.

    Returns
    -------
    NkiInstruction

    Raises
    ------
    NkiValidationError
        If a rule above is broken.
    IndexError
        If a dynamic address lies outside the tensor and `oob_mode` is ``error``.

    Notes
    -----
    Cost: as `dma_copy` at 0.9 of its rate from HBM, 0.5 from SBUF (public documentation of gen3);
    descriptors follow the contiguous pieces of `dst` (**choice**).
    """
    return isa.dma_transpose(
        core(), dst, src, None if axes is None else list(axes), priority, dge_mode, oob_mode, name
    )


def dma_compute(
    dst: NkiTensor,
    srcs: Sequence[NkiTensor],
    reduce_op: Any,
    scales: Sequence[float] | None = None,
    unique_indices: bool = True,
    oob_mode: oob_modes = oob_modes.error,
    name: str | None = None,
) -> NkiInstruction:
    """Add tiles on the way: ``dst = sum of srcs``.

    Sums are in float32, in the order of the list (**choice**), rounded to the type of `dst` at the
    end.

    With rows picked by an index tile it reads, adds and writes, of exactly two sources: a scatter
    where `dst` and one source are the same rows of HBM and the other source lies in SBUF; a gather
    where `dst` in SBUF is one source and rows of HBM the other.

    Parameters
    ----------
    dst : tensor
        In HBM or SBUF.
    srcs : sequence of tensors
        1 to 16 of them in HBM or SBUF, with as many elements as `dst`.
    reduce_op : operator of `nki.language`
        ``nl.add``.
    scales : sequence of float, optional
        1.0 for each source.
    unique_indices : bool, optional
        True: the kernel's word that no row is picked twice.
    oob_mode : nki.isa.oob_mode, optional
        ``skip``: picked rows outside the tensor are left out.
    name : str, optional
        Label in profiles.

    Returns
    -------
    NkiInstruction

    Raises
    ------
    NkiValidationError
        If a rule above is broken.

    Notes
    -----
    Cost: as `dma_copy` of every source that is not `dst` itself (**choice**), at half the rate
    before gen4 (public documentation).
    """
    factors = None if scales is None else [float(scale) for scale in scales]
    return isa.dma_compute(
        core(), dst, list(srcs), reduce_op, factors, unique_indices, oob_mode, name
    )
