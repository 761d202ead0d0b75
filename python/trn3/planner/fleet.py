"""Fleets that fail: what is left of a training run, and how many spare replicas serving needs.

Failure rates by part are those of a fleet of GPUs; nobody publishes those of Trainium, for which
they are assumed in a wider range. Every result says how sure it is.

Examples
--------
>>> import trn3
>>> found = trn3.goodput("h100", 16_384, 54, model="llama-3.1-405b")
>>> round(found.interruptions_expected), found.effective_time > 0.9  # published: 419, over 90 %
(419, True)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from trn3._trn3 import planner as _planner
from trn3.planner.fleet_results import (
    BlastRadius,
    CheckpointPlan,
    FleetPart,
    Goodput,
    Ranged,
    ServingCapacity,
    SpareRow,
)
from trn3.planner.models import ModelLike, request_of
from trn3.planner.requests import seconds, system_request, whole
from trn3.planner.training import Optimizer
from trn3.typed import typed

__all__ = [
    "BlastRadius",
    "CheckpointPlan",
    "FleetPart",
    "Goodput",
    "Ranged",
    "ServingCapacity",
    "SpareRow",
    "capacity",
    "goodput",
]


def goodput(
    system: Any,
    chips: int,
    days: float,
    *,
    model: ModelLike | None = None,
    optimizer: Optimizer = "master",
    checkpoint_bytes: float | None = None,
    checkpoint_bandwidth: float | None = None,
    checkpoint_interval: float | str | None = None,
    asynchronous: bool = False,
    step_time: float | str | None = None,
    comm_share: float | None = None,
    jitter: float | None = None,
    spares: int | None = None,
    cold_spares: int = 0,
    mtbf: Mapping[str, float] | None = None,
    shape: float | None = None,
    degrades: bool = True,
    error_detection: float | str | None = None,
    hang_detection: float | str | None = None,
    warm_up: float | str | None = None,
    swap: float | str | None = None,
    repair_hours: float | None = None,
    runs: int = 16,
    seed: int = 0,
) -> Goodput:
    """Simulate a training run of weeks on a fleet that fails.

    Parameters
    ----------
    system : str, path or system
        What the fleet is made of: ``"gen2"``, ``"trn2"``, ``"h100"``, a system, a spec file.
    chips : int
        Chips of the job, up to ten million.
    days : float
        How long it runs.
    model, optimizer
        What is trained, as for `trn3.plan`: its weights and optimizer states are a checkpoint.
    checkpoint_bytes : float, optional
        In place of a model. Without both, a size is assumed and said.
    checkpoint_bandwidth : float, optional
        Bytes a second of all chips to storage and from it.
    checkpoint_interval : float or str, optional
        Seconds of work between checkpoints, or ``"120s"``; by default the best by Daly (2006).
    asynchronous : bool
        Whether they are written while work goes on.
    step_time : float or str, optional
        Seconds of a step: only counts of steps rest on it.
    comm_share : float, optional
        Part of a step in which it waits for collectives within a system, which lost links slow.
    jitter : float, optional
        Standard deviation of a rank's step, as a part of it.
    spares, cold_spares : int, optional
        Systems that stand by, and that would have to be started first.
    mtbf : Mapping[str, float], optional
        Hours between failures of one, by part: ``"chip"``, ``"hbm"`` (a stack), ``"link"`` and
        ``"switch"`` within a system, ``"network_link"``, ``"network_switch"``, ``"host"``,
        ``"software"``, ``"planned"`` and ``"straggler"`` (of one chip). Infinity: never.
    shape : float, optional
        Of the Weibull distribution of lives; 1, the default, is failures at random.
    degrades : bool
        Whether a job that loses a link within a system goes on slower, by what the graph of the
        system says; else it stops as for any other part.
    error_detection, hang_detection, warm_up, swap : float or str, optional
        Seconds until a failure is known that reports itself, or that leaves a collective
        hanging; to start processes again; to put a spare into place.
    repair_hours : float, optional
        Hours of a repair.
    runs, seed : int
        How often to simulate, and what decides the draws.

    Returns
    -------
    Goodput

    Raises
    ------
    ValueError
        If a number is out of its range, or a name unknown; the text says what is allowed.

    Examples
    --------
    >>> found = goodput("gen2", 14_400, 30, spares=20, runs=4)
    >>> found.band["class"], found.units
    ('assumed', 100)
    >>> worse = goodput("gen2", 14_400, 30, spares=20, runs=4, mtbf={"chip": 10_000})
    >>> worse.effective_time < found.effective_time
    True
    """
    request = {
        "of": "training",
        "system": _source(system),
        "chips": whole("chips", chips),
        "days": days,
        "model": None if model is None else request_of(model),
        "optimizer": optimizer,
        "checkpoint_bytes": checkpoint_bytes,
        "checkpoint_bandwidth": checkpoint_bandwidth,
        "checkpoint_interval": seconds("checkpoint_interval", checkpoint_interval),
        "asynchronous": asynchronous,
        "step_time": seconds("step_time", step_time),
        "comm_share": comm_share,
        "jitter": jitter,
        "spares": None if spares is None else whole("spares", spares),
        "cold_spares": whole("cold_spares", cold_spares),
        "mtbf": _hours(mtbf),
        "shape": shape,
        "degrades": degrades,
        "error_detection": seconds("error_detection", error_detection),
        "hang_detection": seconds("hang_detection", hang_detection),
        "warm_up": seconds("warm_up", warm_up),
        "swap": seconds("swap", swap),
        "repair": repair_hours,
        "runs": whole("runs", runs),
        "seed": whole("seed", seed),
    }
    return typed(Goodput, _planner.goodput(request))


def capacity(
    system: Any,
    replicas: int,
    replica_chips: int,
    availability: float,
    *,
    mtbf: Mapping[str, float] | None = None,
    repair_hours: float | None = None,
) -> ServingCapacity:
    """Return how many spare replicas serving needs (N + k) so that enough are up.

    A replica is up while all its parts are; a host or switch that fails takes every replica behind
    it down at once.

    Parameters
    ----------
    system : str, path or system
        What the fleet is made of.
    replicas, replica_chips : int
        Replicas that have to be up, and chips of one.
    availability : float
        Part of the time in which they have to be, between 0 and 1.
    mtbf, repair_hours
        As of `goodput`.

    Returns
    -------
    ServingCapacity

    Raises
    ------
    ValueError
        If a number is out of its range, or no number of spares is enough.

    Examples
    --------
    >>> found = capacity("gen2", 36, 16, 0.999)
    >>> found.availability >= 0.999 > found.table[found.spares - 1].availability
    True
    """
    request = {
        "of": "serving",
        "system": _source(system),
        "replicas": whole("replicas", replicas),
        "replica_chips": whole("replica_chips", replica_chips),
        "availability": availability,
        "mtbf": _hours(mtbf),
        "repair": repair_hours,
    }
    return typed(ServingCapacity, _planner.goodput(request))


def _source(system: Any) -> dict[str, Any]:
    source = system_request(system)
    source.pop("lnc", None)
    return source


def _hours(mtbf: Mapping[str, float] | None) -> dict[str, float | None]:
    """Return hours as the core takes them, to which what never fails has none."""
    return {part: None if math.isinf(hours) else hours for part, hours in (mtbf or {}).items()}
