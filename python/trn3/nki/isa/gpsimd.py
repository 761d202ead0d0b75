"""GpSimdE: functions of position, gathers, reductions over partitions and searches."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from trn3._trn3.machine import NkiInstruction, NkiTensor, VirtualRegister, isa
from trn3.nki.ranks.context import core

__all__ = [
    "affine_select",
    "iota",
    "local_gather",
    "nc_n_gather",
    "nonzero_with_count",
    "sequence_bounds",
    "tensor_partition_reduce",
    "topk",
]


def _pattern(instruction: str, pattern: Any) -> list[tuple[int, int]]:
    try:
        pairs = [tuple(operator.index(number) for number in pair) for pair in pattern]
    except TypeError:
        message = f"{instruction} pattern is {pattern!r}; allowed: pairs [step, num] of integers"
        raise TypeError(message) from None
    wrong = next((pair for pair in pairs if len(pair) != 2), None)
    if wrong is not None:
        message = f"{instruction} pattern holds {list(wrong)}; allowed: pairs [step, num]"
        raise ValueError(message)
    return [(step, count) for step, count in pairs]


def iota(
    dst: NkiTensor,
    pattern: Sequence[Sequence[int]],
    offset: int | VirtualRegister = 0,
    channel_multiplier: int = 0,
    name: str | None = None,
) -> NkiInstruction:
    """Fill a tile with ``offset + p * channel_multiplier + sum of index * step``.

    32-bit arithmetic that wraps around; results are clamped to the range of an integer `dst` and
    rounded to a float one (**choice**). p counts from the tile's first partition.

    Parameters
    ----------
    dst : tensor, [P, ...]
        In SBUF, of any unpacked type.
    pattern : sequence of [step, num]
        1 to 4 axes, outermost first; the product of the nums is the elements per partition.
    offset : int or VirtualRegister, optional
        Value of the first element.
    channel_multiplier : int, optional
        What each partition adds.
    name : str, optional
        Label in profiles.

    Raises
    ------
    NkiValidationError
        If `dst` is not in SBUF or the pattern does not fit.

    Notes
    -----
    Cost: 150 + N cycles (public documentation).

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.isa as nisa
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def count(x):
    ...     tile = nl.ndarray((2, 3), nl.int32)
    ...     nisa.iota(tile, [[1, 3]], offset=5, channel_multiplier=10)
    ...     out = nl.ndarray((2, 3), nl.int32, buffer=nl.shared_hbm)
    ...     nisa.dma_copy(out, tile)
    ...     return out
    >>> count(np.zeros((1,), np.float32)).tolist()
    [[5, 6, 7], [15, 16, 17]]
    """
    return isa.iota(core(), dst, _pattern("iota", pattern), offset, channel_multiplier, name)


def affine_select(
    dst: NkiTensor,
    pattern: Sequence[Sequence[int]],
    channel_multiplier: int,
    on_true_tile: NkiTensor,
    on_false_value: float,
    cmp_op: Any = "equal",
    offset: int | VirtualRegister = 0,
    name: str | None = None,
) -> NkiInstruction:
    """Keep elements of a tile where a function of their position compares so with 0.

    ``dst = on_true_tile where cmp_op(a, 0) else on_false_value``, a being the value that `iota`
    would give. Between equal types bits are copied, else elements go through float32.

    Parameters
    ----------
    dst, on_true_tile : tensor, [P, ...]
        In SBUF, with as many elements per partition.
    pattern, channel_multiplier, offset
        As for `iota`.
    on_false_value : float
        Rounded to the type of `dst`.
    cmp_op : comparison of `nki.language`, optional
        ``nl.equal`` unless given.
    name : str, optional
        Label in profiles.

    Raises
    ------
    NkiValidationError
        If a tile is not in SBUF, `cmp_op` is no comparison or the pattern does not fit.

    Notes
    -----
    Cost: 150 + N cycles (public documentation).
    """
    return isa.affine_select(
        core(), dst, _pattern("affine_select", pattern), channel_multiplier, on_true_tile,
        on_false_value, cmp_op, offset, name
    )  # fmt: skip


def local_gather(
    dst: NkiTensor,
    src_buffer: NkiTensor,
    index: NkiTensor,
    num_elem_per_idx: int = 1,
    num_valid_indices: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Gather along the free axis, with one list of indices for each group of 16 partitions.

    A group's list is its 16 partitions of `index`, column by column. For each index, that many
    neighbouring elements are taken from each of the 16 partitions.

    Parameters
    ----------
    dst : tensor, [P, num_valid_indices * num_elem_per_idx]
        In SBUF, of the type of `src_buffer`.
    src_buffer : tensor, [P, ...]
        In SBUF; P a multiple of 16.
    index : tensor, [P, K], uint16
        In SBUF: element offsets. One that reaches outside the tile is an error (**choice**).
    num_elem_per_idx : int, optional
        1, 2, 4, 8, 16 or 32.
    num_valid_indices : int, optional
        How many of a group's indices count, at most 4096; all 16 K unless given.
    name : str, optional
        Label in profiles.

    Raises
    ------
    NkiValidationError
        If a rule above is broken.
    IndexError
        If an index reaches outside the tile.

    Notes
    -----
    Cost: 150 cycles and those of the published formula for each element (public documentation).
    """
    return isa.local_gather(
        core(), dst, src_buffer, index, num_elem_per_idx, num_valid_indices, name
    )


