"""Commands and groups whose help is panels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typer.core import TyperCommand, TyperGroup

from trn3.cli.help_panels import PanelEntry, help_text
from trn3.cli.interrupts import interrupts_noted


class PanelCommand(TyperCommand):
    """A command whose help is panels of options."""

    def invoke(self, ctx: Any) -> Any:
        """Do what the command does, with the compiled core loaded."""
        with interrupts_noted():
            # NumPy takes a while, and makes an error of its own (a failed import) of a Ctrl-C.
            from trn3 import _trn3  # noqa: F401
        return super().invoke(ctx)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        formatter.write(help_text(self.get_usage(ctx), self.help or "", _options(self, ctx)))


class PanelGroup(TyperGroup):
    """A group of commands, whose help is panels of options and of commands."""

    def entries(self, context: Any) -> Iterator[PanelEntry]:
        """Yield what the help says of every command."""
        for name in self.list_commands(context):
            each = self.get_command(context, name)
            if each is not None and not each.hidden:
                panel = getattr(each, "rich_help_panel", None) or "Commands"
                yield PanelEntry(panel, name, each.get_short_help_str(10_000))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        entries = [*_options(self, ctx), *self.entries(ctx)]
        formatter.write(help_text(self.get_usage(ctx), self.help or "", entries))


def _options(command: PanelCommand | PanelGroup, context: Any) -> Iterator[PanelEntry]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            is_argument = parameter.param_type_name == "argument"
            panel = getattr(parameter, "rich_help_panel", None)
            yield PanelEntry(panel or ("Arguments" if is_argument else "Options"), *record)
