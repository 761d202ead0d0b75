"""Scalar registers of a sequencer."""

from __future__ import annotations

import warnings
from typing import Final

from trn3._trn3.machine import NkiInstruction, NkiTensor, VirtualRegister, isa
from trn3.nki.ranks.context import core
from trn3.nki.values.bound_names import bound_name

__all__ = ["register_alloc", "register_load", "register_move", "register_store"]

_INTEGERS: Final = frozenset({"bool", "uint8", "int8", "uint16", "int16", "uint32", "int32"})


def register_alloc(x: int | NkiTensor | VirtualRegister | None = None) -> VirtualRegister:
    """Return a new register.

    Parameters
    ----------
    x : int, tensor of one element, or register, optional
        What it shall hold; without, reading it before it is written is an error.

    Raises
    ------
    TypeError
        For anything else.
    RuntimeError
        Outside a kernel.
    """
    register = VirtualRegister()
    core().own_register(register, bound_name())
    if isinstance(x, NkiTensor):
        register_load(register, x)
    elif x is not None:
        register_move(register, x)
    return register


def register_move(
    dst: VirtualRegister,
    src: int | VirtualRegister | None = None,
    name: str | None = None,
    *,
    imm: int | VirtualRegister | None = None,
) -> NkiInstruction:
    """Set a register to a number or to what another one holds.

    Parameters
    ----------
    dst : VirtualRegister
        A register of the kernel's own; a dynamic loop's cannot be written.
    src : int or VirtualRegister
        A number of 32 bits, signed or unsigned.
    name : str, optional
        Label in profiles.
    imm : int or VirtualRegister
        What older kernels call `src`.

    Raises
    ------
    NkiValidationError
        If `dst` is a loop's register or `src` has more than 32 bits.
    ValueError
        If nothing was written to the register `src`.

    Notes
    -----
    Cost: one slot of the sequencer, about 30 ns (estimate).
    """
    value = imm if src is None else src
    if value is None or (src is not None and imm is not None):
        given = "neither" if value is None else "both"
        message = f"register_move got {given} of src and imm; allowed: src, or imm as older kernels"
        raise TypeError(message)
    return isa.register_move(core(), dst, value, name)


def register_load(dst: VirtualRegister, src: NkiTensor, name: str | None = None) -> NkiInstruction:
    """Load one element into a register.

    Integers keep their value; other types give their bits, with a warning (**choice**).

    Parameters
    ----------
    dst : VirtualRegister
        A register of the kernel's own.
    src : tensor of one element
        In HBM or SBUF, of at most 32 bits.
    name : str, optional
        Label in profiles.

    Raises
    ------
    NkiValidationError
        If `dst` is a loop's register, or `src` is in PSUM or has more elements than one.

    Notes
    -----
    Cost: about 300 ns from SBUF, 1300 ns from HBM (estimate).
    """
    dtype = getattr(src, "dtype", None)
    if dtype is not None and str(dtype) not in _INTEGERS:
        message = f"register_load src has dtype {dtype}: the register holds its bits"
        warnings.warn(message, stacklevel=2)
    return isa.register_load(core(), dst, src, name)


def register_store(dst: NkiTensor, src: VirtualRegister, name: str | None = None) -> NkiInstruction:
    """Store the low bits of a register into one element.

    Parameters
    ----------
    dst : tensor of one element
        In HBM or SBUF.
    src : VirtualRegister
        What is stored.
    name : str, optional
        Label in profiles.

    Raises
    ------
    NkiValidationError
        If `dst` is in PSUM or has more elements than one.
    ValueError
        If nothing was written to the register.

    Notes
    -----
    Cost: as `register_load` (**choice**).
    """
    return isa.register_store(core(), dst, src, name)
