"""Execution traces of other tools: their files, and jobs of ranks run as one simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trn3._trn3 import system as _core
from trn3._trn3.system import (
    TraceError,
    chakra_decode as decode,
    chakra_encode as encode,
    chakra_order as order,
    chakra_step as step,
)
from trn3.system.base import System

__all__ = ["ReplayOptions", "TraceError", "decode", "encode", "order", "replay", "step"]


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How traces are replayed.

    Attributes
    ----------
    ranks_per_chip : int
        Ranks that a chip has.
    placement : sequence of int, optional
        The system's rank that each rank runs on; by default the same number.
    peaks : (str, float, float), optional
        The dtype, operations and bytes a second of one rank, for times by the roofline.
    moves_bytes : bool
        Whether memory nodes move their bytes or take their measured duration.
    streams : str, optional
        An attribute whose values are separate compute streams of a rank.
    groups : mapping of str to list of int
        Ranks of process groups.
    algorithm : str
        Of collectives.
    algorithms : list of (str, str)
        By operation, for those that take another one.
    """

    ranks_per_chip: int
    placement: Sequence[int] | None = None
    peaks: tuple[str, float, float] | None = None
    moves_bytes: bool = True
    streams: str | None = None
    groups: Mapping[str, Sequence[int]] = field(default_factory=dict)
    algorithm: str = "auto"
    algorithms: Sequence[tuple[str, str]] = ()


def replay(system: System, traces: Sequence[Any], options: ReplayOptions) -> Mapping[str, Any]:
    """Run the traces of all ranks of a job.

    Raises
    ------
    TraceError
        If a trace is wrong, or ranks contradict each other; the text names rank and node.
    ValueError
        If the placement or an algorithm is none of those allowed.
    trn3.system.UnreachableError
        If faults of the system cut ranks off from each other.
    """
    return _core.chakra_replay(system.collective_engine.core, traces, options)
