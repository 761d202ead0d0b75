"""Systems beside each other, each figure marked exact, derived or conflicting.

Figures that are the same one under different names (``tflops_mxfp8``, ``tflops_fp8``) share a row;
which they are is data, ``comparison.toml``. Chips compare with chips and systems with systems; a
mixture is compared as it stands, as systems.

Published tables print published peaks, and so do these; ``peaks="array"`` takes array x clock where
a system's parts are known, which is what timing uses.

Examples
--------
>>> from trn3.facts.comparison import compare
>>> table = compare("trainium3", "b300")
>>> [(cell.text, cell.status) for cell in table.row("fp8").cells]
[('2,517 TFLOPS', 'conflicting'), ('5,000 TFLOPS', 'conflicting')]
>>> round(table.row("hbm_bandwidth").ratios[1], 2)
1.63
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from trn3._trn3 import facts as _core
from trn3.facts.published import Facts, load, nearest
from trn3.facts.quantity import Quantity, Status, figure_of
from trn3.facts.spec import quantity_as_json
from trn3.markup import mimebundle
from trn3.offers import Reported
from trn3.pictures import finished
from trn3.text import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

Peaks: TypeAlias = Literal["published", "array"]


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure of one system in a comparison.

    Attributes
    ----------
    key
        Its name in the system's spec; None if the system has no such figure.
    value
        In the row's unit; None for a text, or where there is none.
    text
        With its unit, for readers; ``-`` where there is none.
    status
        ``exact`` as published, ``derived`` from other figures, ``conflicting`` sources; None where
        there is none.
    spread
        Least and largest value of the sources, in the row's unit; None where they agree.
    quantity
        The figure with its sources.
    """

    key: str | None
    value: float | None
    text: str
    status: Status | None
    spread: tuple[float, float] | None
    quantity: Quantity | None


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of all systems; `ratios` are to the first system, None where there is none."""

    id: str
    title: str
    unit: str
    cells: tuple[Cell, ...]
    ratios: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Comparison(Reported):
    """Systems beside each other."""

    systems: tuple[Facts, ...]
    rows: tuple[Row, ...]

    def row(self, name: str) -> Row:
        """Return the row of this name: ``fp8``, ``hbm_bandwidth``, ...

        Raises
        ------
        KeyError
            If there is none.
        """
        for row in self.rows:
            if row.id == name:
                return row
        message = f"no row {name!r}; {nearest(name, tuple(row.id for row in self.rows))}"
        raise KeyError(message)

    _repr_mimebundle_ = mimebundle

    def __rich__(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        shown = Table(box=None, header_style="bold", pad_edge=False)
        shown.add_column("")
        for number, facts in enumerate(self.systems):
            shown.add_column(facts.title, justify="right")
            if number:
                shown.add_column("ratio", justify="right")
        for row in self.rows:
            cells = []
            for number, (cell, ratio) in enumerate(zip(row.cells, row.ratios, strict=True)):
                cells.append(_text(cell))
                if number:
                    cells.append("" if ratio is None else f"{ratio:.2f}")
            shown.add_row(row.title, *cells)
        legend = (
            "(d) derived from other figures; (c) sources conflict, with what they say; "
            "the others are exact: as published"
        )
        return Group(shown, Text(legend, "dim"))

    @overload
    def plot(self, path: None = None) -> Figure: ...
    @overload
    def plot(self, path: str | os.PathLike[str]) -> Path: ...
    def plot(self, path: str | os.PathLike[str] | None = None) -> Path | Figure:
        """Draw the ratios of all systems to the first.

        Parameters
        ----------
        path
            A ``.png``, ``.svg`` or ``.pdf`` file; without one a figure of matplotlib is returned.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If the file has another ending.
        OSError
            If it cannot be written.
        """
        from trn3.facts.plots import Bars, draw_comparison

        bars = [
            Bars(row.title, row.ratios, [_bar_text(cell) for cell in row.cells])
            for row in self.rows
            if sum(ratio is not None for ratio in row.ratios) > 1
        ]
        title = " beside ".join(facts.name for facts in self.systems)
        return finished(draw_comparison(title, [of.title for of in self.systems], bars), path)

    def as_json(self) -> dict[str, Any]:
        """Return the comparison as plain data, with the sources of every figure."""
        return {
            "systems": [
                {"name": facts.name, "title": facts.title, "kind": facts.kind}
                for facts in self.systems
            ],
            "rows": [
                {
                    "id": row.id,
                    "title": row.title,
                    "unit": row.unit,
                    "cells": [_cell_as_json(cell) for cell in row.cells],
                    "ratios": list(row.ratios),
                }
                for row in self.rows
            ],
        }

    def as_csv(self) -> str:
        """Return the comparison as CSV: a line for each figure of each system."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        heads = ("figure", "system", "key", "value", "unit", "status", "least", "most", "ratio")
        writer.writerow(heads)
        for row in self.rows:
            for facts, cell, ratio in zip(self.systems, row.cells, row.ratios, strict=True):
                if cell.quantity is None:
                    continue
                value = cell.text if cell.value is None else f"{cell.value:.10g}"
                least, most = ("", "") if cell.spread is None else map(_digits, cell.spread)
                writer.writerow(
                    (row.id, facts.name, cell.key, value, row.unit, cell.status, least, most,
                     "" if ratio is None else _digits(ratio))
                )  # fmt: skip
        return out.getvalue()


