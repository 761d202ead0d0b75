"""What is left of an inventory, and in what pieces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from trn3._trn3 import k8s as core
from trn3.k8s.documents import Document, sourced
from trn3.k8s.errors import asked


@dataclass(frozen=True, slots=True)
class NodeReport:
    """One node.

    Attributes
    ----------
    devices, free
        Chips there are, and those that no claim holds.
    groups
        Groups that are wholly free, by their size; each device group counts once.
    largest_connected
        Chips of the largest connected part of those that are free.
    """

    node: str
    devices: int
    free: int
    groups: dict[int, int]
    largest_connected: int


@dataclass(frozen=True, slots=True)
class FragmentationReport:
    """An inventory.

    Attributes
    ----------
    sets
        By number of nodes: aligned sets of one UltraServer that are wholly free.
    """

    nodes: tuple[NodeReport, ...]
    sets: dict[int, int]
    ultraservers: int
    free_ultraservers: int

    @property
    def devices(self) -> int:
        """Chips there are."""
        return sum(node.devices for node in self.nodes)

    @property
    def free(self) -> int:
        """Chips that are free."""
        return sum(node.free for node in self.nodes)

    @property
    def stranded(self) -> float:
        """Fraction of the free chips that are not in the largest connected part of their node."""
        return (
            1 - sum(node.largest_connected for node in self.nodes) / self.free if self.free else 0.0
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            **asdict(self),
            "devices": self.devices,
            "free": self.free,
            "stranded": self.stranded,
        }


def fragmentation(
    inventory: Sequence[Document | Mapping[str, Any]],
    allocated: Sequence[Document | Mapping[str, Any]] = (),
) -> FragmentationReport:
    """Return what is free after the claims in `allocated`.

    >>> from trn3.k8s import resource_slices
    >>> report = fragmentation(resource_slices("trn2"))
    >>> report.free, report.nodes[0].groups
    (16, {16: 1, 8: 2, 4: 4})
    """
    found = asked(
        core.fragmentation, sourced(inventory, "inventory"), sourced(allocated, "allocated")
    )
    nodes = tuple(NodeReport(**{**node, "groups": dict(node["groups"])}) for node in found["nodes"])
    return FragmentationReport(**{**found, "nodes": nodes, "sets": dict(found["sets"])})
