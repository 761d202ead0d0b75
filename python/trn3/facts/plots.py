"""The picture of systems beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from trn3.pictures import SERIES, drawing, literal, plain_ticks, write_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: From this ratio on the axis is logarithmic.
_WIDE = 20


class Bars(NamedTuple):
    """A figure of all systems: its name, ratios to the first one, and what they are; or None."""

    title: str
    ratios: Sequence[float | None]
    texts: Sequence[str]


def draw_comparison(title: str, systems: Sequence[str], rows: Sequence[Bars]) -> Figure:
    """Draw the ratios of all systems to the first, a group of bars for each figure.

    Parameters
    ----------
    title
        What stands above.
    systems
        What they are called.
    rows
        Figures that two systems or more have.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    count = len(systems)
    height = 0.8 / count
    with drawing(8.0, 1.8 + 0.2 * count + 0.26 * count * max(len(rows), 1)) as figure:
        axes = figure.add_subplot()
        widest = max((r for row in rows for r in row.ratios if r is not None), default=1.0)
        if widest > _WIDE:
            axes.set_xscale("log")
        for number, name in enumerate(systems):
            known = [place for place, row in enumerate(rows) if row.ratios[number] is not None]
            bars = axes.barh(
                [place + (number - (count - 1) / 2) * height for place in known],
                [rows[place].ratios[number] or 0.0 for place in known],
                height,
                label=literal(name),
                color=SERIES[number % len(SERIES)],
            )
            texts = [literal(rows[place].texts[number]) for place in known]
            axes.bar_label(bars, labels=texts, padding=2, fontsize=7)
        if not rows:
            axes.text(0.5, 0.5, "no figure that two of them have", ha="center")
        axes.set_yticks(range(len(rows)), [literal(row.title, 40) for row in rows])
        axes.invert_yaxis()
        axes.set_xlabel(f"ratio to {literal(systems[0])}; * sources conflict")
        # Room for what stands behind the longest bar.
        axes.set_xlim(right=widest * 6 if widest > _WIDE else widest * 1.25)
        plain_ticks(axes.xaxis)
        axes.axvline(1.0, color="#33373d", linewidth=0.8, linestyle=":")
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False)
        write_title(figure, title)
    return figure
