"""16-bit floats to blocks of 8-bit ones with a common scale, on VectorE (gen4)."""

from __future__ import annotations

from trn3._trn3.machine import NkiInstruction, NkiTensor, isa
from trn3.nki.ranks.context import core
from trn3.nki.values.releases import QUANTIZE_MX_SCALE

__all__ = ["quantize_mx"]


def quantize_mx(
    dst: NkiTensor, src: NkiTensor, dst_scale: NkiTensor, name: str | None = None
) -> NkiInstruction:
    """Quantise to MXFP8: 8 partitions x 4 neighbouring elements share a scale (gen4).

    Scales follow the rule of the NKI version in force: from 0.5 on nothing saturates, before it
    is OCP's sample rule (see `trn3.nki.values.releases`). Blocks with NaN or infinity get scale
    byte 255 and NaN elements (**choice**); see `trn3.numerics.quantize_mx`.

    Parameters
    ----------
    dst : tensor, [P, F / 4]
        float8_e5m2_x4 or float8_e4m3fn_x4, in SBUF.
    src : tensor, [P, F]
        float16 or bfloat16, in SBUF; P a multiple of 32, F of 4.
    dst_scale : tensor
        float8_e8m0fnu or uint8, in SBUF, F / 4 elements per partition. For P = 32 it has 4
        partitions; for more it has those of `dst`, of which the first four of every 32 are
        written. It may start 0, 4, 8 or 12 partitions into a quadrant, and is then as much
        shorter.
    name : str, optional
        Label in profiles.

    Returns
    -------
    NkiInstruction

    Raises
    ------
    NkiValidationError
        Before gen4, and for types, shapes and memories other than these.

    Notes
    -----
    Cost: ``max(64, F / 4)`` cycles (public documentation).
    """
    return isa.quantize_mx(core(), dst, src, dst_scale, QUANTIZE_MX_SCALE.value() == "ocp", name)
