"""Where collectives run: what a system offers for it, and systems by name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeAlias

from trn3 import offers
from trn3._trn3 import system as _core


@dataclass(frozen=True, eq=False)
class CollectiveEngine:
    """A graph of chips that runs collectives; what it has counted stays with it.

    Attributes
    ----------
    core
        The compiled engine, which every door of the package asks.
    ranks_per_chip : int
        Ranks of a chip, which are neighbours in the numbering.
    """

    core: _core.Collectives
    ranks_per_chip: int

    @classmethod
    def of(cls, fabric: _core.Fabric, ranks_per_chip: int) -> CollectiveEngine:
        """Return an engine on a fabric."""
        return cls(_core.Collectives(fabric), ranks_per_chip)

    @cached_property
    def fabric(self) -> _core.Fabric:
        """The chips and what joins them."""
        return self.core.fabric

    @cached_property
    def chips(self) -> tuple[tuple[int, ...], ...]:
        """Ids of the chips, in order."""
        return tuple(self.fabric.chip_ids())


@dataclass(frozen=True, slots=True)
class CollectiveUnits:
    """Equal systems on a network, too many for one graph.

    Attributes
    ----------
    name : str
        What they are called together.
    count : int
        How many.
    engine : CollectiveEngine
        Of one of them.
    rate : float
        Bytes a second, one way, of one chip's share of the network.
    latency : float
        Seconds from chip to chip across it, for the first byte.
    network : optional
        The whole of it, as the compiled core has it; without it nothing is timed.
    """

    name: str
    count: int
    engine: CollectiveEngine
    rate: float
    latency: float
    network: _core.Cluster | None = None

    @property
    def ranks(self) -> int:
        """Ranks of all of them."""
        return self.count * self.engine.fabric.chips * self.engine.ranks_per_chip


class CollectiveSystem(Protocol):
    """What collectives ask of a system."""

    @property
    def collective_engine(self) -> CollectiveEngine:
        """All chips as one graph.

        Raises
        ------
        ValueError
            If there are too many for one.
        """

    @property
    def collective_units(self) -> CollectiveUnits | None:
        """What it is made of, where its ranks are too many to be timed one by one."""


SystemLike: TypeAlias = CollectiveSystem | str
"""A system of `trn3.systems`, or its name."""


def as_system(system: SystemLike | None) -> CollectiveSystem:
    """Return a system; a name is loaded.

    Raises
    ------
    ValueError
        If there is none, or none of that name.
    TypeError
        If it is something else.
    """
    if system is None:
        message = "system is missing; give a system of trn3.systems, or its name, like 'trn2'"
        raise ValueError(message)
    if isinstance(system, str):
        found: CollectiveSystem = offers.take("system by name")(system)
        return found
    # Asked of the type: a cluster's engine is a graph of thousands of chips.
    if not hasattr(type(system), "collective_engine"):
        message = f"system is {system!r}; needed: a system of trn3.systems, or its name"
        raise TypeError(message)
    return system


def as_engine(system: SystemLike | None) -> CollectiveEngine:
    """Return the engine of a system or of a name; errors are those of `as_system`."""
    return as_system(system).collective_engine
