"""The picture of the house in docs/maintainers: which crates and rooms there are, who knows whom.

Drawn from the code: crates with their dependencies, rooms with the arrows of their imports. An
arrow that others together say already is left out, and so are those of `debt.toml`, which go.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import networkx as nx

from house.arrows import refusal, room_of
from house.finding import Rules
from house.python_source import package_at
from house.rust_source import crates
from house.table import Table

PAGE = Path("docs") / "maintainers" / "architecture.svg"
WIDTH, HEIGHT, GAP, RISE, EDGE = 118, 30, 16, 74, 24
STYLE = (
    "text { font: 13px sans-serif; fill: #1a1a1a } .head { font-weight: bold }"
    " rect { fill: #eef3fa; stroke: #4a6fa5 } .door { fill: #fbf3e4; stroke: #b0853a }"
    " path { fill: none; stroke: #8a8f98; stroke-width: 1.2 } .ground { fill: #fff; stroke: none }"
)


def crate_graph(root: Path, _: Rules) -> nx.DiGraph[str]:
    """Return the crates and what they depend on, by names without the common beginning."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    for crate in crates(root):
        graph.add_node(_short(crate.name))
        graph.add_edges_from((_short(crate.name), _short(one)) for one in crate.dependencies)
    return graph


def room_graph(root: Path, rules: Rules) -> nx.DiGraph[str]:
    """Return the rooms of Python and what they import, as far as the table lets them."""
    table = Table(rules["python"])
    package = package_at(root / "python" / "trn3")
    graph: nx.DiGraph[str] = nx.DiGraph()
    for name, imports in package.imports.items():
        here = room_of(name, table)
        if here in table.rooms and not here.startswith("_"):
            graph.add_node(here)
            for taken in imports:
                there = room_of(taken.target, table)
                if there in table.rooms and there != here and not refusal(here, taken, table):
                    graph.add_edge(here, there)
    return graph


def draw(root: Path, rules: Rules) -> str:
    """Return the picture as the text of an SVG file."""
    doors = {*rules["python"]["doors"], "cli", "py", "capi", "trn3"}
    parts, width, height = [], EDGE, 0
    for title, graph in (
        ("crates of Rust", crate_graph(root, rules)),
        ("rooms of Python", room_graph(root, rules)),
    ):
        layers = Layers(nx.transitive_reduction(graph))
        parts += [f'<text class="head" x="{width}" y="{EDGE}">{title}</text>']
        parts += layers.shapes(width, EDGE + HEIGHT, doors)
        width, height = width + layers.width + 2 * EDGE, max(height, layers.height)
    height += EDGE + HEIGHT + 12
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">'
    back = f'<rect class="ground" width="{width}" height="{height}"/>'
    return "\n".join([head, f"<style>{STYLE}</style>", back, *parts, "</svg>", ""])


class Layers:
    """A graph in layers, what knows nobody at the bottom.

    An arrow over several layers has a point in each, beside the boxes.
    """

    def __init__(self, graph: nx.DiGraph[str]) -> None:
        levels: dict[str, int] = {}
        for name in reversed(list(nx.lexicographical_topological_sort(graph))):
            levels[name] = max((levels[below] + 1 for below in graph[name]), default=0)
        self.boxes = sorted(levels)
        self.arrows: list[list[str]] = []
        self._rows: list[list[str]] = [[] for _ in range(max(levels.values(), default=0) + 1)]
        for name in self.boxes:
            self._rows[levels[name]].append(name)
        self._below: defaultdict[str, list[str]] = defaultdict(list)
        for one, other in sorted(graph.edges):
            points = [f"{one}>{other} {at}" for at in range(levels[one] - 1, levels[other], -1)]
            for point, level in zip(points, range(levels[one] - 1, 0, -1), strict=False):
                self._rows[level].append(point)
            arrow = [one, *points, other]
            self.arrows.append(arrow)
            for above, below in pairwise(arrow):
                self._below[above].append(below)
        self.height = (len(self._rows) - 1) * RISE + HEIGHT
        self.width = max(map(self._wide, self._rows))
        self._places: dict[str, tuple[int, int]] = {}
        for level, row in enumerate(self._rows):
            row.sort(key=lambda name: (self._mean(name), name))
            x, y = (self.width - self._wide(row)) // 2, self.height - HEIGHT - level * RISE
            for name in row:
                self._places[name] = (x + self._size(name) // 2, y)
                x += self._size(name) + GAP

    def shapes(self, left: int, top: int, doors: set[str]) -> list[str]:
        """Return arrows and boxes as elements of SVG."""
        found = []
        for arrow in self.arrows:
            x, y = self._places[arrow[0]]
            path, y = f"M{left + x} {top + y + HEIGHT}", y + HEIGHT
            for name in arrow[1:]:
                x2, y2 = self._places[name]
                bend = (y2 - y) // 2
                path += f" C{left + x} {top + y + bend} {left + x2} {top + y2 - bend}"
                path += f" {left + x2} {top + y2}"
                x, y = x2, y2
                if name != arrow[-1]:
                    path, y = f"{path} V{top + y2 + HEIGHT}", y2 + HEIGHT
            found.append(f'<path d="{path}"/>')
        for name in self.boxes:
            x, y = left + self._places[name][0], top + self._places[name][1]
            kind = ' class="door"' if name in doors else ""
            box = f'x="{x - WIDTH // 2}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="4"'
            found.append(f"<rect{kind} {box}/>")
            found.append(f'<text x="{x}" y="{y + 20}" text-anchor="middle">{name}</text>')
        return found

    def _size(self, name: str) -> int:
        return WIDTH if name in self.boxes else 0

    def _wide(self, row: list[str]) -> int:
        return sum(self._size(name) + GAP for name in row) - GAP

    def _mean(self, name: str) -> float:
        below = [self._places[one][0] for one in self._below[name]]
        return sum(below) / len(below) if below else 0.0


def _short(crate: str) -> str:
    return crate.removeprefix("trn3-")
