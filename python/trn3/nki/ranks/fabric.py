"""What connects the ranks of a launch: a system, whose own collectives move and time their data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trn3 import systems
from trn3._trn3.machine import NeuronCore, RankFabric

if TYPE_CHECKING:
    from trn3.collectives import SystemLike

__all__ = ["connect", "connect_machine"]

#: Systems of the machines, by generation.
_SYSTEMS: Final = {2: "trn1", 3: "trn2", 4: "trn3"}


def connect(system: SystemLike, ranks: int, ranks_per_chip: int | None = None) -> RankFabric:
    """Return a system with the ranks of a launch on it.

    Parameters
    ----------
    system
        A system of `trn3.systems`, or its name.
    ranks : int
        How many there are.
    ranks_per_chip : int, optional
        How many of them a chip has, one after the other; by default all that it can.

    Raises
    ------
    ValueError
        If the system has no room for them.
    """
    found = systems.as_system(system)
    return RankFabric(
        found.collective_engine.core, found.name, found.ranks_per_chip, ranks, ranks_per_chip
    )


def connect_machine(core: NeuronCore, ranks: int, cores: int) -> RankFabric:
    """Return the system that a core's machine is part of, with ranks of so many cores on it.

    A description of one's own counts as the documented machine of its generation.

    Raises
    ------
    ValueError
        If it has no room for the ranks.
    """
    name, generation = core.arch
    found = name if name in _SYSTEMS.values() else _SYSTEMS[generation]
    return connect(systems.load(found, lnc=cores), ranks)
