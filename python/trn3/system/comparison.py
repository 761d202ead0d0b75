"""Systems beside each other, each figure marked exact, derived or conflicting.

Figures that are the same one under different names (``tflops_mxfp8``, ``tflops_fp8``) share a row;
which they are is data, ``comparison.toml``. Chips compare with chips and systems with systems; a
mixture is compared as it stands, as systems.

Published tables print published peaks, and so do these; ``peaks="array"`` takes array x clock where
a system's parts are known, which is what timing uses.

Examples
--------
>>> from trn3.system.comparison import compare
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
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal, TypeAlias

from trn3.system.facts import Facts, Quantity, Status, factor, nearest, shown
from trn3.system.spec import Spec, quantity_as_json, spec_of

Peaks: TypeAlias = Literal["published", "array"]

POD: Final = "chip and pod"


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
class Comparison:
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
    if len(systems) < 2:
        message = f"systems are {len(systems)}; a comparison needs two or more"
        raise ValueError(message)
    if peaks not in {"published", "array"}:
        message = f"peaks is {peaks!r}; allowed: 'published', 'array'"
        raise ValueError(message)
    specs = [spec_of(system) for system in systems]
    names = [spec.facts.name for spec in specs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        message = f"systems: {', '.join(twice)} comes twice; name each once"
        raise ValueError(message)
    large = any(not spec.facts.kind.startswith("chip") for spec in specs)
    rows = []
    for entry in _rows():
        unit = entry["units"][1 if large else 0]
        cells = tuple(_cell(spec, entry, unit, peaks, large=large) for spec in specs)
        if any(cell.quantity is not None for cell in cells):
            rows.append(Row(entry["id"], entry["title"], unit, cells, _ratios(cells)))
    return Comparison(tuple(spec.facts for spec in specs), tuple(rows))


@cache
def _rows() -> tuple[dict[str, Any], ...]:
    text = files("trn3.system").joinpath("comparison.toml").read_text(encoding="utf-8")
    return tuple(tomllib.loads(text)["row"])


def _cell(spec: Spec, entry: dict[str, Any], unit: str, peaks: Peaks, *, large: bool) -> Cell:
    kind = spec.facts.kind
    as_chip = kind == "chip" or (kind == POD and not large)
    keys = entry.get("chip" if as_chip else "system", ())
    # The pod's own names are the only ones of a chip's that stand for all of it.
    keys = [key for key in keys if kind != POD or as_chip or key.startswith("pod_")]
    key = next((key for key in keys if key in spec), None)
    if key is None:
        return Cell(None, None, "-", None, None, None)
    quantity = spec[key]
    if not quantity.is_number:
        return Cell(key, None, shown(quantity.value), quantity.status, None, quantity)
    scale = factor(quantity.unit) / factor(unit)
    status, chosen = quantity.status, quantity.number
    if peaks == "published" and isinstance(quantity.published, (int, float)):
        chosen = float(quantity.published)
        # What is published and agrees with the parts needs them no longer.
        status = "exact" if status == "derived" else status
    value = _clean(chosen * scale)
    spread = quantity.range
    return Cell(
        key=key,
        value=value,
        text=f"{shown(value)} {unit}" if unit != "count" else shown(value),
        status=status,
        spread=None if spread is None else (_clean(spread[0] * scale), _clean(spread[1] * scale)),
        quantity=quantity,
    )


def _ratios(cells: tuple[Cell, ...]) -> tuple[float | None, ...]:
    first = cells[0].value
    return tuple(
        None if not first or c.value is None else _clean(c.value / first, 10) for c in cells
    )


def _clean(value: float, digits: int = 12) -> float:
    value = float(f"{value:.{digits}g}")
    return int(value) if value.is_integer() else value


def _digits(value: float) -> str:
    return f"{value:.6g}"


def _cell_as_json(cell: Cell) -> dict[str, Any] | None:
    if cell.quantity is None:
        return None
    return {"key": cell.key, "value_in_row_unit": cell.value, **quantity_as_json(cell.quantity)}
