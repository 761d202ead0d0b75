"""Checkpoints of MX tensors: `trn3.quantize_checkpoint` writes them, `trn3.load_mx` reads them."""

from __future__ import annotations

from trn3.checkpoint.formats import BLOCK, FORMATS, MXFormat, pack_fp4, unpack_fp4
from trn3.checkpoint.outcomes import FormatReport, QuantizationReport, TensorReport
from trn3.checkpoint.quantizing import quantize_checkpoint
from trn3.checkpoint.reading import MXCheckpoint, load_mx
from trn3.checkpoint.safetensors import CheckpointError
from trn3.checkpoint.statistics import ErrorStatistics

__all__ = [
    "BLOCK",
    "FORMATS",
    "CheckpointError",
    "ErrorStatistics",
    "FormatReport",
    "MXCheckpoint",
    "MXFormat",
    "QuantizationReport",
    "TensorReport",
    "load_mx",
    "pack_fp4",
    "quantize_checkpoint",
    "unpack_fp4",
]
