"""Max-min fair sharing in fractions, each allocation held to the definition before it is used.

An allocation is max-min fair if, and only if, no resource is overfull and every stream has a
bottleneck: a full resource on which no stream of its class has a higher rate per share. `rates`
builds one, `assert_fair` checks the definition and shares nothing with how it was built.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

Rates = dict[int, Fraction]


@dataclass(frozen=True)
class Stream:
    """A transfer, in exact numbers; `uses` maps resources to weights, none of them zero."""

    bytes: Fraction
    uses: Mapping[str, Fraction]
    latency: Fraction = Fraction(0)
    priority: int = 0
    share: Fraction = Fraction(1)
    after: tuple[int, ...] = ()
    start: Fraction = Fraction(0)


def rates(
    resources: Mapping[str, Fraction], streams: Sequence[Stream], moving: Sequence[int]
) -> Rates:
    """Return the rate of each stream in motion: class by class, the tightest resource first."""
    left = dict(resources)
    found: Rates = {}
    for priority in range(4):
        free = {i for i in moving if streams[i].priority == priority}
        while free:
            levels = {}
            for name, remaining in left.items():
                load = sum(streams[i].share * streams[i].uses.get(name, 0) for i in free)
                if load:
                    levels[name] = remaining / load
            tightest = min(levels, key=levels.__getitem__)
            for i in [i for i in free if tightest in streams[i].uses]:
                found[i] = levels[tightest] * streams[i].share
                free.remove(i)
                for name, weight in streams[i].uses.items():
                    left[name] -= found[i] * weight
    return found


def assert_fair(
    resources: Mapping[str, Fraction], streams: Sequence[Stream], found: Mapping[int, Fraction]
) -> None:
    """Check the definition of max-min fairness in strict classes."""
    for priority in range(4):
        upto = [i for i in found if streams[i].priority <= priority]
        load = {
            name: sum((found[i] * streams[i].uses.get(name, 0) for i in upto), Fraction(0))
            for name in resources
        }
        assert all(load[name] <= rate for name, rate in resources.items()), "overfull"
        own = [i for i in upto if streams[i].priority == priority]
        for i in own:
            level = found[i] / streams[i].share
            assert any(
                load[name] == resources[name]
                and all(
                    found[j] / streams[j].share <= level for j in own if name in streams[j].uses
                )
                for name in streams[i].uses
            ), f"stream {i} has no bottleneck"


def spans(
    resources: Mapping[str, Fraction], streams: Sequence[Stream]
) -> list[tuple[Fraction, Fraction]]:
    """Return begin and end of each stream; no circle may be among them."""
    now = Fraction(0)
    left = {i: stream.bytes for i, stream in enumerate(streams)}
    ends: Rates = {}
    begins: Rates = {}
    while len(ends) < len(streams):
        for i, stream in enumerate(streams):
            if i not in begins and all(before in ends for before in stream.after):
                begins[i] = max([stream.start, *(ends[before] for before in stream.after)])
        moves_at = {i: begins[i] + streams[i].latency for i in begins if i not in ends}
        done = [
            i for i, at in moves_at.items() if at <= now and (left[i] == 0 or not streams[i].uses)
        ]
        if done:
            ends.update((i, now) for i in done)
            continue
        moving = [i for i, at in moves_at.items() if at <= now]
        speed = rates(resources, streams, moving)
        assert_fair(resources, streams, speed)
        steps = [at - now for at in moves_at.values() if at > now]
        steps += [left[i] / rate for i, rate in speed.items() if rate]
        step = min(steps)
        for i, rate in speed.items():
            left[i] -= rate * step
        now += step
    return [(begins[i], ends[i]) for i in range(len(streams))]
