"""A system for ASTRA-sim: the network of its analytical backend, the system and the memory."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from trn3.interchange.exported import ExportDocument, export
from trn3.system import System


def astra_sim(
    system: str | Path | System, part: Literal["network", "system", "memory"] = "network"
) -> ExportDocument:
    """Return a system's fabric as a network description of ASTRA-sim, or what else it reads.

    Parameters
    ----------
    system
        A name such as ``"gen2"``, a spec file, or a system of trn3.
    part
        ``"system"`` for the roofline of a chip (TFLOPS, GB/s) and the algorithms of collectives by
        dimension, ``"memory"`` for the memory beyond a chip, of which there is none.

    Returns
    -------
    ExportDocument
        YAML with a list for each of ``topology``, ``npus_count``, ``bandwidth`` (GB/s, one way) and
        ``latency`` (ns), the innermost dimension first. A ring is of links in both directions.
        System and memory are JSON.

    Raises
    ------
    ExportError
        If parts of the system have failed, or its chip lacks a figure that is needed.
    ValueError
        If there is no such part or system.

    Examples
    --------
    >>> from trn3 import interchange
    >>> print(interchange.astra_sim("trn2_ultraserver").text().split("topology")[1].strip())
    : [Ring, Ring, Ring]
    npus_count: [4, 4, 4]
    bandwidth: [128.0, 128.0, 64.0]
    latency: [1500.0, 1500.0, 1500.0]
    """
    if part == "network":
        return export(system, "astra_sim", "yaml")
    if part not in {"system", "memory"}:
        message = f"part is {part!r}; allowed: network, system, memory"
        raise ValueError(message)
    return export(system, f"astra_sim_{part}", "json")
