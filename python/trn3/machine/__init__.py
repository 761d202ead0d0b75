"""One NeuronCore, simulated: what a kernel's run cost, and why."""

from __future__ import annotations

from trn3.machine.data import (
    CAUSES,
    ENGINES,
    NO_INSTRUCTION,
    Instructions,
    Occupancy,
    ProfileData,
    Transfers,
)
from trn3.machine.profile import Profile
from trn3.machine.results import Busy, CriticalStep, EngineTotal, LineTotal, Roofline

__all__ = [
    "CAUSES",
    "ENGINES",
    "NO_INSTRUCTION",
    "Busy",
    "CriticalStep",
    "EngineTotal",
    "Instructions",
    "LineTotal",
    "Occupancy",
    "Profile",
    "ProfileData",
    "Roofline",
    "Transfers",
]
