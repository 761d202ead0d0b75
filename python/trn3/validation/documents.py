"""The comparison as Markdown, and its place in a document."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from trn3.validation.bands import summarise_band
from trn3.validation.rows import LEVELS, Absent
from trn3.validation.run import (
    ClassSummary,
    LevelSummary,
    RowResult,
    summarise,
    summarise_levels,
)

BEGIN: Final = "<!-- generated: begin -->"
END: Final = "<!-- generated: end -->"
CLAIMS_BEGIN: Final = "<!-- generated claims: begin -->"
CLAIMS_END: Final = "<!-- generated claims: end -->"
#: Between which lines of a document each part stands.
SECTIONS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "kernels": (BEGIN, END),
        "commands": ("<!-- generated commands: begin -->", "<!-- generated commands: end -->"),
        "claims": (CLAIMS_BEGIN, CLAIMS_END),
    }
)


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


def numbers(result: RowResult) -> tuple[str, str, str]:
    """Return predicted, published, and the ratio of the two, as tables show them."""
    row, published = result.row, f"{figure(result.row.published)} {result.row.unit}"
    if result.refusal is not None:
        return "refused", published, "-"
    return f"{figure(result.predicted)} {row.unit}", published, f"{result.ratio:.3f}"


def command_tables(results: Sequence[RowResult]) -> str:
    """Return the rows that command lines compute, by group, ready for a document."""
    parts = [_summary(summarise(results, "group"))]
    for group in dict.fromkeys(result.row.group for result in results):
        parts += [f"### {group}", _rows(r for r in results if r.row.group == group)]
    missed = [result for result in results if result.verdict != "within"]
    return "\n\n".join([*parts, *(["\n".join(map(_miss, missed))] if missed else [])])


def markdown(results: Sequence[RowResult], absent: Iterable[Absent]) -> str:
    """Return the tables and explanations, ready for a document."""
    parts = [_levels(summarise_levels(results)), _summary(summarise(results))]
    if (band := summarise_band(results)) is not None:
        parts.append(
            f"Of the held-back latencies of whole kernels {band.within} of {band.rows} "
            f"({percent(band.share)}) lie between `latency_low_us` and `latency_high_us`. "
            f"Outside: {', '.join(band.outside) or 'none'}."
        )
    titles = {
        "fit": "Rows that constants were read off",
        "hold": "Rows held back: no constant was read off them",
    }
    for class_, title in titles.items():
        for level in LEVELS:
            mine = [r for r in results if r.row.class_ == class_ and r.row.level == level]
            if mine:
                parts += [f"### {title}: {level}", _rows(mine)]
    if several := at_several_levels(results):
        parts += ["### The same measurement as written and otherwise", _side_by_side(several)]
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


def at_several_levels(results: Iterable[RowResult]) -> list[dict[str, RowResult]]:
    """Return the measurements that ran at several levels, each as its results by level."""
    found: dict[str, dict[str, RowResult]] = {}
    for result in results:
        found.setdefault(result.row.measurement, {})[result.row.level] = result
    return [levels for levels in found.values() if len(levels) > 1]


def ratios(levels: dict[str, RowResult]) -> list[str]:
    """Return a measurement's name, its figure, and predicted over published at each level."""
    row = next(iter(levels.values())).row
    cells = [f"{levels[level].ratio:.3f}" if level in levels else "" for level in LEVELS]
    return [row.measurement, f"{figure(row.published)} {row.unit}", *cells]


def _side_by_side(several: Iterable[dict[str, RowResult]]) -> str:
    headings = ("measurement", "published", *LEVELS)
    return markdown_table(headings, map(ratios, several), right=headings[1:])


def _levels(summaries: Iterable[LevelSummary]) -> str:
    numbers = ("rows", "median error", "rank correlation", "worst")
    rows = [
        (
            f"{s.level} (headline)" if s.level == "as-written" else s.level,
            s.rows,
            percent(s.median),
            f"{s.rank_correlation:.3f}",
            f"{percent(s.worst)} ({s.worst_row})",
        )
        for s in summaries
    ]
    return markdown_table(("held back", *numbers), rows, right=numbers)


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
    headings = ("predicted", "published", "ratio")
    rows = []
    for result in results:
        row, (*values, ratio) = result.row, numbers(result)
        said = f"{ratio}{'' if result.verdict == 'within' else ' (miss)'}"
        rows.append((row.id, row.hardware, row.what, *values, said, row.source))
    return markdown_table(("row", "hardware", "what", *headings, "where"), rows, right=headings)


def _miss(result: RowResult) -> str:
    reason = result.row.miss or result.refusal or "Not explained."
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
