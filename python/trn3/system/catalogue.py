"""Ready systems: Trainium instances, UltraServers, clusters, and what they are compared with.

`load` takes a short name or the path of a spec file of one's own.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

from trn3.collectives.engine import SystemLike, as_system as system_of
from trn3.facts import find
from trn3.system.base import System
from trn3.system.cluster import Cluster
from trn3.system.joined_chips import Links
from trn3.system.servers import CLASSES, Instance, Pod, Rack, UltraServer

__all__ = [
    "as_system",
    "b200",
    "b300",
    "cluster",
    "gb200_nvl72",
    "gb300_nvl72",
    "h100",
    "load",
    "tpu_v7_pod",
    "trainium4_announced",
    "trn1_instance",
    "trn2_instance",
    "trn2_ultraserver",
    "trn3_gen1",
    "trn3_gen2",
]


def trn1_instance(*, links: Links = "docs", lnc: int | None = None) -> Instance:
    """Return a trn1.32xlarge: 16 Trainium1 in a 4 x 4 torus."""
    return Instance.trn1(links=links, lnc=lnc)


def trn2_instance(*, links: Links = "docs", lnc: int | None = None) -> Instance:
    """Return a trn2.48xlarge: 16 Trainium2 in a 4 x 4 torus.

    >>> round(trn2_instance().bound("all_to_all").per_chip / 1e9)
    240
    """
    return Instance.trn2(links=links, lnc=lnc)


def trn2_ultraserver(*, links: Links = "docs", lnc: int | None = None) -> UltraServer:
    """Return a Trn2 UltraServer: 64 Trainium2 in a 4 x 4 x 4 torus, half as fast between instances.

    >>> round(trn2_ultraserver().bound("all_to_all").per_chip / 1e9)
    126
    """
    return UltraServer.trn2(links=links, lnc=lnc)


def trn3_gen1(*, links: Links = "docs", lnc: int | None = None) -> UltraServer:
    """Return a Trn3 Gen1 UltraServer: 64 Trainium3 behind switches, with rates that are choices."""
    return UltraServer.gen1(links=links, lnc=lnc)


def trn3_gen2(*, links: Links = "docs", lnc: int | None = None) -> UltraServer:
    """Return a Trn3 Gen2 UltraServer: 144 Trainium3 in two racks behind two levels of switches.

    >>> trn3_gen2().chips[-1]
    (1, 17, 3)
    """
    return UltraServer.gen2(links=links, lnc=lnc)


def gb200_nvl72(*, links: Links = "docs") -> Rack:
    """Return 72 B200 behind NVLink switches."""
    return Rack.built_in("gb200_nvl72", links=links)


def gb300_nvl72(*, links: Links = "docs") -> Rack:
    """Return 72 B300 behind NVLink switches.

    >>> round(gb300_nvl72().bound("all_to_all").per_chip / 1e9)
    900
    """
    return Rack.built_in("gb300_nvl72", links=links)


def b200(*, links: Links = "docs") -> Instance:
    """Return a board of eight B200 behind NVLink switches; its spec file is that of one GPU."""
    return Instance.built_in("b200", links=links)


def b300(*, links: Links = "docs") -> Instance:
    """Return a board of eight B300 behind NVLink switches; its spec file is that of one GPU."""
    return Instance.built_in("b300", links=links)


def h100(*, links: Links = "docs") -> Instance:
    """Return a board of eight H100 behind NVLink switches; its spec file is that of one GPU."""
    return Instance.built_in("h100", links=links)


def tpu_v7_pod(*, links: Links = "docs") -> Pod:
    """Return a pod of 9,216 TPU v7 in a 3-D torus, the sides of which are a choice."""
    return Pod.built_in("tpu_v7", links=links)


def trainium4_announced(*, links: Links = "docs") -> UltraServer:
    """Return a what-if: Trainium4 behind NVLink, as announced, with rates that are choices."""
    return UltraServer.built_in("trainium4", links=links)


def cluster(
    n: int,
    ultraserver: System | str | None = None,
    network: str = "efa",
    *,
    links: Links = "docs",
    lnc: int | None = None,
) -> Cluster:
    """Return `n` UltraServers on a network: Gen2 ones unless others are given.

    >>> cluster(6945).num_chips
    1000080
    """
    if ultraserver is None:
        ultraserver = trn3_gen2(links=links, lnc=lnc)
    elif isinstance(ultraserver, str):
        ultraserver = load(ultraserver, links=links, lnc=lnc)
    return Cluster(ultraserver, n, network)


def load(system: str | Path | System, *, links: Links = "docs", lnc: int | None = None) -> System:
    """Return a system by name, or from a spec file of one's own.

    Parameters
    ----------
    system
        A name, as ``trn3 spec`` lists them (``"gen2"``, ``"trn2_ultraserver"``, ``"nvl72"``, ...;
        that of a chip, like ``"trn2"``, means its instance, or for Trainium3 Gen2), or the path of
        a ``.toml`` file with a ``_fabric`` table. ``"mine.toml:my_rack"`` is one of a file's,
        ``"gen2:chips=72,hbm_bandwidth=+20%"`` one with changes.
    links, lnc
        As in `trn3.system.UltraServer.gen2`.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If there is no system of that name, or the file describes none.

    Examples
    --------
    >>> load("gen1").num_chips
    64
    """
    if isinstance(system, System):
        return system
    if isinstance(system, Path) or system.endswith(".toml"):
        return System.load(system, links=links, lnc=lnc)
    name, described = find(system, "fabrics")
    if described is not None:
        kind = CLASSES.get(name, System)
        return kind.described(*described, name, links=links, lnc=lnc)
    if name not in CLASSES:
        message = f"{name} is no system that chips are joined in; allowed: {', '.join(CLASSES)}"
        raise ValueError(message)
    return CLASSES[name].built_in(name, links=links, lnc=lnc)


def as_system(system: SystemLike | None) -> System:
    """Return a system as one graph: a name is loaded, a cluster joined.

    Raises
    ------
    ValueError
        If there is none, none of that name, or a cluster has too many chips.
    TypeError
        If it is something else.

    Examples
    --------
    >>> as_system("gen2").num_chips, as_system(cluster(2)).num_chips
    (144, 288)
    """
    found = system_of(system)
    return found.system() if isinstance(found, Cluster) else cast("System", found)
