"""How long transfers take that share links, DMA engines and memories: a flow-level simulation.

Transfers are streams of bytes. At any moment those in motion share resources by weighted max-min
fairness, within strict classes of priority: class 0 is served as if alone, class 1 gets what is
left, down to class 3. Rates change only when a transfer begins or ends to move.

Equal transfers end at bit-equal times, and nothing depends on the order in which they are listed.

A wider resource can delay a transfer: it lets others through, which then compete elsewhere. What
cannot delay any, for transfers that begin together and do not wait for each other: widening the one
resource that they all share, where each has at most resources of its own besides, and widening all
resources by the same factor. `bound`, the time that no schedule beats, never grows with bandwidth.

Examples
--------
Two transfers on a link of 100 bytes a second; the shorter one ends, then the longer is alone.

>>> from trn3 import flows
>>> result = flows.simulate({"link": 100.0}, [
...     flows.Transfer(100, ["link"]),
...     flows.Transfer(200, ["link"]),
... ])
>>> result.spans
(Span(start=0.0, end=2.0), Span(start=0.0, end=3.0))
>>> result.carried["link"], result.binding
(300.0, ('link',))

The first one at a higher priority is not delayed at all:

>>> flows.simulate({"link": 100.0}, [
...     flows.Transfer(100, ["link"], priority=0),
...     flows.Transfer(200, ["link"], priority=1),
... ]).spans
(Span(start=0.0, end=1.0), Span(start=0.0, end=3.0))
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from trn3._trn3 import system as _core
from trn3.facts.mappings import FrozenMapping
from trn3.text import nearest

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Message", "Result", "Span", "Transfer", "bound", "simulate"]

Floats: TypeAlias = "NDArray[np.float64]"
Numbers: TypeAlias = "NDArray[np.uint32]"

PRIORITIES = range(4)


@dataclass(frozen=True, slots=True)
class Transfer:
    """Bytes that move together through all of their resources at once.

    Attributes
    ----------
    bytes : float
        How many.
    uses : mapping of str to float, or iterable of str
        The resources it takes, and how many bytes of each for each byte of its own: 3 of a memory
        that it reads twice and writes once, 0.5 of each of two links it is spread over. Names alone
        mean 1 each. A transfer with none ends after its latency.
    latency : float
        Seconds from when it may begin to when its bytes move; they hold no resource.
    priority : int
        Class from 0, served first, to 3.
    share : float
        Its part of a resource beside others of its class, in proportion; for DMA queues their
        packet size.
    after : sequence of int or str
        Transfers that must have ended before it begins, by position in the list or by name.
    start : float
        Seconds before which it does not begin.
    name : str or None
        Its name, for `after` of others.
    """

    bytes: float
    uses: Mapping[str, float] | Iterable[str] = ()
    latency: float = 0.0
    priority: int = 0
    share: float = 1.0
    after: Sequence[int | str] = ()
    start: float = 0.0
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """Bytes from one chip of a system to another, for `System.simulate`.

    Attributes
    ----------
    source, target
        Chips, by id or number. A message to its own sender crosses no link and takes no time.
    bytes : float
        How many.
    priority, share, after, start, name
        As in `Transfer`.
    """

    source: Any
    target: Any
    bytes: float
    priority: int = 0
    share: float = 1.0
    after: Sequence[int | str] = ()
    start: float = 0.0
    name: str | None = None


class Span(NamedTuple):
    """When a transfer began, waiting and latency included, and when it ended, in seconds."""

    start: float
    end: float

    @property
    def time(self) -> float:
        """Seconds between the two."""
        return self.end - self.start


@dataclass(frozen=True)
class Result:
    """What came of some transfers; all times are in seconds.

    Attributes
    ----------
    starts, ends : ndarray of float64
        Begin and end of each transfer, in their order.
    finish : float
        When the last one ends.
    carried : mapping of str to float
        Bytes that each resource carried, weights included.
    busy : mapping of str to float
        Seconds in which each carried any.
    bottlenecks : tuple of str or None
        The resource that held each transfer back longest; None where there was nothing to move.
    binding : tuple of str
        Resources that bind the critical path: the bottlenecks along the longest chains to the
        finish, the one that binds for the longest time first.
    assumptions : tuple of str
        What was assumed that nobody published.
    """

    starts: Floats = field(repr=False)
    ends: Floats = field(repr=False)
    finish: float
    carried: Mapping[str, float] = field(repr=False)
    busy: Mapping[str, float] = field(repr=False)
    bottlenecks: tuple[str | None, ...] = field(repr=False)
    binding: tuple[str, ...]
    assumptions: tuple[str, ...] = field(default=(), repr=False)

    @property
    def time(self) -> float:
        """The same as `finish`."""
        return self.finish

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """Begin and end of each transfer."""
        return tuple(map(Span, self.starts.tolist(), self.ends.tolist()))

    @property
    def bytes_by_link(self) -> Mapping[str, float]:
        """Bytes on each resource that carried any."""
        return FrozenMapping({name: carried for name, carried in self.carried.items() if carried})


def simulate(
    resources: Mapping[str, float], transfers: Iterable[Transfer | Mapping[str, Any]]
) -> Result:
    """Simulate transfers that share resources.

    Parameters
    ----------
    resources
        Name and rate of each, in bytes a second; of a link, one way. A rate of 0 is a broken
        resource, which nothing may use.
    transfers
        `Transfer` objects, or mappings with their fields.

    Returns
    -------
    Result
        Spans, bytes carried, seconds busy, and what binds.

    Raises
    ------
    ValueError
        If a number is negative or not finite, a share is not positive, a priority is outside 0 to
        3, a name or position stands for nothing, a resource of rate 0 has traffic, or transfers
        wait for each other. The text names it.

    Examples
    --------
    A memory touched three times for each byte, and a second transfer that waits for the first:

    >>> from trn3 import flows
    >>> result = flows.simulate({"link": 10.0, "hbm": 12.0}, [
    ...     flows.Transfer(8, {"link": 1, "hbm": 3}, name="reduce"),
    ...     flows.Transfer(10, ["link"], latency=0.5, after=["reduce"]),
    ... ])
    >>> result.spans
    (Span(start=0.0, end=2.0), Span(start=2.0, end=3.5))
    >>> result.bottlenecks
    ('hbm', 'link')
    """
    names, rates, columns, uses = _arrays(resources, transfers)
    return _result(names, _core.flow_simulate(names, rates, columns, uses))


def bound(
    resources: Mapping[str, float], transfers: Iterable[Transfer | Mapping[str, Any]]
) -> tuple[float, tuple[str, ...]]:
    """Return seconds that no schedule of the transfers beats, and the resources that say so.

    Dependencies and latencies aside: the most bytes for a resource's rate.

    Raises
    ------
    ValueError
        As `simulate`, circles excepted.

    Examples
    --------
    >>> from trn3 import flows
    >>> flows.bound({"a": 100.0, "b": 50.0}, [
    ...     flows.Transfer(100, ["a", "b"]),
    ...     flows.Transfer(300, ["a"]),
    ... ])
    (4.0, ('a',))
    """
    names, rates, columns, uses = _arrays(resources, transfers)
    seconds, binding = _core.flow_bound(names, rates, columns, uses)
    return seconds, tuple(names[index] for index in binding)


def simulate_messages(
    fabric: _core.Fabric,
    index: Callable[[Any], int],
    messages: Iterable[Message | Mapping[str, Any]],
    assumptions: tuple[str, ...],
) -> Result:
    """Simulate messages over a fabric: what `System.simulate` does, with chips found by `index`."""
    listed = [_checked(Message, place, message) for place, message in enumerate(messages)]
    ends = [[index(message.source), index(message.target)] for message in listed]
    pairs = np.array(ends, np.uint32).reshape(-1, 2)
    names, results = _core.flow_messages(
        fabric,
        np.ascontiguousarray(pairs[:, 0]),
        np.ascontiguousarray(pairs[:, 1]),
        _columns(listed),
    )
    spread = "a message is spread evenly over all ways of least latency (choice)"
    return _result(names, results, (*assumptions, spread))


def _result(
    names: Sequence[str], results: tuple[Any, ...], assumptions: tuple[str, ...] = ()
) -> Result:
    starts, ends, finish, carried, busy, bottlenecks, binding = results
    for array in (starts, ends):
        array.flags.writeable = False
    return Result(
        starts=starts,
        ends=ends,
        finish=finish,
        carried=FrozenMapping(dict(zip(names, carried.tolist(), strict=True))),
        busy=FrozenMapping(dict(zip(names, busy.tolist(), strict=True))),
        bottlenecks=tuple(None if at < 0 else names[at] for at in bottlenecks.tolist()),
        binding=tuple(names[at] for at in binding),
        assumptions=assumptions,
    )


def _arrays(
    resources: Mapping[str, float], transfers: Iterable[Transfer | Mapping[str, Any]]
) -> tuple[list[str], Floats, Any, Any]:
    names = list(resources)
    place_of = {name: place for place, name in enumerate(names)}
    listed = [_checked(Transfer, place, transfer) for place, transfer in enumerate(transfers)]
    offsets, used, weights = [0], [], []
    for place, transfer in enumerate(listed):
        uses = transfer.uses
        if isinstance(uses, str):
            message = (
                f"transfer {place}: uses is {uses!r}; needed: a list of names, like [{uses!r}]"
            )
            raise ValueError(message)
        pairs = uses.items() if isinstance(uses, Mapping) else ((name, 1.0) for name in uses)
        for name, weight in pairs:
            if name not in place_of:
                message = (
                    f"transfer {place}: uses {name!r}, which there is not{_nearest(name, names)}"
                )
                raise ValueError(message)
            used.append(place_of[name])
            weights.append(weight)
        offsets.append(len(used))
    lists = (np.array(offsets, np.uint32), np.array(used, np.uint32))
    rates = np.array(list(resources.values()), np.float64)
    return names, rates, _columns(listed), (lists, np.array(weights, np.float64))


def _columns(listed: Sequence[Transfer | Message]) -> _Columns:
    place_of = {item.name: place for place, item in enumerate(listed) if item.name is not None}
    offsets = [0]
    after: list[int] = []
    for place, item in enumerate(listed):
        after.extend(_position(before, place, len(listed), place_of) for before in item.after)
        offsets.append(len(after))
        if item.priority not in PRIORITIES:
            allowed = "0 (highest) to 3 (lowest)"
            message = f"transfer {place}: priority is {item.priority!r}; allowed: {allowed}"
            raise ValueError(message)

    def column(key: str) -> Floats:
        return np.array([getattr(item, key) for item in listed], np.float64)

    return _Columns(
        column("bytes"),
        column("latency") if listed and isinstance(listed[0], Transfer) else np.zeros(len(listed)),
        column("share"),
        column("start"),
        np.array([item.priority for item in listed], np.uint8),
        (np.array(offsets, np.uint32), np.array(after, np.uint32)),
    )


class _Columns(NamedTuple):
    bytes: Floats
    latency: Floats
    share: Floats
    start: Floats
    priority: NDArray[np.uint8]
    after: tuple[Numbers, Numbers]


def _position(before: int | str, place: int, count: int, place_of: Mapping[str, int]) -> int:
    if isinstance(before, str):
        if before in place_of:
            return place_of[before]
        hint = _nearest(before, list(place_of))
    else:
        number = operator.index(before)
        if 0 <= number < count:
            return number
        hint = f"; allowed: 0 to {count - 1}"
    message = f"transfer {place}: comes after {before!r}, which there is not{hint}"
    raise ValueError(message)


def _checked(kind: type[Any], place: int, item: Any) -> Any:
    if isinstance(item, kind):
        return item
    if isinstance(item, Mapping):
        try:
            return kind(**item)
        except TypeError as error:
            allowed = ", ".join(kind.__dataclass_fields__)
            message = f"transfer {place}: {error}; its fields are {allowed}"
            raise ValueError(message) from None
    message = f"transfer {place} is a {type(item).__name__}; needed: {kind.__name__} or a mapping"
    raise TypeError(message)


def _nearest(name: object, known: list[str]) -> str:
    if not known:
        return "; there are none"
    return f"; the nearest is {nearest(name, known)!r}"
