"""Partitions exchanged inside quadrants, on VectorE."""

from __future__ import annotations

from collections.abc import Iterable

from trn3._trn3.machine import NkiInstruction, NkiTensor, isa
from trn3.nki.ranks.context import core

__all__ = ["nc_stream_shuffle"]


def nc_stream_shuffle(
    dst: NkiTensor, src: NkiTensor, shuffle_mask: Iterable[int], name: str | None = None
) -> NkiInstruction:
    """Give each partition of a quadrant that of another: ``dst[32 q + i] = src[32 q + mask[i]]``.

    Bits are moved; `dst` may be `src`.

    Parameters
    ----------
    dst, src : tensor, [P, ...]
        Of one type, with as many elements per partition; `src` may have fewer partitions than
        `dst` as long as the mask stays inside it.
    shuffle_mask : 32 ints
        Source partition for each partition of a quadrant, or 255 to leave it as it is.
    name : str, optional
        Label in profiles.

    Returns
    -------
    NkiInstruction

    Raises
    ------
    NkiValidationError
        If the mask leaves `src`, or a tile starts where so many partitions may not.

    Notes
    -----
    Cost: ``max(64, N)`` cycles (public documentation).
    """
    return isa.nc_stream_shuffle(core(), dst, src, list(shuffle_mask), name)
