"""Pictures of a profile: the timeline and the roofline, drawn with matplotlib (extra ``plot``)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trn3._trn3.profile import sum_by_bin
from trn3.files import PLOT_SUFFIXES
from trn3.profile.data import CAUSES, DMA, ENGINES
from trn3.profile.families import FAMILIES, family_of
from trn3.profile.figures import RunFigures
from trn3.profile.results import Roofline
from trn3.text import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

# 1200 pixels wide.
WIDTH_INCHES, DPI = 10, 120
TIMELINE_HEIGHT, ROOFLINE_HEIGHT = 7.0, 6.0
# More edges of spans than this give way to even bins, of half a pixel, filled by parts.
MAX_EDGES = 2000
# A bar is named if its name is about this much narrower than the bar.
CHARACTER_SHARE = 0.0066
KERNEL_COLOR = "#C00000"
HATCH_COLOR = "#8894A0"
# How much of a lane's height its bars take.
LANE = 0.84

#: Writes a picture into a file.
Draw: TypeAlias = Callable[[Path], None]
# A name of a colour, and the part of each bin that it takes.
Layer: TypeAlias = tuple[str, NDArray[np.float64]]

# What a wait was for, in few groups that differ in hatching.
WAITS = {
    "waits for DMA": ("dma", "DMA queue"),
    "waits for an engine": (*ENGINES[:DMA], "depends_on", "issue order"),
    "waits for table or bank": ("table load", "PSUM bank"),
}
WAIT_STYLES = {
    "waits for DMA": ("#F6DFB0", "////"),
    "waits for an engine": ("#E4E8EC", "\\\\\\\\"),
    "waits for table or bank": ("#EBD5E8", "xxxx"),
}


def writers(profile: RunFigures, path: Path) -> dict[Path, Draw]:
    """Return the files to write for a path, and what writes each.

    A directory gets both pictures; a file gets them one above the other.
    """
    _need_matplotlib()
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
    _need_matplotlib()
    from matplotlib.figure import Figure

    height = (TIMELINE_HEIGHT + ROOFLINE_HEIGHT) * len(cores)
    with _style():
        figure = Figure(figsize=(WIDTH_INCHES, height), dpi=DPI, layout="constrained")
        for core, part in zip(cores, figure.subfigures(len(cores), 1, squeeze=False), strict=True):
            _draw_both(core, part[0])
    return figure


def _style() -> AbstractContextManager[None]:
    from matplotlib import rc_context

    return rc_context({"font.size": 9, "hatch.linewidth": 0.5, "svg.hashsalt": "trn3"})


def _need_matplotlib() -> None:
    if find_spec("matplotlib") is None:
        message = "plots need matplotlib: pip install 'trn3[plot]'"
        raise ImportError(message)


def _write(
    draw: Callable[[RunFigures, Any], None], height: float, profile: RunFigures, path: Path
) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # One program gives one picture, whenever it is drawn.
    dates: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    kind = path.suffix.removeprefix(".")
    with _style():
        # The object interface: pyplot would look for a display and keep the figure alive.
        figure = Figure(figsize=(WIDTH_INCHES, height), dpi=DPI, layout="constrained")
        FigureCanvasAgg(figure)
        draw(profile, figure)
        figure.savefig(path, format=kind, metadata=dates.get(kind))


def _draw_both(profile: RunFigures, figure: Figure | SubFigure) -> None:
    heights = (TIMELINE_HEIGHT, ROOFLINE_HEIGHT)
    upper, lower = figure.subfigures(2, 1, squeeze=False, height_ratios=heights)[:, 0]
    draw_timeline(profile, upper)
    draw_roofline(profile, lower)


def draw_timeline(profile: RunFigures, figure: Figure | SubFigure) -> None:
    """Draw what each engine did and waited for, memory in use, and HBM bandwidth, over time."""
    latency = profile.latency_us
    lanes, memory, bandwidth = figure.subplots(
        3, 1, sharex=True, height_ratios=(5, 1.1, 1.1), squeeze=True
    )
    name = _literal(profile.data.kernel)
    figure.suptitle(
        f"{name} on {profile.data.arch['name']}: {latency:,.3f} us, "
        f"{len(profile.data.instructions):,} instructions",
        fontweight="bold",
    )
    edges = _edges(profile)
    _draw_lanes(profile, lanes, edges)
    _draw_memory(profile, memory)
    _draw_bandwidth(profile, bandwidth)
    bandwidth.xaxis.set_major_formatter(_plain)
    label = "time from the start of the first instruction (us)"
    if len(edges) > MAX_EDGES:
        label += f"; a bar's height is what part of each {_digits(edges[1] / 1e6)} us it fills"
    bandwidth.set_xlabel(label)
    lanes.set_xlim(0, latency or 1.0)
    figure.align_ylabels([memory, bandwidth])


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
    labels = []
    for base, total in enumerate(reversed(profile.engines())):
        rows = np.flatnonzero(profile.data.instructions.engine == ENGINES.index(total.engine))
        if total.engine == "dma":
            count = len(profile.dma_engine_us)
            each = f"{100 * profile.dma_mean_busy_share:.0f} % each of {count}"
            labels.append(f"dma\n{100 * total.busy_share:.0f} % busy,\n{each}")
            layers = _transfer_layers(profile, edges)
        else:
            labels.append(f"{total.engine}\n{100 * total.busy_share:.0f} % busy")
            layers = _engine_layers(profile, rows, edges)
        floor = np.full(len(edges), base - LANE / 2)
        for name, filled in layers:
            # The last value again: a step reaches from one edge to the next.
            ceiling = floor + LANE * np.append(filled, filled[-1])
            color, hatch = WAIT_STYLES.get(name) or (FAMILIES[name], None)
            axes.fill_between(
                edges / 1e6,
                ceiling,
                floor,
                step="post",
                facecolor=color,
                edgecolor=HATCH_COLOR,
                hatch=hatch,
                linewidth=0,
            )
            floor = ceiling
            shown.add(name)
        if total.engine != "dma":
            _name_bars(profile, axes, rows, base)
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(-0.55, len(labels) - 0.45)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(visible=True, axis="x", alpha=0.25)
    axes.set_axisbelow(True)
    _legend(axes, shown)


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
    for name, causes in WAITS.items():
        numbers = [CAUSES.index(cause) for cause in causes]
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


def _name_bars(profile: RunFigures, axes: Axes, rows: NDArray[np.intp], base: int) -> None:
    """Write opcodes into bars that are wide enough."""
    data, instructions = profile.data, profile.data.instructions
    for i in rows.tolist() if len(rows) <= MAX_EDGES else []:
        name = _literal(data.opcodes[instructions.opcode[i]])
        begin, end = int(instructions.start_ps[i]), int(instructions.slot_end_ps[i])
        if (end - begin) / max(data.latency_ps, 1) < CHARACTER_SHARE * (len(name) + 2):
            continue
        axes.text((begin + end) / 2e6, base, name, ha="center", va="center", color="w", fontsize=7)


def _legend(axes: Axes, shown: set[str]) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(color=color, label=f) for f, color in FAMILIES.items() if f in shown]
    handles += [
        Patch(facecolor=color, hatch=hatch, edgecolor=HATCH_COLOR, linewidth=0, label=group)
        for group, (color, hatch) in WAIT_STYLES.items()
        if group in shown
    ]
    if handles:
        axes.legend(
            handles=handles,
            loc="lower center",
            bbox_to_anchor=(0.5, 1.0),
            ncols=min(len(handles), 6),
            frameon=False,
            fontsize=8,
        )


def _draw_memory(profile: RunFigures, axes: Axes) -> None:
    occupancy, arch = profile.data.occupancy, profile.data.arch
    for name, values, peak, color in (
        ("sbuf", occupancy.sbuf_bytes, occupancy.sbuf_peak_bytes, "#0072B2"),
        ("psum", occupancy.psum_bytes, occupancy.psum_peak_bytes, "#D55E00"),
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
    axes.stairs(rate, edges / 1e6, fill=True, color="#E69F00", alpha=0.9)
    # A byte that is copied within HBM is read and written there, and moved once.
    instructions = profile.data.instructions
    traffic = (instructions.hbm_read + instructions.hbm_write)[instructions.dma_bytes > 0]
    moved = instructions.dma_bytes[instructions.dma_bytes > 0]
    engines = roofline.dma_gbps * max(1.0, float((traffic / moved).max(initial=0)))
    ceiling = min(roofline.hbm_gbps, engines)
    source = "HBM" if roofline.hbm_gbps <= engines else "all DMA engines"
    axes.axhline(
        ceiling,
        color="#333333",
        linewidth=0.9,
        linestyle="--",
        label=f"most that {source} give{'s' if source == 'HBM' else ''}: {ceiling:,g} GB/s",
    )
    axes.set_ylabel("HBM (GB/s)")
    axes.set_ylim(0, 1.08 * max(ceiling, float(rate.max(initial=0))))
    _finish(axes)


def _literal(text: str) -> str:
    """Return a text that is drawn as it stands, not as a formula."""
    return printable(text).replace("$", r"\$")


def _plain(value: float, _place: float) -> str:
    """Return the number at a tick, without powers of ten."""
    return f"{value:,.12g}"


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


def draw_roofline(profile: RunFigures, figure: Figure | SubFigure) -> None:
    """Draw attainable speed over arithmetic intensity, and where the kernel stands."""
    roofline = profile.roofline()
    axes = figure.subplots()
    axes.set_xscale("log")
    axes.set_yscale("log")
    placed = math.isfinite(roofline.intensity) and roofline.intensity > 0
    # Room for the labels at the left of where the ceilings meet.
    left = 1e3 * roofline.compute_tflops / max(roofline.hbm_gbps, roofline.dma_gbps) / 60
    right = roofline.ridge * 30
    if placed:
        left, right = min(left, roofline.intensity / 4), max(right, roofline.intensity * 4)
    bottom = roofline.compute_tflops / 2000
    if roofline.achieved_tflops > 0:
        bottom = min(bottom, roofline.achieved_tflops / 4)
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, roofline.compute_tflops * 4)
    _draw_ceilings(profile, roofline, axes, left)
    name = _literal(profile.data.kernel)
    figure.suptitle(
        f"{name} on {profile.data.arch['name']}: {_standing(roofline)}", fontweight="bold"
    )
    if placed:
        _draw_point(roofline, axes, name)
    elif roofline.achieved_tflops > 0:
        axes.axhline(
            roofline.achieved_tflops,
            color=KERNEL_COLOR,
            linewidth=1.2,
            label=f"{name}: {roofline.achieved_tflops:,.3g} TFLOP/s without HBM traffic",
        )
        axes.legend(loc="lower right", frameon=False)
    else:
        axes.text(0.5, 0.3, "no matmuls: nothing to place", transform=axes.transAxes, ha="center")
    axes.set_xlabel("arithmetic intensity (FLOP per byte of HBM traffic)")
    axes.set_ylabel("speed (TFLOP/s)")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(_plain)
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _standing(roofline: Roofline) -> str:
    if roofline.bound == "none":
        return "neither matmuls nor HBM traffic"
    limit = "tensor engine" if roofline.bound == "compute" else roofline.ceiling
    return f"{roofline.bound} bound, under the {limit} ceiling"


def _draw_ceilings(profile: RunFigures, roofline: Roofline, axes: Axes, left: float) -> None:
    instructions, clock = profile.data.instructions, profile.data.arch["tensor_clock_mhz"]
    lower, upper = sorted(
        [("HBM", roofline.hbm_gbps), ("all DMA engines", roofline.dma_gbps)],
        key=lambda ceiling: ceiling[1],
    )
    for (source, gbps), style, under in ((lower, "-", True), (upper, "--", False)):
        ends = np.array([left, 1e3 * roofline.compute_tflops / gbps])
        axes.plot(ends, ends * gbps / 1e3, color="#333333", linewidth=1.4, linestyle=style)
        # Where the line enters the picture, by the left or the lower side.
        x = max(left, axes.get_ylim()[0] * 1e3 / gbps) * 1.15
        y = x * gbps / 1e3 * (0.86 if under else 1.12)
        axes.text(
            x,
            y,
            f"{source}: {gbps:,g} GB/s",
            # Where the text stands, y / x is the slope in data of a line like the ceiling's.
            # Turning with the axes, the text follows the line.
            rotation=math.degrees(math.atan2(y, x)),
            rotation_mode="anchor",
            transform_rotates_text=True,
            va="top" if under else "bottom",
            fontsize=8,
        )
    peaks = np.unique(instructions.peak_macs_per_cycle[instructions.macs > 0]).tolist()
    speeds = {
        f"{peak:,} MAC/cycle at {clock / 1e3:g} GHz": 2 * peak * clock / 1e6 for peak in peaks
    }
    for name, tflops in (speeds or {"16-bit matmuls": roofline.compute_tflops}).items():
        below = tflops < 0.999 * roofline.compute_tflops
        axes.axhline(tflops, color="#333333", linewidth=1.4)
        axes.annotate(
            f"{name}: {tflops:,.1f} TFLOP/s",
            (left, tflops),
            # Away from the line of the mix.
            xytext=(4, -3 if below else 3),
            textcoords="offset points",
            va="top" if below else "bottom",
            fontsize=8,
        )
    axes.set_ylim(top=2.5 * max([roofline.compute_tflops, *speeds.values()]))
    if len(peaks) > 1:
        label = f"this mix of matmuls: {roofline.compute_tflops:,.1f} TFLOP/s"
        axes.axhline(roofline.compute_tflops, color="#333333", linestyle=":", label=label)
        axes.legend(loc="lower right", frameon=False)


def _draw_point(roofline: Roofline, axes: Axes, name: str) -> None:
    x, y, roof = roofline.intensity, roofline.achieved_tflops, roofline.attainable_tflops
    axes.plot([x, x], [y, roof], color=KERNEL_COLOR, linewidth=0.9, linestyle=":")
    axes.plot([x], [y], "o", color=KERNEL_COLOR, markersize=8, zorder=5)
    left, right = axes.get_xlim()
    crowded = math.log(x / left) > 0.72 * math.log(right / left)
    axes.annotate(
        f"{name}\n{_digits(y)} TFLOP/s at {_digits(x)} FLOP/byte\n"
        f"{100 * y / roof:.0f} % of the {_digits(roof)} TFLOP/s attainable",
        (x, y),
        xytext=(-12 if crowded else 12, -10),
        textcoords="offset points",
        ha="right" if crowded else "left",
        va="top",
        color=KERNEL_COLOR,
        bbox={"facecolor": "w", "edgecolor": "none", "alpha": 0.8, "pad": 1.5},
    )


def _digits(value: float) -> str:
    """Return a number of three digits, without powers of ten."""
    return f"{float(f'{value:.3g}'):,.12g}"
