"""The picture of a sweep: a figure of its values over one parameter, a line for all others."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trn3.pictures import SERIES, drawing, literal, plain_ticks, write_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: More lines than this have no name in the legend.
_NAMED = 30
_DASHES = ("-", "--", ":", "-.")
#: From this ratio on an axis is logarithmic.
_WIDE = 50


def draw_sweep(
    rows: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    x: str | None = None,
    y: str | None = None,
) -> Figure:
    """Draw a column of a sweep's rows over one parameter.

    Parameters
    ----------
    rows
        As of ``SweepResult.to_rows``.
    names
        The parameters.
    x, y
        A parameter, and a column of numbers, with ``value.`` before it or not. By default the
        parameter with most values, and ``value``, or the first column of numbers.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError
        If there is no such parameter or column, or nothing to draw.
    """
    columns = [name for name in (rows[0] if rows else {}) if name not in names]
    drawable = [name for name in columns if any(_is_number(row[name]) for row in rows)]
    own = [name for name in drawable if name not in {"seconds", "attempts"}]
    if y is None and own:
        y = own[0]
    if y not in drawable and f"value.{y}" in drawable:
        y = f"value.{y}"
    if y is None or y not in drawable:
        known = ", ".join(drawable) or "none"
        message = f"y is {y!r}: there is no such column of numbers; there are {known}"
        raise ValueError(message)
    values = {name: list(dict.fromkeys(_shown(row[name]) for row in rows)) for name in names}
    if x is None and names:
        x = max(names, key=lambda name: (all(map(_is_number, values[name])), len(values[name])))
    if x is None or x not in names:
        message = f"x is {x!r}: there is no such parameter; there are {', '.join(names) or 'none'}"
        raise ValueError(message)
    others = [name for name in names if name != x and len(values[name]) > 1]
    lines: dict[tuple[Any, ...], list[tuple[Any, float]]] = {}
    for row in rows:
        if _is_number(row[y]):
            key = tuple(_shown(row[name]) for name in others)
            lines.setdefault(key, []).append((_shown(row[x]), float(row[y])))
    are_numbers = all(map(_is_number, values[x]))
    with drawing(7.5, 4.6 + 0.09 * min(len(lines), _NAMED)) as figure:
        axes = figure.add_subplot()
        for number, (key, points) in enumerate(lines.items()):
            said = ", ".join(f"{name} {value}" for name, value in zip(others, key, strict=True))
            at = sorted(points) if are_numbers else points
            axes.plot(
                [each[0] if are_numbers else values[x].index(each[0]) for each in at],
                [each[1] for each in at],
                marker="o",
                markersize=4,
                linestyle=_DASHES[number // len(SERIES) % len(_DASHES)] if are_numbers else "none",
                color=SERIES[number % len(SERIES)],
                label=literal(said, 44) if said and number < _NAMED else None,
            )
        if are_numbers:
            _spread(axes, "x", [value for value in values[x] if math.isfinite(value)])
        else:
            turned = len("".join(map(str, values[x]))) > 60
            labels = [literal(str(value), 40) for value in values[x]]
            axes.set_xticks(range(len(labels)), labels, rotation=90 if turned else 0)
        _spread(axes, "y", [value for points in lines.values() for _, value in points])
        axes.set(xlabel=literal(x), ylabel=literal(y))
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        if others:
            left = len(lines) - _NAMED
            more = {"title": f"and {left:,} more"} if left > 0 else {}
            figure.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False, **more)
        write_title(figure, f"{len(rows):,} points of {', '.join(names)}")
    return figure


def _is_number(value: Any) -> bool:
    is_real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return is_real and math.isfinite(value)


def _shown(value: Any) -> Any:
    """Return a number as it is, and all else as a text."""
    return value if _is_number(value) else str(value)


def _spread(axes: Any, side: str, values: Sequence[float]) -> None:
    """Make an axis logarithmic where its values are far apart."""
    if values and min(values) > 0 and max(values) > _WIDE * min(values):
        getattr(axes, f"set_{side}scale")("log")
    axis = axes.xaxis if side == "x" else axes.yaxis
    if not values or max(map(abs, values)) < 1e6:
        plain_ticks(axis)
