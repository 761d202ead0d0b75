"""The comparison as Markdown, and its place in a document."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
        lines = ["| what | hardware | published | where | why not |", "|---|---|---|---|---|"]
        lines += [
            f"| {a.what} | {a.hardware} | {a.published} | {a.source} | {a.reason} |" for a in gone
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _summary(summaries: Iterable[ClassSummary]) -> str:
    lines = [
        "| class | rows | median error | worst | explained misses | worst of the others |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {s.class_} | {s.rows} | {percent(s.median)} | {percent(s.worst)} ({s.worst_row}) "
        f"| {s.explained} | {percent(s.worst_unexplained)} |"
        for s in summaries
    ]
    return "\n".join(lines)


def _rows(results: Iterable[RowResult]) -> str:
    lines = [
        "| row | hardware | what | predicted | published | ratio | where |",
        "|---|---|---|--:|--:|--:|---|",
    ]
    for result in results:
        row = result.row
        mark = "" if result.verdict == "within" else " (miss)"
        lines.append(
            f"| {row.id} | {row.hardware} | {row.what} | {figure(result.predicted)} {row.unit} "
            f"| {figure(row.published)} {row.unit} | {result.ratio:.3f}{mark} | {row.source} |"
        )
    return "\n".join(lines)


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
