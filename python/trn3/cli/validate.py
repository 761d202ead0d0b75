"""What ``trn3 validate`` does: run published measurements again and compare."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import trn3
from trn3 import validation
from trn3.machine.files import write_bytes
from trn3.validation.documents import figure, percent


class DocumentError(Exception):
    """The document has no place for the comparison."""


def run(names: Sequence[str], console: Console) -> list[validation.Result]:
    """Run the rows of these names, all without; says on a terminal which one runs.

    Raises
    ------
    trn3.validation.RowError
        If a name fits no row.
    """
    rows = validation.select(names)
    results: list[validation.Result] = []
    with console.status("") as status:
        for number, row in enumerate(rows, start=1):
            status.update(f"{number}/{len(rows)} {row.id}")
            results.extend(validation.run([row]))
    return results


def show(results: Sequence[validation.Result], console: Console) -> None:
    """Print the comparison and its summary."""
    table = Table(box=None, header_style="bold")
    for heading in ("row", "hardware", "class", "predicted", "published", "ratio", ""):
        right = heading in {"predicted", "published", "ratio"}
        table.add_column(heading, justify="right" if right else "left", no_wrap=True)
    for result in results:
        row = result.row
        table.add_row(
            row.id,
            row.hardware,
            row.class_,
            f"{figure(result.predicted)} {row.unit}",
            f"{figure(row.published)} {row.unit}",
            f"{result.ratio:.3f}",
            "" if result.verdict == "within" else result.verdict,
        )
    console.print(table)
    for summary in validation.summarise(results):
        console.print(
            f"{summary.class_}: {summary.rows} rows, median error {percent(summary.median)}, "
            f"worst {percent(summary.worst)} ({summary.worst_row}); explained misses "
            f"{summary.explained}, worst of the others {percent(summary.worst_unexplained)}"
        )


def as_json(results: Sequence[validation.Result]) -> str:
    """Return the comparison for machines."""
    rows: list[dict[str, Any]] = [
        {
            "id": result.row.id,
            "hardware": result.row.hardware,
            "what": result.row.what,
            "class": result.row.class_,
            "unit": result.row.unit,
            "predicted": result.predicted,
            "published": result.row.published,
            "ratio": result.ratio,
            "tolerance": result.row.tolerance,
            "verdict": result.verdict,
            "reason": result.row.miss if result.verdict != "within" else None,
            "source": result.row.source,
        }
        for result in results
    ]
    summaries = [
        {key.rstrip("_"): value for key, value in asdict(summary).items()}
        for summary in validation.summarise(results)
    ]
    document = {"trn3_version": trn3.__version__, "rows": rows, "summary": summaries}
    return json.dumps(document, indent=2, allow_nan=False)


def check_document(path: Path) -> None:
    """Check that a document has its marks, before minutes of work.

    Raises
    ------
    DocumentError
        If it has not.
    OSError
        If it cannot be read.
    """
    try:
        validation.replace_section(path.read_text(encoding="utf-8"), "")
    except ValueError as error:
        message = f"{path}: {error}"
        raise DocumentError(message) from error


def write(results: Sequence[validation.Result], path: Path) -> None:
    """Replace the comparison in a document.

    Raises
    ------
    ValueError
        If the document has no marks for it.
    OSError
        If it cannot be read or written.
    """
    section = validation.markdown(results, validation.table().absent)
    text = validation.replace_section(path.read_text(encoding="utf-8"), section)
    write_bytes(path, [text.encode()])