def compare(*systems: str | os.PathLike[str] | Facts, peaks: Peaks = "published") -> Comparison:
    """Set systems beside each other.

    Parameters
    ----------
    *systems
        Two or more names of systems, paths of spec files, or facts.
    peaks
        ``"published"`` figures where there are any, or those of the ``"array"``: computed from the
        parts where these are known.

    Raises
    ------
    ValueError
        If there are fewer than two, one comes twice or does not exist, or `peaks` is neither.

    Examples
    --------
    >>> import trn3
    >>> table = trn3.compare("gen2", "gb300", "tpu_v7")
    >>> [cell.text for cell in table.row("chips").cells]
    ['144', '72', '9,216']
    >>> [cell.status for cell in table.row("hbm_bandwidth").cells]
    ['exact', 'exact', 'derived']
    """
    if peaks not in {"published", "array"}:
        message = f"peaks is {peaks!r}; allowed: 'published', 'array'"
        raise ValueError(message)
    held = tuple(system if isinstance(system, Facts) else load(system) for system in systems)
    among = [(facts, list(facts.siblings.values())) for facts in held]
    rows = _core.compare(among, peaks == "published")
    return Comparison(
        held,
        tuple(
            Row(name, title, unit, tuple(map(_cell, cells)), tuple(ratios))
            for name, title, unit, cells, ratios in rows
        ),
    )


def _cell(fields: Mapping[str, Any]) -> Cell:
    held = fields["quantity"]
    return Cell(**{**fields, "quantity": None if held is None else figure_of(held)})


def _digits(value: float) -> str:
    return f"{value:.6g}"


def _cell_as_json(cell: Cell) -> dict[str, Any] | None:
    if cell.quantity is None:
        return None
    return {"key": cell.key, "value_in_row_unit": cell.value, **quantity_as_json(cell.quantity)}


def _bar_text(cell: Cell) -> str:
    return cell.text + "*" * (cell.status == "conflicting")


def _text(cell: Cell) -> str:
    marks = {"derived": " (d)", "conflicting": " (c)"}
    text = cell.text + (marks.get(cell.status, "") if cell.status is not None else "")
    if cell.status == "conflicting" and cell.spread is not None:
        from trn3.facts.quantity import shown

        least, most = cell.spread
        text += f"\n{shown(least)} to {shown(most)}"
    return "\n".join(printable(line) for line in text.split("\n"))
