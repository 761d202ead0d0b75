"""Jobs of ranks that compute, move and exchange, run on a system as one simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trn3._trn3 import system as _core
from trn3.system.base import System


@dataclass(frozen=True, slots=True)
class Job:
    """What the ranks of a job do.

    Attributes
    ----------
    places : sequence of int
        The system's rank that each rank of the job runs on.
    ranks_per_chip : int
        Ranks that a chip has.
    groups : sequence of (str, list of int)
        Process groups by name: ranks of the job.
    algorithms : (str, list of (str, str))
        The algorithm of collectives, and of operations that take another one.
    ranks : sequence of tuple
        For each rank columns with an entry a node, each node after those that it waits for: ids
        (int), names (str), kinds (uint8), seconds or bytes (float64), stream or peer or group
        (uint32), tag or root (int64), priorities (uint8), and lists of places of nodes that it
        waits for.
    """

    places: Sequence[int]
    ranks_per_chip: int
    groups: Sequence[tuple[str, list[int]]]
    algorithms: tuple[str, list[tuple[str, str]]]
    ranks: Sequence[Any]


def run(system: System, job: Job) -> Any:
    """Run a job: times of nodes, what ranks and links did, and what bound the finish.

    Raises
    ------
    ValueError
        If ranks disagree about a message or a collective, or wait for each other; the text names
        rank and node.
    trn3.system.UnreachableError
        If faults of the system cut ranks off from each other.
    """
    return _core.replay_job(
        system.collective_engine.core,
        list(job.places),
        job.ranks_per_chip,
        list(job.groups),
        job.algorithms,
        list(job.ranks),
    )
