"""Studies: a function at every point of a grid, on this machine's processes or on a cluster.

`trn3.sweep` is the one function; the other names are what it gives and raises.
"""

from __future__ import annotations

from trn3.studies.sweep.identity import SweepCheckpointError
from trn3.studies.sweep.points import (
    BrokenExecutorError,
    Point,
    SweepError,
    SweepResult,
    WorkerDiedError,
    WorkerStartError,
)
from trn3.studies.sweep.run import sweep
from trn3.studies.sweep.tasks import PointError

__all__ = [
    "BrokenExecutorError",
    "Point",
    "PointError",
    "SweepCheckpointError",
    "SweepError",
    "SweepResult",
    "WorkerDiedError",
    "WorkerStartError",
    "sweep",
]
