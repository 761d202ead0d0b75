"""What a node of each system looks like: the only place that reads the systems' figures.

Figures come from the spec files; what Kubernetes shows beyond them (instance types, NUMA nodes of
rows, UltraServer modes) from ``systems.toml`` beside this file, with its sources.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from trn3.k8s.errors import K8sError, guess


@dataclass(frozen=True, slots=True)
class TopologyNode:
    """One server: where it is, in the order of the system."""

    ultraserver: int | None
    rack: int
    server: int


@dataclass(frozen=True, slots=True)
class NodeSystem:
    """A system as Kubernetes sees it.

    Attributes
    ----------
    name, chip
        Names of the spec files of the system and of its chip.
    servers
        Nodes of one UltraServer; 1 if the system is a single instance.
    racks
        Racks of one UltraServer; its servers are split evenly.
    devices
        Chips of a node.
    rows, columns
        Of the torus; None for switched nodes.
    memory_gib, cores
        Of one chip.
    lnc_modes
        Physical cores that a logical one may have.
    """

    name: str
    chip: str
    instance_type: str
    servers: int
    racks: int
    devices: int
    rows: int | None
    columns: int | None
    numa_of_row: tuple[int, ...]
    memory_gib: int
    cores: int
    lnc_modes: tuple[int, ...]
    ultraserver_modes: tuple[int, ...]

    @property
    def is_ultraserver(self) -> bool:
        """Whether nodes belong to an UltraServer."""
        return self.servers > 1

    def nodes(self, count: int | None = None) -> list[TopologyNode]:
        """Return the first `count` nodes; by default one UltraServer, or one instance."""
        wanted = self.servers if count is None else count
        if wanted < 1:
            message = f"--nodes {wanted}: at least 1 is needed"
            raise K8sError(message)
        if not self.is_ultraserver:
            return [TopologyNode(None, 0, server) for server in range(wanted)]
        per_rack = self.servers // self.racks
        places = (divmod(index, self.servers) for index in range(wanted))
        return [TopologyNode(block, *divmod(server, per_rack)) for block, server in places]


def names() -> list[str]:
    """Return the names of the systems, without aliases."""
    return sorted(_descriptions())


@cache
def system(name: str) -> NodeSystem:
    """Return a system by its name or alias, or say which exist.

    >>> system("gen2").devices, system("trn2").devices, system("Trn3-Gen1").devices
    (4, 16, 16)
    """
    key = _canonical(name)
    entry = _descriptions()[key]
    servers = int(_figure(key, "servers", 1))
    rows = columns = None
    if entry["torus"]:
        shape = re.search(r"(\d+)x(\d+)", str(_figure(key, "topology")))
        if shape is None:
            message = f"spec {key}: topology names no torus such as 4x4"
            raise K8sError(message)
        rows, columns = int(shape[1]), int(shape[2])
    chip = entry["chip"]
    return NodeSystem(
        name=key,
        chip=chip,
        instance_type=entry["instance_type"],
        servers=servers,
        racks=int(_figure(key, "racks", 1)),
        devices=int(_figure(key, "chips")) // servers,
        rows=rows,
        columns=columns,
        numa_of_row=tuple(entry.get("numa_of_row", ())),
        memory_gib=int(_figure(chip, "hbm_capacity")),
        cores=int(_figure(chip, "cores")),
        lnc_modes=lnc_modes(chip),
        ultraserver_modes=tuple(entry.get("ultraserver_modes", ())),
    )


def _canonical(name: str) -> str:
    """Return the name of the spec of a system that has nodes."""
    from trn3 import facts

    descriptions = _descriptions()
    aliases = {**facts.aliases("kubernetes"), **{key: key for key in descriptions}}
    if name in aliases:
        return aliases[name]
    try:
        key = facts.canonical(name)
    except ValueError:
        key = ""
    if key in descriptions:
        return key
    what = f"{key} has no nodes for Kubernetes" if key else "no such system"
    message = f"--system {name}: {what}; known: {', '.join(sorted(aliases))}{guess(name, aliases)}"
    raise K8sError(message)


def lnc_modes(chip: str) -> tuple[int, ...]:
    """Return the sizes of a logical core that a chip has."""
    return tuple(int(size) for size in _figure(chip, "lnc_modes"))


def chip_of(instance_type: str) -> str | None:
    """Return the chip of an instance type, or None if the type is not known here."""
    for entry in _descriptions().values():
        if entry["instance_type"] == instance_type:
            return str(entry["chip"])
    return None


def modes_of(instance_type: str) -> tuple[int, ...]:
    """Return the UltraServer modes of an instance type: none if it is not in an UltraServer."""
    for entry in _descriptions().values():
        if entry["instance_type"] == instance_type:
            return tuple(entry.get("ultraserver_modes", ()))
    return ()


@cache
def _descriptions() -> dict[str, dict[str, Any]]:
    from trn3 import facts

    parts = {name: facts.load(name).parts for name in facts.names()}
    return {
        name: {**held["kubernetes"], "chip": held["chip"]}
        for name, held in parts.items()
        if "kubernetes" in held
    }


def _figure(spec: str, key: str, default: Any = None) -> Any:
    value = _spec(spec).get(key, default)
    if value is None:
        message = f"spec {spec}: has no {key}"
        raise K8sError(message)
    return value


@cache
def _spec(name: str) -> dict[str, Any]:
    from trn3 import facts

    return {key: quantity.value for key, quantity in facts.load(name).items()}
