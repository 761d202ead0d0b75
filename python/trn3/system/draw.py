"""Drawings of systems with matplotlib (the extra ``plot``)."""

from __future__ import annotations

from pathlib import Path

from trn3._trn3.system import Fabric


def plot(fabric: Fabric, path: Path) -> Path:
    """Draw a fabric into a file."""
    from trn3.files import PLOT_SUFFIXES, write_files

    if path.suffix not in PLOT_SUFFIXES:
        message = f"path is {str(path)!r}; drawings are {', '.join(PLOT_SUFFIXES)} files"
        raise ValueError(message)
    title, levels, nodes, links = fabric.drawing()
    try:
        from matplotlib.figure import Figure
        from matplotlib.lines import Line2D
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path as Curve
    except ImportError as error:
        message = "plot needs matplotlib: pip install 'trn3[plot]'"
        raise ImportError(message) from error
    xs, ys = [x for _, x, *_ in nodes], [y for _, _, y, *_ in nodes]
    left, right, top, bottom = min(xs), max(xs), min(ys), max(ys)
    size = (max((right - left + 3) * 0.5, 6), max((bottom - top + 3) * 0.5 + 1, 4))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    for (source, target), control, colour in links:
        curve = Curve(
            [(xs[source], ys[source]), control, (xs[target], ys[target])],
            [Curve.MOVETO, Curve.CURVE3, Curve.CURVE3],
        )
        axes.add_patch(PathPatch(curve, fill=False, edgecolor=colour, alpha=0.55, linewidth=0.8))
    for name, x, y, is_switch, colour in nodes:
        axes.plot([x], [y], "s" if is_switch else "o", color=colour, ms=6)
        if len(nodes) <= 200:
            axes.annotate(name, (x, y), (0, 5), textcoords="offset points", fontsize=5, ha="center")
    axes.set_title(title, fontsize=10)
    axes.set_xlim(left - 1.5, right + 1.5)
    axes.set_ylim(bottom + 1.5, top - 1.5)
    axes.set_aspect("equal")
    axes.set_axis_off()
    handles = [Line2D([], [], color=colour, label=name) for name, colour in levels]
    axes.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, -0.02), fontsize=8)
    write_files({path: lambda to: figure.savefig(to, dpi=150)})
    return path
