"""The ranks of one launch: logical cores with memories of their own, which meet in collectives."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trn3._trn3.machine import NeuronCore, NkiInstruction, RankFabric, RankRoom
from trn3.nki.ranks.gang import Gang

__all__ = ["World"]


class World:
    """Ranks that run one kernel side by side, taking turns on the host.

    Parameters
    ----------
    size : int
        How many.
    cores : int
        Cores of each.
    fabric : RankFabric, optional
        What connects them. By default the first collective takes that of the machine's own system.
    """

    __slots__ = ("_cores", "_fabric", "_gang", "_room", "size")

    def __init__(self, size: int, cores: int, fabric: RankFabric | None = None) -> None:
        self.size = size
        self._cores = cores
        self._fabric = fabric
        # Made when they are asked for: most launches are of one core, and meet nobody.
        self._room: RankRoom | None = None
        self._gang: Gang | None = None

    @property
    def room(self) -> RankRoom:
        """Where the ranks meet."""
        if self._room is None:
            self._room = RankRoom(self.size, self._cores)
        return self._room

    @property
    def gang(self) -> Gang:
        """The cores of all ranks, rank by rank."""
        if self._gang is None:
            self._gang = Gang(self.room.names())
        return self._gang

    def run(self, bodies: Sequence[Callable[[], Any]]) -> None:
        """Run one function a core.

        Raises
        ------
        DeadlockError
            If cores do not meet.
        Exception
            What the first of them to fail raised.
        """
        if len(bodies) == 1:
            bodies[0]()
        else:
            self.gang.run(bodies)

    def meet(
        self, core: NeuronCore, rank: int, operation: str, asked: Mapping[str, Any]
    ) -> NkiInstruction | None:
        """Bring a core to a collective, and return when all of its group have come.

        Raises
        ------
        NkiValidationError, ValueError, TypeError
            If the call breaks a rule.
        ValueError
            If another rank calls a different collective there.
        DeadlockError
            If one never comes.
        """
        strict = os.environ.get("TRN3_NKI_STRICT") == "1" and operation.endswith("_v")
        fabric = self._connected(core) if strict and self._cores > 1 else None
        arrival = self.room.arrive(core, rank, operation, asked, strict, fabric)
        if arrival.is_last:
            self.room.hold(arrival, self._connected(core))
        else:
            self.gang.wait(
                rank * self._cores + core.number,
                lambda: arrival.handle is not None,
                lambda: self.room.whereabouts(arrival),
            )
        return arrival.handle

    def _connected(self, core: NeuronCore) -> RankFabric:
        if self._fabric is None:
            from trn3.nki.ranks.fabric import connect_machine

            self._fabric = connect_machine(core, self.size, self._cores)
        return self._fabric
