"""The picture of the roofline: attainable speed over intensity, and where a kernel stands."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from trn3 import pictures
from trn3.pictures import ACCENT, INK, digits, literal
from trn3.profile.figures import RunFigures
from trn3.profile.results import Roofline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

# More letters than this of a kernel's name go into another line.
LABEL_WIDTH = 44


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
        # Room for the label below.
        bottom = min(bottom, roofline.achieved_tflops / 12)
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, roofline.compute_tflops * 4)
    _draw_ceilings(profile, roofline, axes, left)
    name = literal(profile.data.kernel, LABEL_WIDTH)
    machine = f"{profile.data.kernel} on {profile.data.arch['name']}"
    pictures.write_title(figure, f"{machine}: {_standing(roofline)}")
    if placed:
        _draw_point(roofline, axes, name)
    elif roofline.achieved_tflops > 0:
        axes.axhline(
            roofline.achieved_tflops,
            color=ACCENT,
            linewidth=1.2,
            label=f"{name}: {digits(roofline.achieved_tflops)} TFLOP/s without HBM traffic",
        )
        axes.legend(loc="lower right", frameon=False)
    else:
        axes.text(0.3, 0.2, "no matmuls: nothing to place", transform=axes.transAxes, ha="center")
    axes.set_xlabel("arithmetic intensity (FLOP per byte of HBM traffic)")
    axes.set_ylabel("speed (TFLOP/s)")
    for axis in (axes.xaxis, axes.yaxis):
        pictures.plain_ticks(axis)
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
        axes.plot(ends, ends * gbps / 1e3, color=INK, linewidth=1.4, linestyle=style)
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
        axes.axhline(tflops, color=INK, linewidth=1.4)
        axes.annotate(
            f"{name}: {tflops:,.1f} TFLOP/s",
            (left, tflops),
            # Away from the line of the mix.
            xytext=(4, -3 if below else 3),
            textcoords="offset points",
            va="top" if below else "bottom",
            fontsize=8,
        )
    axes.set_ylim(top=4 * max([roofline.compute_tflops, *speeds.values()]))
    _draw_ridges(roofline, axes)
    if len(peaks) > 1:
        label = f"this mix of matmuls: {roofline.compute_tflops:,.1f} TFLOP/s"
        axes.axhline(roofline.compute_tflops, color=INK, linestyle=":", label=label)
        axes.legend(loc="lower right", frameon=False)


def _draw_ridges(roofline: Roofline, axes: Axes) -> None:
    """Mark the intensities from which on the tensor engine binds, under each of the ceilings."""
    rates = {"HBM": roofline.hbm_gbps, "all DMA engines": roofline.dma_gbps}
    speed = 1e3 * roofline.compute_tflops
    ridges = sorted((speed / rate, source) for source, rate in rates.items())
    for (ridge, source), side, offset in zip(ridges, ("right", "left"), (-5, 5), strict=True):
        axes.axvline(ridge, color=INK, linewidth=0.6, linestyle=":", alpha=0.7)
        axes.annotate(
            f"ridge of {source}:\n{digits(ridge)} FLOP/byte",
            (ridge, axes.get_ylim()[1]),
            xytext=(offset, -4),
            textcoords="offset points",
            ha=side,
            va="top",
            fontsize=8,
        )


def _draw_point(roofline: Roofline, axes: Axes, name: str) -> None:
    x, y, roof = roofline.intensity, roofline.achieved_tflops, roofline.attainable_tflops
    axes.plot([x, x], [y, roof], color=ACCENT, linewidth=0.9, linestyle=":")
    axes.plot([x], [y], "o", color=ACCENT, markersize=8, zorder=5)
    left, right = axes.get_xlim()
    crowded = math.log(x / left) > 0.72 * math.log(right / left)
    axes.annotate(
        f"{name}\n{digits(y)} TFLOP/s at {digits(x)} FLOP/byte\n"
        f"{digits(100 * y / roof)} % of the {digits(roof)} TFLOP/s attainable",
        (x, y),
        xytext=(-12 if crowded else 12, -10),
        textcoords="offset points",
        ha="right" if crowded else "left",
        va="top",
        color=ACCENT,
        bbox={"facecolor": "w", "edgecolor": "none", "alpha": 0.8, "pad": 1.5},
    )
