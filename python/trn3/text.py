"""Names, numbers with units and near misses, as people read them; one copy for the whole house."""

from __future__ import annotations

import html
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_BYTES = ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"), (1e-12, "ps"))


def printable(text: str) -> str:
    r"""Return `text` with everything a terminal would obey, or not show, escaped.

    >>> printable("weight\x1b[31m")
    'weight\\x1b[31m'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def nearest(word: object, known: Iterable[object], likeness: float = 0.0) -> str | None:
    """Return the name that was probably meant, or None if none is like enough.

    Parameters
    ----------
    word
        What came.
    known
        The names there are, of which capitals do not matter.
    likeness
        From 0, where any name will do, to 1, where it must be the same.

    Examples
    --------
    >>> nearest("Cuont", ["count", "selectors"]), nearest("zzz", ["count"], 0.6)
    ('count', None)
    """
    from difflib import get_close_matches

    folded = {str(each).lower(): str(each) for each in known}
    close = get_close_matches(str(word).lower(), folded, n=1, cutoff=likeness)
    return folded[close[0]] if close else None


#: Colours are those of the reader's page, by day and by night.
_PAGE: Final = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>:root {{ color-scheme: light dark }} body {{ margin: 2em }}</style></head>
<body><h1>{title}</h1>
{shown}
</body></html>
"""


def as_html(shown: RenderableType, *, width: int = 100) -> str:
    """Return what a terminal of that width would show, as HTML in which all text is escaped.

    >>> "&lt;b&gt;" in as_html("<b>")
    True
    """
    from rich.console import Console

    console = Console(
        record=True, width=width, file=io.StringIO(), highlight=False, force_jupyter=False
    )
    console.print(shown, markup=False)
    form = '<pre style="line-height: 1.3; overflow-x: auto; white-space: pre">{code}</pre>'
    return console.export_html(code_format=form, inline_styles=True)


def as_page(title: str, shown: RenderableType, *, width: int = 140) -> str:
    """Return a page of its own that shows the same; it needs no network and runs no script.

    >>> "<h1>a &lt; b</h1>" in as_page("a < b", "c")
    True
    """
    return _PAGE.format(title=html.escape(printable(title)), shown=as_html(shown, width=width))


def mimebundle(shown: Any, **_: object) -> dict[str, str]:
    """Return what notebooks show of an object, its ``_repr_mimebundle_``: a table, or its text.

    >>> from trn3.text import mimebundle
    >>> mimebundle(["<b>"])["text/plain"], "&lt;b&gt;" in mimebundle(["<b>"])["text/html"]
    ("['<b>']", True)
    """
    from rich.text import Text

    made = shown.__rich__() if hasattr(shown, "__rich__") else Text(str(shown))
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
        made.add_row(name, Text(printable(str(value))))
    return made


def rate(value: float) -> str:
    """Return bytes a second with a unit and four digits.

    >>> rate(254.2222e9), rate(11.52e12), rate(float("inf"))
    ('254.2 GB/s', '11.52 TB/s', 'unlimited')
    """
    return "unlimited" if math.isinf(value) else f"{size(value, digits=4)}/s"


def size(num_bytes: float, digits: int | None = None) -> str:
    """Return bytes with a decimal unit: with so many digits, else with one decimal up to TB.

    >>> size(234_881_024), size(234_881_024, digits=4), size(999)
    ('234.9 MB', '234.9 MB', '999 bytes')
    >>> size(90_868_376), size(90_868_376, digits=4)
    ('90.9 MB', '90.87 MB')
    """
    if digits is not None:
        return _scaled(num_bytes, _BYTES, f".{digits}g")
    return f"{num_bytes} bytes" if num_bytes < 1000 else _scaled(num_bytes, _BYTES[1:], ".1f")


def kibibytes(num_bytes: float) -> str:
    """Return a size of a memory in KiB.

    >>> kibibytes(262144), kibibytes(100)
    ('256 KiB', '0.1 KiB')
    """
    value = num_bytes / 1024
    return f"{value:.0f} KiB" if value == int(value) else f"{value:.1f} KiB"


def time(value: float) -> str:
    """Return seconds with a unit and four digits.

    >>> time(3.5e-6), time(0.00092391)
    ('3.5 us', '923.9 us')
    """
    return _scaled(value, _TIMES, ".4g") if value else "0 s"


def decibels(value: float) -> str:
    """Return a signal-to-noise ratio for a table cell.

    >>> decibels(31.4159), decibels(float("inf")), decibels(float("nan"))
    ('31.42', 'exact', '-')
    """
    if math.isnan(value):
        return "-"
    return "exact" if math.isinf(value) else f"{value:.2f}"


def verification(outputs: int, passes: int) -> str:
    """Return what was verified of a compiled program, in words.

    Examples
    --------
    >>> verification(outputs=1, passes=3)
    'verified: 1 output equal bit for bit, the schedule legal after each of 3 passes'
    """
    what = f"{outputs} output{'' if outputs == 1 else 's'} equal bit for bit"
    return f"verified: {what}, the schedule legal after each of {passes} passes"


def _scaled(value: float, units: Sequence[tuple[float, str]], form: str) -> str:
    # Half a unit of the fourth digit below the next unit is that unit.
    factor, unit = next(
        ((factor, unit) for factor, unit in units if value >= factor * 0.99995), units[-1]
    )
    return f"{value / factor:{form}} {unit}"
