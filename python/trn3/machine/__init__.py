"""One NeuronCore, simulated: what a kernel's run cost, and why."""

from __future__ import annotations

from typing import Any

from trn3 import offers
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
from trn3.machine.gpsimd import GpSimd, GpSimdFunction

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

#: Names that stood here before `trn3.profile` was a package: kept, looked up there when asked for.
_PROFILES = {
    "CAUSES",
    "ENGINES",
    "NO_INSTRUCTION",
    "Busy",
    "CriticalStep",
    "EngineTotal",
    "Finding",
    "Instructions",
    "LineTotal",
    "LogicalProfile",
    "Occupancy",
    "PrecisionLoss",
    "Profile",
    "ProfileData",
    "Roofline",
    "Transfers",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name not in _PROFILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(offers.take("profiles"), name)
