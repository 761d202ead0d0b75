"""What plans of training consist of."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from trn3 import offers, text
from trn3.economics.cost import Price, SystemCost, cost_of
from trn3.economics.power import Energy, energy_of
from trn3.markup import fields, mimebundle
from trn3.pictures import finished
from trn3.typed import typed

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

GIB = 2**30


@dataclass(frozen=True, slots=True)
class TrainingLayout:
    """Degrees of parallelism of a plan; see `Training`."""

    tp: int
    pp: int
    dp: int
    cp: int
    ep: int
    interleave: int
    zero: int
    micro_batch: int
    recompute: str
    sequence_parallel: bool
    lnc: int

    def __str__(self) -> str:
        text = f"tp {self.tp}, pp {self.pp}, dp {self.dp}"
        for name, value in (("cp", self.cp), ("ep", self.ep), ("interleave", self.interleave)):
            text += f", {name} {value}" if value > 1 else ""
        return (
            f"{text}, zero {self.zero}, micro-batch {self.micro_batch}, recompute {self.recompute}"
        )


#: Its name in earlier releases.
Layout = TrainingLayout


@dataclass(frozen=True, slots=True)
class TrainingPhase:
    """A part of a step: seconds that it adds, their share, seconds hidden, and what limits it."""

    name: str
    seconds: float
    share: float
    hidden: float
    binding: str


#: Its name in earlier releases.
Phase = TrainingPhase


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes by class on one logical core, and what its bank holds.

    Attributes
    ----------
    rows : Mapping[str, float]
        Bytes of one logical core of the fullest stage by class.
    used, available : float
        Bytes of a bank: those of every logical core that shares it, and all it has.
    fits : bool
        Whether that is enough.
    """

    rows: Mapping[str, float]
    used: float
    available: float
    fits: bool

    def __str__(self) -> str:
        lines = [f"{name:<24}{size / GIB:10.3f} GiB" for name, size in self.rows.items()]
        lines.append(f"{'on a bank':<24}{self.used / GIB:10.3f} of {self.available / GIB:.0f} GiB")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class TrainingSchedule:
    """In which order a step's work is done, and what that costs.

    Attributes
    ----------
    pipeline : str
        ``"none"``, ``"1F1B"`` or ``"interleaved 1F1B"``.
    stages, interleave, micro_batches : int
        Stages, parts of the model on each, micro-batches that a replica accumulates.
    bubble, bubble_seconds : float
        Waiting of stages over their work, and its seconds.
    recompute, recompute_seconds : str, float
        What is computed again, and its seconds.
    fused_attention : bool
        Whether attention is one kernel; else its scores pass through memory.
    formats : Mapping[str, str]
        Formats of products by class of weights.
    bytes_per_weight : Mapping[str, float]
        What a rank keeps of each of its weights before any sharding.
    network : str or None
        The network between systems, if the job crosses it.
    network_seconds, network_hidden : float
        Seconds of a step in which only that network works, and those that run under other work.
    said : Mapping[str, str]
        All of it in words, by ``"pipeline"``, ``"recompute"``, ``"formats"`` and ``"network"``.
    """

    pipeline: str = "none"
    stages: int = 1
    interleave: int = 1
    micro_batches: int = 1
    bubble: float = 0.0
    bubble_seconds: float = 0.0
    recompute: str = "none"
    recompute_seconds: float = 0.0
    fused_attention: bool = True
    formats: Mapping[str, str] = field(default_factory=dict)
    bytes_per_weight: Mapping[str, float] = field(default_factory=dict)
    network: str | None = None
    network_seconds: float = 0.0
    network_hidden: float = 0.0
    said: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TrainingPlan(offers.Reported):
    """One training step.

    Attributes
    ----------
    model, system : str
        What is trained, and on what.
    layout : TrainingLayout
        Degrees of parallelism.
    chips, micro_batches : int
        Chips that it takes; micro-batches that each replica accumulates.
    step_time : float
        Seconds.
    sequences_per_second, tokens_per_second, tokens_per_second_per_chip : float
        Rates.
    mfu : float
        Six operations for each active weight and token, over `peak`.
    mfu_with_attention, hfu : float
        The same with attention (causal where the model is), and with everything that is executed.
    peak : float
        Operations a second of all chips, array x clock, in the format of most products.
    bubble : float
        Waiting of the pipeline over its work.
    phases : tuple[TrainingPhase, ...]
        Parts of the step, the longest first.
    binding : str
        What limits the longest part.
    memory : Memory
        Memory by class.
    energy : Energy or None
        Of one chip in a step; None if its TDP is neither published nor given.
    watts, joules_per_token : float or None
        Of all chips.
    cost : SystemCost or None
        Of renting the chips; None without a price.
    not_included, assumptions : tuple[str, ...]
        What is left out, and what the figures rest on.
    step_time_low, step_time_high : float
        Between which seconds a step is expected.
    sequences_per_second_low, sequences_per_second_high : float
        The same as rates.
    band : Mapping[str, Any]
        What says so, as of `trn3.planner.Plan`.
    uncertainty : Mapping[str, Any] or None
        As there, of ``step_time`` and rates; of the best plan alone.
    schedule : TrainingSchedule
        Pipeline, recomputation, formats and network.
    """

    model: str
    system: str
    layout: TrainingLayout
    chips: int
    global_batch: int
    sequence: int
    micro_batches: int
    step_time: float
    sequences_per_second: float
    tokens_per_second: float
    tokens_per_second_per_chip: float
    mfu: float
    mfu_with_attention: float
    hfu: float
    peak: float
    bubble: float
    phases: tuple[TrainingPhase, ...]
    binding: str
    memory: Memory
    energy: Energy | None
    watts: float | None
    joules_per_token: float | None
    cost: SystemCost | None
    not_included: tuple[str, ...]
    assumptions: tuple[str, ...]
    schedule: TrainingSchedule = field(default_factory=TrainingSchedule)
    # What nobody computed has no bounds.
    step_time_low: float = math.nan
    step_time_high: float = math.nan
    sequences_per_second_low: float = math.nan
    sequences_per_second_high: float = math.nan
    band: Mapping[str, Any] = field(default_factory=dict)
    uncertainty: Mapping[str, Any] | None = None

    @property
    def bottleneck(self) -> str:
        """The longest part of the step, and what limits it."""
        first = self.phases[0]
        return f"{first.name}: {first.binding}"

    _repr_mimebundle_ = mimebundle

    def __rich__(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        rows = {
            "layout": f"{self.layout}, {self.chips:,} chips of {self.system}",
            "step": f"{text.time(self.step_time)} for {self.global_batch:,} sequences of "
            f"{self.sequence:,}",
            "tokens/s": f"{self.tokens_per_second:,.4g}, "
            f"{self.tokens_per_second_per_chip:,.4g} a chip",
            "MFU": f"{self.mfu:.1%}, {self.mfu_with_attention:.1%} with attention",
            "memory of a bank": f"{self.memory.used / 2**30:,.4g} of "
            f"{self.memory.available / 2**30:,.4g} GiB",
            "assumptions": f"{len(self.assumptions)}: plan.assumptions",
        }
        parts = Table(box=None, header_style="bold", pad_edge=False)
        for heading in ("part of a step", "time", "share", "limited by"):
            parts.add_column(heading, justify="right" if heading in {"time", "share"} else "left")
        for phase in self.phases:
            cells = (phase.name, text.time(phase.seconds), f"{phase.share:.1%}", phase.binding)
            parts.add_row(*map(Text, cells))
        return Group(fields(f"Training plan of {self.model}", rows), parts)

    @overload
    def plot(self, path: None = None) -> Figure: ...
    @overload
    def plot(self, path: str | Path) -> Path: ...
    def plot(self, path: str | Path | None = None) -> Path | Figure:
        """Draw where the time of a step goes.

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
        from trn3.planner import plots

        title = f"a training step of {self.model} on {self.chips:,} chips of {self.system}"
        shares = [(phase.name, phase.share) for phase in self.phases]
        return finished(plots.draw_step(title, shares, self.step_time), path)

    def memory_table(self) -> str:
        """Return the memory by class as text."""
        return str(self.memory)

    def __str__(self) -> str:
        lines = [
            f"{self.model} on {self.chips} chips, {self.layout}",
            (
                f"step {self.step_time:.4g} s, {self.tokens_per_second:,.0f} tokens/s, "
                f"{self.mfu:.1%} MFU ({self.mfu_with_attention:.1%} with attention)"
            ),
        ]
        lines += [f"{name}: {text}" for name, text in self.schedule.said.items()]
        lines += [f"  {phase.name:<20}{phase.share:7.1%}  {phase.binding}" for phase in self.phases]
        return "\n".join([*lines, str(self.memory)])


@dataclass(frozen=True, slots=True)
class TrainingSearch:
    """The best plans, the best first; how many layouts were weighed, and how many fit in memory."""

    plans: tuple[TrainingPlan, ...]
    evaluated: int
    fitting: int

    @property
    def best(self) -> TrainingPlan:
        """The first of the plans."""
        return self.plans[0]


@dataclass(frozen=True, slots=True)
class Published:
    """A published rate beside the model's; `fitted` if the model's constant comes from it."""

    name: str
    what: str
    unit: str
    published: float
    computed: float
    fitted: bool
    assumed: str
    source: str

    @property
    def ratio(self) -> float:
        """The model's figure over the published one."""
        return self.computed / self.published


def plan_of(entry: dict[str, Any], price: float | Price | None) -> TrainingPlan:
    """Return the plan of a result of the core; `price` is what its cost was made from."""
    memory, energy, cost = entry["memory"], entry["energy"], entry["cost"]
    rows = {row["category"]: row["per_rank"] for row in memory["rows"]}
    return typed(
        TrainingPlan,
        entry,
        memory=typed(Memory, {**memory, "available": memory["bank"]}, rows=rows),
        energy=None if energy is None else energy_of(energy),
        cost=None if cost is None else cost_of(cost, price=price),
    )
