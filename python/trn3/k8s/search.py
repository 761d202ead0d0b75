"""The search for devices on one node: complete, deterministic, best first.

For every way to fix the values of the match constraints, the requests are filled one after the
other, each with its sets of devices in the order of their score, and a set is given up when the
requests after it cannot be filled. The first full assignment of every way is kept, and the best of
them wins. With one request that is the best set there is; with several it is a good one
**(choice)**.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import comb

from trn3.k8s.placement import NodeLayout, Score, key
from trn3.k8s.values import Value, typed

SCORED_SETS = 13_000
"""Sets of a request that are all scored before any is tried; beyond, sets are grown from seeds."""

STEPS = 200_000
"""Sets that are tried on a node before the search gives up."""

WAYS = 4_096
"""Combinations of values of match constraints that are tried."""


class SearchLimitError(Exception):
    """The search tried as much as it may."""


@dataclass(frozen=True, slots=True)
class Want:
    """A request on a node.

    Attributes
    ----------
    count
        How many devices; None for all of `candidates`.
    candidates
        Positions of the devices that match.
    admin
        Whether devices that are taken will do.
    """

    count: int | None
    candidates: tuple[int, ...]
    admin: bool = False


@dataclass(frozen=True, slots=True)
class SearchRule:
    """A constraint on a node: which wants it covers, and each device's value of its attribute."""

    wants: tuple[int, ...]
    values: tuple[Value | None, ...]
    distinct: bool


@dataclass(frozen=True, slots=True)
class Found:
    """Positions of devices by want, and what they cost."""

    sets: tuple[tuple[int, ...], ...]
    score: Score


def search(
    layout: NodeLayout,
    free: int,
    wants: Sequence[Want],
    rules: Sequence[SearchRule],
    opened: tuple[int, ...] = (),
) -> Found | None:
    """Return the best assignment of devices to wants, or None if there is none.

    Parameters
    ----------
    layout
        The node.
    free
        Bits of its free devices.
    wants, rules
        What is asked for.
    opened
        Entry of the score that depends on the node alone.

    Raises
    ------
    SearchLimitError
        If there are too many ways.
    """
    usable = []
    for want in wants:
        if want.admin:
            positions = want.candidates
        else:
            positions = tuple(p for p in want.candidates if layout.footprint[p] & ~free == 0)
            if want.count is None and len(positions) < len(want.candidates):
                return None  # "all" means all: one that is taken fails the request
        if len(positions) < (want.count or 1):
            return None
        usable.append(positions)
    matches = [rule for rule in rules if not rule.distinct]
    distinct = [rule for rule in rules if rule.distinct]
    for rule in distinct:
        usable = [
            tuple(p for p in positions if rule.values[p] is not None)
            if number in rule.wants
            else positions
            for number, positions in enumerate(usable)
        ]
    choices = [
        sorted(
            {
                typed(value)
                for number in rule.wants
                for p in usable[number]
                if (value := rule.values[p]) is not None
            },
            key=lambda pair: (pair[0], str(pair[1])),
        )
        for rule in matches
    ]
    best: Found | None = None
    steps = [STEPS]
    for number, way in enumerate(product(*choices)):
        if number >= WAYS:
            raise SearchLimitError
        allowed = []
        for index, positions in enumerate(usable):
            covered = [
                (rule, value)
                for rule, value in zip(matches, way, strict=True)
                if index in rule.wants
            ]
            allowed.append(
                tuple(
                    p
                    for p in positions
                    if all(
                        (v := rule.values[p]) is not None and typed(v) == value
                        for rule, value in covered
                    )
                )
            )
        if any(
            len(kept) < (want.count or len(positions))
            for want, kept, positions in zip(wants, allowed, usable, strict=True)
        ):
            continue
        # The most constrained request first: fewest sets to choose from.
        order = sorted(
            range(len(wants)),
            key=lambda i: (comb(len(allowed[i]), wants[i].count or len(allowed[i])), i),
        )
        sets = _fill(layout, free, wants, allowed, distinct, order, {}, 0, steps)
        if sets is None:
            continue
        taken = [p for index, want in enumerate(wants) if not want.admin for p in sets[index]]
        found = Found(
            tuple(sets[index] for index in range(len(wants))), layout.score(taken, free, opened)
        )
        if best is None or (key(found.score), found.sets) < (key(best.score), best.sets):
            best = found
    return best


