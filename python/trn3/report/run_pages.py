"""Pages about saved runs: the list of them, and some beside each other."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from trn3.report.charts import bars
from trn3.report.markup import Cell, Markup, NumberCell, escaped, number, paragraphs, table
from trn3.report.saved_runs import SavedRun, is_number
from trn3.report.shell import ReportPage, ReportPane, versioned
from trn3.text import size, time

#: How many mappings within each other are looked into; profiles have one in one.
MOST_DEPTH = 4
#: Lists of figures whose items have names, and which keys are these.
NAMED = {"engines": ("engine",), "lines": ("file", "line", "function")}


def list_page(title: str, runs: Sequence[SavedRun]) -> ReportPage:
    """Return the page of all runs, from which some are chosen to compare.

    Parameters
    ----------
    title
        Name of the folder.
    runs
        Its runs, as they are to be listed.
    """
    heads = (
        "",
        "kernel",
        "machine",
        "level",
        "latency",
        "instructions",
        "written",
        "folder",
        "verdict",
    )
    shown = table("runs", "Runs, the newest first", heads, [_row(run) for run in runs])
    form = (
        '<form action="compare" method="get"><p class="actions">'
        '<button type="submit">Compare the chosen runs</button></p>\n'
        f"{shown}</form>\n"
    )
    kernels = {run.figures.get("kernel") for run in runs if run.figures}
    count = f"{len(runs)} run{'' if len(runs) == 1 else 's'}"
    return ReportPage(
        "runs",
        title,
        f"{count} of {len(kernels)} kernel{'' if len(kernels) == 1 else 's'}. A name opens its "
        "report; two or more that are chosen can be compared.",
        [],
        [ReportPane("runs", "Runs", Markup(form))],
        versioned({"runs": [_plain(run) for run in runs]}),
        form_action="'self'",
    )


def compare_page(runs: Sequence[SavedRun]) -> ReportPage:
    """Return the page of some runs beside each other; differences are to the first.

    Raises
    ------
    ValueError
        If there are fewer than two, or one has no figures.
    """
    if len(runs) < 2:
        message = f"{len(runs)} run is chosen; choose two or more"
        raise ValueError(message)
    for run in runs:
        if run.problem:
            message = f"{run.title}: {run.problem}"
            raise ValueError(message)
    base, *others = runs
    latency = [float(run.figures["latency_us"]) for run in runs]
    fastest = min(range(len(runs)), key=latency.__getitem__)
    slowest = max(latency) / latency[fastest] if latency[fastest] else 1.0
    verdict = (
        f"{runs[fastest].title} is the fastest, {time(latency[fastest] * 1e-6)}"
        f"; the slowest takes {slowest:.3g} times as long."
    )
    times = [(run.title, [(us, time(us * 1e-6))]) for run, us in zip(runs, latency, strict=True)]
    parts = (
        ("profile", "Figures", "Figures of profile.json", _scalars),
        ("engines", "Engines", "What engines did", partial(_listed, name="engines")),
        ("lines", "Lines", "Lines, by file and number", partial(_listed, name="lines")),
    )
    charts = {"engines": [_engine_bars(runs)]}
    panes = [
        ReportPane(
            "runs",
            "Runs",
            table("runs", "Differences are to the first", _RUN_HEADS, _run_rows(runs)),
            [bars("Latency", ["latency"], times)],
        ),
        *(
            ReportPane(name, title, _compared(name, caption, runs, of), charts.get(name, ()))
            for name, title, caption, of in parts
        ),
    ]
    return ReportPage(
        "compared-runs",
        f"{base.title} and {len(others)} other{'' if len(others) == 1 else 's'}",
        verdict,
        [],
        panes,
        versioned({"runs": [{**_plain(run), "figures": run.figures} for run in runs]}),
        form_action="'self'",
    )


_RUN_HEADS = (
    "run", "machine", "level", "latency", "difference", "ratio", "written", "base", "verdict",
)  # fmt: skip


def _run_rows(runs: Sequence[SavedRun]) -> list[list[Cell]]:
    first = float(runs[0].figures["latency_us"])
    rows: list[list[Cell]] = []
    for run in runs:
        us = float(run.figures["latency_us"])
        rows.append([
            _link(run, run.title), str(run.figures.get("arch", "")), run.level,
            number(us, time(us * 1e-6)), _difference("latency_us", us - first) if rows else "",
            number(us / first if rows and first else None), _written(run), _as_base(run, runs),
            str(run.figures.get("verdict", "")),
        ])  # fmt: skip
    return rows


def _as_base(run: SavedRun, runs: Sequence[SavedRun]) -> Cell:
    """Return a link to the same page with differences to this run."""
    if run is runs[0]:
        return "the others' base"
    order = [run, *(other for other in runs if other is not run)]
    query = "&".join(f"run={quote(each.quoted, safe='')}" for each in order)
    return Markup(f'<a href="compare?{escaped(query)}">as base</a>')


def _row(run: SavedRun) -> list[Cell]:
    figures = run.figures
    us, count = figures.get("latency_us"), figures.get("instructions")
    tick = Markup(
        f'<input type="checkbox" name="run" value="{escaped(run.quoted)}" '
        f'aria-label="{escaped(run.title)}">'
    )
    return [
        "" if run.problem else tick,
        _link(run, str(figures.get("kernel", "")) or "report"),
        str(figures.get("arch", "")), run.level,
        number(us, None if us is None else time(us * 1e-6)),
        number(count, f"{count:,}") if is_number(count) else "",
        _written(run), run.place or ".", run.problem or str(figures.get("verdict", "")),
    ]  # fmt: skip


def _link(run: SavedRun, text: str) -> Cell:
    if "report.html" not in run.files:
        return text
    steps = "/".join(filter(None, ("run", run.quoted, "report.html")))
    return Markup(f'<a href="{escaped(steps)}">{escaped(text)}</a>')


def _written(run: SavedRun) -> NumberCell:
    moment = dt.datetime.fromtimestamp(run.modified).astimezone()
    return NumberCell(f"{moment:%Y-%m-%d %H:%M:%S}" if run.modified else "", run.modified or None)


def _plain(run: SavedRun) -> dict[str, Any]:
    return {
        "folder": run.place, "kernel": run.figures.get("kernel"), "arch": run.figures.get("arch"),
        "level": run.level, "latency_us": run.figures.get("latency_us"),
        "modified": run.modified, "problem": run.problem or None,
    }  # fmt: skip


def _compared(name: str, caption: str, runs: Sequence[SavedRun], figures_of: Any) -> Markup:
    """Return a table of figures of the runs, with differences to those of the first."""
    each = [figures_of(run.figures) for run in runs]
    names = list(dict.fromkeys(key for figures in each for key in figures))
    heads = ["figure", runs[0].title]
    for run in runs[1:]:
        heads += [run.title, "difference", "%"]
    rows: list[list[Cell]] = []
    for key in names:
        first = each[0].get(key)
        row: list[Cell] = [key, _value(key, first)]
        for figures in each[1:]:
            value = figures.get(key)
            row.append(_value(key, value))
            if is_number(first) and is_number(value):
                row += [_difference(key, value - first), _percent(first, value)]
            else:
                row += ["" if first == value else "another", ""]
        rows.append(row)
    if not rows:
        return paragraphs([f"{caption}: none of these runs has any."])
    return table(name, caption, heads, rows)


def _engine_bars(runs: Sequence[SavedRun]) -> dict[str, Any]:
    each = [_listed(run.figures, "engines") for run in runs]
    engines = dict.fromkeys(
        key.removesuffix(" busy_us") for of in each for key in of if key.endswith(" busy_us")
    )
    busy = [
        (engine, [_microseconds(of.get(f"{engine} busy_us")) for of in each]) for engine in engines
    ]
    return bars("How long each engine was busy", [run.title for run in runs], busy)


def _microseconds(us: object) -> tuple[float | None, str]:
    return (us, time(us * 1e-6)) if is_number(us) else (None, "")


def _scalars(figures: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Return numbers and texts, those of mappings too, by names with points between."""
    found: dict[str, Any] = {}
    for key, value in figures.items():
        if isinstance(value, Mapping):
            if before.count(".") < MOST_DEPTH:
                found |= _scalars(value, f"{before}{key}.")
        elif isinstance(value, str) or is_number(value):
            found[f"{before}{key}"] = value
    return found


