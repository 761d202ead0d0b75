"""Tensors with block axes: several tiles under one name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trn3._trn3.machine import NkiTensor
from trn3.nki.dialects.legacy import issuing
from trn3.nki.dialects.legacy.issuing import error
from trn3.nki.dialects.legacy.views import Tensor, View
from trn3.nki.values.element_types import canonicalise
from trn3.nki.values.memory_regions import MemoryRegion

__all__ = ["Blocks"]


class Blocks(Tensor):
    """Tiles numbered by leading axes; each is made when it is first used."""

    def __init__(
        self,
        shape: Sequence[int],
        block_rank: int,
        dtype: Any,
        buffer: MemoryRegion,
        make: Callable[[tuple[int, ...]], NkiTensor],
        *,
        name: str = "",
        made: dict[tuple[int, ...], NkiTensor] | None = None,
        prefix: tuple[int, ...] = (),
    ) -> None:
        self.shape = tuple(int(length) for length in shape)
        self.block_rank = block_rank
        self.dtype = canonicalise(dtype)
        self.buffer = buffer
        self.name = name
        self._make = make
        self._tiles = {} if made is None else made
        self._prefix = prefix

    @property
    def view(self) -> NkiTensor:
        """Refuse: there are several."""
        blocks = self.shape[: self.block_rank]
        message = (
            f"tensor {self.name or 'without name'} of shape {self.shape} has block axes {blocks}; "
            "allowed: index them first, t[block, ...]"
        )
        raise error(ValueError, message)

    @property
    def is_even(self) -> bool:
        """False: there are several tiles."""
        return False

    def tile(self, block: tuple[int, ...]) -> NkiTensor:
        """Return the tile of a block."""
        place = (*self._prefix, *block)
        known = self._tiles.get(place)
        if known is None:
            issuing.flush()
            known = self._tiles[place] = self._make(place)
        return known

    def inner(self, block: tuple[int, ...]) -> Tensor:
        """Return what a number for each of the first block axes leaves."""
        for axis, (number, length) in enumerate(zip(block, self.shape, strict=False)):
            if not -length <= number < length:
                message = (
                    f"Out-of-bound access for tensor `{self.name}` on dimension {axis}: index "
                    f"{number} exceed dimension size of {length}"
                )
                raise error(IndexError, message)
        block = tuple(number % length for number, length in zip(block, self.shape, strict=False))
        if len(block) == self.block_rank:
            return View(self.tile(block))
        return Blocks(
            self.shape[len(block) :], self.block_rank - len(block), self.dtype, self.buffer,
            self._make, name=self.name, made=self._tiles, prefix=(*self._prefix, *block),
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"tensor {self.name} {self.shape} {self.dtype}, {self.block_rank} block axes"
