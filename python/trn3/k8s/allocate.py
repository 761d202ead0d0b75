"""The allocator: claims in, claims with `status.allocation` out, or one error that says why not.

Claims are taken in the order of the file, the claims of a pod together; a claim that was placed is
not moved for a later one, and if one cannot be met nothing is allocated **(choice)**. All devices
of a claim are on one node, as a pod is. A claim with `ultraserverMode` 2 or 4 gets a node of an
aligned set of so many nodes of one UltraServer, which is kept for the claims of that mode that
follow until it is full **(choice)**.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

from trn3.k8s import configs, placement
from trn3.k8s.claims import Ask, Claim, Constraint, DeviceClass, read_claim, read_class
from trn3.k8s.configs import Settings
from trn3.k8s.documents import Document, Object, from_objects, of_kind
from trn3.k8s.errors import AllocationError, K8sError, nearest
from trn3.k8s.inventory import Device, Inventory
from trn3.k8s.names import MAX_RESULTS
from trn3.k8s.placement import Block, Layout, Score
from trn3.k8s.search import Found, Rule, SearchLimitError, Want, search
from trn3.k8s.values import Value, typed
from trn3.k8s.workloads import Unit, workload

MAX_WAYS = 4_096
"""Choices among the alternatives of all requests that are tried."""

ASSUMPTIONS = (
    "claims are placed in the order of the file; one that was placed is not moved for another",
    "a claim's devices are on one node",
    "a device of type neuron_node holds all devices of its pool",
    "UltraServer sets of 2 and 4 nodes are aligned to the first server of a rack",
)


@dataclass(frozen=True, slots=True)
class Placed:
    """A claim that was met.

    Attributes
    ----------
    devices
        Pairs of request (with the alternative that was taken) and device.
    """

    claim: Claim
    node: str
    devices: tuple[tuple[str, Device], ...]
    score: Score
    body: Object


@dataclass(frozen=True, slots=True)
class Allocation:
    """What `allocate` returns.

    Attributes
    ----------
    placed
        Claims in their order.
    objects
        The same as ResourceClaims with `status.allocation`, ready to be written.
    notes
        What the caller should know: objects that had no say, UltraServer sets that are not full.
    """

    placed: tuple[Placed, ...]
    kept: tuple[Object, ...]
    notes: tuple[str, ...]
    assumptions: tuple[str, ...] = ASSUMPTIONS

    @property
    def objects(self) -> list[Object]:
        """ResourceClaims, those that were allocated before first."""
        return [*self.kept, *(each.body for each in self.placed)]


@dataclass
class State:
    """What is free, and who holds the rest."""

    inventory: Inventory
    layouts: dict[str, Layout]
    blocks: list[Block]
    free: dict[str, int]
    classes: dict[str, DeviceClass]
    drivers: list[str]
    holders: dict[tuple[str, str, str], str] = field(default_factory=dict)
    slots: dict[tuple[str, ...], int] = field(default_factory=dict)
    found: dict[object, Found | None] = field(default_factory=dict)
    selected: dict[tuple[object, ...], bool] = field(default_factory=dict)

    @classmethod
    def build(cls, documents: Sequence[Document], claims: Sequence[Document]) -> State:
        """Read inventory and classes; a class of the name of a driver need not be given."""
        inventory = Inventory.from_documents(documents)
        drivers = sorted({device.driver for device in inventory.devices})
        layouts = {node: Layout(node, devices) for node, devices in inventory.nodes().items()}
        free = {node: (1 << len(layout.devices)) - 1 for node, layout in layouts.items()}
        classes: dict[str, DeviceClass] = {}
        from trn3.k8s.slices import device_class

        implied = from_objects((device_class(driver) for driver in drivers), "implied")
        given = of_kind([*documents, *claims], "DeviceClass")
        for document in [*implied, *given]:
            classes[document.name] = read_class(document)
        return cls(
            inventory, layouts, placement.blocks(list(layouts.values())), free, classes, drivers
        )

    def block_of(self, node: str) -> Block | None:
        """Return the UltraServer of a node."""
        return next((block for block in self.blocks if node in block.nodes), None)

    def whole(self, node: str) -> bool:
        """Whether all of a node is free."""
        return self.free[node] == (1 << len(self.layouts[node].devices)) - 1

    def slot_of(self, node: str, mode: int) -> tuple[str, ...] | None:
        """Return the aligned set of nodes that a node belongs to."""
        block = self.block_of(node)
        return next((slot for slot in block.slots(mode) if node in slot), None) if block else None

    def take(self, claim: Claim, devices: Iterable[Device], mode: int | None) -> None:
        """Mark devices as taken; with a mode, open the set of their node."""
        for device in devices:
            layout = self.layouts[device.node]
            bits = layout.footprint[layout.index[device.key]]
            self.free[device.node] &= ~bits
            for position, other in enumerate(layout.devices):
                # A node's own device goes with the first of its parts.
                if bits >> position & 1 or (other.is_node and layout.footprint[position] & bits):
                    self.holders.setdefault(other.key, claim.label)
            slot = self.slot_of(device.node, mode) if mode is not None and mode > 1 else None
            if slot is not None and mode is not None:
                self.slots[slot] = mode

    def candidates(self, ask: Ask, layout: Layout) -> tuple[int, ...]:
        """Return the positions of the devices on a node that match a request, free or not."""
        return tuple(p for p, device in enumerate(layout.devices) if self.matches(ask, device))

    def matches(self, ask: Ask, device: Device) -> bool:
        """Whether a device is of the class and passes selectors, capacity and taints."""
        marker = (ask.key, device.key)
        if marker not in self.selected:
            selectors = [*self.classes[ask.class_name].selectors, *ask.selectors]
            self.selected[marker] = all(
                selector.accepts(device) for selector in selectors
            ) and _has_capacity(ask, device)
        return self.selected[marker] and tolerated(ask, device)

    def allowed_nodes(self, settings: Sequence[Settings]) -> list[str]:
        """Return the nodes that a unit may use: its UltraServer mode and others' sets decide."""
        modes = {each.mode for each in settings if each.mode is not None}
        nodes = list(self.layouts)
        if not modes:
            reserved = {node for slot in self.slots for node in slot}
            return [node for node in nodes if node not in reserved or not self.whole(node)]
        mode = max(modes)
        if mode == 1:
            reserved = {node for slot in self.slots for node in slot}
            return [node for node in nodes if self.block_of(node) and node not in reserved]
        begun, fresh = [], []
        for block in self.blocks:
            for slot in block.slots(mode):
                if self.slots.get(slot) == mode:
                    begun += [node for node in slot if self.whole(node)]
                elif all(self.whole(node) for node in slot) and not self._reserved(slot):
                    fresh += list(slot)
        return begun or fresh

    def _reserved(self, slot: Sequence[str]) -> bool:
        return any(set(slot) & set(other) for other in self.slots)

    def opened(self, node: str, settings: Sequence[Settings]) -> tuple[int, ...]:
        """Return what using a node costs beyond it: what was wholly free and is not any more."""
        block = self.block_of(node)
        if block is None:
            return ()
        mode = max((each.mode or 1 for each in settings), default=1)
        costs = [int(all(self.whole(each) for each in block.nodes))]
        for size in placement.SLOT_SIZES:
            slot = self.slot_of(node, size)
            # A set that the claim itself is going to fill is not lost.
            costs.append(
                int(slot is not None and size > mode and all(self.whole(each) for each in slot))
            )
        return tuple(costs)


