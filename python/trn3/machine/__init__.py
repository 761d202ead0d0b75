"""One NeuronCore, simulated: what a kernel's run cost, and why."""

from __future__ import annotations

from trn3._trn3.machine import (
    ArchError,
    HbmCapacityError,
    InstructionLimitError,
    NkiInstruction,
    NkiTensor,
    NkiValidationError,
    PsumCapacityError,
    SbufCapacityError,
    SkippedValueError,
    UninitializedReadError,
    VirtualRegister,
)
from trn3.machine.archs import ArchSpec, Entry, arch
from trn3.machine.core import NeuronCore
from trn3.machine.data import (
    CAUSES,
    ENGINES,
    NO_INSTRUCTION,
    Instructions,
    Occupancy,
    ProfileData,
    Transfers,
)
from trn3.machine.findings import Finding, PrecisionLoss
from trn3.machine.gpsimd import GpSimd, GpSimdFunction
from trn3.machine.logical import LogicalProfile
from trn3.machine.profile import Profile
from trn3.machine.results import Busy, CriticalStep, EngineTotal, LineTotal, Roofline

__all__ = [
    "CAUSES",
    "ENGINES",
    "NO_INSTRUCTION",
    "ArchError",
    "ArchSpec",
    "Busy",
    "CriticalStep",
    "EngineTotal",
    "Entry",
    "Finding",
    "GpSimd",
    "GpSimdFunction",
    "HbmCapacityError",
    "InstructionLimitError",
    "Instructions",
    "LineTotal",
    "LogicalProfile",
    "NeuronCore",
    "NkiInstruction",
    "NkiTensor",
    "NkiValidationError",
    "Occupancy",
    "PrecisionLoss",
    "Profile",
    "ProfileData",
    "PsumCapacityError",
    "Roofline",
    "SbufCapacityError",
    "SkippedValueError",
    "Transfers",
    "UninitializedReadError",
    "VirtualRegister",
    "arch",
]
