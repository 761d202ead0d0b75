"""Simulated systems as inputs of other simulators: ASTRA-sim, Calculon, LLMCompass.

Each function returns an `ExportDocument`: what the other simulator reads, and in `notes` what was
simplified and every number in it that is not published.

Examples
--------
>>> from trn3 import interchange
>>> document = interchange.astra_sim("gen2")
>>> document.content["topology"], document.content["npus_count"]
(['Switch', 'Switch', 'FullyConnected'], [4, 18, 2])
>>> document.content["bandwidth"]
[256.0, 320.0, 128.0]
"""

from __future__ import annotations

from trn3.interchange.astra_sim import astra_sim
from trn3.interchange.calculon import calculon
from trn3.interchange.exported import Document, ExportDocument, ExportError
from trn3.interchange.llmcompass import llmcompass

__all__ = ["Document", "ExportDocument", "ExportError", "astra_sim", "calculon", "llmcompass"]
