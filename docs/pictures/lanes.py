"""Engines over time, small: a lane each, runs one above the other on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.patches import Patch
from numpy.typing import NDArray

from pictures.themes import COLORS, figure
from trn3.profile import ENGINES, Profile

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMES = {
    "tensor": "TensorE",
    "vector": "VectorE",
    "scalar": "ScalarE",
    "gpsimd": "GpSimdE",
    "sync": "SyncE",
    "dma": "DMA",
}
# Spans nearer than this part of the picture are one: nobody could see between them.
NEAR = 1 / 2000


def merged(
    start: NDArray[np.uint64], end: NDArray[np.uint64], near: float
) -> list[tuple[float, float]]:
    """Return spans that overlap or almost touch as one, each as start and length."""
    if not len(start):
        return []
    order = np.argsort(start)
    starts, ends = start[order].astype(float), end[order].astype(float)
    latest = np.maximum.accumulate(ends)
    begins = np.flatnonzero(np.append(True, starts[1:] > latest[:-1] + near))
    lasts = np.append(begins[1:], len(starts)) - 1
    return list(zip(starts[begins], latest[lasts] - starts[begins], strict=True))


def draw(axes: Axes, profile: Profile, scale_ps: float) -> None:
    """Draw the lanes of a run that takes part of a scale of picoseconds."""
    instructions, transfers = profile.data.instructions, profile.data.transfers
    shown = [total.engine for total in profile.engines() if total.busy_us > 0][::-1]
    near = scale_ps * NEAR
    for lane, engine in enumerate(shown):
        rows = np.flatnonzero(instructions.engine == ENGINES.index(engine))
        color = COLORS[list(NAMES).index(engine)]
        starts = instructions.start_ps[rows]
        begins = starts - instructions.wait_ps[rows]
        waits = [(s / 1e6, n / 1e6) for s, n in merged(begins, starts, near) if n > near]
        axes.broken_barh(waits, (lane - 0.12, 0.24), color=color, alpha=0.3, linewidth=0)
        if engine == "dma":
            spans = merged(transfers.start_ps, transfers.end_ps, near)
        else:
            spans = merged(starts, instructions.slot_end_ps[rows], near)
        bars = [(s / 1e6, n / 1e6) for s, n in spans]
        axes.broken_barh(bars, (lane - 0.4, 0.8), color=color, linewidth=0)
    axes.set_yticks(range(len(shown)), [NAMES.get(each, each) for each in shown])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(-0.6, len(shown) - 0.4)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)


def stacked(runs: Sequence[tuple[str, Profile]], height: float = 0.25) -> Figure:
    """Draw runs one above the other on one scale.

    Parameters
    ----------
    runs
        What stands above each, and its profile.
    height
        Of a lane, in inches.
    """
    lanes = [sum(total.busy_us > 0 for total in run.engines()) for _, run in runs]
    picture = figure(sum(height * count + 0.42 for count in lanes) + 0.75)
    parts = picture.subplots(len(runs), 1, sharex=True, squeeze=False, height_ratios=lanes)[:, 0]
    longest = max(run.data.latency_ps for _, run in runs)
    for axes, (title, run) in zip(parts, runs, strict=True):
        draw(axes, run, longest)
        axes.set_title(f"{title}: {run.latency_us:,.1f} us")
        axes.axvline(run.latency_us, linestyle=":", linewidth=1, color=COLORS[-1])
    parts[-1].set_xlim(0, longest / 1e6 * 1.005)
    parts[-1].set_xlabel("time (us)")
    gray = COLORS[-1]
    handles = [Patch(color=gray, label="at work"), Patch(color=gray, alpha=0.3, label="waiting")]
    picture.legend(handles=handles, loc="outside lower right", ncols=2)
    return picture
