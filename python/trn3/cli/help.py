"""Help texts: panels of options and commands in which no name is cut, 80 columns wide or more."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from rich.text import Text

#: Lines longer than this are hard to read.
_WIDEST: Final = 110
#: Names up to this many letters have their help beside them, others below.
_NAMES: Final = 24


class PanelCommand(TyperCommand):
    """A command whose help is panels of options."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        formatter.write(_help(self, ctx))


class PanelGroup(TyperGroup):
    """A group of commands, whose help is panels of options and of commands."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        formatter.write(_help(self, ctx))


def _help(command: PanelCommand | PanelGroup, context: Any) -> str:
    """Return the help of a command, with colours only on a terminal."""
    from rich.console import Console, Group
    from rich.panel import Panel
    from rich.text import Text

    console = Console(force_terminal=sys.stdout.isatty() or None, highlight=False)
    console.width = min(console.width, _WIDEST)
    room = console.width - 4
    sections: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            is_argument = parameter.param_type_name == "argument"
            section = getattr(parameter, "rich_help_panel", None)
            section = section or ("Arguments" if is_argument else "Options")
            sections.setdefault(section, []).append(record)
    if isinstance(command, PanelGroup):
        for name in command.list_commands(context):
            each = command.get_command(context, name)
            if each is not None and not each.hidden:
                section = getattr(each, "rich_help_panel", None) or "Commands"
                sections.setdefault(section, []).append((name, each.get_short_help_str(10_000)))
    with console.capture() as captured:
        console.print(Text(command.get_usage(context), "bold"))
        console.print()
        for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
            console.print(_marked(" ".join(paragraph.split())))
            console.print()
        for title, records in sections.items():
            beside = max((len(names) for names, _ in records if len(names) <= _NAMES), default=8)
            lines = [line for record in records for line in _lines(*record, room, beside)]
            body = Group(*lines)
            console.print(Panel(body, title=title, title_align="left", border_style="dim"))
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