def tolerated(ask: Ask, device: Device) -> bool:
    """Whether a request can live with the taints of a device."""
    return all(
        taint.effect not in {"NoSchedule", "NoExecute"}
        or any(each.tolerates(taint) for each in ask.tolerations)
        for taint in device.taints
    )


def _has_capacity(ask: Ask, device: Device) -> bool:
    for (domain, identifier), amount in ask.capacity.items():
        there = device.capacity.get((domain or device.driver, identifier))
        if there is None or there.compare(amount) < 0:
            return False
    return True


def allocate(
    claims: Sequence[Document | Mapping[str, Any]],
    inventory: Sequence[Document | Mapping[str, Any]],
    allocated: Sequence[Document | Mapping[str, Any]] = (),
) -> Allocation:
    """Allocate devices to claims.

    Parameters
    ----------
    claims
        ResourceClaims, ResourceClaimTemplates and the pods that use them, as documents or as plain
        data; DeviceClasses may stand among them.
    inventory
        ResourceSlices, and DeviceClasses. A class of the name of a driver is implied.
    allocated
        Claims with `status.allocation`, whose devices are taken.

    Raises
    ------
    AllocationError
        If a claim cannot be met; the text says what is in the way and what would work.
    K8sError
        If an object is malformed.

    Examples
    --------
    >>> from trn3.k8s import resource_slices
    >>> claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
    ...     "metadata": {"name": "four"},
    ...     "spec": {"devices": {"requests": [
    ...         {"name": "chips", "exactly": {"deviceClassName": "trn3.internal", "count": 4}}]}}}
    >>> result = allocate([claim], resource_slices("trn2"))
    >>> [device.name for _, device in result.placed[0].devices]
    ['neuron-device-0', 'neuron-device-1', 'neuron-device-2', 'neuron-device-3']
    """
    claim_documents, slice_documents = (
        as_documents(claims, "claims"),
        as_documents(inventory, "inventory"),
    )
    state = State.build(slice_documents, claim_documents)
    work = workload(claim_documents)
    kept: list[Object] = []
    for document in of_kind(as_documents(allocated, "allocated"), "ResourceClaim"):
        claim = read_claim(document)
        if claim.allocation is not None:
            hold(state, claim)
    pending: list[Unit] = []
    for unit in work.units:
        new = []
        for claim in unit.claims:
            if claim.allocation is not None:
                hold(state, claim)
                kept.append(claim.document.body)
            else:
                new.append(claim)
        if new:
            pending.append(Unit(tuple(new), unit.pod))
    seen: set[str] = set()
    for claim in (each for unit in pending for each in unit.claims):
        if claim.label in seen:
            message = f"{claim.document}: a claim of the name {claim.label} exists twice"
            raise K8sError(message)
        seen.add(claim.label)
    placed: list[Placed] = []
    for unit in pending:
        placed += _place(state, unit)
    notes = [f"{each} has no claims and was left aside" for each in work.ignored]
    for slot, mode in sorted(state.slots.items()):
        empty = [node for node in slot if state.whole(node)]
        if empty:
            notes.append(
                f"ultraserverMode {mode}: {len(empty)} of the {mode} nodes of its set are not "
                f"claimed yet: {', '.join(empty)}"
            )
    return Allocation(tuple(placed), tuple(kept), tuple(notes))


