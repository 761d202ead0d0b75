"""What collectives return: costs, results, and spans of what overlaps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trn3.collectives.groups import GroupLike
from trn3.facts.mappings import FrozenMapping


def bus_factor(operation: str, ranks: int) -> float:
    """Return what the bus moves for each byte of an operation's size, as nccom-test counts it.

    >>> bus_factor("all_reduce", 64), bus_factor("all_gather", 64), bus_factor("permute", 64)
    (1.96875, 0.984375, 1.0)
    """
    if operation == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if operation in {"permute", "broadcast"}:
        return 1.0
    return (ranks - 1) / ranks


@dataclass(frozen=True, slots=True)
class CollectiveCost:
    """What a collective costs.

    Attributes
    ----------
    operation : str
        ``"all_reduce"``, ...
    bytes : float
        Its size: the buffer of one rank, of an all_gather the gathered one; of the operations of
        any lengths all that is sent or gathered.
    ranks : int
        Ranks of a group.
    time : float
        Seconds.
    steps : int
        Steps, each of which waits for the one before it.
    latency : float
        Seconds of the time that steps wait, whatever the size.
    bytes_by_link : mapping of str to float
        Bytes that each link carries; links that carry none are left out.
    algorithm, variant : str
        Which schedule: ``"mesh"``, and of a family which one: ``"single_step"`` or ``""``.
    binding : str
        What the time is spent on: the latency of steps, links of a level, memories, DMA engines.
    hbm_touches : float
        Accesses of memory for each chunk and two ranks: 4 for an all_gather by ring, 3 by
        kangaring.
    hbm_bytes, remote_bytes : float
        Bytes read from and written to memory, and bytes from chip to chip (each counted once).
    order : str
        The order of additions, in words.
    assumptions : tuple of str
        Numbers and rules that no vendor documents.
    time_low, time_high : float
        Between which seconds the time is expected.
    band : mapping
        What says so: ``class``, published ``rows`` of it, how many lie ``within`` the ``width``,
        and the ``basis`` of that.
    start : float
        Seconds of the time before the first step: the call's start in a program, and the host's
        where that launches it.
    """

    operation: str
    bytes: float
    ranks: int
    time: float
    steps: int
    latency: float
    bytes_by_link: Mapping[str, float] = field(repr=False)
    algorithm: str
    variant: str
    binding: str
    hbm_touches: float
    hbm_bytes: float
    remote_bytes: float
    order: str = field(repr=False)
    assumptions: tuple[str, ...] = field(repr=False)
    # What nobody computed has no bounds.
    time_low: float = field(default=math.nan, repr=False, compare=False, kw_only=True)
    time_high: float = field(default=math.nan, repr=False, compare=False, kw_only=True)
    band: Mapping[str, Any] = field(
        default_factory=FrozenMapping, repr=False, compare=False, kw_only=True
    )
    start: float = field(default=0.0, repr=False, kw_only=True)

    @property
    def algbw(self) -> float:
        """Size over time, in bytes a second."""
        return self.bytes / self.time if self.time > 0 else 0.0

    @property
    def busbw(self) -> float:
        """`algbw` times what the bus moves for each byte: 2 (r - 1) / r for an all_reduce."""
        return self.algbw * bus_factor(self.operation, self.ranks)


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveResult(CollectiveCost):
    """A collective that was executed: its cost, and what came out.

    Attributes
    ----------
    outputs : tuple of array
        The result of each rank, in the order of the arrays.
    """

    outputs: tuple[NDArray[Any], ...] = field(default=(), repr=False)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CollectiveResult):
            return NotImplemented
        pairs = zip(self.outputs, other.outputs, strict=False)
        return (
            len(self.outputs) == len(other.outputs)
            and CollectiveCost.__eq__(self, other)
            and all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs)
        )

    def __hash__(self) -> int:
        return CollectiveCost.__hash__(self)


@dataclass(frozen=True, slots=True)
class Overlapping:
    """A collective that runs beside others, for `overlap`.

    Attributes
    ----------
    operation : str
        ``"all_reduce"``, ...
    bytes : float
        Its size, as in `CollectiveCost`.
    group : group
        Ranks or chips; all ranks by default.
    algorithm : str
        Its algorithm.
    priority : int
        Class of its DMA transfers, from 0 (served first) to 3.
    start : float
        When it may begin, in seconds.
    """

    operation: str
    bytes: float
    group: GroupLike = None
    algorithm: str = "auto"
    priority: int = 0
    start: float = 0.0


@dataclass(frozen=True, slots=True)
class CollectiveSpan:
    """When a collective of an `overlap` runs.

    Attributes
    ----------
    operation, algorithm : str
        What it is.
    begin, end : float
        Seconds.
    alone : float
        Seconds that it would take alone.
    """

    operation: str
    algorithm: str
    begin: float
    end: float
    alone: float

    @property
    def slowdown(self) -> float:
        """How many times as long as alone it takes."""
        return (self.end - self.begin) / self.alone if self.alone > 0 else 1.0


#: Names of earlier releases, and the short ones of `trn3.collectives`.
Cost = CollectiveCost
Result = CollectiveResult
Span = CollectiveSpan
