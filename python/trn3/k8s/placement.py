"""How good a set of devices is, and what it leaves of the rest.

The score **(choice)** is compared entry by entry, smaller is better:

1. `excess`: chips that are taken beyond the devices asked for, as by a whole node in place of one.
2. `pieces`: parts that the devices fall into beyond one. Devices of a torus are connected if they
   are neighbours in it, those of a switched node always are.
3. `opened`: 1 if the UltraServer was wholly free before; then aligned sets of 4 and of 2 nodes that
   were (for claims that take a mode of 4 or 2 later).
4. `broken`: groups of devices, largest first, that were wholly free and now are used in part.
5. `hops`: sum of the distances between all pairs, in links of the torus.
6. `scattered`: parts that the free devices of the node fall into afterwards, beyond one.

Ties go to the node that has fewer free devices, then to the order of nodes and devices.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from trn3.k8s import names
from trn3.k8s.inventory import Device

GROUP = re.compile(r"(?:devicegroup|topology)(\d+)_id")
SLOT_SIZES = (4, 2)


@dataclass(frozen=True, slots=True)
class Score:
    """What a choice of devices costs; see the module for the entries."""

    excess: int
    pieces: int
    opened: tuple[int, ...]
    broken: tuple[int, ...]
    hops: int
    scattered: int


class NodeLayout:
    """The devices of one node as bits, with what is near to what.

    Attributes
    ----------
    devices
        In order; bit `i` is device `i`.
    footprint
        Bits that are taken with each device: its own, and for a device that stands for the whole
        node those of all devices of its pool.
    """

    def __init__(self, node: str, devices: Sequence[Device]) -> None:
        self.node = node
        self.devices = tuple(devices)
        self.index = {device.key: position for position, device in enumerate(self.devices)}
        self.footprint = tuple(self._footprint(position) for position in range(len(self.devices)))
        self.chips = sum(1 << i for i, device in enumerate(self.devices) if not device.is_node)
        self.neighbours = self._neighbours()

    def _footprint(self, position: int) -> int:
        device = self.devices[position]
        bits = 1 << position
        if device.is_node:
            for other, each in enumerate(self.devices):
                if (each.driver, each.pool) == (device.driver, device.pool):
                    bits |= 1 << other
        return bits

    @cached_property
    def _places(self) -> list[tuple[int, int] | None]:
        return [_place(device) for device in self.devices]

    @cached_property
    def _shape(self) -> dict[tuple[str, str], tuple[int, int]]:
        shapes: dict[tuple[str, str], tuple[int, int]] = {}
        for device, place in zip(self.devices, self._places, strict=True):
            if place is not None:
                rows, columns = shapes.get((device.driver, device.pool), (1, 1))
                shapes[device.driver, device.pool] = (
                    max(rows, place[0] + 1),
                    max(columns, place[1] + 1),
                )
        return shapes

    def distance(self, left: int, right: int) -> int:
        """Return the links of the torus between two devices; 1 where there is no torus."""
        here, there = self._places[left], self._places[right]
        first, second = self.devices[left], self.devices[right]
        if (
            here is None
            or there is None
            or (first.driver, first.pool) != (second.driver, second.pool)
        ):
            return 1
        return sum(
            min(abs(a - b), size - abs(a - b))
            for a, b, size in zip(here, there, self._shape[first.driver, first.pool], strict=True)
        )

    def _neighbours(self) -> tuple[int, ...]:
        masks = []
        for left, first in enumerate(self.devices):
            mask = 0
            for right, second in enumerate(self.devices):
                same = (first.driver, first.pool) == (second.driver, second.pool)
                if same and (first.is_node or second.is_node or self.distance(left, right) <= 1):
                    mask |= 1 << right
            masks.append(mask)
        return tuple(masks)

    @cached_property
    def _hops(self) -> dict[tuple[int, int], int]:
        chips = [position for position, device in enumerate(self.devices) if not device.is_node]
        return {
            (left, right): self.distance(left, right)
            for left, right in combinations(chips, 2)
            if self.devices[left].driver == self.devices[right].driver
        }

    @cached_property
    def hop_key(self) -> tuple[int, ...]:
        """Distances, for telling nodes that look alike."""
        return tuple(self._hops.values())

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Groups of devices that belong together, by size, largest first."""
        found: dict[int, dict[tuple[object, ...], int]] = {}
        for position, device in enumerate(self.devices):
            if device.is_node:
                continue
            found.setdefault(1 << 30, {}).setdefault((device.driver, device.pool), 0)
            found[1 << 30][device.driver, device.pool] |= 1 << position
            for (domain, identifier), value in device.attributes.items():
                match = GROUP.fullmatch(identifier)
                if match and int(match[1]) > 1:
                    key = (device.driver, domain, identifier, value)
                    sized = found.setdefault(int(match[1]), {})
                    sized[key] = sized.get(key, 0) | 1 << position
        # The two names of a group of one size are one group.
        return tuple(
            tuple(sorted(set(found[size].values()))) for size in sorted(found, reverse=True)
        )

    def part(self, seed: int, bits: int) -> int:
        """Return the connected part of a set of devices that holds `seed`."""
        part = seed
        while True:
            grown, rest = part, part
            while rest:
                low = rest & -rest
                grown |= self.neighbours[low.bit_length() - 1]
                rest ^= low
            grown &= bits
            if grown == part:
                return part
            part = grown

    def pieces(self, bits: int) -> int:
        """Return how many connected parts a set of devices has."""
        count = 0
        while bits:
            bits &= ~self.part(bits & -bits, bits)
            count += 1
        return count

    def score(self, chosen: Sequence[int], free: int, opened: tuple[int, ...] = ()) -> Score:
        """Return what it costs to take devices while `free` are."""
        bits = 0
        for position in chosen:
            bits |= self.footprint[position]
        bits &= self.chips
        rest = free & self.chips & ~bits
        broken = tuple(
            sum(1 for group in sized if group & free == group and 0 < group & bits < group)
            for sized in self.groups
        )
        members = [position for position in range(len(self.devices)) if bits >> position & 1]
        hops = sum(self._hops.get(pair, 0) for pair in combinations(members, 2))
        excess = max(bits.bit_count() - len(chosen), 0)
        pieces, scattered = (max(self.pieces(part) - 1, 0) for part in (bits, rest))
        return Score(excess, pieces, opened, broken, hops, scattered)


