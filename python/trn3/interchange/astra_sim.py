"""The network of a system for ASTRA-sim's analytical backend."""

from __future__ import annotations

from pathlib import Path

from trn3.interchange.exported import ExportDocument, export
from trn3.system import System


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
    return export(system, "astra_sim", "yaml")
