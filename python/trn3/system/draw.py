"""Drawings of systems: chips on a grid by their coordinates, switches beside what hangs on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from xml.sax.saxutils import escape, quoteattr

from trn3 import text
from trn3.system.fabric import Graph
from trn3.system.links import node_name

MOST_CHIPS = 1024

# Okabe and Ito's colours, which colour-blind readers tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
CHIP, SWITCH = "#333333", "#888888"

# Between blocks of chips, in chips.
_GAP = 2.5


class Drawable(Protocol):
    """What can be drawn: a system."""

    @property
    def name(self) -> str:
        """Name of the spec file."""

    @property
    def title(self) -> str:
        """Name for readers."""

    @property
    def links(self) -> str:
        """Which published rates links have."""

    @property
    def faults(self) -> tuple[str, ...]:
        """What has failed, in words."""

    @property
    def num_chips(self) -> int:
        """Number of chips."""

    @property
    def graph(self) -> Graph:
        """Chips, switches and links."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A chip or a switch on the drawing."""

    name: str
    x: float
    y: float
    is_switch: bool


@dataclass(frozen=True, slots=True)
class Line:
    """A bundle of links on the drawing, both directions as one.

    `bend` is how far its middle lies beside the straight line, in chips.
    """

    source: int
    target: int
    level: int
    bend: float
    label: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """What is drawn, in chips as units, y downwards."""

    title: str
    levels: tuple[str, ...]
    marks: tuple[Mark, ...]
    lines: tuple[Line, ...]


def drawing(system: Drawable) -> Drawing:
    """Place the chips, switches and links of a system.

    Raises
    ------
    ValueError
        If it has more than 1,024 chips.
    """
    if system.num_chips > MOST_CHIPS:
        message = f"{system.name} has {system.num_chips} chips; drawn are at most {MOST_CHIPS}"
        raise ValueError(message)
    graph = system.graph
    places = _places(graph)
    marks = [
        Mark(node_name(chip), x, y, is_switch=False)
        for chip, (x, y) in zip(graph.chips, places, strict=True)
    ]
    numbers = {node: number for number, node in enumerate(graph.nodes)}
    taken: set[tuple[float, float]] = set(places)
    for switch in graph.switches:
        below = [places[numbers[node]] for node in graph.neighbors(switch)]
        place = _beside(below)
        while place in taken:
            place = (place[0], place[1] - 0.8)
        taken.add(place)
        marks.append(Mark(switch, *place, is_switch=True))
    levels = {level.name: number for number, level in enumerate(graph.levels)}
    lines = [
        Line(
            numbers[link.source],
            numbers[link.target],
            levels[link.level],
            _bend(marks[numbers[link.source]], marks[numbers[link.target]]),
            str(link),
        )
        for link in graph.links
        if numbers[link.source] < numbers[link.target]
    ]
    title = ", ".join([f"{system.title}, links={system.links}", *system.faults])
    names = tuple(
        f"{level.name}: {level.links} x {text.rate(level.rate / level.links)} one way"
        for level in graph.levels
    )
    return Drawing(title, names, tuple(marks), tuple(lines))