def as_documents(given: Sequence[Document | Mapping[str, Any]], source: str) -> list[Document]:
    """Wrap what is plain data; `source` is named in errors."""
    documents: list[Document] = []
    for each in given:
        documents += [each] if isinstance(each, Document) else from_objects([each], source)
    return documents


def hold(state: State, claim: Claim) -> None:
    """Take the devices that a claim has already."""
    assert claim.allocation is not None
    mode = configs.settings(claim, state.drivers).mode
    known = {device.key: device for device in state.inventory.devices}
    results = (claim.allocation.get("devices") or {}).get("results") or []
    for index, result in enumerate(results):
        where = f"{claim.document}: status.allocation.devices.results[{index}]"
        if not isinstance(result, dict):
            message = f"{where}: must be a mapping"
            raise K8sError(message)
        identity = (str(result.get("driver")), str(result.get("pool")), str(result.get("device")))
        if identity not in known:
            message = (
                f"{where}: the inventory has no device {identity[1]}/{identity[2]} of driver "
                f"{identity[0]}"
            )
            raise K8sError(message)
        if result.get("adminAccess"):
            continue
        layout = state.layouts[known[identity].node]
        if layout.footprint[layout.index[identity]] & ~state.free[known[identity].node]:
            message = (
                f"{where}: {known[identity]} is held by claim "
                f"{state.holders.get(identity, 'another')} too"
            )
            raise K8sError(message)
        state.take(claim, [known[identity]], mode)


