"""Why a claim cannot be met, and the nearest thing that would work.

The checks of the allocator are taken one after the other, each over the whole inventory, and the
first that leaves nothing is what the error tells.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from trn3.k8s.attempts import try_node, ways
from trn3.k8s.claims import Ask, Claim, Constraint, Toleration
from trn3.k8s.configs import Settings
from trn3.k8s.errors import AllocationError, guess
from trn3.k8s.inventory import Device
from trn3.k8s.names import NODE
from trn3.k8s.search import SearchLimitError
from trn3.k8s.state import State, tolerated
from trn3.k8s.values import Value, typed
from trn3.k8s.workloads import Unit

SHOWN = 4


def refusal(
    state: State, unit: Unit, settings: Sequence[Settings], nodes: Sequence[str]
) -> AllocationError:
    """Return the error for a unit that found no place."""
    choices = ways(unit)
    reason = _why(state, unit, choices[0], settings, nodes)
    if len(choices) > 1:
        # The alternatives failed too; the preferred one is explained in full.
        others = len(choices) - 1
        text = (
            f"{reason.text} (and {others} other {'way' if others == 1 else 'ways'} to choose among "
            "firstAvailable)"
        )
        return AllocationError(reason.claim, reason.request, text)
    return AllocationError(reason.claim, reason.request, reason.text)


@dataclass(frozen=True, slots=True)
class _Reason:
    claim: str
    request: str
    text: str


def _why(
    state: State,
    unit: Unit,
    way: Sequence[tuple[Claim, Ask]],
    settings: Sequence[Settings],
    nodes: Sequence[str],
) -> _Reason:
    for claim, ask in way:
        text = _no_match(state, ask) or _tainted(state, ask) or _too_many(state, ask)
        if text:
            return _Reason(claim.label, ask.name, text)
    mode = max((each.mode or 0 for each in settings), default=0)
    if mode > 1 and not nodes:
        return _Reason(unit.claims[0].label, "", _no_set(state, mode))
    for claim, ask in way:
        text = _constrained(state, claim, ask) or _busy(state, claim, ask, nodes, mode)
        if text:
            return _Reason(claim.label, ask.name, text)
    return _together(state, unit, way, nodes)


def _matching(state: State, ask: Ask) -> list[Device]:
    return [device for device in state.inventory.devices if state.matches(ask, device)]


def _untainted(ask: Ask) -> Ask:
    return replace(ask, tolerations=(Toleration("", "Exists", "", "", {}),))


def _no_match(state: State, ask: Ask) -> str:
    if _matching(state, _untainted(ask)):
        return ""
    left = list(state.inventory.devices)
    chosen = state.classes[ask.class_name]
    for selector in chosen.selectors:
        left = [device for device in left if selector.accepts(device)]
    if not left:
        return (
            f"no device of the inventory belongs to DeviceClass {ask.class_name}; "
            f"its drivers are {', '.join(state.drivers)}: take one of their classes"
        )
    for selector in ask.selectors:
        passing = [device for device in left if selector.accepts(device)]
        if not passing:
            there = _present(selector.expression, left)
            return (
                f"none of {len(left)} devices of DeviceClass {ask.class_name} that are left passes "
                "the selector "
                f"{selector.expression!r}{there}"
            )
        left = passing
    for (place, identifier), amount in ask.capacity.items():
        found = [device.capacity.get((place or device.driver, identifier)) for device in left]
        amounts = [each for each in found if each is not None]
        if not amounts:
            known = sorted({name for device in left for _, name in device.capacity})
            return (
                f"no device has a capacity {identifier}; there are "
                f"{', '.join(known) or 'none'}{guess(identifier, known)}"
            )
        most = max(amounts, key=lambda each: each.number)
        if most.compare(amount) < 0:
            return f"{identifier} of {amount} is more than any device has; the most is {most}"
    return "no device has all the capacities at once"


def _present(expression: str, devices: Sequence[Device]) -> str:
    """Tell the values that the attributes of an expression do have."""
    words = dict.fromkeys(re.findall(r"[.\[]\s*['\"]?([A-Za-z_]\w*)", expression))
    parts = []
    for word in words:
        values: dict[str, None] = {}
        for device in devices:
            for (_, identifier), value in device.attributes.items():
                if identifier == word:
                    values.setdefault(str(value))
        if values:
            shown = ", ".join(list(values)[:SHOWN]) + (", ..." if len(values) > SHOWN else "")
            parts.append(f"{word} is {shown}")
    return f": here {'; '.join(parts)}" if parts else ""


def _tainted(state: State, ask: Ask) -> str:
    matching = _matching(state, _untainted(ask))
    if any(tolerated(ask, device) for device in matching):
        return ""
    taints = dict.fromkeys(
        f"{taint.key}{'=' if taint.value else ''}{taint.value}:{taint.effect}"
        for device in matching
        for taint in device.taints
    )
    return (
        f"all {len(matching)} devices that match have taints ({', '.join(list(taints)[:SHOWN])}); "
        "add tolerations to the request, or repair the devices"
    )


def _per_node(state: State, ask: Ask) -> dict[str, list[Device]]:
    found: dict[str, list[Device]] = {}
    for device in _matching(state, ask):
        found.setdefault(device.node, []).append(device)
    return found


def _too_many(state: State, ask: Ask) -> str:
    per_node = _per_node(state, ask)
    if ask.count is None:
        mixed = all(
            len({device.is_node for device in devices}) > 1 for devices in per_node.values()
        )
        if mixed and not ask.admin:
            return (
                f"All matches {NODE} devices and the devices that they stand for; select one kind "
                "with "
                "resourceType == 'neuron_device' or resourceType == 'neuron_node'"
            )
        return ""
    largest = max(_chips(devices) for devices in per_node.values())
    if ask.count <= largest:
        return ""
    claims = -(-ask.count // largest)
    return (
        f"asks for {ask.count} devices; a claim is for a pod, which runs on one node, and no node "
        "has more than "
        f"{largest} that match: ask for at most {largest}, in {claims} claims for {claims} pods"
    )


def _chips(devices: Sequence[Device]) -> int:
    parts = sum(not device.is_node for device in devices)
    return parts or len(devices)


def _no_set(state: State, mode: int) -> str:
    smaller = [
        size
        for size in (2, 1)
        if size < mode
        and any(
            all(state.whole(node) for node in slot)
            and not (size > 1 and any(set(slot) & set(other) for other in state.slots))
            for block in state.blocks
            for slot in block.slots(size)
        )
    ]
    sets = [slot for block in state.blocks for slot in block.slots(mode)]
    if not sets:
        most = max(len(block.nodes) for block in state.blocks)
        return (
            f"ultraserverMode {mode} needs {mode} nodes of one UltraServer; the largest of the "
            f"inventory has {most}" + (f": mode {smaller[0]} would work" if smaller else "")
        )
    best = max(sets, key=lambda slot: sum(state.whole(node) for node in slot))
    used = [node for node in best if not state.whole(node)]
    holders = sorted(
        {
            state.holders[device.key]
            for node in used
            for device in state.layouts[node].devices
            if device.key in state.holders
        }
    )
    free = len(best) - len(used)
    text = (
        f"ultraserverMode {mode} needs {mode} wholly free nodes of one aligned set; the best set "
        f"has {free}"
    )
    if used:
        text += f" ({', '.join(used)} used by {', '.join(holders)})"
    else:
        text += ", which is kept for another claim of an UltraServer mode"
    hints = [f"mode {size}" for size in smaller[:1]] + ([f"free {', '.join(used)}"] if used else [])
    return text + (f": {' or '.join(hints)} would work" if hints else "")


def _alone(claim: Claim, ask: Ask) -> tuple[tuple[Claim, Ask], ...]:
    return ((claim, ask),)


def _constraints(claim: Claim, ask: Ask) -> list[Constraint]:
    return [each for each in claim.constraints if each.covers(ask.name.partition("/")[0], ask.name)]


def _all_free(state: State, node: str) -> int:
    return (1 << len(state.layouts[node].devices)) - 1


def _largest(
    state: State,
    claim: Claim,
    ask: Ask,
    nodes: Sequence[str],
    *,
    empty: bool,
    rules: Mapping[str, Sequence[Constraint]] | None = None,
) -> tuple[int, str]:
    """Return the largest number of devices that a node gives to the request alone, and the node."""
    most, where = 0, ""
    top = (
        ask.count
        if ask.count is not None
        else max((len(each) for each in _per_node(state, ask).values()), default=0)
    )
    for node in nodes:
        for count in range(top, most, -1):
            try:
                way = _alone(claim, replace(ask, count=count))
                found = try_node(
                    state, node, way, free=_all_free(state, node) if empty else None, rules_of=rules
                )
            except SearchLimitError:
                continue
            if found is not None:
                most, where = count, node
                break
    return most, where


def _constrained(state: State, claim: Claim, ask: Ask) -> str:
    """Explain constraints that no node meets even when all of it is free."""
    if ask.count is None:
        return _constrained_all(state, claim, ask)
    most, _ = _largest(state, claim, ask, list(state.layouts), empty=True)
    if most >= ask.count:
        return ""
    for constraint in _constraints(claim, ask):
        domain, identifier = constraint.attribute
        matching = [device for device in _matching(state, ask) if not device.is_node] or _matching(
            state, ask
        )
        having = [device for device in matching if constraint.attribute in device.attributes]
        if not having:
            known = sorted(
                {f"{place}/{name}" for device in matching for place, name in device.attributes}
            )
            return (
                f"{constraint}: no device that matches has this "
                f"attribute{guess(f'{domain}/{identifier}', known)} "
                f"(there are {', '.join(known)})"
            )
        reach = _largest(
            state, claim, ask, list(state.layouts), empty=True, rules={claim.label: [constraint]}
        )[0]
        if reach < ask.count:
            what = "different values" if constraint.distinct else "devices in a group"
            text = (
                f"asks for {ask.count} devices with {constraint}, which has at most {reach} {what} "
                f"on a node: ask for {reach}"
            )
            return text + _wider(state, claim, ask, constraint)
    return (
        f"its constraints allow at most {most} devices on a node at once, and it asks for "
        f"{ask.count}: ask for {most}"
    )


def _wider(state: State, claim: Claim, ask: Ask, constraint: Constraint) -> str:
    """Name an attribute of the same family whose groups are large enough."""
    domain, identifier = constraint.attribute
    family = re.fullmatch(r"(devicegroup|topology)\d+_id", identifier)
    if constraint.distinct or not family:
        return ""
    names = {
        name
        for device in _matching(state, ask)
        for place, name in device.attributes
        if place == domain and re.fullmatch(rf"{family[1]}\d+_id", name)
    }
    for name in sorted(names, key=lambda each: int(re.sub(r"\D", "", each))):
        other = replace(constraint, attribute=(domain, name))
        if _largest(
            state, claim, ask, list(state.layouts), empty=True, rules={claim.label: [other]}
        )[0] >= (ask.count or 1):
            return f", or match {domain}/{name}"
    return ""


def _constrained_all(state: State, claim: Claim, ask: Ask) -> str:
    if any(
        try_node(state, node, _alone(claim, ask), free=_all_free(state, node)) is not None
        for node in state.layouts
    ):
        return ""
    constraints = ", ".join(map(str, _constraints(claim, ask)))
    return (
        f"All takes every device of a node that matches, and no node meets {constraints} with all "
        "of them: "
        "narrow the selectors, or ask for a count"
    )


def _groups(
    state: State, ask: Ask, nodes: Sequence[str], match: Constraint | None
) -> list[tuple[str, str, list[Device]]]:
    """Return groups of matching devices that would do: by node, or by value of the constraint."""
    groups: dict[tuple[str, tuple[str, Value] | None], list[Device]] = {}
    for node, devices in _per_node(state, ask).items():
        for device in devices:
            if device.is_node and any(not each.is_node for each in devices):
                continue
            value = device.attributes.get(match.attribute) if match else None
            if node in nodes and (match is None or value is not None):
                groups.setdefault((node, typed(value) if value is not None else None), []).append(
                    device
                )
    return [
        (node, str(value[1]) if value else "", devices) for (node, value), devices in groups.items()
    ]


def _is_free(state: State, device: Device) -> bool:
    layout = state.layouts[device.node]
    return layout.footprint[layout.index[device.key]] & ~state.free[device.node] == 0


def _busy(state: State, claim: Claim, ask: Ask, nodes: Sequence[str], mode: int) -> str:
    """Explain a request that would fit if others were not there."""
    most, where = _largest(state, claim, ask, nodes, empty=False)
    if ask.admin or (ask.count is not None and most >= ask.count):
        return ""
    match = next((each for each in _constraints(claim, ask) if not each.distinct), None)
    groups = _groups(state, ask, nodes, match if ask.count is not None else None)
    if ask.count is None:
        return _busy_all(state, claim, ask, groups)
    free = [
        (sum(_is_free(state, device) for device in devices), node, value, devices)
        for node, value, devices in groups
    ]
    reserved = "" if mode else _reserved(state)
    if match is not None and free:
        best = max(free, key=lambda each: each[0])
        on_node = sum(count for count, node, _, _ in free if node == best[1])
        text = (
            f"asks for {ask.count} devices with {match}; {best[0]} of {on_node} free devices of "
            f"{best[1]} share "
            f"{match.attribute[1]} {best[2]}, and that is the largest free group"
        )
    else:
        total = sum(count for count, _, _, _ in free)
        here = f", at most {most} of them on one node ({where})" if most else ""
        text = f"asks for {ask.count} devices; {total} that match are free{here}{reserved}"
    hints = [f"ask for {most}"] if most else []
    fitting = [each for each in free if len(each[3]) >= ask.count]
    if fitting:
        count, _, _, devices = max(fitting, key=lambda each: each[0])
        held = [device for device in devices if not _is_free(state, device)][: ask.count - count]
        hints.append(
            "free "
            + ", ".join(
                f"{device} (held by {state.holders.get(device.key, 'another claim')})"
                for device in held
            )
        )
    return f"{text}: {' or '.join(hints)}" if hints else text


def _busy_all(
    state: State, claim: Claim, ask: Ask, groups: Sequence[tuple[str, str, list[Device]]]
) -> str:
    if any(try_node(state, node, _alone(claim, ask)) is not None for node, _, _ in groups):
        return ""
    if not groups:
        return f"All needs a node that matches and that no other claim keeps{_reserved(state)}"
    best = min(groups, key=lambda each: sum(not _is_free(state, device) for device in each[2]))
    held = [device for device in best[2] if not _is_free(state, device)]
    holders = sorted({state.holders.get(device.key, "another claim") for device in held})
    left = len(best[2]) - len(held)
    hint = f", or ask for {left} with allocationMode ExactCount" if left else ""
    return (
        f"All needs every device of a node that matches to be free; {best[0]} comes nearest, with "
        f"{len(held)} of "
        f"{len(best[2])} held by {', '.join(holders)}: free them{hint}"
    )


def _reserved(state: State) -> str:
    kept = sorted({node for slot in state.slots for node in slot if state.whole(node)})
    return f" ({len(kept)} nodes are kept for UltraServer modes)" if kept else ""


def _together(
    state: State, unit: Unit, way: Sequence[tuple[Claim, Ask]], nodes: Sequence[str]
) -> _Reason:
    """Explain requests that fit one by one and not together: name the first that is too much."""
    for end in range(1, len(way) + 1):
        part = way[:end]
        try:
            fits = any(try_node(state, node, part) is not None for node in nodes)
        except SearchLimitError:
            fits = False
        if not fits:
            claim, ask = part[-1]
            before = ", ".join(each.name for _, each in part[:-1])
            most = 0
            for count in range((ask.count or 1) - 1, 0, -1):
                smaller = (*part[:-1], (claim, replace(ask, count=count)))
                if any(try_node(state, node, smaller) is not None for node in nodes):
                    most = count
                    break
            shared = ", ".join(str(each) for each in claim.constraints)
            under = f" under {shared}" if shared else ""
            hint = f"ask for {most} here" if most else "drop it or the others"
            pod = f" of pod {unit.pod}" if unit.pod and len(unit.claims) > 1 else ""
            return _Reason(
                claim.label,
                ask.name,
                f"does not fit on one node together with {before}{pod}{under}: each alone would; "
                f"{hint}",
            )
    return _Reason(unit.claims[0].label, "", "fits in parts and not as a whole")
