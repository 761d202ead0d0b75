"""A system for Calculon: peaks and efficiencies by size."""

from __future__ import annotations

from pathlib import Path

from trn3.interchange.exported import ExportDocument, export
from trn3.system import System


def calculon(system: str | Path | System) -> ExportDocument:
    """Return a system as Calculon's description of one.

    Efficiencies are computed, not measured: of matrices from the ramp of the tensor engine's
    current limit (from `tensor_didt_start_fraction` of the peak, linearly, over `tensor_didt_ramp`;
    chips without the two figures have none), of memory from the setup time of a DMA
    (`dma_setup_latency`).

    Parameters
    ----------
    system
        A name such as ``"gen2"``, a spec file, or a system of trn3.

    Returns
    -------
    ExportDocument
        JSON with ``matrix``, ``vector``, ``mem1``, ``mem2``, ``processing_mode`` and ``networks``.

    Raises
    ------
    ExportError
        If parts of the system have failed, or its chip lacks a figure that is needed.
    """
    return export(system, "calculon", "json")
