"""`Cluster`: many equal systems on a network, known by what is distinct in them."""

from __future__ import annotations

import json
import operator
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trn3._trn3 import system as _core
from trn3.system.base import Group, System
from trn3.system.chip_ids import ChipIds
from trn3.system.collectives import ClusterCollectiveMethods
from trn3.system.exchanges import Exchange, ExchangeTime, Phase, Role, StepTime, as_exchange
from trn3.system.fabric import (
    Binding,
    Bisection,
    Bound,
    ChipId,
    Cut,
    Graph,
    Leg,
    Level,
    Link,
    Route,
)
from trn3.system.mappings import FrozenMapping

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from trn3.flows import Message, Result
    from trn3.system.spec import Spec
    from trn3.traffic import Traffic

# Graphs of more chips than this are refused: what they would answer, symmetry answers at once.
_MOST_IN_GRAPH = 4096

_MOST = 2**32


@dataclass(frozen=True)
class Cluster(ClusterCollectiveMethods):
    """`n` equal UltraServers or instances, every chip of which also hangs on a network.

    Nothing is kept for each chip: what holds for one of a kind holds for all, and a million chips
    cost what one UltraServer does. Ids are those of the UltraServer with its number in front.

    The network is a fat tree of three layers of network nodes, non-blocking unless
    `oversubscription` says otherwise. How many systems hang under a node is unpublished
    **(choice)** and matters only then.

    Parameters
    ----------
    ultraserver
        What there are `n` of.
    n
        How many.
    network
        The network: ``"efa"``.
    oversubscription
        How many times more can enter a network node of the bottom layer from below than leave it
        upwards; 1, non-blocking, by default.
    units_per_bottom_node, bottom_per_middle_node
        Widths of the tree; the spec file of the UltraCluster has the defaults.
    failed
        Numbers of systems that do not work; see `fail`.

    Raises
    ------
    ValueError
        If `n` is no positive number, the system has no such network, or an option is out of range.

    Examples
    --------
    >>> from trn3 import Cluster, systems
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
        if self.network != name:
            message = f"network is {self.network!r}; allowed for {self.ultraserver.name}: {name!r}"
            raise ValueError(message)
        object.__setattr__(self, "failed", tuple(sorted(self.failed)))
        _ = self._roles

    def __reduce__(self) -> tuple[Any, ...]:
        # What is kept of the core is made again.
        names = ("oversubscription", "units_per_bottom_node", "bottom_per_middle_node", "failed")
        options = {name: getattr(self, name) for name in names}
        return (partial(Cluster, **options), (self.ultraserver, self.n, self.network))

    def _core_of(self, count: int) -> _core.Fabric:
        of = self.ultraserver
        file, text = of._file or (of.name, None)
        return _core.Fabric.cluster(of.name, file, text, count, of.links)

    @cached_property
    def _pair(self) -> _core.Fabric:
        # Two of them already have every kind of link that many have.
        return self._core_of(2)

    @cached_property
    def _roles(self) -> _core.Cluster:
        of = self.ultraserver
        file, text = of._file or (of.name, None)
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

    def spec(self) -> Spec:
        """Return its figures by the facts' own names, computed from its chips.

        Examples
        --------
        >>> from trn3 import systems
        >>> systems.cluster(10).spec()["hbm_bandwidth"].formula
        'chips * chip.hbm_bandwidth = 1,440 x 4.9 TB/s = 7,056 TB/s'
        """
        from trn3.system import facts
        from trn3.system.spec import spec_of

        of = self.ultraserver
        described = (
            "[cluster]\n"
            f"_title = {json.dumps(f'{len(self)} x {of.title}')}\n"
            '_kind = "ultraserver"\n'
            f"_chip = {json.dumps(self.chip or of.name)}\n"
            "[cluster.chips]\n"
            f"default = {self.num_chips}\n"
            'unit = "count"\n'
            f"sources = [{{ value = {self.num_chips}, "
            f'source = "derived: {len(self)}*{of.num_chips}" }}]\n'
        )
        # A chip that the user's own file describes stands in that file.
        own = "" if of._file is None else of._file[1]
        return spec_of(facts.parse(f"{own}\n{described}", self.name)["cluster"])

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
        >>> Cluster(systems.trn3_gen2(), 600).network_nodes((0, 0, 0, 0), (599, 0, 0, 0))
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

    def bound(
        self, traffic: str | Traffic | ArrayLike = "all_to_all", *, group: Group | None = None
    ) -> Bound:
        """Return how fast a traffic can be, and what binds.

        Uniform all-to-all over all chips is answered by symmetry: of the links that bind, those of
        one chip or one UltraServer stand for all of their kind. Other traffic, and groups, need the
        graph of every chip, for clusters that are small enough; see `system`.

        Raises
        ------
        ValueError
            If the traffic is another and the cluster too large, or as `System.bound`.

        Examples
        --------
        >>> from trn3 import systems
        >>> bound = Cluster(systems.trn3_gen2(), 100).bound()
        >>> bound.binding.level, round(bound.per_chip / 1e9, 2)
        ('efa', 25.25)
        """
        names = ("all_to_all", "alltoall", "all-to-all", "uniform")
        if group is not None or not (isinstance(traffic, str) and traffic in names):
            return self.system().bound(traffic, group=group)
        inner = self.ultraserver.bound("all_to_all")
        chips, own = self.num_chips, self.ultraserver.num_chips
        if len(self) == 1:
            return inner
        # Of a chip's bytes, (own - 1) parts in (chips - 1) stay in its UltraServer.
        levels = {name: rate * (chips - 1) / (own - 1) for name, rate in inner.levels.items()}
        per_chip, _, limits = self._roles.all_to_all()
        of_network = {name: rate for name, rate in limits if name not in levels}
        is_narrow = self._roles.network[3] > 1
        if not is_narrow:
            of_network = {self.network: of_network[self.network]}
        by_network = min(of_network.values())
        levels = dict(sorted((levels | of_network).items(), key=lambda item: item[1]))
        other = next(chip for chip in self.chips[own : own + 1])
        ends = self.route(self.chips[0], other)
        binds = [name for name, rate in levels.items() if rate <= per_chip * (1 + 1e-9)]
        links = [link for link in inner.binding if link.level in binds]
        links += [link for link in ends.links if self.network in binds]
        links += [
            self._uplink(name) for name in binds if name in of_network and name != self.network
        ]
        cut = Cut(
            f"system {self.chips[0][0]} | the others", self.network_rate * own, ends.links[:1]
        )
        by_cut = min(by_network, inner.per_chip_by_cut * (chips - 1) / (own - 1))
        return Bound(
            traffic=f"all-to-all of {chips} chips on {self.name}",
            per_chip=per_chip,
            binding=Binding(links),
            levels=FrozenMapping(levels),
            senders=chips,
            slowest=(ends.source, ends.target),
            cut=cut if by_cut == by_network else inner.cut,
            per_chip_by_cut=by_cut,
            is_by_cut=per_chip >= by_cut * (1 - 1e-9),
            time=None,
            loads=np.empty(0),
            assumptions=self.assumptions,
        )

    def _uplink(self, name: str) -> Link:
        # The links above one network node stand for those above all of its layer.
        _, rate, _, oversubscription, per_bottom, bottoms = self._roles.network
        layer = name.split(maxsplit=1)[0]
        systems = per_bottom * (bottoms if layer == "middle" else 1)
        all_rate = rate * self.ultraserver.num_chips * min(systems, self.n) / oversubscription
        above = {"bottom": "middle 0", "middle": "top"}[layer]
        return Link(2 * self.num_chips, f"{layer} 0", above, name, all_rate, 0.0, 1)

    def bisection(self) -> Bisection:
        """Return what passes between halves of the UltraServers, one way; one has its own.

        Halves that network nodes do not cut: oversubscribed links above them carry their part.
        """
        if len(self) == 1:
            return self.ultraserver.bisection()
        low = len(self) // 2
        _, rate, _, oversubscription, per_bottom, _ = self._roles.network
        if len(self) > per_bottom:
            rate /= oversubscription
        rate *= self.ultraserver.num_chips * low
        end = self.route(self.chips[0], self.chips[self.ultraserver.num_chips])
        name = f"{low} systems | the other {len(self) - low}"
        return Bisection((Cut(name, rate, end.links[:1]),))

    def fail(self, *systems: int) -> Cluster:
        """Return the cluster without some of its systems; the others keep their numbers.

        Chips, links and switches fail in `system`, for clusters that are small enough.

        Raises
        ------
        ValueError
            If one is outside the cluster, or none would be left.
        trn3.system.UnreachableError
            If one has failed already.

        Examples
        --------
        >>> from trn3 import systems
        >>> whole = Cluster(systems.trn3_gen2(), 100)
        >>> whole.fail(3).num_chips, whole.fail(3).chips[3 * 144]
        (14256, (4, 0, 0, 0))
        """
        numbers = []
        for system in systems:
            if not hasattr(system, "__index__"):
                message = (
                    f"{system!r} is no number of a system; a cluster fails whole systems, 0 to "
                    f"{self.n - 1}: its system() fails chips, links and switches"
                )
                raise ValueError(message)
            numbers.append(operator.index(system))
            if not 0 <= numbers[-1] < self.n:
                message = f"system {system} is outside {self.name}; allowed: 0 to {self.n - 1}"
                raise ValueError(message)
        if not numbers:
            message = "nothing was named to fail; give the number of a system"
            raise ValueError(message)
        return replace(self, failed=(*self.failed, *numbers))

    def step(self, *exchanges: Exchange | Mapping[str, Any]) -> StepTime:
        """Return how long the exchanges of a training step take, one after the other.

        A group has `chips` neighbours in each of `units` UltraServers, and groups fill the
        cluster, so that all chips are busy at once. Collectives are hierarchical: reduce-scatter
        within, exchange between, all-gather within. Nothing is hidden behind compute.

        Parameters
        ----------
        *exchanges
            `Exchange` objects, or mappings with their fields.

        Raises
        ------
        ValueError
            If an exchange cannot be: unknown operation or algorithm, negative bytes, a group that
            does not divide an UltraServer or is larger than the cluster.

        Examples
        --------
        Gradients of a 70 B model in bfloat16, over a million chips:

        >>> from trn3 import systems
        >>> from trn3.system.cluster import Exchange
        >>> cluster = Cluster(systems.trn3_gen2(), 6944)
        >>> step = cluster.step(Exchange("all_reduce", 140e9))
        >>> [phase.name for phase in step.exchanges[0].phases]
        ['reduce_scatter inside', 'all_reduce between (tree)', 'all_gather inside']
        >>> round(step.time, 2), step.binding
        (1.18, 'cross-rack')
        """
        asked = [as_exchange(place, exchange) for place, exchange in enumerate(exchanges)]
        parts = [
            (of.operation, of.bytes, of.units, of.chips, of.count, of.algorithm) for of in asked
        ]
        seconds, times, binding, assumptions = self._roles.step(parts)
        done = tuple(
            ExchangeTime(
                replace(of, units=units, chips=chips),
                time,
                tuple(Phase(*phase) for phase in phases),
                binds,
            )
            for of, (time, units, chips, phases, binds) in zip(asked, times, strict=True)
        )
        return StepTime(seconds, done, binding, tuple(assumptions))

    def simulate(self, messages: Iterable[Message | Mapping[str, Any]]) -> Result:
        """Return when messages between chips arrive, as `System.simulate` does.

        Raises
        ------
        ValueError
            As there; also if there are more than 4,096 chips, or the network is oversubscribed,
            which the graph of single links does not show.
        """
        if self._roles.network[3] > 1:
            message = (
                f"oversubscription is {self.oversubscription}; messages are simulated on a "
                "non-blocking network only, `bound` and `step` answer for others"
            )
            raise ValueError(message)
        return self.system().simulate(messages)

    def system(self) -> System:
        """Return all chips as one system, whose graph answers everything that a system does.

        Raises
        ------
        ValueError
            If there are more than 4,096 chips.
        """
        if self.failed:
            message = (
                f"{self.name}: its graph is made of whole clusters; let the whole one's system() "
                "fail what does not work"
            )
            raise ValueError(message)
        if self.num_chips > _MOST_IN_GRAPH:
            most = _MOST_IN_GRAPH // self.ultraserver.num_chips
            message = (
                f"{self.name} has {self.num_chips} chips; a graph of each is made up to "
                f"{_MOST_IN_GRAPH}: {most} of {self.ultraserver.name}"
            )
            raise ValueError(message)
        of = self.ultraserver
        return _Joined(self.name, of.links, of.lnc, self._core_of(self.n), _of=self)

    def to_svg(self) -> str:
        """Return a drawing as the text of an SVG file: `System.to_svg` of `system`."""
        return self.system().to_svg()

    def plot(self, path: str | Path) -> Path:
        """Draw the cluster into a file: `System.plot` of `system`."""
        return self.system().plot(path)

    @property
    def graph(self) -> Graph:
        """Chips, switches and links, for up to 4,096 chips; see `system`."""
        return self.system().graph


@dataclass(frozen=True, eq=False, repr=False)
class _Joined(System):
    """A cluster as one graph."""

    _of: Cluster | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return super().__reduce__() if self._whole is not None else (Cluster.system, (self._of,))
