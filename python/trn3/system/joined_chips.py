"""What a graph of chips answers by itself: ids, ways, rings, bounds, and when messages arrive."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from trn3._trn3 import system as _core
from trn3.facts.mappings import FrozenMapping
from trn3.system.fabric import Binding, Bisection, Bound, Cut, Graph
from trn3.system.links import (
    ChipId,
    ChipLike,
    Group,
    Leg,
    Link,
    Path as FabricPath,
    Route,
    node_name,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from trn3.flows import Message, Result as FlowResult
    from trn3.traffic import Traffic

Links: TypeAlias = Literal["docs", "headline"]
"""Which published rates links have."""


@dataclass(frozen=True, eq=False, repr=False)
class JoinedChips:
    """Chips and the fabric that joins them; see `System`, which knows what they are."""

    name: str
    links: Links
    lnc: int
    _fabric: _core.Fabric = field(repr=False)

    @property
    def title(self) -> str:
        """Name for readers."""
        return self._fabric.title

    @property
    def faults(self) -> tuple[str, ...]:
        """What has failed, in words."""
        return tuple(self._fabric.faults)

    @property
    def chip(self) -> str | None:
        """Name of the spec file of its chips."""
        return self._fabric.chip

    @cached_property
    def graph(self) -> Graph:
        """Chips, switches and links."""
        return Graph(self._fabric)

    @property
    def chips(self) -> tuple[ChipId, ...]:
        """Ids of the chips, in order."""
        return self.graph.chips

    @property
    def num_chips(self) -> int:
        """Number of chips."""
        return self._fabric.chips

    def __len__(self) -> int:
        return self.num_chips

    @property
    def id_parts(self) -> tuple[str, ...]:
        """What the numbers of an id count: ``("rack", "server", "chip")``."""
        return tuple(self._fabric.id_parts)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Figures of the fabric that nobody published."""
        return tuple(self._fabric.assumptions)

    @cached_property
    def numa(self) -> tuple[int | None, ...]:
        """The host memory node of each chip, in order; None where that is not published."""
        return tuple(self._fabric.numa())

    def index(self, chip: ChipLike) -> int:
        """Return the number of a chip.

        Raises
        ------
        ValueError
            If there is no such chip, or it has failed.
        """
        if isinstance(chip, str):
            try:
                chip = tuple(int(part) for part in chip.split("/"))
            except ValueError:
                message = (
                    f"chip {chip!r} cannot be read; needed: {'/'.join(self.id_parts)}, "
                    f"like {node_name(self.chips[-1])}"
                )
                raise ValueError(message) from None
        if isinstance(chip, tuple | list):
            parts = [operator.index(part) for part in chip]
            if all(0 <= part < 2**32 for part in parts):
                return self._fabric.index_of(parts)
        else:
            number = operator.index(chip)
            if 0 <= number < self.num_chips:
                return number
        ends = f"{self.chips[0]} to {self.chips[-1]}"
        message = f"{self.name} has no chip {chip!r}; allowed: ids from {ends}"
        raise ValueError(message)

    def group(self, chips: Group) -> tuple[ChipId, ...]:
        """Return the ids of some chips, in order.

        Parameters
        ----------
        chips
            A pattern, which has for each part of the id a number, a range ``0-3`` or ``*``, with
            parts left out at the end meaning ``*``, and several patterns with commas between them;
            or chips one by one.

        Examples
        --------
        >>> from trn3 import systems
        >>> systems.trn3_gen2().group("1/17")
        ((1, 17, 0), (1, 17, 1), (1, 17, 2), (1, 17, 3))
        """
        return tuple(self.chips[index] for index in self._indices(chips))

    def _indices(self, chips: Group) -> list[int]:
        if isinstance(chips, str):
            return self._fabric.select(chips)
        return [self.index(chip) for chip in chips]

    def _links(self, indices: Iterable[int]) -> tuple[Link, ...]:
        links = self.graph.links
        return tuple(links[index] for index in indices)

    def route(self, source: ChipLike, target: ChipLike) -> Route:
        """Return the way that a transfer takes: least latency, then fewest links.

        Of equal ways it is the one that takes levels, and on a torus axes, in the order of the spec
        file. On Gen2 a transfer to another position of the other rack first moves within its rack.

        Raises
        ------
        ValueError
            If there is no such chip.
        trn3.system.UnreachableError
            If faults cut the two off from one another.

        Examples
        --------
        >>> from trn3 import systems
        >>> route = systems.trn3_gen2().route((0, 3, 1), (1, 9, 2))
        >>> print(route)
        0/3/1 -> 1/9/2: 128 GB/s, 3.5 us
          0/3/1 -> 0/9/2 by rack through rack/0: 320 GB/s, 2 us
          0/9/2 -> 1/9/2 by cross-rack: 128 GB/s, 1.5 us
        >>> route.relays
        ((0, 9, 2),)
        """
        first, last = self.index(source), self.index(target)
        legs, _, rate, latency, relays = self._fabric.route(first, last)
        chips = self.chips
        steps = tuple(
            Leg(chips[a], chips[b], level, switch, leg_rate, leg_latency, self._links(links))
            for a, b, level, switch, leg_rate, leg_latency, links in legs
        )
        ids = tuple(chips[relay] for relay in relays)
        return Route(chips[first], chips[last], steps, rate, latency, ids, self.assumptions)

    def paths(self, source: ChipLike, target: ChipLike) -> tuple[FabricPath, ...]:
        """Return all ways of least latency and fewest links, over which bytes are split evenly.

        Raises
        ------
        ValueError, trn3.system.UnreachableError
            As `route`; also where there are more than 100,000.
        """
        found = self._fabric.paths(self.index(source), self.index(target))
        return tuple(FabricPath(share, self._links(links)) for share, links in found)

    def hops(self, source: ChipLike, target: ChipLike) -> int:
        """Return the number of steps from chip to chip."""
        return len(self._fabric.route(self.index(source), self.index(target))[0])

    def rings(self) -> tuple[tuple[ChipId, ...], ...]:
        """Return rings through all chips of a torus that share no link.

        There are two on 4 x 4 and three on 4 x 4 x 4; each serves in both directions.

        Raises
        ------
        ValueError
            If the system is no whole torus.
        """
        return tuple(
            tuple(self.chips[chip] for chip in cycle) for cycle in self._fabric.hamiltonian_cycles()
        )

    def bisection(self, group: Group | None = None) -> Bisection:
        """Return what passes between halves of the system, or of a group, where it is narrowest.

        Halves are taken along each axis; of the group, only its own chips and switches help.

        Examples
        --------
        >>> from trn3 import systems
        >>> gen2 = systems.trn3_gen2()
        >>> print(gen2.bisection(group="0"))
        server 0-8 | server 9-17: 11.52 TB/s one way over 36 bundles of rack links
        """
        cuts = self._fabric.bisection(None if group is None else self._indices(group))
        return Bisection(tuple(self._cut(*cut) for cut in cuts))

    def _cut(self, name: str, rate: float, links: list[int]) -> Cut:
        return Cut(name, rate, self._links(links))

    def bound(
        self, traffic: str | Traffic | ArrayLike = "all_to_all", *, group: Group | None = None
    ) -> Bound:
        """Return how fast a traffic can be, and the links that bind.

        Parameters
        ----------
        traffic
            ``"all_to_all"``, something of `trn3.traffic`, or a matrix of bytes from chip to chip.
        group
            For ``"all_to_all"``: the chips that take part. All of them by default.

        Raises
        ------
        ValueError
            If the traffic names chips that the system lacks, has another shape, or moves nothing.
        trn3.system.UnreachableError
            If bytes go where no way leads.

        Examples
        --------
        >>> from trn3 import systems
        >>> bound = systems.trn3_gen2().bound("all_to_all")
        >>> round(bound.per_chip / 1e9, 1), bound.binding.level, bound.is_by_cut
        (254.2, 'cross-rack', True)
        """
        from trn3.traffic import as_traffic

        asked = as_traffic(traffic, self.chips, None if group is None else self.group(group))
        if asked.matrix is None:
            members = [self.index(chip) for chip in asked.chips]
            is_all = len(members) == self.num_chips and len(set(members)) == len(members)
            limits, loads = self._fabric.all_to_all(None if is_all else members)
            senders = len(members)
        else:
            matrix = asked.on(self)
            limits, loads = self._fabric.traffic(matrix)
            off_diagonal = matrix.copy()
            off_diagonal[range(len(matrix)), range(len(matrix))] = 0
            senders = int((off_diagonal.sum(axis=1) > 0).sum())
        return self._bound(asked, senders, limits, loads)

    def _bound(self, asked: Traffic, senders: int, limits: Any, loads: Any) -> Bound:
        per_chip, time, binding, levels, slowest, cut, by_cut, is_by_cut = limits
        pair = None if slowest is None else (self.chips[slowest[0]], self.chips[slowest[1]])
        if asked.matrix is None:
            time = None if asked.bytes_per_chip is None else asked.bytes_per_chip / per_chip
        loads.flags.writeable = False
        return Bound(
            traffic=f"{asked.name} on {self.name}",
            per_chip=per_chip,
            binding=Binding(self._links(binding)),
            levels=FrozenMapping(dict(levels)),
            senders=senders,
            slowest=pair,
            cut=self._cut(*cut),
            per_chip_by_cut=by_cut,
            is_by_cut=is_by_cut,
            time=time,
            loads=loads,
            assumptions=self.assumptions,
        )

    def simulate(self, messages: Iterable[Message | Mapping[str, Any]]) -> FlowResult:
        """Return when messages between chips arrive that share links.

        Each is spread evenly over all its ways of least latency; links are shared max-min fairly
        within strict classes of priority, as `trn3.flows` says. This is where overlapping
        collectives contend.

        Parameters
        ----------
        messages
            `trn3.flows.Message` objects, or mappings with their fields: source, target, bytes, and
            optionally priority, share, after, start, name.

        Returns
        -------
        trn3.flows.Result
            Spans in the order of the messages, ``bytes_by_link``, and the links that bind.

        Raises
        ------
        ValueError
            If a message names a chip or message that does not exist, a number is negative or not
            finite, or messages wait for each other.
        trn3.system.UnreachableError
            If no way leads from one of the chips to the other.

        Examples
        --------
        >>> from trn3 import systems
        >>> from trn3.flows import Message
        >>> result = systems.trn3_gen2().simulate([
        ...     Message((0, 0, 0), (0, 0, 1), 256e6),
        ...     Message((0, 0, 2), (0, 0, 1), 256e6, priority=1),
        ... ])
        >>> [round(span.end * 1e3, 4) for span in result.spans]
        [1.0015, 2.0015]
        >>> result.binding
        ('server/0/0 -> 0/0/1 (server)',)
        """
        from trn3.flows import simulate_messages

        return simulate_messages(self._fabric, self.index, messages, self.assumptions)
