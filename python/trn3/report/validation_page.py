"""The report of what was published and computed again: how far off, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from trn3.report.charts import Chart, axis, curves, line
from trn3.report.markup import Cell, Markup, NumberCell, listed, number, paragraphs, table
from trn3.report.shell import ReportPage, ReportPane, versioned

#: What kinds of rows there are, by their names in a page.
_KINDS = {
    "kernels": "Measurements of kernels",
    "commands": "Figures of command lines",
    "claims": "Claims about systems",
}


class PlainResult(Protocol):
    """What was compared, such as `trn3.validation.Compared`."""

    def to_plain(self) -> dict[str, Any]:
        """Return it as `trn3 validate --json` prints it."""


def validation_page(found: PlainResult) -> str:
    """Return the report of a comparison with what was published: one page without network."""
    document = found.to_plain()
    rows: Sequence[Mapping[str, Any]] = document["rows"]
    parts = {kind: [row for row in rows if _kind(row) == kind] for kind in _KINDS}
    misses = [row for row in rows if row["verdict"] != "within" and row["reason"]]
    shown = [
        ReportPane(kind, kind.capitalize(), _table(kind, of), _charts(kind, of))
        for kind, of in parts.items()
        if of
    ]
    panes = [
        ReportPane("summary", "Summary", _summary(document)),
        *shown,
        ReportPane("reasons", "Reasons", _reasons(misses)),
    ]
    verdicts = Counter(str(row["verdict"]) for row in rows)
    counted = ", ".join(f"{verdict} {count:,}" for verdict, count in verdicts.most_common())
    figures = [(_KINDS[kind], f"{len(of):,}") for kind, of in parts.items() if of]
    return ReportPage(
        "validate",
        "Published and computed",
        f"Of {len(rows):,} published figures: {counted}.",
        figures,
        panes,
        versioned(document),
    ).html()


def _kind(row: Mapping[str, Any]) -> str:
    if row["kind"] == "claim":
        return "claims"
    return "kernels" if row["command"] is None else "commands"


def _charts(kind: str, rows: Sequence[Mapping[str, Any]]) -> list[Chart]:
    """Return the ratios over the published figures; a series a class."""
    series: dict[str, list[tuple[float, float, str]]] = {}
    for row in rows:
        published, ratio = row["published"], row["ratio"]
        if not published or published < 0 or not ratio or ratio < 0:
            continue
        name = str(row["status"]) if kind == "claims" else str(row["class"])
        said = [
            _name(row),
            f"published {published:,.4g} {row['unit']}",
            f"computed {row['computed']:,.4g}",
            str(row["verdict"]),
        ]
        series.setdefault(name, []).append((published, ratio, "\n".join(said)))
    if not series:
        return []
    ends = [point[0] for points in series.values() for point in points]
    drawn = [line(name, points, is_line=False) for name, points in sorted(series.items())]
    drawn.append(
        line("as published", [(min(ends), 1.0, ""), (max(ends), 1.0, "")], is_marked=False)
    )
    return [
        curves(
            "Computed over published",
            axis("published, each in its unit", is_log=True),
            axis("computed / published", is_log=True),
            drawn,
        )
    ]


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['id']}: {row['figure']}" if row["kind"] == "claim" else str(row["id"])


def _table(kind: str, rows: Sequence[Mapping[str, Any]]) -> Markup:
    shown: list[list[Cell]] = []
    for row in rows:
        what: list[Cell]
        if kind == "claims":
            what = [number(row["number"]), row["id"], row["figure"], row["class"], row["status"]]
        else:
            what = [
                row["id"],
                row["hardware"],
                row["what"],
                row["class"],
                row["group"] or row["level"],
            ]
        shown.append([
            *what, number(row["published"]), number(row["computed"]), str(row["unit"]),
            number(row["ratio"], None if row["ratio"] is None else f"{row['ratio']:.3f}"),
            _percent(row["tolerance"]), row["verdict"], str(row["source"]),
        ])  # fmt: skip
    first = (
        ("number", "claim", "figure", "about", "status")
        if kind == "claims"
        else ("row", "hardware", "what", "class", "level" if kind == "kernels" else "group")
    )
    heads = (*first, "published", "computed", "unit", "ratio", "tolerance", "verdict", "source")
    return table(kind, _KINDS[kind], heads, shown)


def _percent(part: float | None) -> NumberCell:
    return number(part, None if part is None else f"{part:.1%}")


def _summary(document: Mapping[str, Any]) -> Markup:
    """Return the errors by class, level and group, each list of the document as a table."""
    made = Markup()
    kept: Sequence[Mapping[str, Any]] = document["summary"]
    for name, caption, items in (
        ("class", "Kernels by class, as parts of what is published", _with("class", kept)),
        ("status", "Claims by status, as parts of what is published", _with("status", kept)),
        ("level", "Kernels that were held back, by whose text ran", document["levels"]),
        ("group", "Command lines by group, as parts of what is published", document["groups"]),
    ):
        heads = list(dict.fromkeys(key for item in items for key in item))
        rows = [[_value(item.get(head)) for head in heads] for item in items]
        if rows:
            said = [head.replace("_", " ") for head in heads]
            made = Markup(made + table(f"by-{name}", caption, said, rows))
    band = document["band"]
    if band is not None:
        outside = ", ".join(band["outside"]) or "none"
        text = (
            f"{band['within']} of {band['rows']} held-back latencies of whole kernels lie within "
            f"their bounds ({band['share']:.1%}); outside: {outside}."
        )
        made = Markup(made + paragraphs([text]))
    return made


def _with(key: str, items: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [item for item in items if key in item]


def _value(value: Any) -> Cell:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    return number(value)


def _reasons(rows: Sequence[Mapping[str, Any]]) -> Markup:
    if not rows:
        return paragraphs(["Nothing is off, or nothing says why."])
    shown: list[list[Cell]] = [
        [_name(row), str(row["verdict"]), number(row["ratio"]), str(row["reason"])] for row in rows
    ]
    made = table("reasons", "Why a figure is off", ("figure", "verdict", "ratio", "why"), shown)
    remarks = [f"{row['id']}: {text}" for row in rows for text in row.get("remarks", ())]
    return Markup(made + listed("Remarks", list(dict.fromkeys(remarks))))
