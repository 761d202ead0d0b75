"""The comparison as Markdown, and its place in a document."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from trn3.validation.rows import Absent
from trn3.validation.run import ClassSummary, RowResult, summarise

BEGIN: Final = "<!-- generated: begin -->"
END: Final = "<!-- generated: end -->"
CLAIMS_BEGIN: Final = "<!-- generated claims: begin -->"
CLAIMS_END: Final = "<!-- generated claims: end -->"


def figure(value: float) -> str:
    """Return a number with four significant digits.

    >>> figure(28.16), figure(14968.0), figure(0.0175)
    ('28.16', '14968', '0.0175')
    """
    digits = f"{value:.4g}"
    return f"{value:.0f}" if "e" in digits or abs(value) >= 1000 else digits


def percent(value: float) -> str:
    """Return a ratio as a percentage with one decimal.

    >>> percent(0.0312)
    '3.1 %'
    """
    return f"{100 * value:.1f} %"


def markdown_table(
    headings: Sequence[str], rows: Iterable[Sequence[object]], right: Collection[str] = ()
) -> str:
    """Return a Markdown table; `right` are the headings of columns of numbers.

    >>> print(markdown_table(["size", "us"], [("1 KiB", 8.5)], right=["us"]))
    | size | us |
    |---|--:|
    | 1 KiB | 8.5 |
    """
    marks = "|".join("--:" if heading in right else "---" for heading in headings)
    lines = [f"| {' | '.join(map(str, cells))} |" for cells in (headings, *rows)]
    return "\n".join([lines[0], f"|{marks}|", *lines[1:]])


def markdown(results: Sequence[RowResult], absent: Iterable[Absent]) -> str:
    """Return the tables and explanations, ready for a document."""
    parts = [_summary(summarise(results))]
    titles = {
        "fit": "Rows that constants were read off",
        "hold": "Rows held back: no constant was read off them",
    }
    for class_, title in titles.items():
        mine = [result for result in results if result.row.class_ == class_]
        if mine:
            parts += [f"### {title}", _rows(mine)]
    missed = [result for result in results if result.verdict != "within"]
    if missed:
        parts.append("### Misses")
        parts.append("\n".join(_miss(result) for result in missed))
    gone = list(absent)
    if gone:
        parts.append("### Published, but not rebuilt")
        rows = [(a.what, a.hardware, a.published, a.source, a.reason) for a in gone]
        parts.append(markdown_table(("what", "hardware", "published", "where", "why not"), rows))
    return "\n\n".join(parts)


def _summary(summaries: Iterable[ClassSummary]) -> str:
    numbers = ("rows", "median error", "worst", "explained misses", "worst of the others")
    rows = [
        (
            s.class_,
            s.rows,
            percent(s.median),
            f"{percent(s.worst)} ({s.worst_row})",
            s.explained,
            percent(s.worst_unexplained),
        )
        for s in summaries
    ]
    return markdown_table(("class", *numbers), rows, right=numbers)


def _rows(results: Iterable[RowResult]) -> str:
    numbers = ("predicted", "published", "ratio")
    rows = [
        (
            result.row.id,
            result.row.hardware,
            result.row.what,
            f"{figure(result.predicted)} {result.row.unit}",
            f"{figure(result.row.published)} {result.row.unit}",
            f"{result.ratio:.3f}{'' if result.verdict == 'within' else ' (miss)'}",
            result.row.source,
        )
        for result in results
    ]
    return markdown_table(("row", "hardware", "what", *numbers, "where"), rows, right=numbers)


def _miss(result: RowResult) -> str:
    reason = result.row.miss or "Not explained."
    return f"- **{result.row.id}** ({result.ratio:.3f}). {reason}"


def replace_section(document: str, section: str, begin: str = BEGIN, end: str = END) -> str:
    """Return a document with what stands between its marks replaced.

    Raises
    ------
    ValueError
        If it has not exactly one pair of marks.
    """
    once = document.count(begin) == document.count(end) == 1
    if not once or document.index(end) < document.index(begin):
        message = f"needs one line {begin} and one line {end} around what is to be replaced"
        raise ValueError(message)
    before, _, rest = document.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n\n{section}\n\n{end}{after}"
