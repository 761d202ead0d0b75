"""The report of a sweep: its values over its parameters, and every point."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from trn3.report.charts import Chart, axis, curves, line
from trn3.report.markup import Cell, listed, number, paragraphs, table
from trn3.report.shell import ReportPage, ReportPane, versioned
from trn3.text import time

#: Most drawings, and most lines of one **(choice)**.
MOST_DRAWINGS, MOST_LINES = 6, 10


class SweptPoints(Protocol):
    """The points of a sweep, such as `trn3.studies.sweep.SweepResult`."""

    @property
    def names(self) -> Sequence[str]:
        """The names of the parameters."""

    @property
    def notes(self) -> Sequence[str]:
        """What the reader should know."""

    @property
    def errors(self) -> Sequence[Any]:
        """The points that failed."""

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a dictionary a point, of the same keys."""

    def to_json(self) -> str:
        """Return the points as JSON."""


def sweep_page(found: SweptPoints) -> str:
    """Return the report of a sweep: one page without network."""
    rows, names = found.to_rows(), list(found.names)
    failed = len(found.errors)
    seconds = [row["seconds"] for row in rows if _is_number(row.get("seconds"))]
    points: list[list[Cell]] = [[_cell(value) for value in row.values()] for row in rows]
    heads = list(rows[0]) if rows else names
    drawings, left_out = _drawings(rows, names)
    panes = [
        ReportPane("values", "Values", paragraphs([left_out] if left_out else []), drawings),
        ReportPane("points", "Points", table("points", "In the order of the grid", heads, points)),
    ]
    if failed:
        why: list[list[Cell]] = [
            [", ".join(f"{name}={value!r}" for name, value in point.parameters.items()),
             str(point.error)]
            for point in found.errors
        ]  # fmt: skip
        shown = table("failures", "Points that failed", ("point", "why"), why)
        panes.append(ReportPane("failures", "Failures", shown))
    if found.notes:
        panes.append(ReportPane("notes", "Notes", listed("To know", list(found.notes))))
    distinct = {name: len({repr(row.get(name)) for row in rows}) for name in names}
    axes = ", ".join(f"{count} of {name}" for name, count in distinct.items()) or "no axes"
    verdict = f"{len(rows):,} points ({axes}); {failed:,} failed."
    figures = [
        ("points", f"{len(rows):,}"),
        ("failed", f"{failed:,}"),
        ("in the function", time(sum(seconds))),
    ]
    document: Mapping[str, Any] = json.loads(found.to_json())
    title = f"Sweep over {', '.join(names)}" if names else "Sweep"
    return ReportPage("sweep", title, verdict, figures, panes, versioned(document)).html()


def _is_number(value: Any) -> bool:
    """Return whether a value is a number that can be drawn; NumPy's are too."""
    try:
        is_real = not isinstance(value, bool | str | bytes | complex) and float(value) == value
    except (TypeError, ValueError, OverflowError):
        return False
    return bool(is_real) and abs(float(value)) != float("inf")


def _cell(value: Any) -> Cell:
    if not _is_number(value):
        return "" if value is None else str(value)
    exact = float(value)
    return number(exact, f"{exact:,.6g}" if exact % 1 else f"{exact:,.0f}")


def _drawings(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> tuple[list[Chart], str]:
    """Return what is drawn: each number that came out, over the parameter with most values."""
    counts = {
        name: len({row[name] for row in rows})
        for name in names
        if rows and all(_is_number(row[name]) for row in rows)
    }
    along = max(counts, key=counts.__getitem__, default=None)
    told = {*names, "error", "attempts"}
    values = [
        key
        for key in (rows[0] if rows else ())
        if key not in told and any(_is_number(row[key]) for row in rows)
    ]
    if along is None or counts[along] < 2:
        return [], "No parameter has two numbers: there is nothing to draw values over."
    others = [name for name in names if name != along]
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        label = ", ".join(f"{name} {row[name]}" for name in others) or "all"
        groups.setdefault(label, []).append(row)
    shown = dict(list(groups.items())[:MOST_LINES])
    spread = sorted({float(row[along]) for row in rows})
    is_log = spread[0] > 0 and spread[-1] / spread[0] > 20
    charts = []
    for key in values[:MOST_DRAWINGS]:
        series = []
        for label, of in shown.items():
            drawn = sorted(
                (float(row[along]), float(row[key])) for row in of if _is_number(row[key])
            )
            points = [(x, y, f"{along} {x:,.6g}\n{key} {y:,.6g}") for x, y in drawn]
            series.append(line(label, points))
        charts.append(curves(key, axis(along, is_log=is_log), axis(key), series))
    said = [
        f"The first {MOST_LINES} of {len(groups)} combinations of {', '.join(others)} are drawn."
    ] * (len(groups) > MOST_LINES)
    said += [f"The first {MOST_DRAWINGS} of {len(values)} values are drawn."] * (
        len(values) > MOST_DRAWINGS
    )
    return charts, " ".join(said)
