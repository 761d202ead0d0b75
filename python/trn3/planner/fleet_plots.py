"""Pictures of fleets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trn3.pictures import ACCENT, INK, SERIES, drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from trn3.planner.fleet_results import Goodput


def draw_goodput(found: Goodput) -> Figure:
    """Draw where the time goes, and the effective time over the interval of checkpoints."""
    lost = {name: share for name, share in found.shares.items() if name != "training" and share}
    with drawing(8.0, 3.4) as figure:
        left, right = figure.subplots(1, 2)
        rows = range(len(lost))
        left.barh(rows, [share * 100 for share in lost.values()], color=SERIES[: len(lost)])
        left.set_yticks(rows, list(lost))
        left.invert_yaxis()
        left.set_xlabel("% of the time")
        left.set_title(f"what does not train: {1 - found.goodput:.1%}")
        intervals, parts = zip(*found.curve, strict=True)
        right.semilogx(intervals, [part * 100 for part in parts], color=INK, label="closed form")
        low, high = (found.effective_time_low * 100, found.effective_time_high * 100)
        at, middle = found.checkpoint.interval, found.effective_time * 100
        right.errorbar(
            [at],
            [middle],
            yerr=[[middle - low], [high - middle]],
            fmt="o",
            color=ACCENT,
            label="simulated, with its range",
        )
        right.set_xlabel("seconds of work between checkpoints")
        right.set_ylabel("effective time, %")
        right.legend(frameon=False)
        right.set_title(f"{found.chips:,} chips, {found.days:g} days")
    return figure
