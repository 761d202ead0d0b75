"""Tiles of instructions that wait for where their results go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trn3._trn3.machine import NkiTensor
from trn3.nki.dialects.legacy import issuing
from trn3.nki.dialects.legacy.issuing import error
from trn3.nki.dialects.legacy.views import Tensor
from trn3.nki.language.creation import new_tensor
from trn3.nki.ranks.context import core
from trn3.nki.values.bound_names import bound_name, named
from trn3.nki.values.element_types import canonicalise
from trn3.nki.values.memory_regions import MemoryRegion

__all__ = ["WaitingTile"]


class WaitingTile(Tensor):
    """What an instruction returns; the instruction may still wait.

    Attributes
    ----------
    kind : str
        ``"matmul"`` for products, which PSUM accumulates.
    is_simple : bool
        Whether one instruction makes all of it.
    accumulate : bool or None
        Of a product: whether it adds to what lies where it goes, as `nki.isa.nc_matmul` takes it.
    """

    def __init__(
        self,
        shape: Sequence[int],
        dtype: Any,
        buffer: MemoryRegion,
        run: Callable[..., Any],
        *,
        kind: str = "",
        is_simple: bool = True,
        mask: Any = None,
    ) -> None:
        self.shape = tuple(int(length) for length in shape)
        self.dtype = canonicalise(dtype)
        self.buffer = buffer
        self.kind = kind
        self.is_simple = is_simple
        self.mask = mask
        self.accumulate: bool | None = False
        self._made: NkiTensor | None = None
        self._run: Callable[..., Any] | None = run
        self._line = issuing.line()
        self._scope = core().scope()
        self._name = bound_name()
        issuing.flush()
        issuing.state.pending = self

    @property
    def view(self) -> NkiTensor:
        """The machine's tensor; the instruction has run."""
        issuing.flush()
        if self._made is None:
            message = "a tile is used whose instruction was given to another tile"
            raise error(RuntimeError, message)
        return self._made

    @property
    def place(self) -> NkiTensor:
        """The machine's tensor, for views of it alone: another instruction may wait."""
        return self.view if self._made is None else self._made

    @property
    def is_pending(self) -> bool:
        """Whether the instruction waits for where its result goes."""
        return issuing.state.pending is self

    def materialise(self, into: NkiTensor | None = None) -> None:
        """Run the instruction, into a tensor of the same shape or into a new one."""
        if issuing.state.pending is self:
            issuing.state.pending = None

        def run() -> None:
            made = into
            if made is None:
                made = new_tensor(self.shape, self.dtype, self.buffer)
            self._made = made
            # Not kept: it holds the operands, whose memory is to be free again.
            emit, self._run = self._run, None
            if emit is None:
                return
            if self.kind == "matmul":
                emit(made, self.accumulate)
            else:
                emit(made)

        with named(self._name):
            issuing.in_scope(self._scope, self._line, run)