def _listed(figures: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the figures of a list whose items have names."""
    found: dict[str, Any] = {}
    items = figures.get(name)
    for item in items if isinstance(items, Sequence) and not isinstance(items, str) else ():
        if isinstance(item, Mapping):
            known = {key: str(item.get(key, "")) for key in NAMED[name]}
            called = _called(known)
            rest = {key: value for key, value in item.items() if key not in known}
            found |= {f"{called} {key}": value for key, value in _scalars(rest).items()}
    return found


def _called(known: Mapping[str, str]) -> str:
    if "file" not in known:
        return " ".join(known.values())
    return f"{PurePosixPath(known['file']).name}:{known['line']} {known['function']}"


def _value(name: str, value: Any) -> Cell:
    if not is_number(value):
        return "" if value is None else str(value)
    return number(value, _said(name, value))


def _said(name: str, value: float) -> str | None:
    sign, amount = ("-", -value) if value < 0 else ("", value)
    if name.endswith("_us"):
        return sign + time(amount * 1e-6)
    if name.endswith("_bytes"):
        return sign + size(amount, digits=4)
    return None


def _difference(name: str, value: float) -> NumberCell:
    shown = number(value, _said(name, value))
    return NumberCell(f"+{shown.text}" if value > 0 else shown.text, value)


def _percent(first: float, value: float) -> NumberCell:
    if not first:
        return number(None)
    part = value / first - 1
    return NumberCell(f"{100 * part:+.1f} %", part)
