"""`Cluster`: many equal systems on a network, known by what is distinct in them."""

from __future__ import annotations

import json
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from trn3.collectives.engine import CollectiveEngine, CollectiveUnits
from trn3.collectives.timing import MOST_RANKS
from trn3.facts.mappings import FrozenMapping
from trn3.markup import fields, mimebundle
from trn3.system.base import System
from trn3.system.collectives import CollectiveMethods
from trn3.system.exchanges import Exchange, ExchangeTime, Phase, StepTime, as_exchange
from trn3.system.fabric import Binding, Bisection, Bound, Cut, Graph
from trn3.system.links import Group, Link
from trn3.system.networked_units import NetworkedUnits
from trn3.text import rate

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike
    from rich.table import Table

    from trn3.facts.spec import Spec
    from trn3.flows import Message, Result
    from trn3.traffic import Traffic

# Graphs of more chips than this are refused: what they would answer, symmetry answers at once.
_MOST_IN_GRAPH = 4096


@dataclass(frozen=True)
class Cluster(NetworkedUnits, CollectiveMethods):
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
        The network: ``"efa"``, which also stands for a system's own of another name.
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

    def spec(self) -> Spec:
        """Return its figures by the facts' own names, computed from its chips.

        Examples
        --------
        >>> from trn3 import systems
        >>> systems.cluster(10).spec()["hbm_bandwidth"].formula
        'chips * chip.hbm_bandwidth = 1,440 x 4.9 TB/s = 7,056 TB/s'
        """
        from trn3 import facts
        from trn3.facts.spec import spec_of

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
        own = "" if of.spec_file is None else of.spec_file[1]
        return spec_of(facts.parse(f"{own}\n{described}", self.name)["cluster"])

    @cached_property
    def collective_engine(self) -> CollectiveEngine:
        """What runs collectives of all its chips, for up to 4,096 of them; see `system`."""
        return self.system().collective_engine

    @property
    def collective_units(self) -> CollectiveUnits | None:
        """What times collectives of more than 4,096 ranks: one system, and the network."""
        if self.ranks <= MOST_RANKS:
            return None
        of, rate, latency = self.ultraserver, self.network_rate, self.network_latency
        return CollectiveUnits(
            self.name, len(self), of.collective_engine, rate, latency, self._roles
        )

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
        return JoinedCluster(self.name, of.links, of.lnc, self._core_of(self.n), _of=self)

    _repr_mimebundle_ = mimebundle

    def __rich__(self) -> Table:
        rows = {
            "systems": f"{len(self):,} x {self.ultraserver.name}",
            "chips": f"{self.num_chips:,}",
            "ranks": f"{self.ranks:,}",
            "network": f"{self.network}, {rate(self.network_rate)} a chip one way",
            "failed": f"{len(self.failed):,}",
        }
        return fields(f"Cluster {self.name}", rows)

    def to_svg(self) -> str:
        """Return a drawing as the text of an SVG file: `System.to_svg` of `system`."""
        return self.system().to_svg()

    @overload
    def plot(self, path: None = None) -> Figure: ...
    @overload
    def plot(self, path: str | Path) -> Path: ...
    def plot(self, path: str | Path | None = None) -> Path | Figure:
        """Draw the cluster, into a file or as a figure: `System.plot` of `system`."""
        return self.system().plot(path) if path is not None else self.system().plot()

    @property
    def graph(self) -> Graph:
        """Chips, switches and links, for up to 4,096 chips; see `system`."""
        return self.system().graph


@dataclass(frozen=True, eq=False, repr=False)
class JoinedCluster(System):
    """A cluster as one graph."""

    _of: Cluster | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return super().__reduce__() if self._whole is not None else (Cluster.system, (self._of,))
