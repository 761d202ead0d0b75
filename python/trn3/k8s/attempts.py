"""Attempts: the ways to read what is asked for, and one of them tried on one node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod

from trn3.k8s.claims import Ask, Claim, Constraint
from trn3.k8s.errors import AllocationError
from trn3.k8s.placement import NodeLayout
from trn3.k8s.search import Found, SearchRule, Want, search
from trn3.k8s.state import State
from trn3.k8s.values import Value, typed
from trn3.k8s.workloads import Unit

MAX_WAYS = 4_096
"""Choices among the alternatives of all requests that are tried."""


def ways(unit: Unit) -> list[tuple[tuple[Claim, Ask], ...]]:
    """Return the choices of alternatives of a unit's requests, the preferred first."""
    requests = [(claim, request) for claim in unit.claims for request in claim.requests]
    count = prod(len(request.alternatives) for _, request in requests)
    if count > MAX_WAYS:
        reason = (
            f"firstAvailable gives {count} ways to choose, and at most {MAX_WAYS} are tried: "
            "give fewer alternatives, or split the claim"
        )
        raise AllocationError(unit.claims[0].label, "", reason)
    return [
        tuple((claim, ask) for (claim, _), ask in zip(requests, asks, strict=True))
        for asks in product(*(request.alternatives for _, request in requests))
    ]


def try_node(
    state: State,
    node: str,
    way: Sequence[tuple[Claim, Ask]],
    *,
    free: int | None = None,
    opened: tuple[int, ...] = (),
    rules_of: Mapping[str, Sequence[Constraint]] | None = None,
) -> Found | None:
    """Search one node; `free` and `rules_of` pretend other free devices and constraints."""
    layout = state.layouts[node]
    free = state.free[node] if free is None else free
    wants = [Want(ask.count, state.candidates(ask, layout), ask.admin) for _, ask in way]
    rules = []
    for claim in dict.fromkeys(claim.label for claim, _ in way):
        constraints = next(each.constraints for each, _ in way if each.label == claim)
        for constraint in constraints if rules_of is None else rules_of.get(claim, ()):
            covered = tuple(
                index
                for index, (owner, ask) in enumerate(way)
                if owner.label == claim and constraint.covers(ask.name.partition("/")[0], ask.name)
            )
            rules.append(SearchRule(covered, _numbered(layout, constraint), constraint.distinct))
    # Nodes that look alike have the same answer.
    signature = (
        layout.neighbours,
        layout.footprint,
        layout.groups,
        layout.hop_key,
        free,
        tuple(wants),
        tuple(rules),
        opened,
    )
    if signature not in state.found:
        state.found[signature] = search(layout, free, wants, rules, opened)
    return state.found[signature]


def _numbered(layout: NodeLayout, constraint: Constraint) -> tuple[Value | None, ...]:
    numbers: dict[tuple[str, Value], int] = {}
    values: list[Value | None] = []
    for device in layout.devices:
        value = device.attributes.get(constraint.attribute)
        values.append(None if value is None else numbers.setdefault(typed(value), len(numbers)))
    return tuple(values)
