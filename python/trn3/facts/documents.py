"""The page on systems: comparisons as Markdown, and every conflict with the reason of its default.

``scripts/systems_doc.py`` writes it, and a test compares.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from trn3.facts.comparison import Cell, Comparison, compare
from trn3.facts.published import names
from trn3.facts.quantity import Quantity, shown
from trn3.facts.spec import spec_of

CHIPS: Final = ("trainium3", "trainium2", "b200", "b300", "tpu_v7")
SYSTEMS: Final = (
    "trn3_gen2", "trn3_gen1", "trn2_ultraserver", "gb200_nvl72", "gb300_nvl72", "tpu_v7",
)  # fmt: skip


def markdown() -> str:
    """Return what stands between the marks of the page."""
    parts = [
        "## Chips",
        table(compare(*CHIPS)),
        "## UltraServers, racks and pods",
        table(compare(*SYSTEMS)),
        "## Peaks of the arrays",
        "Array x clock, which timing uses, where the parts are known; as published elsewhere.",
        table(compare(*CHIPS, peaks="array"), rows={"fp4", "fp8", "bf16", "bf16_sparse", "fp32"}),
        table(compare(*SYSTEMS, peaks="array"), rows={"fp4", "fp8", "bf16", "fp32"}),
        "## Where sources disagree",
        conflicts(),
    ]
    return "\n\n".join(parts)


def table(comparison: Comparison, rows: Iterable[str] | None = None) -> str:
    """Return a comparison as a Markdown table; `rows` names those that it keeps."""
    kept = None if rows is None else set(rows)
    heads = [system.title for system in comparison.systems]
    lines = ["| | " + " | ".join(heads) + " |", "|---|" + "--:|" * len(heads)]
    for row in comparison.rows:
        if kept is None or row.id in kept:
            cells = (_cell(cell, ratio) for cell, ratio in zip(row.cells, row.ratios, strict=True))
            lines.append(f"| {row.title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def conflicts() -> str:
    """Return all figures whose sources disagree, or which their parts do not explain."""
    lines = ["| system | figure | used | what is said | why |", "|---|---|--:|---|---|"]
    for name in names():
        for key, quantity in spec_of(name).items():
            if quantity.status == "conflicting":
                why = quantity.why or quantity.note or "sources differ; the first is used"
                lines.append(f"| {name} | {key} | {quantity} | {_said(quantity)} | {why} |")
    return "\n".join(lines)


def _cell(cell: Cell, ratio: float | None) -> str:
    if cell.quantity is None:
        return "-"
    text = cell.text
    if cell.status == "conflicting" and cell.spread is not None:
        text += f" (conflicting: {shown(cell.spread[0])} to {shown(cell.spread[1])})"
    else:
        text += f" ({cell.status})"
    return text if ratio is None or ratio == 1 else f"{text}, {ratio:.2f}x"


def _said(quantity: Quantity) -> str:
    said = []
    for source in quantity.sources:
        unit = "" if source.unit is None else f" {source.unit}"
        said.append(f"{shown(source.value)}{unit}: {source.source}")
    if quantity.formula is not None and "=" in quantity.formula:
        said.append(f"`{quantity.formula}`")
    return "; ".join(said)
