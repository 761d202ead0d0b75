"""The ids of very many chips, none of which is kept."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import overload

from trn3.system.links import ChipId


class ChipIds(Sequence[ChipId]):
    """The ids of a cluster's chips that work, made when they are asked for."""

    def __init__(self, inner: tuple[ChipId, ...], count: int, failed: tuple[int, ...] = ()) -> None:
        self._inner = inner
        self._count = count
        self._failed = failed

    def __len__(self) -> int:
        return len(self._inner) * (self._count - len(self._failed))

    @overload
    def __getitem__(self, index: int) -> ChipId: ...
    @overload
    def __getitem__(self, index: slice) -> list[ChipId]: ...
    def __getitem__(self, index: int | slice) -> ChipId | list[ChipId]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        at = operator.index(index)
        at += len(self) if at < 0 else 0
        if not 0 <= at < len(self):
            message = f"chip {index} of {len(self)}"
            raise IndexError(message)
        system, chip = divmod(at, len(self._inner))
        for failed in self._failed:
            system += failed <= system
        return (system, *self._inner[chip])

    def __contains__(self, chip: object) -> bool:
        return (
            isinstance(chip, tuple)
            and len(chip) > 1
            and isinstance(chip[0], int)
            and 0 <= chip[0] < self._count
            and chip[0] not in self._failed
            and chip[1:] in self._inner
        )

    def __iter__(self) -> Iterator[ChipId]:
        failed = frozenset(self._failed)
        systems = (system for system in range(self._count) if system not in failed)
        return ((system, *chip) for system in systems for chip in self._inner)

    def __repr__(self) -> str:
        return f"<{len(self)} ids, {self[0]} to {self[-1]}>"
