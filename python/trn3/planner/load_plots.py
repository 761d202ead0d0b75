"""The picture of a service under load: waits, and queue, batch and cache over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trn3.pictures import ACCENT, SERIES, drawing, write_title

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

    from trn3.planner.parts import LoadTimeline

SHARES = ("p50", "p90", "p95", "p99")


def draw_load(title: str, waits: Mapping[str, float], timeline: LoadTimeline) -> Figure:
    """Draw quantiles of waits beside the state of the service over time."""
    with drawing(11, 4.6) as figure:
        left, right = figure.subplots(1, 2, width_ratios=(1, 1.4))
        for index, name in enumerate(("ttft", "tpot", "e2el")):
            left.plot(
                SHARES,
                [waits[f"{share}_{name}_ms"] for share in SHARES],
                marker="o",
                color=SERIES[index],
                label=name,
            )
        left.set_yscale("log")
        left.set_ylabel("ms")
        left.set_title("what users wait for", loc="left")
        left.legend(frameon=False)
        seconds = [timeline.interval * place for place in range(len(timeline.waiting))]
        right.plot(seconds, timeline.waiting, color=SERIES[4], label="waiting")
        right.plot(seconds, timeline.running, color=SERIES[0], label="running")
        right.set_xlabel("s")
        right.set_ylabel("requests")
        right.set_title("load over time", loc="left")
        used = right.twinx()
        used.plot(
            seconds,
            [100 * share for share in timeline.kv_cache_usage],
            color=ACCENT,
            linewidth=0.8,
            label="kv cache",
        )
        used.set_ylabel("kv cache, %")
        used.set_ylim(0, 105)
        lines = [*right.get_lines(), *used.get_lines()]
        right.legend(lines, [line.get_label() for line in lines], frameon=False)
        write_title(figure, title)
    return figure
