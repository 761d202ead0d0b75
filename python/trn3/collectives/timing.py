"""Times of collectives without data, and of several that overlap."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

from trn3._trn3 import system as _core
from trn3.collectives.answers import CollectiveCost, CollectiveSpan, Overlapping
from trn3.collectives.arrays import Asked, described
from trn3.collectives.engine import (
    CollectiveEngine,
    CollectiveUnits,
    SystemLike,
    as_engine,
    as_system,
)
from trn3.collectives.groups import GroupLike, Ranks, parse


def _placed(
    where: CollectiveEngine,
    operation: str,
    algorithm: str,
    group: GroupLike,
    root: Any,
    pairs: Iterable[tuple[Any, Any]],
    count: int | None,
) -> tuple[Asked, Ranks]:
    ranks = parse(where, group, count)
    place = 0 if root is None else ranks.position("root", root)
    placed = tuple(
        (ranks.position("pairs", source), ranks.position("pairs", target))
        for source, target in pairs
    )
    if operation in {"permute", "collective_permute", "sendrecv"} and not placed:
        placed = tuple((i, (i + 1) % ranks.size) for i in range(ranks.size))
    return Asked(operation, algorithm, ranks.lists, ranks.ranks_per_chip, place, placed), ranks


MOST_RANKS = 4096
"""Ranks of a cluster that is timed as one graph; larger ones are timed by one of their systems."""


Launch: TypeAlias = Literal["program", "host"]
"""Who starts a collective: a program that runs, or the host, as nccom-test has it."""


def _from_host(launch: str) -> bool:
    if launch not in {"program", "host"}:
        message = f"launch is {launch!r}; allowed: program, host"
        raise ValueError(message)
    return launch == "host"


def _across(
    units: CollectiveUnits, operation: str, size: float, algorithm: str, launch: str
) -> CollectiveCost:
    if algorithm not in {"auto", "hierarchical"}:
        message = (
            f"algorithm is {algorithm!r} on {units.name}, whose {units.ranks} ranks are timed "
            "by what one system does; allowed: auto, hierarchical"
        )
        raise ValueError(message)
    asked, _ = _placed(units.engine, operation, "auto", None, None, (), None)
    if units.network is None:
        message = f"network of {units.name} is None; allowed: that of a trn3.Cluster"
        raise ValueError(message)
    facts = units.engine.core.across(asked, size, units.network, _from_host(launch))
    return CollectiveCost(**described(facts, units.ranks))


def time(
    operation: str,
    bytes: float,  # noqa: A002 -- the field's word
    system: SystemLike | None = None,
    group: GroupLike = None,
    algorithm: str = "auto",
    *,
    root: Any = None,
    pairs: Iterable[tuple[Any, Any]] = (),
    members: int | None = None,
    launch: Launch = "program",
) -> CollectiveCost:
    """Time a collective without data.

    Parameters
    ----------
    operation : str
        ``"all_reduce"``, ``"all_gather"``, ``"reduce_scatter"``, ``"all_to_all"``, ``"permute"`` (a
        ring, unless `pairs` says otherwise) or ``"broadcast"``, or a short name of nccom-test.
    bytes : float
        Its size, as in `CollectiveCost.bytes`.
    system, group, algorithm
        As in `all_reduce`.
    members : int, optional
        How many ranks take part, where `group` is None or has chips: their number for one rank a
        chip. All ranks by default.
    launch : {"program", "host"}
        Who starts it: a program that runs (as in kernels and plans), or the host, for a call of its
        own. ``trn3 nccom-test`` is launched by the host.

    Notes
    -----
    All ranks of a cluster of more than 4,096 are timed by what one of its systems does, however
    many there are: the network is crossed in recursive doubling **(choice)**, and
    `CollectiveCost.bytes_by_link` has the links of one system.

    Raises
    ------
    ValueError
        As `all_reduce`, and if the size is no number of bytes.

    Examples
    --------
    >>> from trn3 import collectives
    >>> [collectives.time("all_reduce", size, "trn2").algorithm for size in (1e6, 1e7, 1e8)]
    ['mesh', 'rdh', 'kangaring']
    """
    of = as_system(system)
    units = of.collective_units
    if units is not None and group is None:
        return _across(units, operation, float(bytes), algorithm, launch)
    return time_on(
        of.collective_engine,
        operation,
        bytes,
        group,
        algorithm,
        root=root,
        pairs=pairs,
        members=members,
        launch=launch,
    )


def time_on(
    where: CollectiveEngine,
    operation: str,
    size: float,
    group: GroupLike = None,
    algorithm: str = "auto",
    *,
    root: Any = None,
    pairs: Iterable[tuple[Any, Any]] = (),
    members: int | None = None,
    launch: Launch = "program",
) -> CollectiveCost:
    """Time a collective on an engine; everything else is as in `time`."""
    asked, ranks = _placed(where, operation, algorithm, group, root, pairs, members)
    facts = where.core.cost(asked, float(size), True, _from_host(launch))
    return CollectiveCost(**described(facts, ranks.size))


def estimate(
    operation: str,
    bytes: float,  # noqa: A002 -- the field's word
    system: SystemLike | None = None,
    group: GroupLike = None,
    algorithm: str = "auto",
) -> float:
    """Return the seconds that `time` would say, from closed forms alone: microseconds of work.

    The two differ where a step's transfers share links unevenly.

    Examples
    --------
    >>> from trn3 import collectives
    >>> round(collectives.estimate("all_reduce", 1e8, "trn2") * 1e6)
    464
    """
    where = as_engine(system)
    asked, _ = _placed(where, operation, algorithm, group, None, (), None)
    return where.core.estimate(asked, float(bytes))[1]


def candidates(
    operation: str,
    bytes: float,  # noqa: A002 -- the field's word
    system: SystemLike | None = None,
    group: GroupLike = None,
) -> dict[str, float]:
    """Return the seconds of every algorithm that ``"auto"`` chooses from, the fastest first.

    Examples
    --------
    >>> from trn3 import collectives
    >>> list(collectives.candidates("all_reduce", 1e8, "trn2"))[:2]
    ['kangaring', 'rdh']
    """
    where = as_engine(system)
    asked, _ = _placed(where, operation, "auto", group, None, (), None)
    found = where.core.candidates(asked, float(bytes))
    return {name: seconds for name, _, seconds in sorted(found, key=lambda one: one[2])}


def algorithms() -> tuple[str, ...]:
    """Return the names of all algorithms.

    >>> from trn3 import collectives
    >>> "kangaring" in collectives.algorithms()
    True
    """
    return tuple(_core.collective_names()[2])


def overlap(
    collectives: Iterable[Overlapping | Mapping[str, Any]], system: SystemLike | None = None
) -> tuple[CollectiveSpan, ...]:
    """Time collectives that run at the same time and share links, memories and DMA engines.

    Each is one stream through all that it uses, no faster than it is alone. Streams of the same
    class share by max-min fairness; a class gets what those above it leave, so that nothing is
    delayed by what has a lower class.

    Parameters
    ----------
    collectives
        What runs: `Overlapping`, or mappings with its fields.
    system
        Where.

    Raises
    ------
    ValueError
        As `all_reduce`; and if a priority is not 0 to 3, or a size or start is negative.

    Examples
    --------
    >>> from trn3.collectives import Overlapping, overlap
    >>> gather = Overlapping("all_gather", 64e6, priority=3)
    >>> reduce = Overlapping("all_reduce", 1e6)
    >>> [round(span.slowdown, 2) for span in overlap([gather, reduce], "trn2")]
    [1.05, 1.0]
    """
    where = as_engine(system)
    asked = [one if isinstance(one, Overlapping) else Overlapping(**one) for one in collectives]
    parts = []
    for one in asked:
        placed, _ = _placed(where, one.operation, one.algorithm, one.group, None, (), None)
        priority = one.priority
        if isinstance(priority, bool) or not 0 <= priority <= 3:
            message = f"priority is {priority!r}; allowed: 0 (served first) to 3"
            raise ValueError(message)
        parts.append((placed, float(one.bytes), int(priority), float(one.start)))
    spans = where.core.overlap(parts)
    return tuple(
        CollectiveSpan(one.operation, form, begin, end, alone)
        for one, (form, alone, begin, end) in zip(asked, spans, strict=True)
    )
