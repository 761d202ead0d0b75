"""What the script of a page draws above its tables: plain data, a mapping a drawing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

#: What stands in the list `charts` of a page's layout; docs/reference/report-data.md has its keys.
Chart: TypeAlias = dict[str, Any]


def stacks(title: str, rows: Iterable[Chart]) -> Chart:
    """Return bars of one length, each cut into parts; a row is what `stack` returns."""
    return {"kind": "stacks", "title": title, "rows": list(rows)}


def stack(
    name: str, text: str, parts: Iterable[tuple[str, float, str]], limit: float | None = None
) -> Chart:
    """Return a bar of `stacks`.

    Parameters
    ----------
    name, text
        What it is, and its whole length in words.
    parts
        Name, length and length in words of each.
    limit
        How long it may be; what is left of that is drawn empty.
    """
    shown = [{"name": part, "value": value, "text": said} for part, value, said in parts]
    return {"name": name, "text": text, "parts": shown, "limit": limit}


def axis(name: str, *, is_log: bool = False, unit: str = "") -> Chart:
    """Return an axis of `curves`."""
    return {"name": name, "is_log": is_log, "unit": unit}


def curves(title: str, x: Chart, y: Chart, series: Iterable[Chart]) -> Chart:
    """Return lines or marks over two axes; a series is what `line` returns."""
    return {"kind": "curves", "title": title, "x": x, "y": y, "series": list(series)}


def line(
    name: str,
    points: Iterable[tuple[float, float, str]],
    *,
    is_line: bool = True,
    is_marked: bool = True,
    is_step: bool = False,
) -> Chart:
    """Return a series of `curves`: points with x, y and what to say of each."""
    drawn = [list(point) for point in points]
    shape = {"is_line": is_line, "is_marked": is_marked, "is_step": is_step}
    return {"name": name, **shape, "points": drawn}


def bars(
    title: str,
    names: Sequence[str],
    rows: Iterable[tuple[str, Sequence[tuple[float | None, str]]]],
    *,
    base: float = 0.0,
    is_log: bool = False,
    note: str = "",
) -> Chart:
    """Return bars beside each other.

    Parameters
    ----------
    title, note
        What stands above them, and below.
    names
        Of the bars of a row.
    rows
        A name, and the value and text of each of its bars; None is none.
    base
        From where they are drawn.
    is_log
        Whether twice as much is as far as half as much.
    """
    shown = [{"name": name, "values": [list(value) for value in values]} for name, values in rows]
    return {
        "kind": "bars", "title": title, "names": list(names), "rows": shown, "base": base,
        "is_log": is_log, "note": note,
    }  # fmt: skip