def key(score: Score) -> tuple[object, ...]:
    """Return what scores are compared by."""
    return (
        score.excess,
        score.pieces,
        score.opened,
        score.broken,
        score.hops,
        score.scattered,
    )


def _place(device: Device) -> tuple[int, int] | None:
    row = device.attributes.get((device.driver, "topology_x"), device.own("row"))
    column = device.attributes.get((device.driver, "topology_y"), device.own("column"))
    if type(row) is int and type(column) is int and row >= 0 and column >= 0:
        return row, column
    return None


@dataclass(frozen=True, slots=True)
class Block:
    """The nodes of one UltraServer, in order, and their aligned sets."""

    name: str
    nodes: tuple[str, ...]
    racks: tuple[int, ...]

    def slots(self, size: int) -> list[tuple[str, ...]]:
        """Return aligned sets of nodes **(choice)**.

        Sets are counted from the first server of a rack and do not cross racks, unless a rack has
        fewer servers than a set.
        """
        if size == 1:
            return [(node,) for node in self.nodes]
        by_rack: dict[int, list[str]] = {}
        for node, rack in zip(self.nodes, self.racks, strict=True):
            by_rack.setdefault(rack, []).append(node)
        lists = list(by_rack.values())
        if any(len(each) < size for each in lists):
            lists = [list(self.nodes)]
        return [
            tuple(each[at : at + size])
            for each in lists
            for at in range(0, len(each) - size + 1, size)
        ]


def blocks(layouts: Sequence[NodeLayout]) -> list[Block]:
    """Return the UltraServers of an inventory: nodes whose devices name the same capacity block."""
    found: dict[str, list[tuple[int, int, tuple[object, ...], str]]] = {}
    for layout in layouts:
        for device in layout.devices:
            block = device.attributes.get((device.driver, "capacityBlockId"))
            if isinstance(block, str):
                rack, server = device.own("rack"), device.own("server")
                place = (rack if type(rack) is int else 0, server if type(server) is int else 0)
                found.setdefault(block, []).append(
                    (*place, names.natural(layout.node), layout.node)
                )
                break
    return [
        Block(
            name, tuple(each[3] for each in sorted(nodes)), tuple(each[0] for each in sorted(nodes))
        )
        for name, nodes in sorted(found.items(), key=lambda item: min(each[2:] for each in item[1]))
    ]
