"""Elements set to zero at random, on VectorE."""

from __future__ import annotations

from typing import Any

from trn3._trn3.machine import NkiInstruction, NkiTensor, isa
from trn3.nki.isa._call import core

__all__ = ["dropout"]


def dropout(dst: NkiTensor, data: NkiTensor, prob: Any, name: str | None = None) -> NkiInstruction:
    """Set elements to zero with a probability; the others are copied, not scaled.

    An element is zero where VectorE's generator draws a number in [0, 1) below `prob`; partition
    p takes the draws of lane p, and every lane moves on by as many draws as a partition of `dst`
    has elements (**choice**).

    Parameters
    ----------
    dst, data : tensor, [P, ...]
        Of one type, with as many partitions and elements per partition.
    prob : number or tensor, [P, 1]
        A tile is float32 for integer data, else of any floating-point type.
    name : str, optional
        Label in profiles.

    Returns
    -------
    NkiInstruction

    Notes
    -----
    Cost: ``max(64, N)`` cycles (public documentation).
    """
    return isa.dropout(core(), dst, data, prob, name)
