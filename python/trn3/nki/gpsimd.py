"""Functions of one's own as instructions of GpSimdE, whose eight processors are programmable.

Hardware runs compiled programs there; here it is any Python function on NumPy arrays, or a C
function through `ctypes`. The vendor's NKI has no such call: a kernel that makes one runs here
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from trn3._trn3.machine import NkiInstruction, NkiTensor
from trn3.machine.gpsimd import GpSimdFunction
from trn3.nki.ranks.context import core

__all__ = ["Cycles", "GpSimdOperation", "call", "operation"]

#: Cycles of the slowest processor: a number, a function of the input tiles' shapes, or None.
Cycles: TypeAlias = int | Callable[..., int] | None


class GpSimdOperation:
    """A function that kernels call as an instruction; `operation` makes it.

    Parameters
    ----------
    function, cycles, op
        As for `call`.
    """

    __slots__ = ("_cycles", "_function", "name")

    def __init__(
        self, function: Callable[..., Any], *, cycles: Cycles = None, op: str | None = None
    ) -> None:
        own = getattr(function, "__name__", "")
        self.name = op or (own if own.isidentifier() else "gpsimd_call")
        self._function = function
        self._cycles = cycles
        # What is wrong with the function is said where it is made, not in the first kernel.
        GpSimdFunction.check(self.name, function, cycles)

    def __call__(
        self,
        dst: NkiTensor | Sequence[NkiTensor],
        *srcs: NkiTensor,
        name: str | None = None,
    ) -> NkiInstruction:
        """Issue the instruction; `dst`, `srcs` and `name` as for `call`."""
        instruction = GpSimdFunction(core(), self.name, self._function, self._cycles)
        return instruction(dst, *srcs, name=name)

    def __repr__(self) -> str:
        return f"<trn3.nki.gpsimd operation {self.name}>"


def call(
    function: Callable[..., Any],
    dst: NkiTensor | Sequence[NkiTensor],
    *srcs: NkiTensor,
    cycles: Cycles = None,
    op: str | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Run a function on GpSimdE: ``dst = function(*srcs)``.

    Parameters
    ----------
    function : callable
        Takes one NumPy array [P, ...] for each input tile and returns one for each output tile, of
        its shape and type; or a `ctypes` function pointer that takes a pointer for each input, then
        for each output (which come zeroed), then the number of partitions (C ``int64_t``). Arrays
        are copies: what is not returned changes nothing.
    dst : tensor, or a sequence of them
        Output tiles in SBUF.
    *srcs : tensor
        Input tiles in SBUF.
    cycles : int or callable, optional
        Cycles of the slowest processor beyond the start of an instruction, or a function of the
        input tiles' shapes that says so: the author's claim, which nothing checks. Unless given,
        those of one pass over the largest operand, as GpSimdE's own elementwise instructions take
        (**choice**).
    op : str, optional
        Name of the instruction in profiles, an identifier; the function's own if it has one.
    name : str, optional
        Label in profiles.

    Raises
    ------
    ValueError
        If the function raises, with the kernel's line and what was raised as the cause; or returns
        other shapes or types.
    NkiValidationError
        If a tile is not in SBUF.

    Notes
    -----
    A program that is recorded holds the call by its name; who runs it gives the function, as
    ``program.run(inputs, functions={"sort": f})``.

    Without values (``values=False``) the function is called where it writes integers alone and all
    its inputs are known; else not.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.language as nl
    >>> from trn3.nki import gpsimd
    >>> @nki.jit
    ... def sort_rows(x):
    ...     tile = nl.load(x)
    ...     gpsimd.call(lambda rows: np.sort(rows, axis=1), tile, tile, cycles=900, op="sort")
    ...     out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    ...     nl.store(out, tile)
    ...     return out
    >>> sort_rows(np.array([[3, 1, 2], [9, 8, 7]], np.float32)).tolist()
    [[1.0, 2.0, 3.0], [7.0, 8.0, 9.0]]
    """
    return GpSimdOperation(function, cycles=cycles, op=op)(dst, *srcs, name=name)


def operation(
    function: Callable[..., Any] | None = None, *, cycles: Cycles = None, op: str | None = None
) -> Any:
    """Make a function an instruction that kernels call; with or without parentheses.

    Parameters
    ----------
    function, cycles, op
        As for `call`.

    Returns
    -------
    GpSimdOperation
        ``operation(dst, *srcs, name=None)``; without `function` a decorator that makes one.

    Raises
    ------
    ValueError, TypeError
        If `op` is no identifier, the function cannot be called, or the cycles are negative.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3.nki import gpsimd
    >>> @gpsimd.operation(cycles=lambda shape: 4 * shape[1])
    ... def running_maximum(rows):
    ...     return np.maximum.accumulate(rows, axis=1)
    >>> running_maximum
    <trn3.nki.gpsimd operation running_maximum>
    """

    def make(own: Callable[..., Any]) -> GpSimdOperation:
        return GpSimdOperation(own, cycles=cycles, op=op)

    return make if function is None else make(function)
