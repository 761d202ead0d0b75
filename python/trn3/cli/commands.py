"""The subcommands that have a module each, which is imported when its command is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, cast

import typer

from trn3.cli.command_table import PANELS, CommandPlace
from trn3.cli.help import PanelCommand, PanelGroup
from trn3.cli.help_panels import PanelEntry, entries_of_table

__all__ = ["PANELS", "CommandTable"]


class CommandTable(PanelGroup):
    """The command ``trn3``: its subcommands are those of `PANELS`, loaded when asked for."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = cast("dict[str, Any]", LoadedCommands())

    def entries(self, context: Any) -> Iterator[PanelEntry]:
        """Yield what the help says of every subcommand."""
        del context
        return entries_of_table()


class LoadedCommands(Mapping[str, Any]):
    """Subcommands by name, each made when it is taken."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            panel, place = _places()[name]
            command = _commands_of(place.module)[name]
            command.rich_help_panel = panel
            self._loaded[name] = command
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_places())

    def __len__(self) -> int:
        return len(_places())


def _places() -> dict[str, tuple[str, CommandPlace]]:
    return {name: (panel, place) for panel, each in PANELS.items() for name, place in each.items()}


def _commands_of(module: str) -> Mapping[str, Any]:
    """Return the subcommands of a module by name.

    Modules of commands import only what parsing needs; work is imported when a command runs.
    """
    holder = typer.Typer(
        rich_markup_mode="markdown", pretty_exceptions_enable=False, add_completion=False
    )
    # With a callback it is a group, whatever it has.
    holder.callback()(_nothing)
    import_module(f"trn3.cli.{module}").register(holder)
    for group in holder.registered_groups:
        group.cls = PanelGroup
    inner = [group.typer_instance for group in holder.registered_groups if group.typer_instance]
    for each in [each for typed in (holder, *inner) for each in typed.registered_commands]:
        each.cls = PanelCommand
    return cast("Mapping[str, Any]", cast("Any", typer.main.get_command(holder)).commands)


def _nothing() -> None:
    """Stand before a subcommand."""
