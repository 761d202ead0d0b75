"""Pictures of a profile: the timeline, and where they go; matplotlib draws (extra ``plot``)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trn3 import pictures
from trn3._trn3.profile import sum_by_bin
from trn3.files import PLOT_SUFFIXES
from trn3.pictures import INK, digits, ink_on, literal
from trn3.profile.data import CAUSES, ENGINES
from trn3.profile.families import FAMILIES, WAITS, family_of
from trn3.profile.figures import RunFigures
from trn3.profile.results import EngineTotal
from trn3.profile.roofline import draw_roofline
from trn3.text import time

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

# 1200 pixels wide.
WIDTH_INCHES = 10
TIMELINE_HEIGHT, ROOFLINE_HEIGHT = 7.0, 6.0
# More edges of spans than this give way to even bins, of half a pixel, filled by parts.
MAX_EDGES = 2000
# What of the width a letter of a bar's name takes, and what a name that stands upright.
CHARACTER_SHARE, UPRIGHT_SHARE = 0.0062, 0.011
# Bars that lie closer than this are one bar to the eye.
SEAM_SHARE = 0.0008
# How high the lane of an engine is that works, that of one that does not, and how much bars take.
BUSY_LANE, IDLE_LANE, LANE = 1.0, 0.42, 0.84

#: Writes a picture into a file.
Draw: TypeAlias = Callable[[Path], None]
# A name of a colour, and the part of each bin that it takes.
Layer: TypeAlias = tuple[str, NDArray[np.float64]]


def writers(profile: RunFigures, path: Path) -> dict[Path, Draw]:
    """Return the files to write for a path, and what writes each.

    A directory gets both pictures; a file gets them one above the other.
    """
    pictures.need_matplotlib()
    if path.is_dir():
        return {
            path / "timeline.png": partial(_write, draw_timeline, TIMELINE_HEIGHT, profile),
            path / "roofline.png": partial(_write, draw_roofline, ROOFLINE_HEIGHT, profile),
        }
    if path.suffix not in PLOT_SUFFIXES:
        message = f"{path}: is no directory, and no {', '.join(PLOT_SUFFIXES)} file"
        raise ValueError(message)
    return {path: partial(_write, _draw_both, TIMELINE_HEIGHT + ROOFLINE_HEIGHT, profile)}


def figure_of(cores: Sequence[RunFigures]) -> Figure:
    """Return both pictures of each core, one below the other, as a figure."""
    height = (TIMELINE_HEIGHT + ROOFLINE_HEIGHT) * len(cores)
    with pictures.drawing(WIDTH_INCHES, height) as figure:
        for core, part in zip(cores, figure.subfigures(len(cores), 1, squeeze=False), strict=True):
            _draw_both(core, part[0])
    return figure


def _write(
    draw: Callable[[RunFigures, Any], None], height: float, profile: RunFigures, path: Path
) -> None:
    with pictures.drawing(WIDTH_INCHES, height) as figure:
        draw(profile, figure)
    pictures.save(figure, path)


def _draw_both(profile: RunFigures, figure: Figure | SubFigure) -> None:
    heights = (TIMELINE_HEIGHT, ROOFLINE_HEIGHT)
    upper, lower = figure.subfigures(2, 1, squeeze=False, height_ratios=heights)[:, 0]
    draw_timeline(profile, upper)
    draw_roofline(profile, lower)


def draw_timeline(profile: RunFigures, figure: Figure | SubFigure) -> None:
    """Draw what each engine did and waited for, memory in use, and HBM bandwidth, over time."""
    latency, count = profile.latency_us, len(profile.data.instructions)
    lanes, memory, bandwidth = figure.subplots(
        3, 1, sharex=True, height_ratios=(0.85 * sum(_heights(profile)), 1.1, 1.1), squeeze=True
    )
    instructions = f"{count:,} instruction{'' if count == 1 else 's'}"
    machine = f"{profile.data.kernel} on {profile.data.arch['name']}"
    pictures.write_title(figure, f"{machine}: {time(latency * 1e-6)}, {instructions}")
    edges = _edges(profile)
    _draw_lanes(profile, lanes, edges)
    _draw_memory(profile, memory)
    _draw_bandwidth(profile, bandwidth)
    unit = pictures.time_ticks(bandwidth.xaxis, latency or 1.0, 1e-6)
    label = f"time from the start of the first instruction ({unit})"
    if len(edges) > MAX_EDGES:
        each = time((edges[1] - edges[0]) * 1e-12)
        label += f"; a bar's height is what part of each {each} it fills"
    bandwidth.set_xlabel(label)
    lanes.set_xlim(0, latency or 1.0)
    figure.align_ylabels([memory, bandwidth])


def _is_idle(total: EngineTotal) -> bool:
    return not total.instructions and not total.busy_us


def _heights(profile: RunFigures) -> list[float]:
    """Return the height of each engine's lane, the lowest first."""
    totals = reversed(profile.engines())
    return [IDLE_LANE if _is_idle(total) else BUSY_LANE for total in totals]


