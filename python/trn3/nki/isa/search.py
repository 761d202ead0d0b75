"""The eight largest elements, where they are, and without them, on VectorE."""

from __future__ import annotations

from trn3._trn3.machine import NkiInstruction, NkiTensor, isa
from trn3.nki.ranks.context import core

__all__ = ["max8", "nc_find_index8", "nc_match_replace8"]


def max8(dst: NkiTensor, src: NkiTensor, name: str | None = None) -> NkiInstruction:
    """Find the eight largest elements of each partition, in descending order.

    Equal ones stand each for itself; NaN counts as largest (**choice**).

    Parameters
    ----------
    dst : tensor, [P, 8]
        Any unpacked type.
    src : tensor, [P, ...]
        8 to 16384 elements per partition.
    name : str, optional
        Label in profiles.

    Returns
    -------
    NkiInstruction

    Notes
    -----
    Cost: ``max(64, N)`` cycles (public documentation).
    """
    return isa.max8(core(), dst, src, name)


def nc_find_index8(
    dst: NkiTensor, data: NkiTensor, vals: NkiTensor, name: str | None = None
) -> NkiInstruction:
    """Find where each of eight values first occurs along the free axes.

    Equal values take one occurrence each, in ascending order. What does not occur has index all
    ones. Comparisons are of float32; NaN finds NaN (**choice**).

    Parameters
    ----------
    dst : tensor, [P, 8]
        uint16 or uint32.
    data : tensor, [P, ...]
        8 to 16384 elements per partition.
    vals : tensor, [P, 8]
        What is looked for.
    name : str, optional
        Label in profiles.

    Returns
    -------
    NkiInstruction

    Notes
    -----
    Cost: ``max(64, N)`` cycles (public documentation).
    """
    return isa.nc_find_index8(core(), dst, data, vals, name)


def nc_match_replace8(
    dst: NkiTensor,
    data: NkiTensor,
    vals: NkiTensor,
    imm: float,
    dst_idx: NkiTensor | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Copy a tile with one occurrence of each of eight values replaced.

    The last value is looked for first, so that of equal values it has the earliest place.

    Parameters
    ----------
    dst, data : tensor, [P, ...]
        8 to 16384 elements per partition.
    vals : tensor, [P, 8]
        What is replaced.
    imm : number
        What stands in their place.
    dst_idx : tensor, [P, 8], optional
        uint32; receives the places, all ones for what does not occur (**choice**).
    name : str, optional
        Label in profiles.

    Returns
    -------
    NkiInstruction

    Notes
    -----
    Cost: ``max(64, N)`` cycles (public documentation).
    """
    return isa.nc_match_replace8(core(), dst, data, vals, imm, dst_idx, name)
