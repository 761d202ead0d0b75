"""`Cluster`: many equal systems on a network, known by what is distinct in them."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, overload

import numpy as np

from trn3._trn3 import system as _core
from trn3.system.base import System
from trn3.system.fabric import (
    Binding,
    Bisection,
    Bound,
    ChipId,
    Cut,
    Leg,
    Level,
    Link,
    Route,
)

# Graphs of more chips than this are refused: what they would answer, symmetry answers at once.
_MOST_IN_GRAPH = 4096

_MOST = 2**32


class ChipIds(Sequence[ChipId]):
    """The ids of a cluster's chips, made when they are asked for."""

    def __init__(self, inner: tuple[ChipId, ...], count: int) -> None:
        self._inner = inner
        self._count = count

    def __len__(self) -> int:
        return len(self._inner) * self._count

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
        return (system, *self._inner[chip])

    def __contains__(self, chip: object) -> bool:
        return (
            isinstance(chip, tuple)
            and len(chip) > 1
            and isinstance(chip[0], int)
            and 0 <= chip[0] < self._count
            and chip[1:] in self._inner
        )

    def __iter__(self) -> Iterator[ChipId]:
        return ((system, *chip) for system in range(self._count) for chip in self._inner)

    def __repr__(self) -> str:
        return f"<{len(self)} ids, {self[0]} to {self[-1]}>"


