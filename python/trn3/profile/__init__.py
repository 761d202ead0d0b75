"""What a run of a kernel cost, and why: figures, critical path, verdict, tables, traces, pictures.

The compiled core forms every figure from what the machine recorded; here stand the records that
they come in, the table for people and the plots.
"""

from __future__ import annotations

from trn3.profile.data import (
    BOUNDS,
    CAUSES,
    ENGINES,
    NO_INSTRUCTION,
    Instructions,
    Occupancy,
    ProfileData,
    Transfers,
)
from trn3.profile.findings import Finding, PrecisionLoss
from trn3.profile.profile import LogicalProfile, Profile, profile_of, report_page
from trn3.profile.results import (
    BasisShare,
    Busy,
    CriticalStep,
    EngineName,
    EngineTotal,
    LatencyBasis,
    LineTotal,
    Roofline,
    Table,
    TableName,
)

__all__ = [
    "BOUNDS",
    "CAUSES",
    "ENGINES",
    "NO_INSTRUCTION",
    "BasisShare",
    "Busy",
    "CriticalStep",
    "EngineName",
    "EngineTotal",
    "Finding",
    "Instructions",
    "LatencyBasis",
    "LineTotal",
    "LogicalProfile",
    "Occupancy",
    "PrecisionLoss",
    "Profile",
    "ProfileData",
    "Roofline",
    "Table",
    "TableName",
    "Transfers",
    "profile_of",
    "report_page",
]
