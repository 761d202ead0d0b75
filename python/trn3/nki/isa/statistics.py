"""Mean and variance, by halves and put together, on VectorE."""

from __future__ import annotations

from trn3._trn3.machine import NkiInstruction, NkiTensor, isa
from trn3.nki.ranks.context import core

__all__ = ["bn_aggr", "bn_stats"]


def bn_stats(dst: NkiTensor, data: NkiTensor, name: str | None = None) -> NkiInstruction:
    """Take count, mean and variance x count of the even and of the odd elements.

    Float32, sums in ascending order, deviations from the rounded mean (**choice**).

    Parameters
    ----------
    dst : tensor, [P, 6]
        Count, mean and variance x count of the elements of even index, then of odd index.
    data : tensor, [P, ...]
        At most 512 elements per partition.
    name : str, optional
        Label in profiles.

    Returns
    -------
    NkiInstruction

    Notes
    -----
    Cost: ``max(64, N)`` cycles (public documentation).
    """
    return isa.bn_stats(core(), dst, data, name)


def bn_aggr(dst: NkiTensor, data: NkiTensor, name: str | None = None) -> NkiInstruction:
    """Put what `bn_stats` gave together: mean and population variance.

    Float32, sums in ascending order (**choice**).

    Parameters
    ----------
    dst : tensor, [P, 2]
        Mean and variance.
    data : tensor, [P, ...]
        Triples of count, mean and variance x count.
    name : str, optional
        Label in profiles.

    Returns
    -------
    NkiInstruction

    Notes
    -----
    Cost: ``max(64, 13 N / 3)`` cycles (public documentation).
    """
    return isa.bn_aggr(core(), dst, data, name)
