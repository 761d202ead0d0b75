"""Instructions that move or set data without arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trn3._trn3.machine import NkiInstruction, NkiTensor, isa
from trn3.nki.isa.constants import engine as engines
from trn3.nki.ranks.context import context, core
from trn3.nki.values.element_types import canonicalise

if TYPE_CHECKING:
    from trn3.nki.typing import DTypeLike

__all__ = ["memset", "tensor_copy"]


def tensor_copy(
    dst: NkiTensor,
    src: NkiTensor,
    engine: engines = engines.unknown,
    name: str | None = None,
    *,
    dtype: DTypeLike | None = None,
) -> NkiInstruction:
    """Copy a tile.

    Equal element types are copied bit for bit; others go through float32.

    Parameters
    ----------
    dst, src : tensor, [P, ...]
        As many partitions and elements per partition; the free axes may differ. In SBUF or PSUM,
        of any element type; packed types only to themselves.
    engine : nki.isa.engine, optional
        ``vector``, ``scalar`` (gen3 on) or ``gpsimd`` (SBUF alone). ``unknown`` means ``vector``
        (**choice**).
    name : str, optional
        Label in profiles and for `Kernel.with_schedule`.
    dtype, optional
        Accepted as older kernels pass it; elements become those of `dst` all the same (**choice**:
        NKI 0.2 says nothing of another one).

    Returns
    -------
    NkiInstruction

    Raises
    ------
    NkiValidationError
        If the engine cannot reach a memory, or the shapes do not fit.
    TypeError
        If an operand is no tensor, `engine` is no engine, or `dtype` is no element type.

    Notes
    -----
    Cost: ``max(64, N / r)`` cycles for N elements per partition; r, the elements a cycle, follows
    from engine, memories and element types (public documentation; GpSimdE: estimate).

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.isa as nisa
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def narrow(x):
    ...     wide = nl.load(x)
    ...     tile = nl.ndarray(x.shape, nl.bfloat16)
    ...     nisa.tensor_copy(tile, wide, engine=nisa.vector_engine)
    ...     out = nl.ndarray(x.shape, nl.bfloat16, buffer=nl.shared_hbm)
    ...     nl.store(out, tile)
    ...     return out
    >>> print(narrow(np.array([[1.0, 1.001]], np.float32)))
    [[1 1]]
    """
    if dtype is not None:
        canonicalise(dtype, "tensor_copy dtype")
    return isa.tensor_copy(core(), dst, src, engine, name)


#: Names of NKI 0.2 for a copy from or to an address that is known when the kernel runs.
tensor_copy_dynamic_src = tensor_copy_dynamic_dst = tensor_copy


def memset(
    dst: NkiTensor,
    value: float,
    engine: engines = engines.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """Set every element of a tile to one value.

    Parameters
    ----------
    dst : tensor, [P, ...]
        In SBUF or PSUM, of any element type.
    value : number
        Rounded to the type of `dst`; a whole number for integer types (written as ``2`` or
        ``2.0``; beyond the type's range its low bits, **choice**), 0 for packed ones.
    engine : nki.isa.engine, optional
        ``vector`` or ``gpsimd`` (SBUF alone). ``unknown`` means ``vector`` (**choice**).
    name : str, optional
        Label in profiles and for `Kernel.with_schedule`.

    Returns
    -------
    NkiInstruction

    Raises
    ------
    NkiValidationError
        If the engine cannot reach the memory, an integer type gets a fraction or a packed one
        anything but 0.
    TypeError
        If `dst` is no tensor, `value` no number or `engine` no engine.

    Notes
    -----
    Cost: ``max(64, N / r)`` cycles for N elements per partition, at the rate of copies; zeroing
    16-bit floats in SBUF has a rate of its own (public documentation).

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.isa as nisa
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def sevens(x):
    ...     tile = nl.ndarray((2, 3), nl.int32)
    ...     nisa.memset(tile, 7)
    ...     out = nl.ndarray((2, 3), nl.int32, buffer=nl.shared_hbm)
    ...     nl.store(out, tile)
    ...     return out
    >>> sevens(np.zeros((1,), np.float32)).tolist()
    [[7, 7, 7], [7, 7, 7]]
    """
    running = context()
    if running.watch is not None and isinstance(dst, NkiTensor):
        running.watch.memset(running.core, dst, value)
    return isa.memset(running.core, dst, value, engine, name)
