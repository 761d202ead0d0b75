"""Texts, numbers and tables as HTML; what a person wrote is never markup."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from trn3.text import time

#: Most rows that a table of a page has; what there is more is counted **(choice)**.
MOST_ROWS: Final = 5000

# What a terminal or a browser would obey, as the compiled core shows it in pages of its own, and
# what stands for the bytes of names that are no text, which no file could hold.
_OBEYED: Final = (
    (0x80, 0x9F), (0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F), (0xFEFF, 0xFEFF),
    (0xD800, 0xDFFF),
)  # fmt: skip
_SHOWN: Final = {
    **{code: chr(ord("\u2400") + code) for code in range(0x20) if chr(code) not in "\t\n"},
    0x7F: "\u2421",
    **{
        code: f"\\u{{{code:x}}}"
        for least, most in _OBEYED
        for code in range(least, most + 1)
    },
    **dict(zip(map(ord, "&<>\"'"), ("&amp;", "&lt;", "&gt;", "&quot;", "&#39;"), strict=True)),
}  # fmt: skip


class Markup(str):
    """HTML that is made here, of escaped parts."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class NumberCell:
    """A number in a table: how it is shown, and what it is; None shows nothing."""

    text: str
    value: float | None


Cell: TypeAlias = str | NumberCell | Markup


def escaped(text: object) -> Markup:
    r"""Return a text as HTML has it, in elements and in attributes.

    >>> escaped("</script>\x1b[31m & \u202e")
    '&lt;/script&gt;␛[31m &amp; \\u{202e}'
    """
    return text if isinstance(text, Markup) else Markup(str(text).translate(_SHOWN))


def script_json(document: Any) -> Markup:
    r"""Return JSON that no script element can end early, nor a comment begin in.

    Raises
    ------
    ValueError
        If a number is not finite.

    Examples
    --------
    >>> script_json({"name": "</script>"})
    '{"name":"\\u003c/script>"}'
    """
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))


def number(value: float | None, text: str | None = None, *, scale: float = 1.0) -> NumberCell:
    """Return a cell of a number, by default with four digits of it times `scale`.

    >>> number(1234.5678).text, number(0.25, scale=100).text, number(None).text, number(7).text
    ('1,235', '25', '', '7')
    """
    if value is None or math.isnan(value):
        return NumberCell("", None)
    if text is None:
        scaled = value * scale
        text = f"{scaled:,.0f}" if abs(scaled) >= 1000 else f"{scaled:.4g}"
    return NumberCell(text, value)


def share(part: float, whole: float) -> NumberCell:
    """Return a cell of a part, in percent of the whole.

    >>> share(1, 8).text, share(1, 0).text
    ('12.5%', '')
    """
    return number(part / whole, f"{part / whole:.1%}") if whole else number(None)


def seconds(value: float) -> NumberCell:
    """Return a cell of a time.

    >>> seconds(2.5e-6).text
    '2.5 us'
    """
    return number(value, time(value))


def entries(pairs: Iterable[tuple[str, object]]) -> Markup:
    """Return a description list.

    >>> entries([("chips", 8)])
    '<dl><dt>chips</dt><dd>8</dd></dl>'
    """
    shown = (f"<dt>{escaped(name)}</dt><dd>{escaped(value)}</dd>" for name, value in pairs)
    return Markup(f"<dl>{''.join(shown)}</dl>")


def paragraphs(texts: Iterable[object]) -> Markup:
    """Return a paragraph for each text."""
    return Markup("".join(f"<p>{escaped(text)}</p>\n" for text in texts))


def listed(heading: str, texts: Sequence[object]) -> Markup:
    """Return a list with a heading; nothing without texts."""
    if not texts:
        return Markup()
    items = "".join(f"<li>{escaped(text)}</li>" for text in texts)
    return Markup(f'<h3>{escaped(heading)}</h3>\n<ul class="said">{items}</ul>\n')


def table(name: str, caption: str, heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Markup:
    """Return a table, of its first `MOST_ROWS` rows.

    Parameters
    ----------
    name, caption
        What scripts and readers know it by.
    heads, rows
        A cell of each row for each head; a column that has a number is one of numbers.

    Examples
    --------
    >>> '<td class="number" data-value="0.5">50 %</td>' in table(
    ...     "shares", "Shares", ["share"], [[number(0.5, "50 %")]]
    ... )
    True
    """
    if len(rows) > MOST_ROWS:
        caption += f" (the first {MOST_ROWS:,} of {len(rows):,})"
    numeric = [any(isinstance(row[at], NumberCell) for row in rows) for at in range(len(heads))]
    marks = (' class="number"' if is_number else "" for is_number in numeric)
    headings = "".join(
        f'<th scope="col"{mark}>{escaped(head)}</th>'
        for mark, head in zip(marks, heads, strict=True)
    )
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows[:MOST_ROWS])
    return Markup(
        f'<table data-table="{escaped(name)}" data-rows="{len(rows)}">'
        f"<caption>{escaped(caption)}</caption>"
        f"<thead><tr>{headings}</tr></thead><tbody>{body}</tbody></table>\n"
    )


def _cell(cell: Cell) -> str:
    if not isinstance(cell, NumberCell):
        return f"<td>{escaped(cell)}</td>"
    value = "" if cell.value is None else f' data-value="{float(cell.value)!r}"'
    return f'<td class="number"{value}>{escaped(cell.text)}</td>'
