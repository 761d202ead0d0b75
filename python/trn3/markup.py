"""Tables of rich as real HTML: what notebooks show of objects, and pages of ``--html``.

All text is escaped and no script runs. Styles stand in the tags themselves, because notebooks drop
style sheets; no colour is set but on warnings, so a table reads on light and on dark pages.
"""

from __future__ import annotations

import html
import io
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from trn3.text import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.style import Style
    from rich.table import Table

#: More than any table needs: a page scrolls where a terminal breaks lines.
_WIDTH: Final = 10_000
#: Terminals' colours in tones whose contrast is above 4.3 on white as on nearly black.
_INKS: Final = {"red": "#de3d3d", "yellow": "#9a7400"}
_PAGE: Final = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
:root {{ color-scheme: light dark }}
body {{ margin: 2em; font: 15px/1.45 system-ui, sans-serif }}
td, tbody th {{ border-bottom: 1px solid rgba(128, 128, 128, 0.25) }}
tbody tr:hover {{ background: rgba(128, 128, 128, 0.12) }}
</style></head>
<body><h1>{title}</h1>
{shown}
</body></html>
"""


def as_html(shown: RenderableType) -> str:
    """Return what a terminal would show as HTML in which all text is escaped.

    Tables are ``<table>`` with a ``<thead>``; where a table has no headings, or its first column
    has none, that column is the rows' headings. What is neither table nor text is ``<pre>``.

    >>> as_html("<b>")
    '<div style="white-space:pre-wrap">&lt;b&gt;</div>'
    """
    from rich.console import Console
    from rich.text import Text

    console = Console(width=_WIDTH, file=io.StringIO(), highlight=False, force_jupyter=False)
    # Markup is read in cells, as terminals do; a text of its own is what it says.
    return "\n".join(_blocks(Text(shown) if isinstance(shown, str) else shown, console))


def as_page(title: str, shown: RenderableType) -> str:
    """Return a page of its own that shows the same; it needs no network and runs no script.

    >>> "<h1>a &lt; b</h1>" in as_page("a < b", "c")
    True
    """
    return _PAGE.format(title=html.escape(printable(title)), shown=as_html(shown))


def mimebundle(shown: Any, **_: object) -> dict[str, str]:
    """Return what notebooks show of an object, its ``_repr_mimebundle_``: a table, or its text.

    >>> from trn3.markup import mimebundle
    >>> mimebundle(["<b>"])["text/plain"], "&lt;b&gt;" in mimebundle(["<b>"])["text/html"]
    ("['<b>']", True)
    """
    made = shown.__rich__() if hasattr(shown, "__rich__") else str(shown)
    return {"text/plain": repr(shown), "text/html": as_html(made)}


def fields(title: str, rows: Mapping[str, object]) -> Table:
    """Return a table of names and values for people.

    >>> fields("a plan", {"chips": 8}).row_count
    1
    """
    from rich.table import Table
    from rich.text import Text

    made = Table(title=Text(printable(title)), title_justify="left", box=None, show_header=False)
    for name, value in rows.items():
        made.add_row(Text(printable(name)), Text(printable(str(value))))
    return made


def _blocks(shown: RenderableType, console: Console) -> Iterator[str]:
    """Yield an element for each table, and for each text between them."""
    from rich.console import ConsoleRenderable, Group
    from rich.constrain import Constrain
    from rich.protocol import rich_cast
    from rich.segment import Segment
    from rich.table import Table
    from rich.text import Text

    shown = rich_cast(shown)
    if isinstance(shown, Table):
        yield _table(shown, console)
    elif isinstance(shown, (str, Text)):
        made = _inline(shown, console)
        yield f'<div style="white-space:pre-wrap">{made or "&nbsp;"}</div>'
    elif isinstance(shown, Group):
        for each in shown.renderables:
            yield from _blocks(each, console)
    elif isinstance(shown, Constrain):
        yield from _blocks(shown.renderable, console)
    elif isinstance(shown, ConsoleRenderable):
        drawn: list[Segment] = []
        for part in shown.__rich_console__(console, console.options):
            if isinstance(part, Segment):
                drawn.append(part)
            else:
                yield from _blocks(part, console)
        if drawn:
            yield f'<pre style="overflow-x:auto">{_spans(drawn)}</pre>'


def _table(table: Table, console: Console) -> str:
    columns = table.columns
    has_row_headings = bool(columns) and not (table.show_header and str(columns[0].header).strip())
    lines = ['<table style="border-collapse:collapse;margin:0.4em 0">']
    if table.title:
        title = _inline(table.title, console)
        css = "text-align:left;font-weight:600;white-space:nowrap"
        lines.append(f'<caption style="{css}">{title}</caption>')
    if table.show_header:
        heads = [
            _cell("th", column.header, column.justify, console, ' scope="col"')
            for column in columns
        ]
        lines.append(f"<thead><tr>{''.join(heads)}</tr></thead>")
    lines.append("<tbody>")
    by_row = zip(*(column.cells for column in columns), strict=True)
    for row, cells in zip(table.rows, by_row, strict=True):
        made = []
        for place, (column, cell) in enumerate(zip(columns, cells, strict=True)):
            tag, scope = ("th", ' scope="row"') if has_row_headings and not place else ("td", "")
            style = console.get_style(column.style) + console.get_style(row.style or "")
            made.append(_cell(tag, cell, column.justify, console, scope, _css(style)))
        lines.append(f"<tr>{''.join(made)}</tr>")
    lines.append("</tbody></table>")
    if table.caption:
        lines.append(f'<div style="opacity:0.75">{_inline(table.caption, console)}</div>')
    return "\n".join(['<div style="overflow-x:auto">', *lines, "</div>"])


def _cell(
    tag: str, shown: RenderableType, justify: str, console: Console, scope: str, css: str = ""
) -> str:
    """Return a cell; numbers, which stand at the right, break into no lines."""
    from rich.text import Text

    aligned = justify if justify in {"right", "center"} else "left"
    space = "pre" if aligned == "right" and tag == "td" else "pre-wrap"
    weight = "font-weight:600" if scope == ' scope="col"' else "font-weight:normal" * bool(scope)
    given = (
        f"text-align:{aligned}", "vertical-align:top", f"white-space:{space}",
        "padding:0.15em 0.9em 0.15em 0.3em", weight, css,
    )  # fmt: skip
    is_text = isinstance(shown, (str, Text))
    inside = _inline(shown, console) if is_text else "\n".join(_blocks(shown, console))
    return f'<{tag}{scope} style="{";".join(filter(None, given))}">{inside}</{tag}>'


def _inline(shown: Any, console: Console) -> str:
    """Return a text, or a string in which rich's markup is read, with its styles."""
    from rich.segment import Segment
    from rich.text import Text

    text = shown if isinstance(shown, Text) else console.render_str(shown)
    # A text without spans renders without its own style.
    base = console.get_style(text.style)
    return _spans(Segment.apply_style(text.render(console), base))


def _spans(segments: Any) -> str:
    made = []
    for each in segments:
        escaped = html.escape("\n".join(map(printable, each.text.split("\n"))))
        css = _css(each.style)
        made.append(f'<span style="{css}">{escaped}</span>' if css else escaped)
    return "".join(made)


def _css(style: Style | None) -> str:
    if style is None:
        return ""
    said = {
        "font-weight:600": style.bold,
        "font-style:italic": style.italic,
        "opacity:0.75": style.dim,
        "text-decoration:underline": style.underline,
    }
    ink = None if style.color is None else _INKS.get(style.color.name)
    return ";".join(
        [*(css for css, is_set in said.items() if is_set), *([f"color:{ink}"] * bool(ink))]
    )
