"""How help looks: panels of names and what they mean, in which no name is cut."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from textwrap import wrap
from typing import TYPE_CHECKING, Final, NamedTuple

from trn3.cli.command_table import PANELS

if TYPE_CHECKING:
    from rich.text import Text

#: Lines longer than this are hard to read.
_WIDEST: Final = 110
#: Names up to this many letters have their help beside them, others below.
_NAMES: Final = 24


class PanelEntry(NamedTuple):
    """A line of a panel: an option or a command, and what it means."""

    panel: str
    name: str
    line: str


def entries_of_table() -> Iterator[PanelEntry]:
    """Yield what the help of ``trn3`` says of every subcommand."""
    for panel, places in PANELS.items():
        for name, place in places.items():
            yield PanelEntry(panel, name, place.line)


def help_text(usage: str, about: str, entries: Iterable[PanelEntry]) -> str:
    """Return a page of help, 80 columns wide or more, with colours only on a terminal."""
    from rich.console import Console, Group
    from rich.panel import Panel
    from rich.text import Text

    console = Console(force_terminal=sys.stdout.isatty() or None, highlight=False)
    console.width = min(console.width, _WIDEST)
    room = console.width - 4
    panels: dict[str, list[PanelEntry]] = {}
    for entry in entries:
        panels.setdefault(entry.panel, []).append(entry)
    with console.capture() as captured:
        console.print(Text(usage, "bold"))
        console.print()
        for paragraph in about.strip().split("\n\n"):
            console.print(_marked(" ".join(paragraph.split())))
            console.print()
        for title, records in panels.items():
            beside = max(
                (len(each.name) for each in records if len(each.name) <= _NAMES), default=8
            )
            lines = [
                line for each in records for line in _lines(each.name, each.line, room, beside)
            ]
            body = Group(*lines)
            # Not a string: that would be searched for markup and emoji.
            name = Text(title)
            console.print(Panel(body, title=name, title_align="left", border_style="dim"))
    return captured.get()


def _lines(names: str, text: str, room: int, beside: int) -> Iterator[Text]:
    """Yield an entry: names, and beside them or below what they mean."""
    from rich.text import Text

    said = wrap(" ".join(text.split()), room - beside - 2, break_on_hyphens=False) or [""]
    if len(names) <= beside:
        first = Text(f"{names:<{beside}}  ", "bold cyan")
        yield first + _marked(said.pop(0))
    else:
        # Choices may break at any of them.
        for line in wrap(names.replace("|", "| "), room):
            yield Text(line.replace("| ", "|"), "bold cyan")
    for line in said:
        yield Text(" " * (beside + 2)) + _marked(line)


def _marked(text: str) -> Text:
    """Return a text in which what stands in backquotes is bold."""
    from rich.text import Text

    parts = text.split("`")
    return Text.assemble(*((part, "bold" if at % 2 else "") for at, part in enumerate(parts)))
