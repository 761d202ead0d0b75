"""Equal systems on a network: their ids, ways between their chips, and what holds for all alike."""

from __future__ import annotations

import operator
from bisect import bisect_left
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from trn3._trn3 import system as _core
from trn3.system.base import System
from trn3.system.chip_ids import ChipIds
from trn3.system.exchanges import Role
from trn3.system.links import ChipId, Leg, Level, Link, Route

_MOST = 2**32
_OWN = "efa"
"""The network of Trainium, and by default of a system whose own has another name: that one."""


@dataclass(frozen=True)
class NetworkedUnits:
    """`n` equal systems, every chip of which also hangs on a network; see `Cluster`."""

    ultraserver: System
    n: int
    network: str = _OWN
    oversubscription: float | None = field(default=None, kw_only=True)
    units_per_bottom_node: int | None = field(default=None, kw_only=True)
    bottom_per_middle_node: int | None = field(default=None, kw_only=True)
    failed: tuple[int, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        given: object = self.ultraserver
        if not isinstance(given, System):
            message = (
                f"ultraserver is {self.ultraserver!r}; needed: a system, like UltraServer.gen2()"
            )
            raise TypeError(message)
        if self.ultraserver.faults:
            message = "ultraserver has faults; a cluster is of whole systems: let its system() fail"
            raise ValueError(message)
        n: object = self.n
        if isinstance(n, bool) or not hasattr(n, "__index__"):
            message = f"n is {n!r}; must be a whole number from 1 to {_MOST}"
            raise TypeError(message)
        object.__setattr__(self, "n", operator.index(self.n))
        if not 1 <= self.n <= _MOST:
            message = f"n is {self.n}; must be from 1 to {_MOST}"
            raise ValueError(message)
        name = self._pair.levels()[-1][0]
        if self.network == _OWN:
            object.__setattr__(self, "network", name)
        if self.network != name:
            message = f"network is {self.network!r}; allowed for {self.ultraserver.name}: {name!r}"
            raise ValueError(message)
        object.__setattr__(self, "failed", tuple(sorted(self.failed)))
        _ = self._roles

    def __reduce__(self) -> tuple[Any, ...]:
        # What is kept of the core is made again.
        names = ("oversubscription", "units_per_bottom_node", "bottom_per_middle_node", "failed")
        options = {name: getattr(self, name) for name in names}
        return (partial(type(self), **options), (self.ultraserver, self.n, self.network))

    def _core_of(self, count: int) -> _core.Fabric:
        of = self.ultraserver
        file, text = of.spec_file or (of.name, None)
        _, _, _, oversubscription, under, _ = self._roles.network
        narrowing = (oversubscription, under)
        return _core.Fabric.cluster(of.name, file, text, count, of.links, narrowing)

    @cached_property
    def _pair(self) -> _core.Fabric:
        # Two of them already have every kind of link that many have.
        return self._core_of(2)

    @cached_property
    def _roles(self) -> _core.Cluster:
        of = self.ultraserver
        file, text = of.spec_file or (of.name, None)
        widths = (self.units_per_bottom_node, self.bottom_per_middle_node)
        options = (None, None, self.oversubscription, *widths)
        cluster = _core.Cluster(of.name, file, text, self.n, of.links, options)
        for system in self.failed:
            cluster = cluster.fail(system)
        return cluster

    @property
    def name(self) -> str:
        """What it is of."""
        failed = f" without {len(self.failed)}" if self.failed else ""
        return f"{self.n} x {self.ultraserver.name}{failed}"

    @property
    def roles(self) -> tuple[Role, ...]:
        """Groups of systems that the network cannot tell apart; all that is kept of them."""
        return tuple(Role(*parts) for parts in self._roles.roles())

    @property
    def links(self) -> str:
        """Which published rates links have."""
        return self.ultraserver.links

    @property
    def lnc(self) -> int:
        """Physical cores a logical core."""
        return self.ultraserver.lnc

    @property
    def chip(self) -> str | None:
        """Name of the spec file of its chips."""
        return self.ultraserver.chip

    def __len__(self) -> int:
        return self.n - len(self.failed)

    def __getitem__(self, index: int) -> System:
        if not -len(self) <= operator.index(index) < len(self):
            message = f"system {index} of {len(self)}"
            raise IndexError(message)
        return self.ultraserver

    @cached_property
    def chips(self) -> ChipIds:
        """Ids of the chips, in order, made when they are asked for."""
        return ChipIds(self.ultraserver.chips, self.n, self.failed)

    @property
    def num_chips(self) -> int:
        """Number of chips that work."""
        return self._roles.chips

    @property
    def ranks_per_chip(self) -> int:
        """Logical cores of a chip, each of which is a rank."""
        return self.ultraserver.ranks_per_chip

    @property
    def ranks(self) -> int:
        """Logical cores of the cluster."""
        return len(self) * self.ultraserver.ranks

    @property
    def id_parts(self) -> tuple[str, ...]:
        """What the numbers of an id count."""
        return ("system", *self.ultraserver.id_parts)

    @property
    def levels(self) -> tuple[Level, ...]:
        """Levels of links, the network last."""
        return tuple(Level(*parts) for parts in self._pair.levels())

    @property
    def network_rate(self) -> float:
        """Bytes a second, one way, of one chip's share of the network."""
        return self.levels[-1].chip_rate

    @property
    def network_latency(self) -> float:
        """Seconds from chip to chip across the network, for the first byte."""
        return self.levels[-1].latency

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Figures that nobody published."""
        return tuple(self._roles.assumptions)

    def index(self, chip: int | str | ChipId) -> int:
        """Return the number of a chip among those that work.

        Raises
        ------
        ValueError
            If there is no such chip, or its system has failed.
        """
        system, inner = self._split(chip)
        if system in self.failed:
            message = f"chip {chip!r}: system {system} of {self.name} has failed"
            raise ValueError(message)
        place = system - bisect_left(self.failed, system)
        return place * self.ultraserver.num_chips + self.ultraserver.index(inner)

    def _split(self, chip: int | str | ChipId) -> tuple[int, ChipId | int]:
        if isinstance(chip, str):
            try:
                chip = tuple(int(part) for part in chip.split("/"))
            except ValueError:
                message = f"chip {chip!r} cannot be read; needed: {'/'.join(self.id_parts)}"
                raise ValueError(message) from None
        system: int
        inner: ChipId | int
        if isinstance(chip, tuple | list):
            system, inner = (chip[0], tuple(chip[1:])) if chip else (-1, ())
        else:
            number = operator.index(chip)
            if 0 <= number < self.num_chips:
                first, *rest = self.chips[number]
                return first, tuple(rest)
            system, inner = -1, ()
        if not 0 <= system < self.n:
            message = (
                f"{self.name} has no chip {chip!r}; allowed: {self.chips[0]} to {self.chips[-1]}"
            )
            raise ValueError(message)
        return system, inner

    def route(self, source: int | str | ChipId, target: int | str | ChipId) -> Route:
        """Return the way that a transfer takes: within an UltraServer its own, else the network.

        Raises
        ------
        ValueError
            If there is no such chip, or its system has failed.
        """
        of = self.ultraserver
        first, last = self.chips[self.index(source)], self.chips[self.index(target)]
        if first[0] == last[0]:
            inner = of.route(first[1:], last[1:])
            legs = tuple(self._placed(first[0], leg) for leg in inner.legs)
            relays = tuple((first[0], *relay) for relay in inner.relays)
            return Route(first, last, legs, inner.rate, inner.latency, relays, self.assumptions)
        rate, half = self.network_rate, self.network_latency / 2
        links = (
            Link(self.index(first), first, self.network, self.network, rate, half, 1),
            Link(
                self.num_chips + self.index(last), self.network, last, self.network, rate, half, 1
            ),
        )
        leg = Leg(first, last, self.network, self.network, rate, self.network_latency, links)
        return Route(first, last, (leg,), rate, self.network_latency, (), self.assumptions)

    def network_nodes(
        self, source: int | str | ChipId, target: int | str | ChipId
    ) -> tuple[str, ...]:
        """Return the network nodes between two chips, in order; none within an UltraServer.

        >>> from trn3 import systems
        >>> systems.cluster(600).network_nodes((0, 0, 0, 0), (599, 0, 0, 0))
        ('bottom 0', 'middle 0', 'top', 'middle 2', 'bottom 37')
        """
        of = self.ultraserver
        ends = [self.chips[self.index(chip)] for chip in (source, target)]
        first, last = ((system, of.index(tuple(inner))) for system, *inner in ends)
        return tuple(self._roles.route(first, last)[1])

    @staticmethod
    def _placed(system: int, leg: Leg) -> Leg:
        def node(of: ChipId | str) -> ChipId | str:
            return f"{of}@{system}" if isinstance(of, str) else (system, *of)

        links = tuple(
            Link(
                link.index,
                node(link.source),
                node(link.target),
                link.level,
                link.rate,
                link.latency,
                link.links,
            )
            for link in leg.links
        )
        switch = None if leg.switch is None else f"{leg.switch}@{system}"
        source, target = (system, *leg.source), (system, *leg.target)
        return Leg(source, target, leg.level, switch, leg.rate, leg.latency, links)

    def hops(self, source: int | str | ChipId, target: int | str | ChipId) -> int:
        """Return the number of steps from chip to chip."""
        return self.route(source, target).hops
