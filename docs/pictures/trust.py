"""Pictures of how far results are to be trusted, drawn from the tables of their pages."""

from __future__ import annotations

import re

import numpy as np
from matplotlib.figure import Figure

from pictures.cache import from_page
from pictures.programs import rows_of
from pictures.themes import COLORS, figure

NANOSECONDS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}


@from_page("explanation/validation.md")
def measured(text: str) -> Figure:
    """Draw every time of the page as predicted against as published."""
    times = text.partition("## Times")[2]
    picture = figure(4.0, 6.4)
    axes = picture.subplots()
    groups = re.split(r"^### ", times, flags=re.MULTILINE)
    kinds = {"held back": (COLORS[5], "o"), "read off": (COLORS[0], "x")}
    for kind, (color, marker) in kinds.items():
        pairs = [
            (_time(row[4]), _time(row[3]))
            for group in groups
            if (kind == "held back") == group.startswith("Rows held back")
            if group.startswith("Rows ")
            for row in rows_of(group)
            if len(row) == 7 and _time(row[3]) and _time(row[4])
        ]
        label = {"held back": "held back: no constant was chosen by it"}.get(
            kind, "a constant was read off it"
        )
        published, predicted = np.transpose(pairs)
        axes.scatter(published, predicted, s=22, color=color, marker=marker, label=label, alpha=0.8)
    span = np.array(axes.get_xlim())
    span[0] = 5
    axes.plot(span, span, color=COLORS[-1], linewidth=1)
    axes.fill_between(span, span / 1.25, span * 1.25, color=COLORS[-1], alpha=0.2, linewidth=0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("published (ns)")
    axes.set_ylabel("predicted (ns)")
    axes.legend(loc="upper left")
    return picture


def _time(cell: str) -> float:
    """Return a time of a table in nanoseconds, or 0 if a cell is none."""
    number, _, unit = cell.partition(" (")[0].replace(",", "").partition(" ")
    return float(number) * NANOSECONDS[unit] if unit in NANOSECONDS else 0.0


@from_page("explanation/performance.md")
def ratios(text: str) -> Figure:
    """Draw the ratios of the page, one thread each, sorted."""
    table = text.partition("### Best level")[2].partition("\n### ")[0]
    found = sorted(
        (float(row[5]), row[0])
        for row in rows_of(table)
        if len(row) == 8 and row[1] == "1" and row[4] != "its limit"
        if re.fullmatch(r"[\d.]+", row[5])
    )
    values = np.array([ratio for ratio, _ in found])
    picture = figure(3.0)
    axes = picture.subplots()
    colors = np.where(values >= 1, COLORS[2], COLORS[1])
    axes.bar(np.arange(len(values)), values - 1, bottom=1, color=colors, width=0.9)
    axes.set_yscale("log")
    axes.axhline(1, color=COLORS[-1], linewidth=1)
    for place in (0, len(found) - 1):
        axes.annotate(
            found[place][1],
            (place, values[place]),
            (0, 4 if place else -12),
            textcoords="offset points",
            ha="right" if place else "left",
            fontsize=8,
        )
    axes.set_xticks([])
    axes.set_ylabel("the rival's time over trn3's")
    axes.set_xlabel(f"{len(found)} operations on one thread; above 1, trn3 is faster")
    axes.margins(y=0.12)
    return picture
