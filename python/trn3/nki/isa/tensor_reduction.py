"""Reductions along the free axes and scans, on VectorE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trn3._trn3.machine import NkiInstruction, NkiTensor, isa
from trn3.nki.isa.constants import reduce_cmd as commands
from trn3.nki.ranks.context import core
from trn3.nki.values.releases import TENSOR_REDUCE_AXIS

__all__ = ["tensor_reduce", "tensor_scalar_cumulative", "tensor_tensor_scan"]


def tensor_reduce(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    axis: int | Sequence[int],
    negate: bool = False,
    keepdims: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """Reduce the last axes of a tile.

    Arithmetic runs in float32 in ascending order (**choice**): ``subtract`` is
    ``x0 - x1 - x2 ...`` (**choice**), other operators start from their identity.

    Parameters
    ----------
    dst : tensor, [P, ...]
        One element for each position of the axes that stay.
    op : operator of `nki.language`
        add, subtract, multiply, maximum, minimum, a logical one, or a bitwise one on integers.
    data : tensor, [P, ...]
        In SBUF or PSUM; may be an ``.indirect()`` view (gen4), as `dst` may.
    axis : int or ints
        Axes to reduce: the last ones, never axis 0; negative ones count from the end. Under NKI
        0.2 the number 1 alone is the last axis, as it was there.
    negate : bool, optional
        Multiply the result by -1; arithmetic alone.
    keepdims : bool, optional
        Reduced axes stay in `dst` with length 1. `dst` itself shows which, so both forms are
        taken (**choice**).
    name : str, optional
        Label in profiles.

    Returns
    -------
    NkiInstruction

    Raises
    ------
    NkiValidationError
        If an operand breaks a rule of the engine, or the axes are not the last ones.

    Notes
    -----
    Cost: ``max(64, N)`` cycles for N elements of `data` per partition; ``N / 2`` for add and
    maximum from bfloat16 to bfloat16 (public documentation).
    """
    if axis == 1 and TENSOR_REDUCE_AXIS.value() == "last":
        axis = data.ndim - 1
    axes = [axis] if isinstance(axis, int) else list(axis)
    return isa.tensor_reduce(core(), dst, op, data, axes, negate, keepdims, name)


def tensor_tensor_scan(
    dst: NkiTensor,
    data0: NkiTensor,
    data1: NkiTensor,
    initial: Any,
    op0: Any,
    op1: Any,
    reverse0: bool = False,
    reverse1: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """Scan two tiles: ``r[i] = (data0[i] op0 r[i - 1]) op1 data1[i]``, every r written.

    The running value is float32, not rounded to the type of `dst` between steps (**choice**).

    Parameters
    ----------
    dst, data0, data1 : tensor, [P, ...]
        As many partitions and elements per partition. `data0` and `data1` are not both in PSUM.
    initial : number or tensor, [P, 1]
        r before the first element.
    op0, op1 : operators of `nki.language`
        Arithmetic, of two operands.
    reverse0, reverse1 : bool, optional
        Exchange the operands of `op0`, `op1`.
    name : str, optional
        Label in profiles.

    Returns
    -------
    NkiInstruction

    Notes
    -----
    Cost: ``max(64, 2 N)`` cycles (public documentation).
    """
    return isa.tensor_tensor_scan(
        core(), dst, data0, data1, initial, op0, op1, reverse0, reverse1, name
    )


def tensor_scalar_cumulative(
    dst: NkiTensor,
    src: NkiTensor,
    op0: Any,
    op1: Any,
    imm0: Any,
    imm1: Any = None,
    reduce_cmd: commands = commands.reset_reduce,
    name: str | None = None,
) -> NkiInstruction:
    """Scan a tile with a scalar: ``r = (src[i] op0 imm0) op1 r``, every r written.

    r is VectorE's running value of the partition, kept in float32.

    Parameters
    ----------
    dst, src : tensor, [P, ...]
        As many partitions and elements per partition; no 32-bit integers.
    op0 : operator of `nki.language`
        Arithmetic.
    op1 : operator of `nki.language`
        ``add``, ``subtract``, ``multiply``, ``maximum`` or ``minimum``.
    imm0 : number or tensor, [P, 1]
        A tile is float32.
    imm1 : number or tensor, [P, 1], optional
        Where ``load_reduce`` starts; given with it alone.
    reduce_cmd : nki.isa.reduce_cmd, optional
        ``reset_reduce``: from the identity of `op1`; ``reduce``: from the running value;
        ``load_reduce``: from `imm1`.
    name : str, optional
        Label in profiles.

    Returns
    -------
    NkiInstruction

    Notes
    -----
    Cost: ``max(64, N)`` cycles (estimate).
    """
    return isa.tensor_scalar_cumulative(core(), dst, src, op0, op1, imm0, imm1, reduce_cmd, name)
