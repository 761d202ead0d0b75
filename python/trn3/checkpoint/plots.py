"""Pictures of what quantization does to values; matplotlib is imported when first needed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from trn3.checkpoint.outcomes import FormatReport
from trn3.checkpoint.statistics import HISTOGRAM_BINS, HISTOGRAM_LIMIT
from trn3.pictures import SERIES, drawing, finished, literal, write_title
from trn3.text import decibels

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_errors(formats: Sequence[FormatReport], path: str | os.PathLike[str], title: str) -> None:
    """Draw the errors of all values of each format, relative to their block, as a histogram.

    Parameters
    ----------
    formats
        Reports whose statistics hold histograms.
    path
        A file ending in .png, .svg or .pdf; it appears when it is complete, replacing one there.
    title
        Stands above the figure.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError
        If the file has another ending, or a report no histogram.
    OSError
        If the file cannot be written.
    """
    with drawing(10, 6.25) as figure:
        _draw(figure.add_subplot(), formats)
        write_title(figure, title)
    finished(figure, path)


def _draw(axes: Axes, formats: Sequence[FormatReport]) -> None:
    from matplotlib.ticker import PercentFormatter

    edges = np.linspace(-HISTOGRAM_LIMIT, HISTOGRAM_LIMIT, HISTOGRAM_BINS + 1)
    widest = 0.0
    for number, written in enumerate(formats):
        statistics = written.total().statistics
        counts = statistics.histogram
        if counts is None:
            message = f"{written.mx_format.name}: no histogram was gathered"
            raise ValueError(message)
        widest = max(widest, *np.abs(edges[:-1][counts > 0]), *np.abs(edges[1:][counts > 0]))
        sqnr = f"SQNR {decibels(statistics.sqnr_db)} dB"
        label = f"{written.mx_format.name} ({written.scale_rule}), {sqnr}"
        axes.stairs(
            counts / max(counts.sum(), 1),
            edges,
            label=literal(label),
            fill=False,
            linewidth=1.2,
            color=SERIES[number % len(SERIES)],
        )
    axes.set_yscale("log")
    axes.set_xlim(-1.05 * widest, 1.05 * widest)
    axes.xaxis.set_major_formatter(PercentFormatter(xmax=1))
    axes.set_xlabel("error (q - x) as part of the largest magnitude in the block of 32")
    axes.set_ylabel(f"part of all values per bin of {100 * (edges[1] - edges[0]):.2f} %")
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, frameon=False)