def _places(graph: Graph) -> list[tuple[float, float]]:
    axes = [size for _, size in graph.axes]
    coordinates = graph.coordinates
    if sum(size > 1 for size in axes) == 1 and max(axes) > 12:
        width = math.ceil(math.sqrt(max(axes) * 1.6))
        flat = [sum(place) for place in coordinates]
        return [(float(at % width), float(at // width)) for at in flat]
    # The last axis runs to the right, the one before it down, and so on in turn, block by block.
    strides: list[float] = []
    extent = [1.0, 1.0]
    for number, size in enumerate(reversed(axes)):
        side = number % 2
        first = extent[side] == 1.0
        step = 1.0 if first else extent[side] + _GAP
        strides.append(step)
        if size > 1:
            extent[side] = size if first else extent[side] * size + _GAP * (size - 1)
    strides.reverse()
    count = len(axes)
    found = []
    for place in coordinates:
        x = sum(strides[at] * place[at] for at in range(count) if (count - 1 - at) % 2 == 0)
        y = sum(strides[at] * place[at] for at in range(count) if (count - 1 - at) % 2 == 1)
        found.append((x, y))
    return found


def _beside(below: Sequence[tuple[float, float]]) -> tuple[float, float]:
    if not below:
        return (0.0, -2.0)
    xs, ys = [x for x, _ in below], [y for _, y in below]
    if len(set(ys)) == 1 and len(below) <= 16:
        return (max(xs) + 0.9, ys[0])
    return (sum(xs) / len(xs), min(ys) - 1.6)


def _bend(source: Mark, target: Mark) -> float:
    distance = math.hypot(source.x - target.x, source.y - target.y)
    if source.is_switch or target.is_switch or distance < 1.5:
        return 0.0
    return min(0.12 * distance, 1.2)


def _middle(a: Mark, b: Mark, bend: float) -> tuple[float, float]:
    """Where the control point of the curve between two marks lies."""
    length = math.hypot(b.x - a.x, b.y - a.y) or 1.0
    # A control point lies twice as far off as the curve it makes.
    off = 2 * bend / length
    return (a.x + b.x) / 2 + (b.y - a.y) * off, (a.y + b.y) / 2 - (b.x - a.x) * off


def svg(system: Drawable) -> str:
    """Return a drawing as the text of an SVG file, in which marks and lines say what they are."""
    of = drawing(system)
    scale, edge, line_height = 40.0, 1.5, 18
    left = min(mark.x for mark in of.marks) - edge
    top = min(mark.y for mark in of.marks) - edge
    width = (max(mark.x for mark in of.marks) + edge - left) * scale
    height = (max(mark.y for mark in of.marks) + edge - top) * scale
    head = line_height * (len(of.levels) + 2)
    width = max(width, 8.0 * max(map(len, [of.title, *of.levels])))

    def at(x: float, y: float) -> str:
        return f"{(x - left) * scale:.1f} {(y - top) * scale + head:.1f}"

    across, down = f"{width:.0f}", f"{height + head:.0f}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {across} {down}"',
        f'width="{across}" height="{down}" font-family="sans-serif" font-size="12">',
        f"<title>{escape(of.title)}</title>",
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="10" y="{line_height}" font-weight="bold">{escape(of.title)}</text>',
    ]
    for number, name in enumerate(of.levels):
        y = line_height * (number + 2)
        colour = COLOURS[number % len(COLOURS)]
        parts.append(f'<path d="M10 {y - 4} h24" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="40" y="{y}">{escape(name)}</text>')
    for line in of.lines:
        a, b = of.marks[line.source], of.marks[line.target]
        path = f"M{at(a.x, a.y)} Q{at(*_middle(a, b, line.bend))} {at(b.x, b.y)}"
        colour = COLOURS[line.level % len(COLOURS)]
        parts.append(
            f'<path d="{path}" fill="none" stroke="{colour}" stroke-opacity="0.55">'
            f"<title>{escape(line.label)}</title></path>"
        )
    for mark in of.marks:
        if mark.is_switch:
            corner = at(mark.x - 0.22, mark.y - 0.14).split()
            shape = (
                f'<rect x="{corner[0]}" y="{corner[1]}" width="{0.44 * scale:.1f}" '
                f'height="{0.28 * scale:.1f}" fill="{SWITCH}">'
            )
            parts.append(f"{shape}<title>{escape(mark.name)}</title></rect>")
        else:
            x, down = at(mark.x, mark.y).split()
            radius = f"{0.2 * scale:.1f}"
            name = quoteattr(mark.name)
            shape = f'<circle cx="{x}" cy="{down}" r="{radius}" fill="{CHIP}" id={name}>'
            parts.append(f"{shape}<title>chip {escape(mark.name)}</title></circle>")
    parts.append("</svg>\n")
    return "\n".join(parts)


def plot(system: Drawable, path: Path) -> Path:
    """Draw a system into a file with matplotlib."""
    from trn3.files import PLOT_SUFFIXES, write_files

    if path.suffix not in PLOT_SUFFIXES:
        message = f"path is {str(path)!r}; drawings are {', '.join(PLOT_SUFFIXES)} files"
        raise ValueError(message)
    of = drawing(system)
    try:
        from matplotlib.figure import Figure
        from matplotlib.lines import Line2D
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path as Curve
    except ImportError as error:
        message = "plot needs matplotlib: pip install 'trn3[plot]'"
        raise ImportError(message) from error
    left, right = min(mark.x for mark in of.marks), max(mark.x for mark in of.marks)
    top, bottom = min(mark.y for mark in of.marks), max(mark.y for mark in of.marks)
    size = (max((right - left + 3) * 0.5, 6), max((bottom - top + 3) * 0.5 + 1, 4))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    for line in of.lines:
        a, b = of.marks[line.source], of.marks[line.target]
        curve = Curve(
            [(a.x, a.y), _middle(a, b, line.bend), (b.x, b.y)],
            [Curve.MOVETO, Curve.CURVE3, Curve.CURVE3],
        )
        colour = COLOURS[line.level % len(COLOURS)]
        axes.add_patch(PathPatch(curve, fill=False, edgecolor=colour, alpha=0.55, linewidth=0.8))
    for is_switch, symbol, colour in ((False, "o", CHIP), (True, "s", SWITCH)):
        marks = [mark for mark in of.marks if mark.is_switch == is_switch]
        axes.plot(
            [mark.x for mark in marks], [mark.y for mark in marks], symbol, color=colour, ms=6
        )
    if len(of.marks) <= 200:
        for mark in of.marks:
            axes.annotate(
                mark.name,
                (mark.x, mark.y),
                (0, 5),
                textcoords="offset points",
                fontsize=5,
                ha="center",
            )
    axes.set_title(of.title, fontsize=10)
    axes.set_xlim(left - 1.5, right + 1.5)
    axes.set_ylim(bottom + 1.5, top - 1.5)
    axes.set_aspect("equal")
    axes.set_axis_off()
    handles = [
        Line2D([], [], color=COLOURS[number % len(COLOURS)], label=name)
        for number, name in enumerate(of.levels)
    ]
    axes.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, -0.02), fontsize=8)
    write_files({path: lambda to: figure.savefig(to, dpi=150)})
    return path
