"""A system for LLMCompass: devices of cores with systolic arrays, and their links."""

from __future__ import annotations

from pathlib import Path

from trn3.interchange.exported import ExportDocument, export
from trn3.system import System


def llmcompass(system: str | Path | System) -> ExportDocument:
    """Return a system as LLMCompass's description of hardware.

    One of its cores is one NeuronCore: its array, its vector engine's 128 lanes, SBUF as the core's
    SRAM. The format knows one global buffer and one sort of link, so those are the chip's SBUF
    and the innermost level of the fabric.

    Parameters
    ----------
    system
        A name such as ``"gen2"``, a spec file, or a system of trn3.

    Returns
    -------
    ExportDocument
        JSON with ``name``, ``device_count``, ``interconnect`` and ``device``.

    Raises
    ------
    ExportError
        If parts of the system have failed, or its chip has no NeuronCores.
    """
    return export(system, "llmcompass", "json")
