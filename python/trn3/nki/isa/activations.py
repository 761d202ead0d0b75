"""Functions of ScalarE, and VectorE's fast exponential."""

from __future__ import annotations

from typing import Any

from trn3._trn3.machine import NkiInstruction, NkiTensor, isa
from trn3.nki.isa.constants import reduce_cmd as commands
from trn3.nki.ranks.context import core

__all__ = ["activate2", "activation", "activation_reduce", "exponential"]


def activation(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    bias: Any = None,
    scale: Any = 1.0,
    reduce_op: Any = None,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: commands = commands.idle,
    name: str | None = None,
) -> NkiInstruction:
    """Compute a function of a scaled and shifted tile: ``dst = op(data * scale + bias)``.

    The argument is rounded once to float32 (**choice**), the function is the true one, rounded
    (see `nki.language` for each). ScalarE's running sums take the results after the cast to the
    type of `dst`, in ascending order (**choice**).

    Parameters
    ----------
    dst, data : tensor, [P, ...]
        As many partitions and elements per partition, of any unpacked type. May be
        ``.indirect()`` views (gen4).
    op : activation function of `nki.language`
        Any but ``prelu``, whose slope `activate2` takes.
    bias : number or tensor, [P, 1], optional
        Numbers from gen3 on; a tile of any type but tfloat32.
    scale : number or tensor, [P, 1], optional
        A tile is float32.
    reduce_op : operator of `nki.language`, optional
        ``add``.
    reduce_res : tensor, [P, 1], optional
        Receives the running sums.
    reduce_cmd : nki.isa.reduce_cmd, optional
        ``idle`` leaves the running sums alone, ``reset`` clears them, ``reduce`` adds to them,
        ``reset_reduce`` clears them first.
    name : str, optional
        Label in profiles.

    Returns
    -------
    NkiInstruction

    Raises
    ------
    NkiValidationError
        If an operand breaks a rule of the engine.

    Notes
    -----
    Cost: ``max(64, N)`` cycles and 64 to read the running sums (public documentation). Another
    function than the one before costs a table load; copy, relu, square, abs and sign need none
    (**choice**).
    """
    return isa.activation(
        core(), dst, op, data, bias, scale, reduce_op, reduce_res, reduce_cmd, name
    )


def activation_reduce(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    reduce_op: Any,
    reduce_res: NkiTensor | None,
    bias: Any = None,
    scale: Any = 1.0,
    name: str | None = None,
) -> NkiInstruction:
    """Compute a function of a tile and its sum along each partition.

    `activation` with ``reduce_cmd.reset_reduce``.

    Parameters
    ----------
    dst, op, data, reduce_op, reduce_res, bias, scale
        As in `activation`.
    name : str, optional
        Label in profiles.

    Returns
    -------
    NkiInstruction
    """
    return isa.activation_reduce(core(), dst, op, data, reduce_op, reduce_res, bias, scale, name)


def activate2(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    imm0: Any,
    imm1: Any,
    op0: Any,
    op1: Any,
    relu_param: Any = 0.0,
    reverse0: bool = False,
    reverse1: bool = False,
    reduce_op: Any = None,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: commands = commands.idle,
    name: str | None = None,
) -> NkiInstruction:
    """Compute ``dst = op((data op0 imm0) op1 imm1)`` (gen4).

    A product and what is added to it or taken from it are rounded once (**choice**).

    Parameters
    ----------
    dst, data : tensor, [P, ...]
        As in `activation`.
    op : activation function of `nki.language`
        Any.
    imm0, imm1 : number or tensor, [P, 1]
        If both are tiles, of one type.
    op0, op1 : operators of `nki.language`
        (multiply, add), (multiply, subtract), (multiply, bypass), (add, bypass), (subtract,
        bypass) or (bypass, bypass); None means bypass.
    relu_param : number or tensor, [P, 1], optional
        Slope of ``prelu``.
    reverse0, reverse1 : bool, optional
        Exchange the operands of `op0`, `op1`.
    reduce_op : operator of `nki.language`, optional
        ``add`` (also for None), ``maximum``, ``minimum``, ``abs_max`` or ``abs_min``.
    reduce_res, reduce_cmd
        As in `activation`; a reset is to the identity of `reduce_op`.
    name : str, optional
        Label in profiles.

    Returns
    -------
    NkiInstruction

    Notes
    -----
    Cost: as `activation` (estimate).
    """
    return isa.activate2(
        core(), dst, op, data, imm0, imm1, op0, op1, relu_param, reverse0, reverse1, reduce_op,
        reduce_res, reduce_cmd, name
    )  # fmt: skip


def exponential(
    dst: NkiTensor,
    src: NkiTensor,
    max_value: Any = 0.0,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: commands = commands.idle,
    reduce_init: Any = 0.0,
    name: str | None = None,
) -> NkiInstruction:
    """Compute ``dst = exp(src - max_value)`` on VectorE, with running sums (gen4).

    The difference is rounded to float32; the exponential is `trn3.numerics.exp`. VectorE's
    running sums take the results after the cast to the type of `dst`, in ascending order
    (**choice**).

    Parameters
    ----------
    dst : tensor, [P, ...]
        float8_e4m3, float8_e5m2, float16, bfloat16, float32, tfloat32, int8, int16, int32, uint8
        or uint16; at most 4 axes.
    src : tensor, [P, ...]
        The same types, uint32 in place of tfloat32.
    max_value : number or tensor, [P, 1], optional
        A tile is float32.
    reduce_res : tensor, [P, 1], optional
        Receives the running sums; a floating-point type.
    reduce_cmd : nki.isa.reduce_cmd, optional
        ``idle``, ``reset_reduce``, ``reduce`` or ``load_reduce``.
    reduce_init : number or tensor, [P, 1], optional
        Where ``load_reduce`` starts; 0 with any other command.
    name : str, optional
        Label in profiles.

    Returns
    -------
    NkiInstruction

    Notes
    -----
    Cost: ``max(64, N / 4)`` cycles (public documentation: 4 times ScalarE's), ``N / 2`` for types
    wider than 16 bits, and 64 to read the running sums (estimates).
    """
    return isa.exponential(core(), dst, src, max_value, reduce_res, reduce_cmd, reduce_init, name)
