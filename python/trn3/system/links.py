"""What joins chips, and ways over it: links, levels, routes and paths, as frozen values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from trn3 import text

ChipId: TypeAlias = tuple[int, ...]
"""A chip: ``(rack, server, chip)`` on Trn3, ``(row, column)`` in a Trn2 instance."""

NodeId: TypeAlias = ChipId | str
"""A chip's id, or a switch's name."""

ChipLike: TypeAlias = int | str | ChipId
"""A chip by number, by id, or by its id as text: ``7``, ``(0, 3, 1)``, ``"0/3/1"``."""

Group: TypeAlias = str | Iterable[ChipLike]
"""Chips: a pattern like ``"0"`` (rack 0) or ``"*/0-3/*"``, or a list of them."""


def node_name(node: NodeId) -> str:
    """Return a node as text.

    >>> node_name((0, 3, 1)), node_name("rack/0")
    ('0/3/1', 'rack/0')
    """
    return node if isinstance(node, str) else "/".join(map(str, node))


@dataclass(frozen=True, slots=True)
class Link:
    """A bundle of parallel links, one direction of it.

    Attributes
    ----------
    index : int
        Position in the fabric's list of links.
    source, target : tuple of int, or str
        A chip's id, or a switch's name.
    level : str
        Name of the level it belongs to.
    rate : float
        Bytes a second of the bundle, this direction.
    latency : float
        Seconds for the first byte; on the way through a switch, half of its level's.
    links : int
        How many physical links the bundle has.
    """

    index: int
    source: NodeId
    target: NodeId
    level: str
    rate: float
    latency: float
    links: int

    def __str__(self) -> str:
        ends = f"{node_name(self.source)} -> {node_name(self.target)}"
        return f"{ends} ({self.level}, {self.links} x {text.rate(self.rate / self.links)})"


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a fabric.

    Attributes
    ----------
    name : str
        Its name: ``"server"``, ``"rack"``, ``"cross-rack"``, ``"plane"``, ``"z"``, ...
    kind : str
        ``"switch"``, ``"ring"`` or ``"direct"``.
    links : int
        Physical links of a chip to the switch, or to each neighbour.
    rate : float
        Bytes a second, one way, to the switch or to each neighbour.
    latency : float
        Seconds from chip to chip, for the first byte.
    chip_rate : float
        Bytes a second, one way, of one chip on this level in all.
    """

    name: str
    kind: str
    links: int
    rate: float
    latency: float
    chip_rate: float


@dataclass(frozen=True, slots=True)
class Leg:
    """One step of a route, from chip to chip.

    Attributes
    ----------
    source, target : tuple of int
        Ids of the chips.
    level : str
        Name of the level it takes.
    switch : str or None
        The switch it goes through.
    rate : float
        Bytes a second, one way.
    latency : float
        Seconds for the first byte.
    links : tuple of Link
        Its links, in order.
    """

    source: ChipId
    target: ChipId
    level: str
    switch: str | None
    rate: float
    latency: float
    links: tuple[Link, ...] = field(repr=False)

    def __str__(self) -> str:
        through = f" through {self.switch}" if self.switch else ""
        return (
            f"{node_name(self.source)} -> {node_name(self.target)} by {self.level}{through}: "
            f"{text.rate(self.rate)}, {text.time(self.latency)}"
        )


@dataclass(frozen=True, slots=True)
class Route:
    """The way that a transfer takes.

    Attributes
    ----------
    source, target : tuple of int
        Ids of the chips.
    legs : tuple of Leg
        Steps from chip to chip; empty from a chip to itself.
    rate : float
        Bytes a second, one way: the least of the legs'; infinite from a chip to itself.
    latency : float
        Seconds for the first byte: the sum of the legs'.
    relays : tuple of tuple of int
        Ids of the chips on the way.
    assumptions : tuple of str
        Figures in it that nobody published.
    """

    source: ChipId
    target: ChipId
    legs: tuple[Leg, ...]
    rate: float
    latency: float
    relays: tuple[ChipId, ...]
    assumptions: tuple[str, ...] = field(default=(), repr=False)

    @property
    def hops(self) -> int:
        """Number of legs."""
        return len(self.legs)

    @property
    def links(self) -> tuple[Link, ...]:
        """All links, in order."""
        return tuple(link for leg in self.legs for link in leg.links)

    @property
    def switches(self) -> tuple[str, ...]:
        """The switches it goes through, in order."""
        return tuple(leg.switch for leg in self.legs if leg.switch)

    def time(self, num_bytes: float) -> float:
        """Seconds for a transfer that has the route to itself, forwarded while it is received."""
        return self.latency + num_bytes / self.rate

    def __str__(self) -> str:
        ends = f"{node_name(self.source)} -> {node_name(self.target)}"
        head = f"{ends}: {text.rate(self.rate)}, {text.time(self.latency)}"
        return "\n".join([head, *(f"  {leg}" for leg in self.legs)])


@dataclass(frozen=True, slots=True)
class Path:
    """One of several equal ways.

    Attributes
    ----------
    share : float
        Fraction of the bytes it carries.
    links : tuple of Link
        Its links, in order.
    """

    share: float
    links: tuple[Link, ...]
