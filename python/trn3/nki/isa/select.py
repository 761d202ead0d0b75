"""One of two values for each element, by a predicate, by place or at random, on VectorE."""

from __future__ import annotations

from typing import Any, Final

from trn3._trn3.machine import NkiInstruction, NkiTensor, isa
from trn3.nki.isa.constants import reduce_cmd as commands
from trn3.nki.ranks.context import core

__all__ = ["dropout", "range_select", "select_reduce", "tensor_copy_predicated"]

#: The lowest float32, what `range_select` fills with.
FP32_MIN: Final = -3.4028234663852886e38


def select_reduce(
    dst: NkiTensor,
    predicate: NkiTensor,
    on_true: NkiTensor,
    on_false: Any,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: commands = commands.idle,
    reduce_op: Any = "maximum",
    reverse_pred: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """Choose by a predicate, and take the largest of each partition.

    ``dst = predicate ? on_true : on_false``. The largest is taken of the float32 values, before
    the cast to the type of `dst` (**choice**).

    Parameters
    ----------
    dst, on_true : tensor, [P, ...]
        `on_true` of any type but tfloat32, int32 and uint32.
    predicate : tensor, [P, ...]
        int8, uint8, int16 or uint16; not in PSUM together with `on_true`.
    on_false : number or tensor, [P, 1]
        A tile is float32.
    reduce_res : tensor, [P, 1], optional
        Receives the running values; a floating-point type.
    reduce_cmd : nki.isa.reduce_cmd, optional
        ``idle``, ``reset_reduce`` or ``reduce``.
    reduce_op : operator of `nki.language`, optional
        ``maximum``.
    reverse_pred : bool, optional
        Exchange the meaning of the predicate.
    name : str, optional
        Label in profiles.

    Returns
    -------
    NkiInstruction

    Notes
    -----
    Cost: ``max(64, 2 N)`` cycles, N with an input in PSUM, and 64 to read the running values
    (estimate).
    """
    return isa.select_reduce(
        core(), dst, predicate, on_true, on_false, reduce_res, reduce_cmd, reduce_op, reverse_pred,
        name
    )  # fmt: skip


def range_select(
    dst: NkiTensor,
    on_true_tile: NkiTensor,
    comp_op0: Any,
    comp_op1: Any,
    bound0: NkiTensor,
    bound1: NkiTensor,
    reduce_cmd: commands = commands.reset_reduce,
    reduce_res: NkiTensor | None = None,
    reduce_op: Any = "maximum",
    range_start: int = 0,
    on_false_value: Any = ...,
    name: str | None = None,
) -> NkiInstruction:
    """Keep the elements whose place lies between bounds, and take the largest (gen3 on).

    With ``i = range_start`` + the element's place along the free axes: where
    ``i comp_op0 bound0`` and ``i comp_op1 bound1`` the element stays, elsewhere the lowest
    float32 stands, which is -inf in narrower types. The largest is taken before the cast
    (**choice**).

    Parameters
    ----------
    dst, on_true_tile : tensor, [P, ...]
        `on_true_tile` of a floating-point type.
    comp_op0, comp_op1 : operators of `nki.language`
        ``equal``, ``less``, ``less_equal``, ``greater`` or ``greater_equal``.
    bound0, bound1 : tensor, [P, 1]
        float32.
    reduce_cmd : nki.isa.reduce_cmd, optional
        All but ``load_reduce``.
    reduce_res : tensor, [P, 1], optional
        Receives the running values.
    reduce_op : operator of `nki.language`, optional
        ``maximum``.
    range_start : int, optional
        Place of the first element.
    on_false_value : optional
        Left out, or the lowest float32.
    name : str, optional
        Label in profiles.

    Returns
    -------
    NkiInstruction

    Notes
    -----
    Cost: ``max(64, N)`` cycles (public documentation), and 64 to read the running values
    (estimate).
    """
    return isa.range_select(
        core(), dst, on_true_tile, comp_op0, comp_op1, bound0, bound1, reduce_cmd, reduce_res,
        reduce_op, range_start, FP32_MIN if on_false_value is ... else on_false_value, name
    )  # fmt: skip


def tensor_copy_predicated(
    dst: NkiTensor,
    src: Any,
    predicate: NkiTensor,
    reverse_pred: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """Copy where a predicate holds; elsewhere `dst` stays as it is.

    Parameters
    ----------
    dst : tensor, [P, ...]
        May be an ``.indirect()`` view (gen4), as `predicate` may.
    src : tensor, [P, ...], or number
        Of the type of `dst`: bits are copied. Not in PSUM together with `predicate`.
    predicate : tensor, [P, ...]
        uint8, uint16 or uint32; holds where it is not 0.
    reverse_pred : bool, optional
        Exchange the meaning of the predicate.
    name : str, optional
        Label in profiles.

    Returns
    -------
    NkiInstruction

    Notes
    -----
    Cost: ``max(64, 2 N)`` cycles, N with an input in PSUM (public documentation).
    """
    return isa.tensor_copy_predicated(core(), dst, src, predicate, reverse_pred, name)


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
