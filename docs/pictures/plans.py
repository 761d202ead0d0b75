"""Pictures of plans: where memory, time, watts and dollars go."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import trn3
from pictures.themes import COLORS, figure
from trn3 import cost, planner, power
from trn3.planner import Part, Plan


@functools.cache
def served() -> Plan:
    """Return the plan that stands for plans."""
    return trn3.plan("gpt-oss-120b", "gen2", input_tokens=10_000, output_tokens=3_000)


def served_plan() -> Figure:
    """Draw what a plan is: its time, and speed for a user against throughput of a chip."""
    plan = served()
    others, frontier = plan.frontier()
    picture = figure(3.1)
    left, right = picture.subplots(1, 2, width_ratios=(1, 1.2))
    known: dict[str, str] = {}
    phases = (("token", plan.decode), ("prompt", plan.prefill))
    for lane, (_, phase) in enumerate(phases):
        start = 0.0
        for part, seconds in _largest(phase.parts):
            is_new = part not in known
            color = known.setdefault(part, COLORS[len(known) % len(COLORS)])
            label = part.replace("_", " ") if is_new else None
            left.barh(lane, 100 * seconds / phase.seconds, left=start, color=color, label=label)
            start += 100 * seconds / phase.seconds
    labels = [f"a {name},\n{phase.seconds * 1e3:,.3g} ms" for name, phase in phases]
    left.set_yticks(range(len(phases)), labels)
    left.grid(visible=False, axis="y")
    left.set_xlabel("% of the time")
    left.legend(loc="upper center", bbox_to_anchor=(0.4, -0.2), ncols=3, fontsize=8)
    right.plot(*zip(*frontier, strict=True), marker=".", color=COLORS[0], label=others)
    right.plot(
        plan.tokens_per_second_per_user,
        plan.tokens_per_second_per_chip,
        marker="o",
        color=COLORS[5],
        linestyle="none",
        label="this plan",
    )
    right.set_yscale("log")
    right.set_xlabel("tokens/s for a user")
    right.set_ylabel("tokens/s a chip")
    right.legend()
    picture.suptitle(f"gpt-oss-120b on {plan.chips} chips of Trn3 Gen2", fontweight="bold")
    return picture


def _largest(parts: Sequence[Part]) -> list[tuple[str, float]]:
    """Return the parts of a phase that can be seen, and the rest as one."""
    total = sum(part.seconds for part in parts)
    kept = [(part.name, part.seconds) for part in parts if part.seconds > 0.1 * total]
    rest = ("all else", total - sum(seconds for _, seconds in kept))
    return [*sorted(kept, key=lambda each: -each[1]), rest]


@functools.cache
def trained(chips: int) -> Any:
    """Return the plan of one job of training on a number of chips."""
    return trn3.plan("llama-3.3-70b", "trn2", chips=chips, training=trn3.Training(1024, 8192))


def training_chips() -> Figure:
    """Draw the time of a step of training and its MFU by the number of chips."""
    chips = [64, 128, 256, 512, 1024]
    plans = [trained(count) for count in chips]
    picture = figure(2.9)
    left, right = picture.subplots(1, 2)
    left.loglog(chips, [plan.step_time for plan in plans], marker="o", color=COLORS[0])
    left.fill_between(
        chips,
        [plan.step_time_low for plan in plans],
        [plan.step_time_high for plan in plans],
        color=COLORS[0],
        alpha=0.2,
        linewidth=0,
        label="its band",
    )
    left.set_ylabel("a step (s)")
    left.legend()
    right.semilogx(chips, [100 * plan.mfu for plan in plans], marker="o", color=COLORS[1])
    right.set_ylabel("MFU (%)")
    right.set_ylim(0, 115 * max(plan.mfu for plan in plans))
    for axes in (left, right):
        axes.set_xlabel("chips")
        axes.set_xticks(chips, [str(count) for count in chips])
        axes.minorticks_off()
    picture.suptitle("llama-3.3-70b, 1,024 sequences of 8,192 a step, on Trn2", fontweight="bold")
    return picture


def watts() -> Figure:
    """Draw what a chip draws by its load, in parts, against both TDPs that sources give."""
    loads = np.linspace(0.02, 1, 15)
    found = [power.power("trn3_gen2", utilisation=float(u), hbm=float(u)) for u in loads]
    picture = figure(3.0)
    axes = picture.subplots()
    parts = ("static", "mxfp8", "hbm")
    values = [[dict(each.parts)[part] for each in found] for part in parts]
    axes.stackplot(100 * loads, values, labels=parts, colors=COLORS, alpha=0.85)
    for reading in power.rack_power("gen2"):
        axes.axhline(reading.tdp, linestyle="--", linewidth=1, color=COLORS[-1])
        axes.annotate(
            f"TDP {reading.tdp:,.0f} W", (2, reading.tdp), (0, 3), textcoords="offset points"
        )
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 1.15 * max(each.tdp for each in power.rack_power("gen2")))
    axes.set_xlabel("% of the MXFP8 peak and of HBM's rate")
    axes.set_ylabel("W a chip of Trn3 Gen2")
    picture.legend(loc="outside right upper", reverse=True)
    return picture


def sizes() -> Figure:
    """Draw the models by their parameters, all of them and those that a token passes."""
    found = [planner.model(name) for name in planner.models()]
    picture = figure(3.2)
    axes = picture.subplots()
    total = np.array([each.parameters for each in found]) / 1e9
    active = np.array([each.parameters_active for each in found]) / 1e9
    axes.scatter(total, active, s=16, color=COLORS[0], alpha=0.8, linewidth=0)
    line = [total.min(), total.max()]
    axes.plot(line, line, color=COLORS[-1], linewidth=1, label="every parameter is used")
    for name in ("gpt-oss-120b", "deepseek-v3", "llama-3.3-70b"):
        each = planner.model(name)
        axes.annotate(
            name,
            (each.parameters / 1e9, each.parameters_active / 1e9),
            (-4, 6),
            textcoords="offset points",
            ha="right",
            fontsize=9,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("parameters (billion)")
    axes.set_ylabel("of them for a token (billion)")
    axes.legend(loc="lower right")
    return picture


def goodput() -> Figure:
    """Draw what failures leave of a month of training, over the interval of checkpoints."""
    picture = figure(3.1)
    left, right = picture.subplots(1, 2)
    fleets = [trn3.goodput("gen2", chips, 30, runs=8) for chips in (14_400, 72_000)]
    for lane, found in enumerate(fleets):
        start = 0.0
        for (name, share), color in zip(found.shares.items(), COLORS, strict=False):
            label = name if lane == 0 else None
            left.barh(lane, 100 * share, left=start, color=color, label=label)
            start += 100 * share
        color = COLORS[lane]
        intervals, parts = zip(*found.curve, strict=True)
        label = f"{found.chips:,} chips"
        right.plot(intervals, [100 * part for part in parts], color=color, label=label)
        right.plot(found.checkpoint.interval, 100 * found.effective_time, marker="o", color=color)
    left.set_yticks(range(len(fleets)), [f"{found.chips:,} chips" for found in fleets])
    left.grid(visible=False, axis="y")
    left.set_xlabel("% of the time")
    left.legend(loc="upper center", bbox_to_anchor=(0.4, -0.2), ncols=3, fontsize=8)
    right.set_xscale("log")
    right.set_xlabel("seconds between checkpoints")
    right.set_ylabel("effective time, %")
    right.legend()
    return picture


def tiles() -> Figure:
    """Draw the results of a sweep over two parameters."""
    grid = {"rows": list(range(32, 321, 32)), "columns": list(range(128, 1537, 128))}
    result = trn3.sweep(tile_share, grid, workers=0)
    shares = np.reshape(result.values, [len(each) for each in grid.values()])
    picture = figure(3.2)
    axes = picture.subplots()
    image = axes.imshow(100 * shares, origin="lower", aspect="auto", cmap="cividis")
    axes.set_xticks(range(len(grid["columns"])), [str(each) for each in grid["columns"]])
    axes.set_yticks(range(len(grid["rows"])), [str(each) for each in grid["rows"]])
    axes.set_xlabel("columns")
    axes.set_ylabel("rows")
    axes.grid(visible=False)
    picture.colorbar(image, label="% of the tiles filled")
    return picture


def tile_share(rows: int, columns: int) -> float:
    """Return the example of the page on sweeps."""
    tiles = -(-rows // 128) * -(-columns // 512)
    return rows * columns / (tiles * 128 * 512)


def dollars() -> Figure:
    """Draw the cost of a PFLOP-hour by how much of the time a system works."""
    shares = np.linspace(0.1, 1, 19)
    picture = figure(2.8)
    axes = picture.subplots()
    for capex, color in zip((2e6, 3e6, 4e6), COLORS, strict=False):
        found = [
            cost.tco(capex, 4, 180, 1.15, 0.07, float(share), system="gen2").per_pflop_hour or 0.0
            for share in shares
        ]
        axes.plot(
            100 * shares, found, color=color, label=f"${capex / 1e6:.0f} M for an UltraServer"
        )
    axes.set_xlabel("utilisation (%)")
    axes.set_ylabel("dollars a PFLOP-hour")
    axes.set_ylim(bottom=0)
    axes.legend()
    return picture
