"""Elementwise arithmetic of VectorE and GpSimdE: two tiles, or a tile and scalars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trn3._trn3.machine import NkiInstruction, NkiTensor, isa
from trn3.nki.isa.constants import engine as engines, reduce_cmd as commands
from trn3.nki.ranks.context import core

if TYPE_CHECKING:
    from trn3.nki.typing import DTypeLike

__all__ = [
    "reciprocal",
    "scalar_tensor_tensor",
    "tensor_scalar",
    "tensor_scalar_reduce",
    "tensor_tensor",
]


def tensor_tensor(
    dst: NkiTensor,
    data1: NkiTensor,
    data2: NkiTensor,
    op: Any,
    engine: engines = engines.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """Combine two tiles element by element: ``dst = data1 op data2``.

    Arithmetic operators compute in float32; on GpSimdE, where all operands are 32-bit integers,
    they are exact and wrap around (**choice**). Bit operators work on integer patterns, those of
    narrower operands extended by zeros (**choice**).

    Parameters
    ----------
    dst, data1, data2 : tensor, [P, ...]
        As many partitions and elements per partition; the free axes may differ. `data1` and
        `data2` are not both in PSUM. `dst` and `data1` may be ``.indirect()`` views (gen4).
    op : operator of `nki.language`
        Of two operands.
    engine : nki.isa.engine, optional
        ``vector`` or ``gpsimd`` (SBUF alone). ``unknown`` means ``gpsimd`` for ``power`` and for
        arithmetic on 32-bit integers in SBUF, else ``vector``.
    name : str, optional
        Label in profiles.

    Returns
    -------
    NkiInstruction

    Raises
    ------
    NkiValidationError
        If an operand breaks a rule of the engine.
    TypeError
        If an operand is no tensor, `op` no operator or `engine` no engine.

    Notes
    -----
    Cost on VectorE: ``max(64, N)`` cycles for N elements per partition with one input in PSUM,
    ``max(64, 2 N)`` with both in SBUF; narrow floats there are as fast as PSUM (public
    documentation). On GpSimdE: ``150 + N``, half the N for 16-bit types (estimate).

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.isa as nisa
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def double(x):
    ...     tile = nl.load(x)
    ...     nisa.tensor_tensor(tile, tile, tile, nl.add)
    ...     out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    ...     nl.store(out, tile)
    ...     return out
    >>> double(np.array([[1.0, 2.5]], np.float32)).tolist()
    [[2.0, 5.0]]
    """
    return isa.tensor_tensor(core(), dst, data1, data2, op, engine, name)


def scalar_tensor_tensor(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Any,
    operand0: Any,
    op1: Any,
    operand1: NkiTensor,
    reverse0: bool = False,
    reverse1: bool = False,
    name: str | None = None,
    *,
    dtype: DTypeLike | None = None,
) -> NkiInstruction:
    """Combine a tile with a scalar, then with a tile: ``dst = (data op0 operand0) op1 operand1``.

    Parameters
    ----------
    dst, data, operand1 : tensor, [P, ...]
        As many partitions and elements per partition. `data` and `operand1` are not both in PSUM.
    op0, op1 : operators of `nki.language`
        Arithmetic, computed in float32, each rounded by itself (**choice**).
    operand0 : number or tensor, [P, 1]
        A tile is float32. For an operator of one operand: None or 0.
    reverse0, reverse1 : bool, optional
        Exchange the operands of `op0`, `op1`.
    name : str, optional
        Label in profiles.
    dtype, optional
        Accepted as older kernels pass it: the result has the type of `dst`.

    Returns
    -------
    NkiInstruction

    Raises
    ------
    NkiValidationError
        If an operand breaks a rule of the engine.
    """
    del dtype
    return isa.scalar_tensor_tensor(
        core(), dst, data, op0, operand0, op1, operand1, reverse0, reverse1, name
    )


def tensor_scalar(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Any,
    operand0: Any,
    reverse0: bool = False,
    op1: Any = None,
    operand1: Any = None,
    reverse1: bool = False,
    engine: engines = engines.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """Combine a tile with one or two scalars: ``dst = (data op0 operand0) op1 operand1``.

    Parameters
    ----------
    dst, data : tensor, [P, ...]
        As many partitions and elements per partition. May be ``.indirect()`` views (gen4).
    op0, op1 : operators of `nki.language`
        Both arithmetic (in float32, each rounded by itself, **choice**) or both of bits.
        ``abs_max``, ``abs_min``, ``square`` and ``relu`` from gen4 on.
    operand0, operand1 : number or tensor, [P, 1]
        A tile is float32 for arithmetic, of an integer type for bit operators; integer constants
        up to 2**32 - 1. For operators of one operand: None or 0.
    reverse0, reverse1 : bool, optional
        Exchange the operands of `op0`, `op1`.
    engine : nki.isa.engine, optional
        ``vector``; ``scalar`` for (multiply, add), multiply or add on gen3, and any of multiply,
        add, subtract, maximum, minimum on gen4 (**choice**); ``gpsimd`` for ``rsqrt`` and
        ``power`` (SBUF alone). ``unknown`` means ``gpsimd`` for those two, else ``vector``
        (**choice**).
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
    Cost: that of `tensor_copy` on the same engine; two operators cost as much as one. On GpSimdE
    ``150 + 4 N`` cycles (estimate).
    """
    return isa.tensor_scalar(
        core(), dst, data, op0, operand0, reverse0, op1, operand1, reverse1, engine, name
    )


def tensor_scalar_reduce(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Any,
    operand0: Any,
    reduce_op: Any,
    reduce_res: NkiTensor | None = None,
    reverse0: bool = False,
    reduce_cmd: commands = commands.reset_reduce,
    reduce_init: Any = None,
    reduce_res_negate: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """Combine a tile with a scalar and reduce what comes out, one value a partition.

    ``dst = data op0 operand0``; VectorE's running values take the float32 results, before the
    cast to the type of `dst` (**choice**), in ascending order.

    Parameters
    ----------
    dst, data : tensor, [P, ...]
        As many partitions and elements per partition. May be ``.indirect()`` views (gen4).
    op0 : operator of `nki.language`
        Arithmetic.
    operand0 : number or tensor, [P, 1]
        A tile is float32. For an operator of one operand: None or 0.
    reduce_op : operator of `nki.language`
        ``add``, ``multiply``, ``maximum`` or ``minimum``.
    reduce_res : tensor, [P, 1], optional
        Receives the running values.
    reverse0 : bool, optional
        False; "not supported yet", as the documentation says.
    reduce_cmd : nki.isa.reduce_cmd, optional
        ``reset_reduce``, ``reduce`` or ``load_reduce``.
    reduce_init : number or tensor, [P, 1], optional
        Where ``load_reduce`` starts; given with it alone.
    reduce_res_negate : bool, optional
        Negate what is written to `reduce_res`; the running values stay.
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
    Cost: ``max(64, N)`` cycles and 64 to read the running values (public documentation).
    """
    return isa.tensor_scalar_reduce(
        core(), dst, data, op0, operand0, reduce_op, reduce_res, reverse0, reduce_cmd, reduce_init,
        reduce_res_negate, name
    )  # fmt: skip


def reciprocal(dst: NkiTensor, data: NkiTensor, name: str | None = None) -> NkiInstruction:
    """Compute ``1 / data``, correctly rounded to float32 (**choice**), then cast.

    Parameters
    ----------
    dst, data : tensor, [P, ...]
        As many partitions and elements per partition, in SBUF or PSUM.
    name : str, optional
        Label in profiles.

    Returns
    -------
    NkiInstruction

    Notes
    -----
    Cost: ``max(64, 8 N)`` cycles (public documentation).
    """
    return isa.reciprocal(core(), dst, data, name)