def _edges(profile: RunFigures) -> NDArray[np.float64]:
    """Return bins in picoseconds: the very ends of all spans if they are few, else even ones."""
    data = profile.data
    edges = np.unique(
        np.concatenate(
            [
                np.array([0, max(data.latency_ps, 1)], np.uint64),
                data.instructions.start_ps,
                data.instructions.slot_end_ps,
                data.instructions.start_ps - data.instructions.wait_ps,
                data.transfers.start_ps,
                data.transfers.end_ps,
            ]
        )
    )
    edges = edges[edges <= max(data.latency_ps, 1)]
    if len(edges) <= MAX_EDGES:
        return edges.astype(np.float64)
    return np.linspace(0, data.latency_ps, MAX_EDGES + 1)


def _filled(
    start: NDArray[Any], end: NDArray[Any], edges: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return what part of each bin the spans fill."""
    length = (end - start).astype(np.float64)
    return np.asarray(sum_by_bin(start, end, length, edges) / np.diff(edges))


def _draw_lanes(profile: RunFigures, axes: Axes, edges: NDArray[np.float64]) -> None:
    shown: set[str] = set()
    labels, places = [], []
    floors = np.cumsum([0.0, *_heights(profile)])
    for number, total in enumerate(reversed(profile.engines())):
        base = (floors[number] + floors[number + 1]) / 2
        labels.append(_lane_label(profile, total))
        places.append(base)
        rows = np.flatnonzero(profile.data.instructions.engine == ENGINES.index(total.engine))
        if total.engine == "dma":
            layers = _transfer_layers(profile, edges)
        else:
            layers = _engine_layers(profile, rows, edges)
        floor = np.full(len(edges), base - LANE / 2)
        for name, filled in layers:
            # The last value again: a step reaches from one edge to the next.
            ceiling = floor + LANE * np.append(filled, filled[-1])
            color, edge, hatch = WAITS[name].look if name in WAITS else (FAMILIES[name], "none", "")
            axes.fill_between(
                edges / 1e6,
                ceiling,
                floor,
                step="post",
                facecolor=color,
                edgecolor=edge,
                hatch=hatch,
                linewidth=0,
            )
            floor = ceiling
            shown.add(name)
        if total.engine != "dma":
            _name_bars(profile, axes, rows, base)
    if not len(profile.data.instructions):
        axes.text(0.5, 0.5, "no instructions", transform=axes.transAxes, ha="center", va="center")
    axes.set_yticks(places, labels)
    axes.set_ylim(0, floors[-1])
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(visible=True, axis="x", alpha=0.25)
    axes.set_axisbelow(True)
    _legend(axes, shown)


def _lane_label(profile: RunFigures, total: EngineTotal) -> str:
    if _is_idle(total):
        return f"{total.engine}: idle"
    busy = f"{total.engine}\n{digits(100 * total.busy_share)} % busy"
    if total.engine != "dma":
        return busy
    each = f"{digits(100 * profile.dma_mean_busy_share)} % each of {len(profile.dma_engine_us)}"
    return f"{busy},\n{each}"


def _families(profile: RunFigures) -> NDArray[np.intp]:
    """Return the family of each instruction, as its place in `FAMILIES`."""
    places = [list(FAMILIES).index(family_of(opcode)) for opcode in profile.data.opcodes]
    return np.array(places, np.intp)[profile.data.instructions.opcode]


def _engine_layers(
    profile: RunFigures, rows: NDArray[np.intp], edges: NDArray[np.float64]
) -> Iterator[Layer]:
    """Yield families and groups of waits with the part of each bin that they take."""
    instructions = profile.data.instructions
    family = _families(profile)[rows]
    for place, name in enumerate(FAMILIES):
        part = rows[family == place]
        if len(part):
            ends = instructions.slot_end_ps[part]
            yield name, _filled(instructions.start_ps[part], ends, edges)
    for name, group in WAITS.items():
        numbers = [CAUSES.index(cause) for cause in group.causes]
        part = rows[np.isin(instructions.cause[rows], numbers) & (instructions.wait_ps[rows] > 0)]
        if len(part):
            ends = instructions.start_ps[part]
            yield name, _filled(ends - instructions.wait_ps[part], ends, edges)


def _transfer_layers(profile: RunFigures, edges: NDArray[np.float64]) -> Iterator[Layer]:
    """Yield families with the part of each bin, and of all DMA engines, that they take."""
    transfers = profile.data.transfers
    family = _families(profile)[transfers.instruction]
    for place, name in enumerate(FAMILIES):
        part = np.flatnonzero(family == place)
        if len(part):
            filled = _filled(transfers.start_ps[part], transfers.end_ps[part], edges)
            yield name, filled / len(profile.dma_engine_us)


def _name_bars(profile: RunFigures, axes: Axes, rows: NDArray[np.intp], base: float) -> None:
    """Write opcodes into bars that are wide enough, once into those that touch."""
    data, instructions = profile.data, profile.data.instructions
    latency = max(data.latency_ps, 1)
    begin = instructions.start_ps[rows].astype(np.float64) / latency
    end = instructions.slot_end_ps[rows].astype(np.float64) / latency
    opcode = instructions.opcode[rows]
    is_first = np.ones(len(rows), bool)
    is_first[1:] = (opcode[1:] != opcode[:-1]) | (begin[1:] - end[:-1] > SEAM_SHARE)
    firsts = np.flatnonzero(is_first)
    counts = np.diff(np.append(firsts, len(rows)))
    widths = end[firsts + counts - 1] - begin[firsts]
    # In gaps too narrow to see there is no bar to write into.
    filled = np.add.reduceat(end - begin, firsts) if len(rows) else widths
    letters = _upright_letters(profile)
    for place in np.flatnonzero((widths >= UPRIGHT_SHARE) & (filled >= 0.8 * widths)).tolist():
        first, count = int(firsts[place]), int(counts[place])
        name = data.opcodes[opcode[first]]
        color = ink_on(FAMILIES[family_of(name)])
        shown = literal(name) + (f" x {count:,}" if count > 1 else "")
        width = float(widths[place])
        is_level = width >= CHARACTER_SHARE * (len(shown) + 2)
        if is_level or len(shown) <= letters:
            axes.text(
                (begin[first] + width / 2) * latency / 1e6,
                base,
                shown,
                ha="center",
                va="center",
                color=color,
                fontsize=7 if is_level else 6,
                rotation=0 if is_level else 90,
                clip_on=True,
            )


def _upright_letters(profile: RunFigures) -> int:
    """Return how many letters an upright name may have to stay in its lane."""
    lanes = sum(_heights(profile))
    inches = 0.85 / (0.85 * lanes + 2.2) * (TIMELINE_HEIGHT - 1.2) * LANE
    return int(inches / 0.058)


def _legend(axes: Axes, shown: set[str]) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(color=color, label=f) for f, color in FAMILIES.items() if f in shown]
    handles += [
        Patch(facecolor=face, hatch=hatch, edgecolor=edge, linewidth=0, label=name)
        for name, group in WAITS.items()
        for face, edge, hatch in [group.look]
        if name in shown
    ]
    if handles:
        axes.legend(
            handles=handles,
            loc="lower center",
            bbox_to_anchor=(0.5, 1.0),
            ncols=math.ceil(len(handles) / math.ceil(len(handles) / 6)),
            frameon=False,
            fontsize=8,
        )


def _draw_memory(profile: RunFigures, axes: Axes) -> None:
    occupancy, arch = profile.data.occupancy, profile.data.arch
    for name, values, peak, color in (
        ("sbuf", occupancy.sbuf_bytes, occupancy.sbuf_peak_bytes, pictures.SERIES[0]),
        ("psum", occupancy.psum_bytes, occupancy.psum_peak_bytes, pictures.SERIES[4]),
    ):
        capacity = arch[f"{name}_partition_bytes"]
        share = np.append(values, values[-1:]) / capacity * 100
        times = np.append(occupancy.time_ps, [profile.data.latency_ps][: len(values)]) / 1e6
        label = f"{name.upper()}: peak {peak / 1024:,.1f} of {capacity / 1024:,.0f} KiB"
        times, share = _thinned(times, share)
        axes.step(times, share, where="post", color=color, linewidth=1.1, label=label)
    axes.set_ylabel("in use (%)")
    axes.set_ylim(0, 105)
    _finish(axes)


def _thinned(
    times: NDArray[np.float64], values: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Keep the least and the greatest of each stretch, if there are very many."""
    if len(values) <= 2 * MAX_EDGES:
        return times, values
    starts = np.linspace(0, len(values), MAX_EDGES, endpoint=False).astype(np.intp)
    both = np.stack([np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)], 1)
    return np.repeat(times[starts], 2), both.ravel()


