"""Drawings of systems and of what binds their traffic, with matplotlib (the extra ``plot``)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

from trn3 import text
from trn3._trn3.system import Fabric
from trn3.pictures import ACCENT, INK, SERIES, drawing, literal, write_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: A name, a place, whether it is a switch, and a colour.
Node: TypeAlias = tuple[str, float, float, bool, str]
Shift: TypeAlias = tuple[float, float]

#: More names than these nobody reads, more links would hide each other if they were as dark.
NAMED_NODES, DARK_LINKS = 200, 600
#: A drawing this many times as high as wide is folded into columns.
SLENDER = 3.0


def draw_fabric(fabric: Fabric) -> Figure:
    """Draw chips, switches and links; equal parts of a very high drawing stand side by side.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError
        If the fabric has more than 1,024 chips.
    """
    title, levels, nodes, links = fabric.drawing()
    shifts = _folded(nodes, [ends for ends, *_ in links])
    xs = [x + dx for (_, x, *_), (dx, _) in zip(nodes, shifts, strict=True)]
    ys = [y + dy for (_, _, y, *_), (_, dy) in zip(nodes, shifts, strict=True)]
    left, right, top, bottom = min(xs), max(xs), min(ys), max(ys)
    size = (max((right - left + 2) * 0.5, 6), max((bottom - top + 2) * 0.5 + 1.2, 4))
    with drawing(*size) as figure:
        from matplotlib.lines import Line2D
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path as Curve

        axes = figure.add_subplot()
        alpha = 0.55 * min(1.0, max(0.45, DARK_LINKS / max(len(links), 1)))
        for (source, target), (x, y), colour in links:
            dx, dy = ((shifts[source][side] + shifts[target][side]) / 2 for side in (0, 1))
            curve = Curve(
                [(xs[source], ys[source]), (x + dx, y + dy), (xs[target], ys[target])],
                [Curve.MOVETO, Curve.CURVE3, Curve.CURVE3],
            )
            patch = PathPatch(curve, fill=False, edgecolor=colour, alpha=alpha, linewidth=0.8)
            axes.add_patch(patch)
        mark = 6 if len(nodes) <= NAMED_NODES else 4
        for (name, _, _, is_switch, colour), x, y in zip(nodes, xs, ys, strict=True):
            axes.plot([x], [y], "s" if is_switch else "o", color=colour, ms=mark)
            if len(nodes) <= NAMED_NODES:
                axes.annotate(
                    literal(name),
                    (x, y),
                    (0, 5),
                    textcoords="offset points",
                    fontsize=5,
                    ha="center",
                )
        write_title(figure, title)
        axes.set_xlim(left - 1, right + 1)
        axes.set_ylim(bottom + 1, top - 1)
        axes.set_aspect("equal")
        axes.set_axis_off()
        handles = [Line2D([], [], color=colour, label=literal(name)) for name, colour in levels]
        figure.legend(handles=handles, loc="outside lower center", fontsize=8, frameon=False)
    return figure


def _folded(nodes: Sequence[Node], links: Sequence[tuple[int, int]]) -> list[Shift]:
    """Return how far to move each node so that a high drawing of equal parts is as wide as high."""
    rows = sorted({y for _, _, y, *_ in nodes})
    width = max(x for _, x, *_ in nodes) - min(x for _, x, *_ in nodes)
    still = [(0.0, 0.0)] * len(nodes)
    if rows[-1] - rows[0] < SLENDER * max(width, 1.0):
        return still
    gaps = [below - above for above, below in pairwise(rows)]
    widest = max(gaps)
    starts = [rows[0]] + [
        row for gap, row in zip(gaps, rows[1:], strict=True) if gap > 0.999 * widest
    ]
    if len(starts) < 2 or widest < 1.5 * min(gaps):
        return still
    columns = min(len(starts), round(math.sqrt((rows[-1] - rows[0]) / (width + 2))))
    parts = math.ceil(len(starts) / columns)
    firsts = starts[::parts]
    column = [sum(y >= first for first in firsts) - 1 for _, _, y, *_ in nodes]
    shifts = [(at * (width + 2), firsts[0] - firsts[at]) for at in column]
    # What joins all columns stands above their middle.
    for number, (_, x, y, is_switch, _) in enumerate(nodes):
        joined = {column[b if a == number else a] for a, b in links if number in (a, b)}
        if is_switch and len(joined) > 1:
            middle = (len(firsts) - 1) * (width + 2) / 2
            shifts[number] = (middle + width / 2 - x, rows[0] - 3 - y)
    return shifts


def draw_bound(traffic: str, per_chip: float, most: float, rates_of: Mapping[str, float]) -> Figure:
    """Draw what a chip could send if each level of links alone bound, and what it can.

    Parameters
    ----------
    traffic
        What moves.
    per_chip, most
        Bytes a second, one way, of a chip; and what no routing exceeds.
    rates_of
        By the level's name what `per_chip` would be if it alone bound.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    levels = sorted(rates_of.items(), key=lambda each: each[1])
    with drawing(8, 1.9 + 0.42 * len(levels)) as figure:
        axes = figure.add_subplot()
        for row, (_, rate) in enumerate(levels):
            is_binding = rate <= per_chip * (1 + 1e-9)
            axes.barh(row, rate, 0.7, color=ACCENT if is_binding else SERIES[0])
            said = f"{text.rate(rate)}, binds" if is_binding else text.rate(rate)
            axes.annotate(said, (rate, row), (4, 0), textcoords="offset points", va="center")
        cut = literal(f"{text.rate(most)}: most by any routing", 60)
        axes.axvline(most, color=INK, linestyle="--", linewidth=1.0, label=cut)
        axes.set_yticks(range(len(levels)), [literal(name, 30) for name, _ in levels])
        axes.invert_yaxis()
        rates = [rate for _, rate in levels]
        if max(rates) > 20 * min(rates):
            axes.set_xscale("log")
            axes.set_xlim(min(rates) / 3, max(rates) * 8)
        else:
            axes.set_xlim(0, max(rates) * 1.3)
        axes.xaxis.set_major_formatter(lambda value, _: text.rate(value))
        axes.set_xlabel("a chip, one way, if only links of this level bound")
        axes.grid(visible=True, axis="x", alpha=0.25)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside lower center", fontsize=8, frameon=False)
        write_title(figure, f"{traffic}: {text.rate(per_chip)} a chip one way")
    return figure
