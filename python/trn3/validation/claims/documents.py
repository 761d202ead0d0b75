"""The claims as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trn3.validation.claims.check import ClaimResult, FigureResult, StatusSummary, summarise
from trn3.validation.claims.table import STATUS_TEXTS
from trn3.validation.documents import figure, markdown_table, percent


def markdown(results: Sequence[ClaimResult]) -> str:
    """Return summary, table and remarks, ready for a document."""
    return "\n\n".join(
        (
            _summary(summarise(results)),
            _rows(results),
            "### What the figures rest on",
            "\n".join(_remarks(results)),
        )
    )


def number(result: FigureResult) -> str:
    """Return a computed figure with as many digits as are published, or four."""
    if result.figure.published is None:
        return figure(result.computed)
    decimals = len(result.figure.published.partition(".")[2])
    shown = f"{result.computed:.{decimals + 1}f}"
    return shown if float(shown) else figure(result.computed)


def _summary(summaries: Iterable[StatusSummary]) -> str:
    numbers = (
        "claims", "figures", "exact", "refuted", "explained misses", "misses", "fitted",
        "median error", "worst", "worst of the unexplained", "median of those not fitted",
    )  # fmt: skip
    rows = []
    for s in summaries:
        counts = (s.claims, s.figures, s.exact, s.refuted, s.explained, s.misses, s.fitted)
        worst = "-" if s.worst is None else f"{percent(s.worst)} ({s.worst_figure})"
        errors = (_part(s.median), worst, _part(s.worst_unexplained), _part(s.held_median))
        rows.append((s.status, *counts, *errors))
    return markdown_table(("status", *numbers), rows, right=numbers)


def _part(error: float | None) -> str:
    return "-" if error is None else percent(error)


def _rows(results: Iterable[ClaimResult]) -> str:
    numbers = ("computed", "published", "ratio")
    headings = ("#", "claim", "figure", *numbers, "status", "verdict", "source")
    rows = []
    for result in results:
        heads = (
            "" if result.claim.number is None else str(result.claim.number),
            result.claim.claim,
        )
        for entry in result.figures:
            rows.append((*heads, *cells(entry)))
            heads = ("", "")
    return markdown_table(headings, rows, right=("#", *numbers))


def cells(entry: FigureResult) -> tuple[str, ...]:
    """Return a figure as tables show it: name, numbers, ratio, status, verdict, source."""
    published, unit = entry.figure.published, entry.figure.unit
    return (
        entry.name,
        f"{number(entry)} {unit}",
        "" if published is None else f"{published} {unit}",
        "" if entry.ratio is None else f"{entry.ratio:.3f}",
        STATUS_TEXTS[entry.claim.status],
        entry.verdict,
        entry.figure.source or entry.claim.source,
    )


def _remarks(results: Iterable[ClaimResult]) -> Iterable[str]:
    for result in results:
        claim = result.claim
        remarks = [*claim.remarks]
        remarks += [
            f"{entry.name}: {entry.figure.miss}"
            for entry in result.figures
            if entry.verdict == "explained miss"
        ]
        if remarks:
            yield f"- **{claim.id}**: " + " ".join(_sentence(remark) for remark in remarks)


def _sentence(text: str) -> str:
    text = text[0].upper() + text[1:]
    return text if text.endswith(".") else f"{text}."
