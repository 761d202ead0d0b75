"""The tables of ``trn3 quantize``; rich is imported when first needed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

# Some for those who know this module as `trn3.report`.
from trn3.checkpoint.plots import plot_errors  # noqa: F401
from trn3.checkpoint.statistics import HISTOGRAM_BINS, HISTOGRAM_LIMIT  # noqa: F401
from trn3.files import PLOT_SUFFIXES  # noqa: F401
from trn3.text import decibels, printable, size

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from trn3.checkpoint.outcomes import FormatReport, QuantizationReport, TensorReport


def print_quantize_report(report: QuantizationReport, console: Console) -> None:
    """Print what ``trn3 quantize`` did: a table for each format, then what was left as it came."""
    for written in report.formats:
        console.print(_format_table(written, console.width))
        console.print()
    if report.passed_through:
        console.print(_passed_table(report.passed_through))
        console.print()
    console.print(
        "SQNR: signal to quantization noise. Max error: largest |x - q| / |x| of values not "
        "flushed. Saturated: clipped to the largest of the block. Flushed: nonzero, became 0. "
        "Time and GB/s of input: quantize_mx alone.",
        style="dim",
        highlight=False,
    )
    nonfinite = report.formats[0].total().statistics.num_nonfinite
    if nonfinite:
        console.print(
            f"{nonfinite:,} values stand in blocks with a NaN or an infinity: "
            "these blocks became NaN and are left out of all other figures.",
            style="yellow",
            highlight=False,
        )
    for written in report.formats:
        console.print(
            f"{printable(str(written.path))}: {size(written.num_bytes)}, "
            f"{report.source_bytes / written.num_bytes:.2f} times smaller than "
            f"{size(report.source_bytes)}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    rate = report.source_bytes / report.seconds / 1e9
    console.print(
        f"{report.seconds:.2f} s in all, with reading, error statistics and writing "
        f"({rate:.2f} GB/s of input)",
        highlight=False,
        soft_wrap=True,
    )


# What a narrow terminal goes without, in this order; the title and --json have it all.
DISPENSABLE = ("format", "bits/\nvalue", "time\nms")
# Narrower than this, a tensor's name is hard to read.
MIN_NAME_WIDTH = 24


def _bare_table(title: str, **style: bool) -> Table:
    from rich import box
    from rich.table import Table

    return Table(
        title=title,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        show_edge=False,
        **style,  # type: ignore[arg-type]
    )


def _format_table(written: FormatReport, width: int) -> RenderableType:
    from rich.text import Text

    total = written.total()
    rows = [_cells(tensor, written.mx_format.name) for tensor in written.tensors]
    footer = _cells(total, written.mx_format.name)
    count = len(written.tensors)
    footer["tensor"] = f"{count} matrices, values" if count != 1 else "1 matrix, values"
    footer["shape"] = f"{total.statistics.num_values:,}"
    title = (
        f"{written.mx_format.name}, {footer[DISPENSABLE[1]]} bits per value, "
        f"scale rule {written.scale_rule}"
    )
    widths = {heading: max(len(row[heading]) for row in (*rows, footer)) for heading in footer}
    widths = {h: max([widths[h], *map(len, h.split("\n"))]) + 2 for h in widths}
    widths["tensor"] = min(widths["tensor"], MIN_NAME_WIDTH)
    shown = list(footer)
    for heading in DISPENSABLE:
        if sum(widths[heading] for heading in shown) > width:
            shown.remove(heading)
    table = _bare_table(title, collapse_padding=True, show_footer=True)
    for heading in shown:
        foot = Text(footer[heading])
        if heading in {"tensor", "shape", "format"}:
            table.add_column(
                heading, foot, vertical="bottom", overflow="fold", no_wrap=heading != "tensor"
            )
        else:
            table.add_column(heading, foot, justify="right", no_wrap=True, vertical="bottom")
    for row in rows:
        table.add_row(*(Text(row[heading], overflow="fold") for heading in shown))
    return table


def _cells(tensor: TensorReport, format_name: str) -> dict[str, str]:
    statistics = tensor.statistics
    rate = tensor.source_bytes / tensor.seconds / 1e9 if tensor.seconds else math.inf
    return {
        "tensor": printable(tensor.name),
        "shape": "x".join(map(str, tensor.shape)),
        "format": format_name,
        "bits/\nvalue": f"{8 * tensor.stored_bytes / statistics.num_values:.2f}",
        "SQNR\ndB": decibels(statistics.sqnr_db),
        "max\nerror": f"{100 * statistics.max_relative_error:.2f} %",
        "saturated": f"{statistics.num_saturated:,}",
        "flushed": f"{statistics.num_flushed:,}",
        "time\nms": f"{1e3 * tensor.seconds:.2f}",
        "GB/s": f"{rate:.2f}",
    }


def _passed_table(passed_through: Mapping[str, str]) -> RenderableType:
    from rich.text import Text

    by_reason: dict[str, list[str]] = {}
    for name, reason in passed_through.items():
        by_reason.setdefault(reason, []).append(name)
    table = _bare_table("stored as they are")
    table.add_column("tensors", justify="right")
    table.add_column("why")
    table.add_column("which", overflow="fold")
    for reason, names in by_reason.items():
        more = ", ..." if len(names) > 2 else ""
        shown = ", ".join(printable(name) for name in names[:2])
        table.add_row(str(len(names)), Text(reason), Text(shown + more))
    return table