def _check(state: State, claim: Claim) -> Settings:
    for request in claim.requests:
        for ask in request.alternatives:
            if ask.class_name not in state.classes:
                known = ", ".join(sorted(state.classes))
                raise AllocationError(
                    claim.label,
                    ask.name,
                    f"there is no DeviceClass {ask.class_name}; known: "
                    f"{known}{nearest(ask.class_name, state.classes)}",
                )
    settings = configs.settings(claim, state.drivers)
    if settings.mode is not None and not state.blocks:
        raise AllocationError(
            claim.label,
            "",
            f"ultraserverMode {settings.mode} needs nodes of an UltraServer (devices with "
            "capacityBlockId); "
            "the inventory has none: leave UltraServerConfig out, or take slices of gen1, gen2 or "
            "trn2_ultraserver",
        )
    return settings


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
            rules.append(Rule(covered, _numbered(layout, constraint), constraint.distinct))
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


def _numbered(layout: Layout, constraint: Constraint) -> tuple[Value | None, ...]:
    numbers: dict[tuple[str, Value], int] = {}
    values: list[Value | None] = []
    for device in layout.devices:
        value = device.attributes.get(constraint.attribute)
        values.append(None if value is None else numbers.setdefault(typed(value), len(numbers)))
    return tuple(values)


def _place(state: State, unit: Unit) -> list[Placed]:
    settings = [_check(state, claim) for claim in unit.claims]
    nodes = state.allowed_nodes(settings)
    from trn3.k8s.explain import refusal

    try:
        for way in ways(unit):
            options = []
            for number, node in enumerate(nodes):
                found = try_node(state, node, way, opened=state.opened(node, settings))
                if found is not None:
                    options.append(
                        (
                            placement.key(found.score),
                            state.free[node].bit_count(),
                            number,
                            node,
                            found,
                        )
                    )
            if options:
                _, _, _, node, found = min(options, key=lambda option: option[:3])
                return _commit(state, unit, settings, way, node, found)
    except SearchLimitError:
        claim = unit.claims[0]
        raise AllocationError(
            claim.label,
            "",
            "the search gave up: too many combinations of devices; ask with matchAttribute or "
            "fewer distinct values",
        ) from None
    raise refusal(state, unit, settings, nodes)


def _commit(
    state: State,
    unit: Unit,
    settings: Sequence[Settings],
    way: Sequence[tuple[Claim, Ask]],
    node: str,
    found: Found,
) -> list[Placed]:
    layout = state.layouts[node]
    placed = []
    for claim, chosen in zip(unit.claims, settings, strict=True):
        devices = []
        results: list[Object] = []
        class_configs: list[Object] = []
        used = []
        for (owner, ask), positions in zip(way, found.sets, strict=True):
            if owner is not claim:
                continue
            used.append(ask.name)
            members = [layout.devices[p] for p in positions]
            configs.check_devices(claim, chosen, ask.name, members)
            for device in members:
                devices.append((ask.name, device))
                results.append(
                    {
                        "request": ask.name,
                        "driver": device.driver,
                        "pool": device.pool,
                        "device": device.name,
                        **({"adminAccess": True} if ask.admin else {}),
                        **(
                            {"tolerations": [dict(each.body) for each in ask.tolerations]}
                            if ask.tolerations
                            else {}
                        ),
                    }
                )
            class_configs += configs.from_class(state.classes[ask.class_name].config, ask.name)
            if not ask.admin:
                state.take(claim, members, chosen.mode)
        if len(results) > MAX_RESULTS:
            raise AllocationError(
                claim.label,
                "",
                f"{len(results)} devices; a claim holds at most {MAX_RESULTS}, so ask in several "
                "claims",
            )
        config = [*class_configs, *configs.from_claim(claim, used)]
        placed.append(
            Placed(claim, node, tuple(devices), found.score, _body(claim, node, results, config))
        )
    return placed


def _body(claim: Claim, node: str, results: list[Object], config: list[Object]) -> Object:
    body = claim.document.body
    metadata = dict(body.get("metadata") or {})
    spec = body["spec"]
    if claim.document.kind == "ResourceClaimTemplate":
        # Only what the template gives its claims is theirs.
        inner = spec.get("metadata") or {}
        metadata = {
            "name": claim.name,
            **({"namespace": metadata["namespace"]} if metadata.get("namespace") else {}),
            **{key: inner[key] for key in ("labels", "annotations") if inner.get(key)},
        }
        spec = spec["spec"]
    selector = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {
        "apiVersion": body["apiVersion"],
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": spec,
        "status": {
            **(body.get("status") or {}),
            "allocation": {
                "devices": {"results": results, **({"config": config} if config else {})},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [selector]}]},
            },
        },
    }