def nc_n_gather(
    dst: NkiTensor, data: NkiTensor, indices: NkiTensor, name: str | None = None
) -> NkiInstruction:
    """Gather along the free axis: ``dst[p, i] = data[p, indices[p, i]]``, free axes flattened.

    Parameters
    ----------
    dst : tensor, [P, ...]
        In SBUF, of the type of `data`, as many elements as `indices`.
    data : tensor, [P, ...]
        In SBUF.
    indices : tensor, [P, ...], uint32
        In SBUF.
    name : str, optional
        Label in profiles.

    Raises
    ------
    NkiValidationError
        If a rule above is broken.
    IndexError
        If an index is not below the elements of `data` per partition.

    Notes
    -----
    Cost: 150 cycles for every 512 elements and 8 for each element (estimate).
    """
    return isa.nc_n_gather(core(), dst, data, indices, name)


def tensor_partition_reduce(
    dst: NkiTensor, op: Any, data: NkiTensor, name: str | None = None
) -> NkiInstruction:
    """Reduce over the partitions.

    In float32, partitions ascending. Between integer types in 32-bit integers, whose sums wrap,
    then to the nearest that the type of `dst` has (**choice**). Bit operators work on integer
    patterns. The average is the sum divided by the number of partitions (**choice**).

    Parameters
    ----------
    dst : tensor, [1, ...]
        In SBUF, with the elements per partition of `data`.
    op : operator of `nki.language`
        add, average, maximum, bitwise_or or bitwise_and.
    data : tensor, [P, ...]
        In SBUF.
    name : str, optional
        Label in profiles.

    Raises
    ------
    NkiValidationError
        If a rule above is broken.

    Notes
    -----
    Cost: 150 + 16 N cycles (estimate).
    """
    return isa.tensor_partition_reduce(core(), dst, op, data, name)


def sequence_bounds(
    dst: NkiTensor, segment_ids: NkiTensor, name: str | None = None
) -> NkiInstruction:
    """Find for each element where its run of equal ids starts and ends.

    Parameters
    ----------
    dst : tensor, [1, 2, n]
        In SBUF, float32 or int32: starts, and ends (the place after the last element). Id 0 is
        padding and gets (n, -1).
    segment_ids : tensor, [1, n]
        In SBUF, float32 or int32, compared exactly. Below 0 and NaN are refused (**choice**).
    name : str, optional
        Label in profiles.

    Raises
    ------
    NkiValidationError
        If a rule above is broken.

    Notes
    -----
    Cost: 150 + 32 n cycles (estimate).
    """
    return isa.sequence_bounds(core(), dst, segment_ids, name)


def nonzero_with_count(
    dst: NkiTensor,
    src: NkiTensor,
    index_offset: int = 0,
    padding_val: int = -1,
    name: str | None = None,
) -> NkiInstruction:
    """List where elements are not zero, and how many there are (gen3 on).

    Partitions 0, 16, ..., 112 alone are read and written; the others of `dst` keep what they hold.

    Parameters
    ----------
    dst : tensor, [P, T + 1], int32
        In SBUF: places plus `index_offset`, padding, and the count last.
    src : tensor, [P, T]
        In SBUF, float32 or int32. NaN is not zero (**choice**).
    index_offset : int, optional
        Added to every place.
    padding_val : int, optional
        What follows the last place.
    name : str, optional
        Label in profiles.

    Raises
    ------
    NkiValidationError
        If a rule above is broken.

    Notes
    -----
    Cost: 150 + T cycles (estimate).
    """
    return isa.nonzero_with_count(core(), dst, src, index_offset, padding_val, name)


def topk(
    val_dst: NkiTensor, idx_dst: NkiTensor, src: NkiTensor, n: int, name: str | None = None
) -> NkiInstruction:
    """Find the k largest elements of each group of 16 partitions, in ascending order (gen3 on).

    Element e of a group lies on its partition ``e % 16`` in column ``e // 16``. Every partition of
    the group gets the same list (**choice**). Of equal elements the earlier counts as the larger,
    and NaN as larger than all (**choice**).

    Parameters
    ----------
    val_dst : tensor, [P, k], bfloat16
        In SBUF: the values; k at most `n` and below 32768.
    idx_dst : tensor, [P, k], uint32
        In SBUF: which elements they were.
    src : tensor, [P, F], bfloat16
        In SBUF; P a multiple of 16, F at least n / 16.
    n : int
        Elements of a group that count, 8 to 65535.
    name : str, optional
        Label in profiles.

    Raises
    ------
    NkiValidationError
        If a rule above is broken.

    Notes
    -----
    Cost: 150 + 4 n + k cycles (public documentation).
    """
    return isa.topk(core(), val_dst, idx_dst, src, n, name)
