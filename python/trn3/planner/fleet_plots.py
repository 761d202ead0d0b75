"""Pictures of fleets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trn3.pictures import ACCENT, INK, SERIES, drawing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure


def draw_goodput(
    title: str,
    shares: Mapping[str, float],
    curve: Sequence[tuple[float, float]],
    interval: float,
    effective: tuple[float, float, float],
) -> Figure:
    """Draw where the time goes, and the effective time over the interval of checkpoints.

    `effective` is the low end of its range, itself at `interval`, and the high end.
    """
    lost = {name: share for name, share in shares.items() if name != "training" and share}
    with drawing(8.0, 3.4) as figure:
        left, right = figure.subplots(1, 2)
        rows = range(len(lost))
        left.barh(rows, [share * 100 for share in lost.values()], color=SERIES[: len(lost)])
        left.set_yticks(rows, list(lost))
        left.invert_yaxis()
        left.set_xlabel("% of the time")
        left.set_title(f"what does not train: {sum(lost.values()):.1%}")
        intervals, parts = zip(*curve, strict=True)
        right.semilogx(intervals, [part * 100 for part in parts], color=INK, label="closed form")
        low, middle, high = (part * 100 for part in effective)
        right.errorbar(
            [interval],
            [middle],
            yerr=[[middle - low], [high - middle]],
            fmt="o",
            color=ACCENT,
            label="simulated, with its range",
        )
        right.set_xlabel("seconds of work between checkpoints")
        right.set_ylabel("effective time, %")
        right.legend(frameon=False)
        right.set_title(title)
    return figure
