"""What answers about fleets consist of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from trn3.markup import fields, mimebundle
from trn3.pictures import finished

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType


@dataclass(frozen=True, slots=True)
class Ranged:
    """A figure, the least of its range and the largest."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class FleetPart:
    """Parts of a fleet that are alike.

    Attributes
    ----------
    name, kind : str
        ``"link (rack)"``, and the name under which `goodput` takes a rate of it: ``"link"``.
    count : float
        How many there are.
    mtbf_hours : Ranged
        Hours between failures of one.
    source : str
        Who says so. `rates` says whether it is ``"published"``, ``"assumed"`` or ``"given"``.
    effect : Mapping[str, Any]
        What a failure does: ``"does"`` is ``"stops"``, ``"pauses"``, ``"slows_collectives"`` or
        ``"slows_steps"``.
    chips_lost : float
        Chips that work without it no more.
    expected : Ranged
        Failures of all of them in the time.
    """

    name: str
    kind: str
    count: float
    mtbf_hours: Ranged
    rates: str
    source: str
    effect: Mapping[str, Any]
    chips_lost: float
    expected: Ranged


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """When checkpoints are written.

    Attributes
    ----------
    bytes, bandwidth : float
        Of one; bytes a second of all chips, to storage and from it.
    write_seconds, blocking_seconds, load_seconds : float
        Until one is safe, how long work stands still for it, and to load it.
    interval : float
        Seconds of work between two; `is_automatic` if it is the best one.
    asynchronous : bool
        Whether it is written while work goes on.
    young, daly, daly_higher_order : float
        The intervals of Young (1974) and Daly (2006).
    """

    bytes: float
    bandwidth: float
    write_seconds: float
    blocking_seconds: float
    load_seconds: float
    interval: float
    is_automatic: bool
    asynchronous: bool
    young: float
    daly: float
    daly_higher_order: float