def _fill(
    layout: NodeLayout,
    free: int,
    wants: Sequence[Want],
    allowed: Sequence[tuple[int, ...]],
    distinct: Sequence[SearchRule],
    order: Sequence[int],
    done: dict[int, tuple[int, ...]],
    taken: int,
    steps: list[int],
) -> dict[int, tuple[int, ...]] | None:
    if len(done) == len(order):
        return done
    index = order[len(done)]
    want = wants[index]
    positions = [p for p in allowed[index] if want.admin or not layout.footprint[p] & taken]
    count = want.count if want.count is not None else len(allowed[index])
    rules = [rule for rule in distinct if index in rule.wants]
    for chosen in _sets(layout, free & ~taken, positions, count, rules):
        steps[0] -= 1
        if steps[0] < 0:
            raise SearchLimitError
        if not _disjoint(layout, chosen) or not _differ(rules, chosen, done):
            continue
        bits = taken
        if not want.admin:
            for p in chosen:
                bits |= layout.footprint[p]
        if not _can_fill(layout, wants, allowed, order[len(done) + 1 :], bits):
            continue
        result = _fill(
            layout, free, wants, allowed, distinct, order, {**done, index: chosen}, bits, steps
        )
        if result is not None:
            return result
    return None


def _disjoint(layout: NodeLayout, chosen: Sequence[int]) -> bool:
    bits = 0
    for p in chosen:
        if layout.footprint[p] & bits:
            return False
        bits |= layout.footprint[p]
    return True


def _differ(
    rules: Sequence[SearchRule], chosen: Sequence[int], done: dict[int, tuple[int, ...]]
) -> bool:
    for rule in rules:
        seen: set[tuple[str, Value]] = set()
        positions = [
            *chosen,
            *(p for index, each in done.items() if index in rule.wants for p in each),
        ]
        for p in positions:
            value = rule.values[p]
            if value is None or typed(value) in seen:
                return False
            seen.add(typed(value))
    return True


def _sets(
    layout: NodeLayout, free: int, positions: Sequence[int], count: int, rules: Sequence[SearchRule]
) -> Iterator[tuple[int, ...]]:
    """Yield all sets of `count` positions, the best first as far as they can all be scored."""
    if count > len(positions):
        return
    if rules:
        # Sets that a distinct constraint rules out are never built.
        yield from _distinct_sets(positions, count, rules)
    elif comb(len(positions), count) <= SCORED_SETS:
        yield from sorted(
            combinations(positions, count), key=lambda each: (key(layout.score(each, free)), each)
        )
    else:
        grown = sorted(
            {_grow(layout, positions, seed, count) for seed in positions},
            key=lambda each: (key(layout.score(each, free)), each),
        )
        yield from grown
        yield from combinations(positions, count)


def _distinct_sets(
    positions: Sequence[int], count: int, rules: Sequence[SearchRule]
) -> Iterator[tuple[int, ...]]:
    def extend(start: int, chosen: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(chosen) == count:
            yield chosen
            return
        for at in range(start, len(positions) - (count - len(chosen)) + 1):
            if _differ(rules, (*chosen, positions[at]), {}):
                yield from extend(at + 1, (*chosen, positions[at]))

    return extend(0, ())


def _grow(layout: NodeLayout, positions: Sequence[int], seed: int, count: int) -> tuple[int, ...]:
    chosen = [seed]
    rest = [p for p in positions if p != seed]
    while len(chosen) < count:
        nearest = min(rest, key=lambda p: (sum(layout.distance(p, each) for each in chosen), p))
        chosen.append(nearest)
        rest.remove(nearest)
    return tuple(sorted(chosen))


def _can_fill(
    layout: NodeLayout,
    wants: Sequence[Want],
    allowed: Sequence[tuple[int, ...]],
    rest: Iterable[int],
    taken: int,
) -> bool:
    """Whether a matching gives every remaining request its number of devices, constraints aside."""
    seats: list[int] = []
    for index in rest:
        if not wants[index].admin:
            count = wants[index].count
            seats += [index] * (count if count is not None else len(allowed[index]))
    holder: dict[int, int] = {}
    open_to = {
        index: [p for p in allowed[index] if not layout.footprint[p] & taken]
        for index in set(seats)
    }

    def seat(number: int, tried: set[int]) -> bool:
        for p in open_to[seats[number]]:
            if p not in tried:
                tried.add(p)
                if p not in holder or seat(holder[p], tried):
                    holder[p] = number
                    return True
        return False

    return all(seat(number, set()) for number in range(len(seats)))
