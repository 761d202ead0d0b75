"""What of an inventory is free, and who holds the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trn3.k8s import configs, placement
from trn3.k8s.claims import Ask, Claim, DeviceClass, read_class
from trn3.k8s.configs import Settings
from trn3.k8s.documents import Document, from_objects, of_kind
from trn3.k8s.errors import K8sError
from trn3.k8s.inventory import Device, Inventory
from trn3.k8s.placement import Block, NodeLayout
from trn3.k8s.search import Found
from trn3.k8s.slices import device_class


@dataclass
class State:
    """What is free, and who holds the rest."""

    inventory: Inventory
    layouts: dict[str, NodeLayout]
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
        layouts = {node: NodeLayout(node, devices) for node, devices in inventory.nodes().items()}
        free = {node: (1 << len(layout.devices)) - 1 for node, layout in layouts.items()}
        classes: dict[str, DeviceClass] = {}
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

    def candidates(self, ask: Ask, layout: NodeLayout) -> tuple[int, ...]:
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
