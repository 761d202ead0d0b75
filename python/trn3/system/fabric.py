"""What a fabric answers: its graph, and bounds, cuts and slowdowns, as frozen values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, overload

from trn3 import text
from trn3.markup import fields, mimebundle
from trn3.pictures import finished
from trn3.system.links import ChipId, Leg, Level, Link, NodeId, Path, Route, node_name

if TYPE_CHECKING:
    import os
    import pathlib

    import networkx as nx
    import numpy as np
    from matplotlib.figure import Figure
    from numpy.typing import NDArray
    from rich.table import Table

    from trn3._trn3.system import Fabric

__all__ = [
    "Binding",
    "Bisection",
    "Bound",
    "ChipId",
    "Cut",
    "Graph",
    "Leg",
    "Level",
    "Link",
    "NodeId",
    "Path",
    "Route",
    "Slowdown",
    "node_name",
]


@dataclass(frozen=True, slots=True)
class Cut:
    """A partition of chips in two.

    Attributes
    ----------
    name : str
        The two sides, in words.
    rate : float
        Bytes a second that pass from one side to the other, one way.
    links : tuple of Link
        The links that carry them.
    """

    name: str
    rate: float
    links: tuple[Link, ...] = field(repr=False)

    def __str__(self) -> str:
        return f"{self.name}: {text.rate(self.rate)} one way over {_bundles(self.links)}"


class Bisection(float):
    """Bytes a second, one way, between the halves of a fabric where it is narrowest.

    A number, with what it is made of.

    Attributes
    ----------
    cuts : tuple of Cut
        The halves along each axis, the narrowest first.

    Examples
    --------
    >>> from trn3 import systems
    >>> bisection = systems.trn3_gen2().bisection()
    >>> print(bisection)
    rack 0 | rack 1: 9.216 TB/s one way over 72 bundles of cross-rack links
    """

    cuts: tuple[Cut, ...]

    def __new__(cls, cuts: tuple[Cut, ...]) -> Self:
        """Return the narrowest of the cuts as a number."""
        self = super().__new__(cls, cuts[0].rate)
        self.cuts = cuts
        return self

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (self.cuts,)

    @property
    def rate(self) -> float:
        """Bytes a second, one way."""
        return float(self)

    @property
    def name(self) -> str:
        """The two halves, in words."""
        return self.cuts[0].name

    @property
    def links(self) -> tuple[Link, ...]:
        """The links between them, one direction."""
        return self.cuts[0].links

    def __str__(self) -> str:
        return str(self.cuts[0])


class Binding(tuple[Link, ...]):
    """The links that are full, in the order of the fabric.

    A tuple of links that knows its levels: ``"cross-rack" in bound.binding`` asks for a level.
    """

    __slots__ = ()

    @property
    def levels(self) -> tuple[str, ...]:
        """Names of their levels."""
        return tuple(dict.fromkeys(link.level for link in self))

    @property
    def level(self) -> str:
        """Names of their levels as one text."""
        return " and ".join(self.levels)

    def __contains__(self, item: object) -> bool:
        if isinstance(item, str):
            return any(item in level for level in self.levels)
        return super().__contains__(item)

    def __str__(self) -> str:
        return _bundles(self)


def _bundles(links: Iterable[Link]) -> str:
    links = tuple(links)
    levels = " and ".join(dict.fromkeys(link.level for link in links))
    return f"{len(links)} bundle{'s' if len(links) != 1 else ''} of {levels} links"


@dataclass(frozen=True, slots=True)
class Bound:
    """How fast a traffic can be, and why not faster.

    Every transfer is split evenly over all its ways of least latency; the fullest links bind.

    Attributes
    ----------
    traffic : str
        What moves.
    per_chip : float
        Bytes a second, one way, that a chip sends to others, on average over those that send.
    binding : Binding
        The links that are full.
    levels : mapping of str to float
        What `per_chip` would be if a level alone bound, for each level that carries anything.
    senders : int
        Number of chips that send.
    slowest : tuple of two ids, or None
        The pair of the longest latency among those whose bytes use a full link.
    cut : Cut
        The tightest of the natural cuts.
    per_chip_by_cut : float
        What no routing can exceed, by that cut.
    is_by_cut : bool
        Whether `per_chip` reaches it: then no routing does better. Otherwise another routing might.
    time : float or None
        Seconds for the bytes that were given, without latencies; None where only a pattern was.
    loads : ndarray of float64
        Bytes on each link: of the matrix, or of one byte sent by each chip.
    assumptions : tuple of str
        Figures in it that nobody published.
    """

    traffic: str
    per_chip: float
    binding: Binding = field(repr=False)
    levels: Mapping[str, float]
    senders: int
    slowest: tuple[ChipId, ChipId] | None
    cut: Cut
    per_chip_by_cut: float
    is_by_cut: bool
    time: float | None
    loads: NDArray[np.float64] = field(repr=False, compare=False)
    assumptions: tuple[str, ...] = field(default=(), repr=False)

    @property
    def total(self) -> float:
        """Bytes a second of all chips together, one way."""
        return self.per_chip * self.senders

    def time_for(self, bytes_per_chip: float) -> float:
        """Seconds if each chip sends so many bytes on average, without latencies."""
        return bytes_per_chip / self.per_chip

    _repr_mimebundle_ = mimebundle

    def __rich__(self) -> Table:
        others = [f"{name} alone {text.rate(value)}" for name, value in self.levels.items()]
        best = "" if self.is_by_cut else f" {text.rate(self.per_chip_by_cut)}"
        rows = {
            "a chip, one way": text.rate(self.per_chip),
            "all chips": text.rate(self.total),
            "binding": self.binding,
            "levels": ", ".join(others),
            "slowest pair": " -> ".join(map(node_name, self.slowest or ())) or "-",
            f"no routing does better{' than' * bool(best)}{best}": self.cut,
        }
        if self.time is not None:
            rows["time, latencies not counted"] = text.time(self.time)
        return fields(self.traffic, rows)

    @overload
    def plot(self, path: None = None) -> Figure: ...
    @overload
    def plot(self, path: str | os.PathLike[str]) -> pathlib.Path: ...
    def plot(self, path: str | os.PathLike[str] | None = None) -> pathlib.Path | Figure:
        """Draw what a chip could send if each level of links alone bound, and what it can.

        Parameters
        ----------
        path
            A ``.png``, ``.svg`` or ``.pdf`` file; without one a figure of matplotlib is returned.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If the file has another ending.
        OSError
            If it cannot be written.
        """
        from trn3.system.draw import draw_bound

        of = (self.traffic, self.per_chip, self.per_chip_by_cut)
        return finished(draw_bound(*of, self.levels), path)

    def __str__(self) -> str:
        rates = f"{text.rate(self.per_chip)} a chip one way, {text.rate(self.total)} in all"
        lines = [f"{self.traffic}: {rates}", f"  binding: {self.binding}"]
        others = [f"{name} alone {text.rate(value)}" for name, value in self.levels.items()]
        lines.append(f"  levels: {', '.join(others)}")
        if self.slowest:
            lines.append("  slowest pair: {} -> {}".format(*map(node_name, self.slowest)))
        verdict = (
            "no routing does better"
            if self.is_by_cut
            else f"no routing does better than {text.rate(self.per_chip_by_cut)}"
        )
        lines.append(f"  {verdict}: {self.cut}")
        if self.time is not None:
            lines.append(f"  time: {text.time(self.time)}, latencies not counted")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Slowdown:
    """What faults cost uniform all-to-all traffic among the chips that are left.

    Attributes
    ----------
    before, after : Bound
        The bound without and with the faults.
    """

    before: Bound
    after: Bound

    @property
    def factor(self) -> float:
        """How many times longer it takes."""
        return self.before.per_chip / self.after.per_chip

    def __float__(self) -> float:
        return self.factor

    def __str__(self) -> str:
        before, after = (text.rate(bound.per_chip) for bound in (self.before, self.after))
        return f"{self.factor:.3g} x slower: {before} a chip before, {after} after"


class Graph:
    """Chips, switches and the links between them.

    Chips come first and stand for themselves by their ids, switches by their names.
    """

    def __init__(self, core: Fabric) -> None:
        self._core = core

    @cached_property
    def chips(self) -> tuple[ChipId, ...]:
        """Ids of the chips, in order."""
        return tuple(self._core.chip_ids())

    @cached_property
    def switches(self) -> tuple[str, ...]:
        """Names of the switches."""
        return tuple(self._core.switches())

    @cached_property
    def nodes(self) -> tuple[NodeId, ...]:
        """Chips and switches."""
        return (*self.chips, *self.switches)

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """All links, each direction for itself."""
        nodes = self.nodes
        return tuple(
            Link(index, nodes[source], nodes[target], level, rate, latency, links)
            for index, (source, target, rate, latency, level, links) in enumerate(
                self._core.links()
            )
        )

    @property
    def edges(self) -> tuple[Link, ...]:
        """The same as `links`."""
        return self.links

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """Levels, the one that routes prefer first."""
        return tuple(Level(*parts) for parts in self._core.levels())

    @cached_property
    def axes(self) -> tuple[tuple[str, int], ...]:
        """Name and size of each axis of the chips' coordinates."""
        return tuple(self._core.axes())

    @cached_property
    def coordinates(self) -> tuple[tuple[int, ...], ...]:
        """Coordinates of the chips, in order, one for each axis."""
        return tuple(map(tuple, self._core.coordinates()))

    def links_from(self, node: NodeId) -> tuple[Link, ...]:
        """Return the links that leave a node."""
        self._check(node)
        return self._outgoing.get(node, ())

    def neighbors(self, node: NodeId) -> tuple[NodeId, ...]:
        """Return the nodes that a node has links to."""
        return tuple(link.target for link in self.links_from(node))

    def _check(self, node: NodeId) -> None:
        if node not in self._outgoing and node not in self.nodes:
            message = (
                f"node {node!r} is not in the graph; nodes are ids like {self.chips[0]}"
                f"{f' and switches like {self.switches[0]!r}' if self.switches else ''}"
            )
            raise ValueError(message)

    @cached_property
    def _outgoing(self) -> dict[NodeId, tuple[Link, ...]]:
        found: dict[NodeId, list[Link]] = {}
        for link in self.links:
            found.setdefault(link.source, []).append(link)
        return {node: tuple(links) for node, links in found.items()}

    def to_networkx(self) -> nx.DiGraph[NodeId]:
        """Return a networkx graph (the extra ``graph``).

        Nodes have the attribute ``kind`` (``"chip"`` or ``"switch"``); edges have ``rate`` (bytes a
        second), ``latency`` (seconds), ``level`` and ``links``.

        Raises
        ------
        ImportError
            If networkx is not installed.

        Examples
        --------
        >>> from trn3 import systems
        >>> graph = systems.trn2_instance().graph.to_networkx()
        >>> graph.number_of_nodes(), graph.edges[(0, 0), (0, 1)]["rate"]
        (16, 128000000000.0)
        """
        try:
            import networkx as nx
        except ImportError as error:
            message = "to_networkx needs networkx: pip install 'trn3[graph]'"
            raise ImportError(message) from error
        graph: nx.DiGraph[NodeId] = nx.DiGraph()
        graph.add_nodes_from(self.chips, kind="chip")
        graph.add_nodes_from(self.switches, kind="switch")
        graph.add_edges_from(
            (
                link.source,
                link.target,
                {
                    "rate": link.rate,
                    "latency": link.latency,
                    "level": link.level,
                    "links": link.links,
                },
            )
            for link in self.links
        )
        return graph

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[NodeId]:
        return iter(self.nodes)

    def __repr__(self) -> str:
        counts = f"{len(self.chips)} chips, {len(self.switches)} switches, {len(self.links)} links"
        return f"<Graph of {counts}>"