def _draw_bandwidth(profile: RunFigures, axes: Axes) -> None:
    latency = profile.data.latency_ps
    bins = int(min(300, max(20, latency // 50_000)))
    edges = np.linspace(0, max(latency, 1), bins + 1)
    rate = profile.hbm_bytes_by_bin(edges) / np.diff(edges) * 1e3
    roofline = profile.roofline()
    axes.stairs(rate, edges / 1e6, fill=True, color=FAMILIES["DMA"], alpha=0.9)
    # A byte that is copied within HBM is read and written there, and moved once.
    instructions = profile.data.instructions
    traffic = (instructions.hbm_read + instructions.hbm_write)[instructions.dma_bytes > 0]
    moved = instructions.dma_bytes[instructions.dma_bytes > 0]
    engines = roofline.dma_gbps * max(1.0, float((traffic / moved).max(initial=0)))
    ceiling = min(roofline.hbm_gbps, engines)
    source = "HBM" if roofline.hbm_gbps <= engines else "all DMA engines"
    axes.axhline(
        ceiling,
        color=INK,
        linewidth=0.9,
        linestyle="--",
        label=f"most that {source} give{'s' if source == 'HBM' else ''}: {ceiling:,g} GB/s",
    )
    axes.set_ylabel("HBM (GB/s)")
    axes.set_ylim(0, 1.08 * max(ceiling, float(rate.max(initial=0))))
    _finish(axes)


def _finish(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, axis="both", alpha=0.25)
    axes.set_axisbelow(True)
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1.0, 0.97),
        ncols=2,
        borderpad=0,
        borderaxespad=0,
        frameon=False,
        fontsize=8,
    )
