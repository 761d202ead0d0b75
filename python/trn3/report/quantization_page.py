"""The report of a quantization: errors of each format, the worst tensors, what was left alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

from trn3.checkpoint.outcomes import FormatReport, QuantizationReport, TensorReport
from trn3.checkpoint.statistics import HISTOGRAM_BINS, HISTOGRAM_LIMIT
from trn3.report.charts import Chart, axis, bars, curves, line
from trn3.report.markup import (
    Cell,
    Markup,
    NumberCell,
    entries,
    number,
    paragraphs,
    seconds,
    table,
)
from trn3.report.shell import ReportPage, ReportPane, versioned
from trn3.text import decibels, size

_SAID = (
    "SQNR: signal to quantization noise. Largest error: of |x - q| / |x| of values not flushed. "
    "Saturated: clipped to the largest of the block. Flushed: nonzero, became 0."
)


def quantization_page(report: QuantizationReport) -> str:
    """Return the report of what `trn3.quantize_checkpoint` did: one page without network."""
    drawn = [written for written in report.formats if _histogram(written) is not None]
    charts = [_histograms(drawn)] if drawn else []
    missing = "" if drawn else "No histograms were gathered: with_histogram=True gathers them."
    panes = [
        ReportPane("formats", "Formats", _formats(report)),
        ReportPane("errors", "Errors", paragraphs(filter(None, [missing, _ERRORS])), charts),
        ReportPane("tensors", "Tensors", _tensors(report.formats), [_worst(report.formats)]),
        ReportPane("kept", "Kept", _kept(report)),
        ReportPane("settings", "Settings", _settings(report)),
    ]
    names = [written.mx_format.name for written in report.formats]
    worst = min(_ranked(report.formats), key=_rank, default=None)
    verdict = (
        "No tensor was quantized."
        if worst is None
        else f"{worst[1].name} loses most, in {worst[0]}: "
        f"{decibels(worst[1].statistics.sqnr_db)} dB, where all have "
        f"{', '.join(decibels(of.total().statistics.sqnr_db) for of in report.formats)}."
    )
    figures = [
        (of.mx_format.name, f"{report.source_bytes / of.num_bytes:.2f} times smaller")
        for of in report.formats
        if of.num_bytes
    ]
    return ReportPage(
        "quantize",
        f"{report.source.name} as {' and '.join(names)}",
        verdict,
        [("machine", size(report.source_bytes)), *figures],
        panes,
        versioned(report.to_plain()),
    ).html()


_ERRORS = "A value's error is q - x, here as part of the largest magnitude in its block of 32."


def _histogram(written: FormatReport) -> Sequence[float] | None:
    found = written.total().statistics.histogram
    return None if found is None else [float(count) for count in found]


def _histograms(formats: Sequence[FormatReport]) -> Chart:
    width = 2 * HISTOGRAM_LIMIT / HISTOGRAM_BINS
    series = []
    for written in formats:
        counts = _histogram(written) or []
        whole = sum(counts) or 1.0
        points = [
            (100 * (width * at - HISTOGRAM_LIMIT), count / whole,
             f"{100 * (width * at - HISTOGRAM_LIMIT):+.2f} % and more: {count / whole:.3%}")
            for at, count in enumerate(counts)
            if count
        ]  # fmt: skip
        series.append(line(written.mx_format.name, points, is_marked=False, is_step=True))
    return curves(
        "Errors of all values",
        axis("error, % of the block's largest", unit=" %"),
        axis(f"part of values a bin of {100 * width:.2f} %", is_log=True),
        series,
    )


def _ranked(formats: Sequence[FormatReport]) -> list[tuple[str, TensorReport]]:
    """Return all tensors in all formats, what loses most first."""
    found = [(of.mx_format.name, tensor) for of in formats for tensor in of.tensors]
    return sorted(found, key=_rank)


def _rank(entry: tuple[str, TensorReport]) -> tuple[bool, float]:
    ratio = entry[1].statistics.sqnr_db
    return (math.isnan(ratio), 0.0 if math.isnan(ratio) else ratio)


def _worst(formats: Sequence[FormatReport]) -> Chart:
    names = [of.mx_format.name for of in formats]
    held: dict[str, dict[str, float]] = {}
    for name, tensor in _ranked(formats):
        if math.isfinite(tensor.statistics.sqnr_db):
            held.setdefault(tensor.name, {})[name] = tensor.statistics.sqnr_db
    rows = [
        (tensor, [(of.get(name), decibels(of.get(name, math.nan))) for name in names])
        for tensor, of in held.items()
    ]
    return bars("SQNR in dB, the worst tensors first", names, rows)


def _statistics(tensor: TensorReport) -> list[Cell]:
    held = tensor.statistics
    return [
        _decibels(held.sqnr_db),
        number(held.max_relative_error, f"{100 * held.max_relative_error:.2f} %"),
        number(held.num_saturated, f"{held.num_saturated:,}"),
        number(held.num_flushed, f"{held.num_flushed:,}"),
        number(held.num_nonfinite, f"{held.num_nonfinite:,}"),
    ]


def _decibels(value: float) -> NumberCell:
    return NumberCell(decibels(value), value if math.isfinite(value) else None)


_OF_VALUES = ("SQNR dB", "largest error", "saturated", "flushed", "not finite")


def _formats(report: QuantizationReport) -> Markup:
    rows: list[list[Cell]] = []
    for written in report.formats:
        total = written.total()
        values = total.statistics.num_values
        rows.append([
            written.mx_format.name, written.scale_rule, number(len(written.tensors)),
            number(values, f"{values:,}"),
            number(8 * total.stored_bytes / values if values else None), *_statistics(total),
            number(written.num_bytes, size(written.num_bytes, digits=4)), seconds(total.seconds),
            str(written.path),
        ])  # fmt: skip
    heads = (
        "format", "scale rule", "tensors", "values", "bits a value", *_OF_VALUES, "file", "time",
        "written to",
    )  # fmt: skip
    return Markup(table("formats", "Of all values", heads, rows) + paragraphs([_SAID]))


def _tensors(formats: Sequence[FormatReport]) -> Markup:
    rows: list[list[Cell]] = [
        [tensor.name, "x".join(map(str, tensor.shape)), tensor.source_dtype, name,
         number(tensor.stored_bytes, size(tensor.stored_bytes, digits=4)), *_statistics(tensor)]
        for name, tensor in _ranked(formats)
    ]  # fmt: skip
    heads = ("tensor", "shape", "was", "format", "bytes", *_OF_VALUES)
    return table("tensors", "Quantized tensors, what loses most first", heads, rows)


def _kept(report: QuantizationReport) -> Markup:
    if not report.passed_through:
        return paragraphs(["Every tensor was quantized."])
    rows = [[name, reason] for name, reason in report.passed_through.items()]
    return table("kept", "Stored byte for byte", ("tensor", "why"), rows)


def _settings(report: QuantizationReport) -> Markup:
    asked = report.options
    return entries(
        [
            ("file", report.source),
            ("axis", asked.axis),
            ("rounding", asked.rounding),
            ("seed", asked.seed if asked.rounding == "stochastic" else "none: nothing is drawn"),
            ("include", ", ".join(asked.include) or "all"),
            ("exclude", ", ".join(asked.exclude) or "none"),
            ("time in all", f"{report.seconds:.2f} s"),
        ]
    )
