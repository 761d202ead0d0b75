"""The report of a comparison: systems beside each other, and what is certain about each figure."""

from __future__ import annotations

from collections import Counter

from trn3.facts.comparison import Cell as Figure, Comparison
from trn3.facts.quantity import shown
from trn3.report.charts import bars
from trn3.report.markup import Cell, Markup, number, paragraphs, table
from trn3.report.shell import ReportPage, ReportPane, versioned

_SAID = (
    "A derived figure follows from those of the system's parts. Where sources conflict, the least "
    "and the largest that one of them gives stand beside the figure."
)


def comparison_page(found: Comparison) -> str:
    """Return the report of systems beside each other: one page without network.

    Examples
    --------
    >>> import trn3
    >>> 'data-pane="ratios"' in comparison_page(trn3.compare("trainium3", "b300"))
    True
    """
    base, *others = [facts.title for facts in found.systems]
    drawn = [
        (row.title, [(ratio, "" if ratio is None else f"{ratio:.2f}") for ratio in row.ratios[1:]])
        for row in found.rows
        if any(ratio is not None for ratio in row.ratios[1:])
    ]
    panes = [
        ReportPane(
            "ratios",
            "Ratios",
            _figures(found),
            [bars(f"Times what {base} has", others, drawn, base=1.0, is_log=True)],
        ),
        ReportPane("sources", "Sources", _sources(found)),
    ]
    return ReportPage(
        "compare",
        " and ".join([base, *others]),
        _verdict(found),
        [],
        panes,
        versioned(found.as_json()),
    ).html()


def _verdict(found: Comparison) -> str:
    """Return how much more and less each system has than the first, and what is certain."""
    parts = []
    for at, facts in enumerate(found.systems[1:], start=1):
        ratios = [row.ratios[at] for row in found.rows]
        held = [ratio for ratio in ratios if ratio is not None]
        more, less = sum(ratio > 1 for ratio in held), sum(ratio < 1 for ratio in held)
        parts.append(f"{facts.title} has more in {more} of {len(held)} figures, less in {less}")
    statuses = Counter(cell.status for row in found.rows for cell in row.cells if cell.status)
    counted = ", ".join(f"{count} {status}" for status, count in statuses.most_common())
    return f"{'; '.join(parts)}, than {found.systems[0].title}. Figures: {counted}."


def _figures(found: Comparison) -> Markup:
    heads, rows = ["figure"], list[list[Cell]]()
    for at, facts in enumerate(found.systems):
        heads += [facts.title, *(["ratio"] if at else []), "status", "sources give"]
    for row in found.rows:
        cells: list[Cell] = [row.title]
        for at, (cell, ratio) in enumerate(zip(row.cells, row.ratios, strict=True)):
            cells.append(cell.text if cell.value is None else number(cell.value, cell.text))
            if at:
                cells.append(number(ratio, None if ratio is None else f"{ratio:.2f}"))
            cells += [cell.status or "", _spread(cell)]
        rows.append(cells)
    caption = f"Ratios are to {found.systems[0].title}"
    return Markup(table("systems", caption, heads, rows) + paragraphs([_SAID]))


def _spread(cell: Figure) -> str:
    if cell.spread is None or cell.status != "conflicting":
        return ""
    least, most = cell.spread
    return f"{shown(least)} to {shown(most)}"


def _sources(found: Comparison) -> Markup:
    rows: list[list[Cell]] = []
    for row in found.rows:
        for facts, cell in zip(found.systems, row.cells, strict=True):
            held = cell.quantity
            if held is None:
                continue
            if held.formula is not None:
                rows.append([row.title, facts.title, str(held), "formula", held.formula])
            for source in held.sources:
                given = f"{shown(source.value)} {source.unit or held.unit}"
                rows.append([row.title, facts.title, given, "source", source.source])
            for kind, text in (("why", held.why), ("note", held.note)):
                if text is not None:
                    rows.append([row.title, facts.title, str(held), kind, text])
    heads = ("figure", "system", "value", "", "says")
    return table("sources", "What each figure rests on", heads, rows)
