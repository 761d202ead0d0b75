"""Numbers that the device computes: scalars of NKI 0.7, which registers hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from trn3._trn3.machine import NkiInstruction, NkiTensor, NkiValidationError, VirtualRegister, isa
from trn3.nki.ranks.context import core
from trn3.nki.values.bound_names import bound_name
from trn3.nki.values.element_types import DType, int32

__all__ = ["NkiScalar", "loop_scalar", "scalar_load", "scalar_store"]

_HALF: Final = 1 << 31
_NO_TRUTH: Final = (
    "an NkiScalar has no value while a kernel is traced; allowed: arithmetic (+, -, *), offsets, "
    "bounds of nl.fori_loop"
)


class NkiScalar(VirtualRegister):
    """A whole number of 32 bits that is known when the kernel runs.

    `scalar_load` gives one, arithmetic with numbers and other scalars gives more, and offsets,
    ``nl.ds`` and the bounds of `nl.fori_loop` take it. Sums and products wrap at 32 bits. It is a
    `VirtualRegister` that nothing writes twice (**choice**), so that whatever takes a register
    takes it too.

    Parameters
    ----------
    state : int, optional
        What it holds.
    dtype : optional
        ``nl.int32``; NKI has 64 bits too, which tensors of trn3 have not.
    is_comparison : bool, optional
        Whether a comparison gave it: such a scalar has no use, in NKI neither.

    Raises
    ------
    TypeError
        If `dtype` is another one.

    Notes
    -----
    Cost: each operator one slot of the sequencer, as `register_move` (**choice**).

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.isa as nisa
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def row_after(x, index):
    ...     out = nl.ndarray((1, 2), x.dtype, buffer=nl.shared_hbm)
    ...     row = nisa.scalar_load(index) + 1
    ...     nisa.dma_copy(dst=out, src=x[nl.ds(row, 1)])
    ...     return out
    >>> row_after(np.array([[1, 2], [3, 4], [5, 6]], np.int32), np.array([[1]], np.int32)).tolist()
    [[5, 6]]
    """

    _is_comparison: bool

    def __new__(  # noqa: D102, PYI034 the class says what it takes; every scalar is of it
        cls, state: int | None = None, dtype: Any = None, is_comparison: bool = False
    ) -> NkiScalar:
        if dtype is not None and dtype != int32:
            message = (
                f"NkiScalar dtype is {dtype}; allowed: int32 (tensors of int64 are not modelled)"
            )
            raise TypeError(message)
        return _scalar(None if state is None else _wrapped(state), is_comparison=is_comparison)

    def __init__(self, *_: Any, **__: Any) -> None:
        """Everything is done when it is made."""

    @property
    def dtype(self) -> DType:
        """``nl.int32``."""
        return int32

    @property
    def is_comparison(self) -> bool:
        """Whether a comparison gave it."""
        return self._is_comparison

    def __add__(self, other: Any) -> NkiScalar:
        return self._computed(other, lambda x, y: x + y)

    def __radd__(self, other: Any) -> NkiScalar:
        return self._computed(other, lambda x, y: y + x)

    def __sub__(self, other: Any) -> NkiScalar:
        return self._computed(other, lambda x, y: x - y)

    def __rsub__(self, other: Any) -> NkiScalar:
        return self._computed(other, lambda x, y: y - x)

    def __mul__(self, other: Any) -> NkiScalar:
        return self._computed(other, lambda x, y: x * y)

    def __rmul__(self, other: Any) -> NkiScalar:
        return self._computed(other, lambda x, y: y * x)

    def __neg__(self) -> NkiScalar:
        return self._computed(0, lambda x, y: y - x)

    def __pos__(self) -> NkiScalar:
        return self._computed(0, lambda x, y: x + y)

    def __lt__(self, other: Any) -> NkiScalar:
        return _scalar(None, is_comparison=True)

    __le__ = __gt__ = __ge__ = __lt__

    def __eq__(self, other: object) -> NkiScalar:  # type: ignore[override]
        return _scalar(None, is_comparison=True)

    __ne__ = __eq__  # type: ignore[assignment]
    __hash__ = VirtualRegister.__hash__

    def __bool__(self) -> bool:
        raise TypeError(_NO_TRUTH)

    def __repr__(self) -> str:
        return f"NkiScalar({'uninitialized' if self.state is None else self.state})"

    def _computed(self, other: Any, operation: Callable[[Any, Any], int]) -> NkiScalar:
        if isinstance(other, bool) or not isinstance(other, (int, NkiScalar)):
            unknown: Any = NotImplemented
            return unknown  # type: ignore[no-any-return]
        values = []
        for each in (self, other):
            if isinstance(each, NkiScalar) and each.is_comparison:
                message = "arithmetic with the result of a comparison; NKI has no use for one"
                raise TypeError(message)
            values.append(each.state if isinstance(each, NkiScalar) else each)
        result = _scalar(None)
        core().own_register(result, bound_name())
        isa.register_move(core(), result, self, None)
        result.set(_wrapped(operation(*values)))
        return result


def _wrapped(number: int) -> int:
    return (number + _HALF) % (2 * _HALF) - _HALF


def _scalar(state: int | None, *, frozen: bool = False, is_comparison: bool = False) -> NkiScalar:
    made = VirtualRegister.__new__(NkiScalar, state, frozen)
    made._is_comparison = is_comparison
    return made


def loop_scalar(index: int) -> NkiScalar:
    """Return the index of a loop, which nothing may write."""
    return _scalar(index, frozen=True)


def scalar_load(src: NkiTensor, name: str | None = None) -> NkiScalar:
    """Load one element into a new scalar.

    Parameters
    ----------
    src : tensor of one element
        int32, in HBM or SBUF; NKI takes int64 too, whose tensors trn3 does not have.
    name : str, optional
        Label in profiles.

    Raises
    ------
    NkiValidationError
        If `src` has another type, is in PSUM or has more elements than one.

    Notes
    -----
    Cost: as `register_load`.
    """
    _check_type("scalar_load src", src)
    loaded = _scalar(None)
    core().own_register(loaded, bound_name())
    isa.register_load(core(), loaded, src, name)
    return loaded


def scalar_store(dst: NkiTensor, value: NkiScalar, name: str | None = None) -> NkiInstruction:
    """Store a scalar into one element.

    Parameters
    ----------
    dst : tensor of one element
        int32, in HBM or SBUF.
    value : NkiScalar
        What is stored; `memset` writes numbers that are known before.
    name : str, optional
        Label in profiles.

    Raises
    ------
    NkiValidationError
        If `dst` has another type, is in PSUM or has more elements than one.
    TypeError
        If `value` is no scalar, or the result of a comparison.

    Notes
    -----
    Cost: as `register_store`.
    """
    given: Any = value
    if not isinstance(given, NkiScalar) or given.is_comparison:
        what = "the result of a comparison" if isinstance(given, NkiScalar) else repr(given)
        message = f"scalar_store value is {what}; allowed: an NkiScalar; nisa.memset takes numbers"
        raise TypeError(message)
    _check_type("scalar_store dst", dst)
    return isa.register_store(core(), dst, value, name)


def _check_type(what: str, tensor: Any) -> None:
    if isinstance(tensor, NkiTensor) and tensor.dtype != int32:
        message = (
            f"{core().line()}: {what} has dtype {tensor.dtype}; allowed: int32 (tensors of int64 "
            "are not modelled)"
        )
        raise NkiValidationError(message)
