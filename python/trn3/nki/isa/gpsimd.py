"""What GpSimdE alone does: affine patterns, gathers, reductions over partitions, searches."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

from trn3._trn3.machine import NkiInstruction, NkiTensor, VirtualRegister, isa
from trn3.nki.isa._call import core, op_name

__all__ = ["affine_select", "iota"]


def iota(
    dst: NkiTensor,
    pattern: Sequence[Sequence[int]],
    offset: int | VirtualRegister = 0,
    channel_multiplier: int = 0,
    name: str | None = None,
) -> NkiInstruction:
    """Fill a tile with an affine function of each element's place.

    ``dst[p, i, j, ...] = offset + p * channel_multiplier + i * step0 + j * step1 + ...`` in
    32-bit integers, which wrap (**choice**), then cast to the type of `dst`: integer types take
    the nearest value they have (**choice**), other types are rounded to nearest.

    Parameters
    ----------
    dst : tensor, [P, ...]
        In SBUF, of any unpacked type.
    pattern : list of [step, num]
        One to four axes, outermost first; the product of the nums is the number of elements per
        partition of `dst`.
    offset : int or VirtualRegister, optional
        What the first element is.
    channel_multiplier : int, optional
        What each partition adds, counted from 0 at the first one of `dst`.
    name : str, optional
        Label in profiles.

    Returns
    -------
    NkiInstruction

    Raises
    ------
    NkiValidationError
        If `dst` is not in SBUF, or the pattern does not have as many elements.
    TypeError
        If `pattern` holds anything but pairs of integers.
    ValueError
        If the register was never written.

    Notes
    -----
    Cost: ``150 + N`` cycles of GpSimdE for N elements per partition (public documentation).

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.isa as nisa
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def places(x):
    ...     tile = nl.ndarray((2, 4), nl.int32)
    ...     nisa.iota(tile, [[1, 4]], channel_multiplier=4)
    ...     out = nl.ndarray((2, 4), nl.int32, buffer=nl.shared_hbm)
    ...     nl.store(out, tile)
    ...     return out
    >>> places(np.zeros((1,), np.float32)).tolist()
    [[0, 1, 2, 3], [4, 5, 6, 7]]
    """
    return isa.iota(core(), dst, _pairs("iota", pattern), offset, channel_multiplier, name)


def affine_select(
    dst: NkiTensor,
    pattern: Sequence[Sequence[int]],
    channel_multiplier: int,
    on_true_tile: NkiTensor,
    on_false_value: float,
    cmp_op: Any = "equal",
    offset: int | VirtualRegister = 0,
    name: str | None = None,
) -> NkiInstruction:
    """Keep elements where an affine function of their place compares with 0, fill elsewhere.

    ``dst = on_true_tile`` where ``(offset + p * channel_multiplier + i * step0 + ...) cmp_op 0``
    holds, else `on_false_value`. Elements keep their bits where both tiles have one type, and go
    through float32 otherwise. The function is that of `iota`.

    Parameters
    ----------
    dst, on_true_tile : tensor, [P, ...]
        In SBUF, of any unpacked types.
    pattern : list of [step, num]
        As in `iota`.
    channel_multiplier : int
        What each partition adds.
    on_false_value : number
        Rounded to float32 and then to the type of `dst`: the lowest float32 is -inf in narrower
        types.
    cmp_op : operator of `nki.language`, optional
        ``equal``, ``not_equal``, ``greater_equal``, ``greater``, ``less_equal`` or ``less``.
    offset : int or VirtualRegister, optional
        What the function starts from.
    name : str, optional
        Label in profiles.

    Returns
    -------
    NkiInstruction

    Raises
    ------
    NkiValidationError
        If a tile is not in SBUF, the tiles or the pattern do not fit, or `cmp_op` is no comparison.
    TypeError
        If `pattern` holds anything but pairs of integers.
    ValueError
        If the register was never written.

    Notes
    -----
    Cost: ``150 + N`` cycles of GpSimdE for N elements per partition (public documentation).

    Examples
    --------
    A causal mask, queries on the partitions:

    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.isa as nisa
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def causal(x):
    ...     tile = nl.load(x)
    ...     nisa.affine_select(
    ...         tile, pattern=[[-1, 3]], channel_multiplier=1, on_true_tile=tile,
    ...         on_false_value=0.0, cmp_op=nl.greater_equal,
    ...     )
    ...     out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    ...     nl.store(out, tile)
    ...     return out
    >>> causal(np.ones((3, 3), np.float32)).tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]
    """
    return isa.affine_select(
        core(),
        dst,
        _pairs("affine_select", pattern),
        channel_multiplier,
        on_true_tile,
        on_false_value,
        op_name(cmp_op),
        offset,
        name,
    )


def _pairs(instruction: str, pattern: Any) -> list[tuple[int, int]]:
    try:
        return [(index(step), index(num)) for step, num in pattern]
    except (TypeError, ValueError):
        message = f"{instruction} pattern is {pattern!r}; allowed: a list of pairs [step, num]"
        raise TypeError(message) from None