@dataclass(frozen=True, slots=True)
class Goodput:
    """What failures leave of a training run.

    Attributes
    ----------
    system, chips, days : str, int, float
        What was asked for.
    units, unit_chips : int, float
        Systems that the job fills, which spares replace as a whole, and chips of each.
    spares, cold_spares : int
        Systems that stand by, and that would have to be started first.
    effective_time : float
        Part of the time in which work was done and kept, on average over the runs.
    effective_time_p10, effective_time_p90 : float
        Between what eight of ten runs lie at the rates and times that are taken: luck.
    effective_time_low, effective_time_high : float
        The same where rates and times are drawn from their ranges too: `band` says what they are.
    effective_time_expected : float
        By the closed form of Daly (2006), without waiting for repairs.
    goodput, goodput_low, goodput_high : float
        The same with what jitter, slow chips and lost links cost: work over that of a fleet that
        never fails. Times the throughput of a plan it is the effective one.
    effective_chips, steps : float
        `goodput` of the chips, and steps done and kept.
    interruptions, pauses, degradations : float
        Stops by failures, stops that were planned or for slow chips, failures that only slowed
        the job: averages over the runs.
    interruptions_expected, interruptions_low, interruptions_high : float
        By the rates and the ends of their ranges.
    mtbi_hours : float or None
        Hours between interruptions; None if nothing fails.
    jitter_factor : float
        A step, which takes as long as the slowest rank, over one of a rank alone.
    shares : Mapping[str, float]
        Where the time goes.
    checkpoint : CheckpointPlan
        When checkpoints are written.
    curve : tuple[tuple[float, float], ...]
        Effective time by the closed form over intervals in seconds.
    parts : tuple[FleetPart, ...]
        What fails, and how often.
    band : Mapping[str, str]
        How sure the figures are: ``"class"`` and ``"text"``.
    runs, seed : int
        What was simulated.
    not_included, assumptions : tuple[str, ...]
        What is left out, and what the figures rest on.
    """

    system: str
    chips: int
    units: int
    unit_chips: float
    spares: int
    cold_spares: int
    days: float
    effective_time: float
    effective_time_p10: float
    effective_time_p90: float
    effective_time_low: float
    effective_time_high: float
    effective_time_expected: float
    goodput: float
    goodput_low: float
    goodput_high: float
    effective_chips: float
    steps: float
    interruptions: float
    interruptions_expected: float
    interruptions_low: float
    interruptions_high: float
    pauses: float
    degradations: float
    mtbi_hours: float | None
    jitter_factor: float
    shares: Mapping[str, float]
    checkpoint: CheckpointPlan
    curve: tuple[tuple[float, float], ...]
    parts: tuple[FleetPart, ...]
    band: Mapping[str, str]
    runs: int
    seed: int
    not_included: tuple[str, ...]
    assumptions: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as mappings and lists."""
        return asdict(self)

    @overload
    def plot(self, path: None = None) -> Figure: ...
    @overload
    def plot(self, path: str | Path) -> Path: ...
    def plot(self, path: str | Path | None = None) -> Path | Figure:
        """Draw where the time goes, and the effective time over the interval of checkpoints.

        Parameters
        ----------
        path
            A ``.png``, ``.svg`` or ``.pdf`` file; without one a figure of matplotlib is returned.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If the file has another ending.
        OSError
            If it cannot be written.
        """
        from trn3.planner import fleet_plots

        title = f"{self.chips:,} chips, {self.days:g} days"
        effective = (self.effective_time_low, self.effective_time, self.effective_time_high)
        drawn = fleet_plots.draw_goodput(
            title, self.shares, self.curve, self.checkpoint.interval, effective
        )
        return finished(drawn, path)

    _repr_mimebundle_ = mimebundle

    def __rich__(self) -> RenderableType:
        return fields(f"{self.chips:,} chips of {self.system} over {self.days:g} days", self.said)

    @property
    def said(self) -> dict[str, str]:
        """The figures in words."""
        checkpoint = self.checkpoint
        every = "none fails" if self.mtbi_hours is None else f"one in {self.mtbi_hours:,.3g} h"
        return {
            "effective time": f"{self.effective_time:.2%} ({self.effective_time_low:.1%} to "
            f"{self.effective_time_high:.1%}; by closed form {self.effective_time_expected:.2%})",
            "goodput": f"{self.goodput:.2%} ({self.goodput_low:.1%} to {self.goodput_high:.1%}), "
            f"as much as {self.effective_chips:,.0f} chips that never fail",
            "interruptions": f"{self.interruptions_expected:,.0f} expected "
            f"({self.interruptions_low:,.0f} to {self.interruptions_high:,.0f}), {every}; "
            f"{self.interruptions:,.1f} simulated, {self.pauses:,.1f} planned stops",
            "checkpoints": f"{checkpoint.bytes / 1e12:,.3g} TB every {checkpoint.interval:,.4g} s, "
            f"{checkpoint.write_seconds:,.3g} s each, "
            f"work stands still for {checkpoint.blocking_seconds:,.3g} s",
            "spares": f"{self.spares:,} hot, {self.cold_spares:,} cold, of {self.unit_chips:g} "
            f"chips, beside {self.units:,} at work",
            "how sure": f"{self.band['class']}: {self.band['text']}",
        }


@dataclass(frozen=True, slots=True)
class BlastRadius:
    """What one failure of a part takes: chips and replicas; and hours between two in the fleet."""

    part: str
    chips: float
    replicas: int
    every_hours: float


@dataclass(frozen=True, slots=True)
class SpareRow:
    """So many spare replicas, and the part of the time in which enough are up with them."""

    spares: int
    availability: float


@dataclass(frozen=True, slots=True)
class ServingCapacity:
    """How many replicas a fleet needs so that enough are up.

    Attributes
    ----------
    system, replicas, replica_chips, availability_asked
        What was asked for.
    spares : int
        The least that are enough; `spares_low` and `spares_high` at the ends of the ranges of all
        rates and repairs, the latter None if no number is enough.
    chips : int
        Of all replicas.
    availability : float
        Part of the time in which enough are up.
    replica_availability, replicas_up : float
        Part of the time in which one is up, and how many are on average.
    replica_mtbf_hours, replica_repair_hours : float
        Hours that one is up and down, on average.
    table : tuple[SpareRow, ...]
        Numbers of spares.
    blast : tuple[BlastRadius, ...]
        What one failure takes, by part.
    parts : tuple[FleetPart, ...]
        What fails; expected in 30 days.
    rates : str
        ``"published"``, ``"assumed"`` or ``"given"``.
    assumptions : tuple[str, ...]
        What it rests on.
    """

    system: str
    replicas: int
    replica_chips: int
    availability_asked: float
    spares: int
    spares_low: int
    spares_high: int | None
    chips: int
    availability: float
    replica_availability: float
    replica_mtbf_hours: float | None
    replica_repair_hours: float | None
    replicas_up: float
    table: tuple[SpareRow, ...]
    blast: tuple[BlastRadius, ...]
    parts: tuple[FleetPart, ...]
    rates: str
    assumptions: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as mappings and lists."""
        return asdict(self)

    _repr_mimebundle_ = mimebundle

    def __rich__(self) -> RenderableType:
        return fields(f"{self.replicas:,} replicas on {self.system}", self.said)

    @property
    def said(self) -> dict[str, str]:
        """The figures in words."""
        high = "no number" if self.spares_high is None else f"{self.spares_high:,}"
        lasts = "never down"
        if self.replica_mtbf_hours is not None:
            hours = self.replica_repair_hours
            lasts = f"down every {self.replica_mtbf_hours:,.4g} h, for {hours:.3g} h"
        return {
            "replicas": f"{self.replicas:,} + {self.spares:,} ({self.spares_low:,} to {high}), "
            f"{self.chips:,} chips",
            "enough are up": f"{self.availability:.5%} of the time ({self.availability_asked:.5%} "
            "asked for)",
            "one replica": f"up {self.replica_availability:.4%} of the time, {lasts}",
            "on average": f"{self.replicas_up:,.2f} replicas are up",
        }
