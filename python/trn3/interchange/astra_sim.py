"""The network of a system for ASTRA-sim's analytical backend."""

from __future__ import annotations

from pathlib import Path

from trn3.interchange.exported import ExportDocument
from trn3.interchange.levels import Dimension, dimensions, load
from trn3.system.base import System

BLOCKS = {"ring": "Ring", "switch": "Switch", "direct": "FullyConnected"}
GIGA, NANO = 1e9, 1e-9


def astra_sim(system: str | Path | System) -> ExportDocument:
    """Return a system's fabric as a network description of ASTRA-sim.

    Parameters
    ----------
    system
        A name such as ``"gen2"``, a spec file, or a system of trn3.

    Returns
    -------
    ExportDocument
        YAML with a list for each of ``topology``, ``npus_count``, ``bandwidth`` (GB/s, one way) and
        ``latency`` (ns), the innermost dimension first. A ring is of links in both directions.

    Raises
    ------
    ExportError
        If parts of the system have failed.

    Examples
    --------
    >>> from trn3 import interchange
    >>> print(interchange.astra_sim("trn2_ultraserver").text().split("topology")[1].strip())
    : [Ring, Ring, Ring]
    npus_count: [4, 4, 4]
    bandwidth: [128.0, 128.0, 64.0]
    latency: [1500.0, 1500.0, 1500.0]
    """
    asked = load(system)
    found, notes = dimensions(asked)
    content = {
        "topology": [BLOCKS[dimension.kind] for dimension in found],
        "npus_count": [dimension.size for dimension in found],
        "bandwidth": [_rounded(dimension.rate / GIGA) for dimension in found],
        "latency": [_rounded(_per_hop(dimension) / NANO) for dimension in found],
    }
    notes = (
        "one NPU is one chip; bandwidth in GB/s one way, latency in ns a hop",
        "its analytical model takes hops x latency + bytes / bandwidth in one dimension at a time",
        *notes,
    )
    return ExportDocument(asked.title, content, notes, "yaml")


def _per_hop(dimension: Dimension) -> float:
    # Through a switch the way has two links there, one into it and one out.
    return dimension.latency / 2 if dimension.kind == "switch" else dimension.latency


def _rounded(value: float) -> float:
    return float(f"{value:.9g}")
