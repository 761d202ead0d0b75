"""`System`: what every assembled system answers, whatever it is made of."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from trn3._trn3 import system as _core
from trn3.system.collectives import CollectiveMethods
from trn3.system.cores import checked_lnc, chip_facts, count_of
from trn3.system.fabric import (
    Binding,
    Bisection,
    Bound,
    ChipId,
    Cut,
    Graph,
    Leg,
    Link,
    NodeId,
    Path as FabricPath,
    Route,
    Slowdown,
    node_name,
)
from trn3.system.faults import Fault, check_health, fault_name
from trn3.system.mappings import FrozenMapping
from trn3.system.views import Views

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from trn3.flows import Message, Result as FlowResult
    from trn3.system.facts import Facts
    from trn3.system.spec import Spec
    from trn3.traffic import Traffic

Links: TypeAlias = Literal["docs", "headline"]
"""Which published rates links have."""

ChipLike: TypeAlias = int | str | ChipId
"""A chip by number, by id, or by its id as text: ``7``, ``(0, 3, 1)``, ``"0/3/1"``."""

Group: TypeAlias = str | Iterable[ChipLike]
"""Chips: a pattern like ``"0"`` (rack 0) or ``"*/0-3/*"``, or a list of them."""


@dataclass(frozen=True, eq=False, repr=False)
class System(CollectiveMethods, Views):
    """A number of chips and the fabric that joins them.

    Made by `trn3.systems`, by the class methods of `Instance` and `UltraServer`, or from a file by
    `System.load`. Nothing about it changes; `fail` returns another one.

    Attributes
    ----------
    name : str
        Name of the spec file.
    links : str
        ``"docs"``, the documented rate of each level, or ``"headline"``, those rates times one
        factor such that a chip's one-way total is half of the published headline.
    lnc : int
        Physical cores a logical core.
    """

    name: str
    links: Links
    lnc: int
    _fabric: _core.Fabric = field(repr=False)
    _file: tuple[str, str] | None = field(default=None, repr=False)
    _whole: System | None = field(default=None, repr=False)
    _failed: tuple[tuple[str, ...], ...] = field(default=(), repr=False)

    @classmethod
    def built_in(cls, name: str, *, links: Links = "docs", lnc: int | None = None) -> Self:
        """Return a system of a spec file that the package carries.

        Raises
        ------
        ValueError
            If there is none of that name, it has no fabric, or an option has no such value.
        """
        fabric = _core.Fabric.built_in(name, links)
        return cls(name, links, checked_lnc(fabric.chip or name, lnc), fabric)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        system: str | None = None,
        links: Links = "docs",
        lnc: int | None = None,
    ) -> Self:
        """Return the system that a spec file describes.

        Parameters
        ----------
        path
            A TOML file with a ``_fabric`` table; ``docs/reference/fabric.md`` says what stands
            in one.
        system
            Which of the file's systems, where several have a fabric.
        links, lnc
            As in `UltraServer.gen2`.

        Raises
        ------
        OSError
            If the file cannot be read.
        ValueError
            If it describes no fabric or a wrong one; the text names the key.
        """
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            message = f"{path} is not UTF-8 text: {error.reason} at byte {error.start}"
            raise ValueError(message) from error
        fabric = _core.Fabric.parse(path.name, text, system, links)
        file = (path.name, text)
        mode = checked_lnc(fabric.chip or fabric.name, lnc, file)
        return cls(fabric.name, links, mode, fabric, file)

    def spec(self) -> Spec:
        """Return its figures by the facts' own names, computed from its parts where they can be.

        Examples
        --------
        >>> from trn3 import systems
        >>> systems.trn3_gen2().spec()["hbm_bandwidth"].formula
        'chips * chip.hbm_bandwidth = 144 x 4.9 TB/s = 705.6 TB/s'
        """
        from trn3.system.spec import spec_of

        return spec_of(self.facts)

    @cached_property
    def facts(self) -> Facts:
        """What its spec file says."""
        from trn3.system import facts

        if self._file is None:
            return facts.load(self.name)
        file, text = self._file
        return facts.parse(text, file)[self.name]

    @property
    def spec_file(self) -> tuple[str, str] | None:
        """Name and text of the spec file that it was loaded from; None for one of the package."""
        return self._file

    @property
    def title(self) -> str:
        """Name for readers."""
        return self._fabric.title

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
    def cores_per_chip(self) -> int:
        """Physical cores of a chip."""
        return count_of(chip_facts(self.chip or self.name, self._file), "cores") or 1

    @property
    def ranks_per_chip(self) -> int:
        """Logical cores of a chip, each of which is a rank."""
        return self.cores_per_chip // self.lnc

    @property
    def ranks(self) -> int:
        """Logical cores of the system."""
        return self.num_chips * self.ranks_per_chip

    @property
    def logical_cores(self) -> int:
        """The same as `ranks`."""
        return self.ranks

    def chip_of(self, rank: int) -> ChipId:
        """Return the id of the chip that a rank runs on; ranks of a chip are neighbours.

        Raises
        ------
        ValueError
            If there is no such rank.
        """
        if not 0 <= operator.index(rank) < self.ranks:
            message = f"rank is {rank}; {self.name} has {self.ranks} ranks, 0 to {self.ranks - 1}"
            raise ValueError(message)
        return self.chips[rank // self.ranks_per_chip]

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

    def fail(
        self,
        *faults: Fault,
        chip: ChipLike | None = None,
        link: str | Link | tuple[NodeId, NodeId] | None = None,
        switch: str | None = None,
        health: str | None = None,
    ) -> Self:
        """Return the system without what failed; routes take other ways where there are any.

        Chips that fail are gone from the new system, the others keep their ids. What it lost is in
        `faults`, what it cost in `slowdown`, and who is out of reach in `cut_off`.

        Parameters
        ----------
        *faults
            Chips (ids), switches (names), links (a `Link`, or the two nodes it joins), or any of
            them as text: ``"0/3/1"``, ``"rack/0"``, ``"0/3/1-1/3/1"``. Behind a colon stands how
            many links of a bundle fail, where not all do: ``"rack/0:1"`` is one of the planes
            behind rack 0, ``"0/3/1-1/3/1:1"`` one of two links. Links fail in both directions.
        chip, link, switch
            The same, by name.
        health
            The driver's health class, checked against what fails: ``"hbm"``, ``"sram"``,
            ``"link_intraserver"``, ``"link_host"``, ``"link_interserver"``, ``"link_switch"``,
            ``"axi_fabric"``. A chip whose memory, interconnect or host link is at fault takes no
            part any more **(choice)**.

        Raises
        ------
        ValueError
            If something is not part of the system, or fewer than two chips would be left.

        Examples
        --------
        >>> from trn3 import systems
        >>> broken = systems.trn3_gen2().fail(link=((0, 3, 1), (1, 3, 1)))
        >>> [leg.level for leg in broken.route((0, 3, 1), (1, 3, 1)).legs]
        ['server', 'cross-rack', 'server']
        >>> round(broken.slowdown.factor, 2)
        1.02
        """
        named = [fault_name(self, fault) for fault in faults]
        if chip is not None:
            named.append(node_name(self.chips[self.index(chip)]))
        if link is not None:
            named.append(fault_name(self, link))
        if switch is not None:
            named.append(switch)
        if not named:
            message = "nothing was named to fail; give a chip, a switch or a link"
            raise ValueError(message)
        if health is not None:
            check_health(self, health, named)
        return replace(
            self,
            _fabric=self._fabric.fail(named),
            _whole=self._whole or self,
            _failed=(*self._failed, tuple(named)),
        )

    @property
    def faults(self) -> tuple[str, ...]:
        """What has failed, in words."""
        return tuple(self._fabric.faults)

    @property
    def cut_off(self) -> tuple[ChipId, ...]:
        """Chips that the largest part of the system does not reach."""
        return tuple(self.chips[chip] for part in self._fabric.cut_off() for chip in part)

    @property
    def slowdown(self) -> Slowdown:
        """What the faults cost uniform all-to-all traffic among the chips that are left.

        Raises
        ------
        trn3.system.UnreachableError
            If chips are cut off; it names them.
        ValueError
            If nothing has failed.
        """
        if self._whole is None:
            message = f"nothing of {self.name} has failed, so nothing is slower"
            raise ValueError(message)
        from trn3.traffic import Traffic

        before, after = self._whole._fabric.slowdown(self._fabric)
        asked = Traffic("all-to-all", self.chips)
        import numpy as np

        none = np.empty(0)
        return Slowdown(
            self._whole._bound(asked, len(self), before, none),
            self._bound(asked, len(self), after, none.copy()),
        )

    def _key(self) -> tuple[object, ...]:
        return (type(self), self.name, self.links, self.lnc, self._file, self.faults)

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, System) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[Any, ...]:
        # The core's graph is built again where it is needed; faults are names and apply again.
        if self._whole is not None:
            return (_with_faults, (self._whole, self._failed))
        return (_rebuilt, (type(self), self.name, self.links, self.lnc, self._file))

    def __repr__(self) -> str:
        faults = f", {len(self.faults)} faults" if self.faults else ""
        links = f"links={self.links!r}, lnc={self.lnc}"
        return f"<{type(self).__name__} {self.name}: {self.num_chips} chips, {links}{faults}>"


def _with_faults(whole: System, failed: tuple[tuple[str, ...], ...]) -> System:
    for named in failed:
        whole = whole.fail(*named)
    return whole


def _rebuilt(
    cls: type[System], name: str, links: Links, lnc: int, file: tuple[str, str] | None
) -> System:
    if file is None:
        return cls.built_in(name, links=links, lnc=lnc)
    return cls(name, links, lnc, _core.Fabric.parse(*file, name, links), file)
