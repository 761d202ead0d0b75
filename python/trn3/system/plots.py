"""Pictures of systems; matplotlib (the extra ``plot``) is imported when first needed."""

from __future__ import annotations

from pathlib import Path

from trn3.facts.comparison import Comparison


def plot_comparison(comparison: Comparison, path: Path) -> None:
    """Draw the ratios of all systems to the first, a group of bars for each figure.

    Parameters
    ----------
    comparison
        What to draw.
    path
        A .png, .svg or .pdf file.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = [row for row in comparison.rows if sum(r is not None for r in row.ratios) > 1]
    count = len(comparison.systems)
    figure = Figure(figsize=(8.0, 1.2 + 0.28 * count * max(len(rows), 1)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    height = 0.8 / count
    for number, facts in enumerate(comparison.systems):
        places = [place + (number - (count - 1) / 2) * height for place in range(len(rows))]
        ratios = [row.ratios[number] or 0.0 for row in rows]
        bars = axes.barh(places, ratios, height, label=facts.title)
        texts = [
            row.cells[number].text + ("*" if row.cells[number].status == "conflicting" else "")
            for row in rows
        ]
        axes.bar_label(bars, labels=texts, padding=2, fontsize=7)
    axes.set_yticks(range(len(rows)), [row.title for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel(f"ratio to {comparison.systems[0].title}; * sources conflict")
    widest = max((r for row in rows for r in row.ratios if r is not None), default=1.0)
    if widest > 20:
        axes.set_xscale("log")
        axes.set_xlim(right=widest * 6)
    else:
        axes.set_xlim(right=widest * 1.25)
    axes.legend(fontsize=8)
    figure.savefig(path, metadata={"Date": None} if path.suffix in {".svg", ".pdf"} else None)