@dataclass(frozen=True)
class Cluster:
    """`n` equal UltraServers or instances, every chip of which also hangs on a network.

    Nothing is kept for each chip: the network is non-blocking and looks the same from every chip
    **(choice)**, so that what holds for one of a kind holds for all, and a million chips cost what
    one UltraServer does. Ids are those of the UltraServer with its number in front.

    Parameters
    ----------
    ultraserver
        What there are `n` of.
    n
        How many.
    network
        The network: ``"efa"``.

    Raises
    ------
    ValueError
        If `n` is no positive number, or the system has no such network.

    Examples
    --------
    >>> from trn3 import systems
    >>> cluster = Cluster(systems.trn3_gen2(), 6945)
    >>> len(cluster), cluster.num_chips, cluster.ranks
    (6945, 1000080, 4000320)
    >>> cluster.chips[-1]
    (6944, 1, 17, 3)
    >>> print(cluster.route((0, 0, 0, 0), (6944, 1, 17, 3)))
    0/0/0/0 -> 6944/1/17/3: 25 GB/s, 15 us
      0/0/0/0 -> 6944/1/17/3 by efa through efa: 25 GB/s, 15 us
    """

    ultraserver: System
    n: int
    network: str = "efa"

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
        if isinstance(self.n, bool) or not 1 <= operator.index(self.n) <= _MOST:
            message = f"n is {self.n}; must be from 1 to {_MOST}"
            raise ValueError(message)
        name = self._pair.levels()[-1][0]
        if self.network != name:
            message = f"network is {self.network!r}; allowed for {self.ultraserver.name}: {name!r}"
            raise ValueError(message)

    def _core_of(self, count: int) -> _core.Fabric:
        of = self.ultraserver
        file, text = of._file or (of.name, None)
        return _core.Fabric.cluster(of.name, file, text, count, of.links)

    @cached_property
    def _pair(self) -> _core.Fabric:
        # Two of them already have every kind of link that many have.
        return self._core_of(2)

    @property
    def name(self) -> str:
        """What it is of."""
        return f"{self.n} x {self.ultraserver.name}"

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
        return self.n

    def __getitem__(self, index: int) -> System:
        if not -self.n <= operator.index(index) < self.n:
            message = f"system {index} of {self.n}"
            raise IndexError(message)
        return self.ultraserver

    @cached_property
    def chips(self) -> ChipIds:
        """Ids of the chips, in order, made when they are asked for."""
        return ChipIds(self.ultraserver.chips, self.n)

    @property
    def num_chips(self) -> int:
        """Number of chips."""
        return self.n * self.ultraserver.num_chips

    @property
    def ranks_per_chip(self) -> int:
        """Logical cores of a chip, each of which is a rank."""
        return self.ultraserver.ranks_per_chip

    @property
    def ranks(self) -> int:
        """Logical cores of the cluster."""
        return self.n * self.ultraserver.ranks

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
        plain = (
            f"{self.network} non-blocking, the same from every chip (choice: layers unpublished)"
        )
        return (*self._pair.assumptions, plain)

    def index(self, chip: int | str | ChipId) -> int:
        """Return the number of a chip.

        Raises
        ------
        ValueError
            If there is no such chip.
        """
        system, inner = self._split(chip)
        return system * self.ultraserver.num_chips + self.ultraserver.index(inner)

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
            system, inner = divmod(operator.index(chip), self.ultraserver.num_chips)
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
            If there is no such chip.
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

    def bound(self, traffic: str = "all_to_all") -> Bound:
        """Return how fast uniform all-to-all over all chips can be, and what binds.

        Of the links that bind, those of one chip or one UltraServer stand for all of their kind.
        Other traffic, and groups, are answered by `system` for clusters that are small enough.

        Raises
        ------
        ValueError
            If the traffic is another.

        Examples
        --------
        >>> from trn3 import systems
        >>> bound = Cluster(systems.trn3_gen2(), 100).bound()
        >>> bound.binding.level, round(bound.per_chip / 1e9, 2)
        ('efa', 25.25)
        """
        if traffic not in {"all_to_all", "alltoall", "all-to-all", "uniform"}:
            message = (
                f"traffic is {traffic!r}; a cluster's symmetry answers 'all_to_all' alone; ask its "
                f"system(), of up to {_MOST_IN_GRAPH} chips, for others"
            )
            raise ValueError(message)
        inner = self.ultraserver.bound("all_to_all")
        chips, own = self.num_chips, self.ultraserver.num_chips
        if self.n == 1:
            return inner
        # Of a chip's bytes, (own - 1) parts in (chips - 1) stay in its UltraServer.
        levels = {name: rate * (chips - 1) / (own - 1) for name, rate in inner.levels.items()}
        by_network = self.network_rate * (chips - 1) / (chips - own)
        levels[self.network] = by_network
        levels = dict(sorted(levels.items(), key=lambda item: item[1]))
        per_chip = min(levels.values())
        ends = self.route(self.chips[0], self.chips[own])
        binds = [name for name, rate in levels.items() if rate <= per_chip * (1 + 1e-9)]
        links = [link for link in inner.binding if link.level in binds]
        links += [link for link in ends.links if self.network in binds]
        cut = Cut(
            f"system {self.chips[0][0]} | the others", self.network_rate * own, ends.links[:1]
        )
        by_cut = min(by_network, inner.per_chip_by_cut * (chips - 1) / (own - 1))
        return Bound(
            traffic=f"all-to-all of {chips} chips on {self.name}",
            per_chip=per_chip,
            binding=Binding(links),
            levels=MappingProxyType(levels),
            senders=chips,
            slowest=(ends.source, ends.target),
            cut=cut if by_cut == by_network else inner.cut,
            per_chip_by_cut=by_cut,
            is_by_cut=per_chip >= by_cut * (1 - 1e-9),
            time=None,
            loads=np.empty(0),
            assumptions=self.assumptions,
        )

    def bisection(self) -> Bisection:
        """Return what passes between halves of the UltraServers, one way; one has its own."""
        if self.n == 1:
            return self.ultraserver.bisection()
        low = self.n // 2
        rate = self.network_rate * self.ultraserver.num_chips * low
        end = self.route(self.chips[0], self.chips[self.ultraserver.num_chips])
        name = f"systems 0 to {low - 1} | systems {low} to {self.n - 1}"
        return Bisection((Cut(name, rate, end.links[:1]),))

    def system(self) -> System:
        """Return all chips as one system, whose graph answers everything that a system does.

        Raises
        ------
        ValueError
            If there are more than 4,096 chips.
        """
        if self.num_chips > _MOST_IN_GRAPH:
            most = _MOST_IN_GRAPH // self.ultraserver.num_chips
            message = (
                f"{self.name} has {self.num_chips} chips; a graph of each is made up to "
                f"{_MOST_IN_GRAPH}: {most} of {self.ultraserver.name}"
            )
            raise ValueError(message)
        of = self.ultraserver
        return _Joined(self.name, of.links, of.lnc, self._core_of(self.n), _of=self)

    @property
    def graph(self) -> Any:
        """Chips, switches and links, for up to 4,096 chips; see `system`."""
        return self.system().graph


@dataclass(frozen=True, eq=False, repr=False)
class _Joined(System):
    """A cluster as one graph."""

    _of: Cluster | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return (Cluster.system, (self._of,))
