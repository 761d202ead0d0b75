"""The subcommands that have a module each; each module registers its own."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import typer
from typer.models import CommandInfo

from trn3.cli.help import PanelCommand, PanelGroup

MODULES: Final = (
    "spec", "compare", "fabric", "plan", "serve", "power", "cost", "goodput", "nccom_test", "k8s",
    "trace",
    "record", "export", "report", "view_runs", "validate", "probe", "diff", "optimize", "lint",
    "new", "examples_copy",
)  # fmt: skip
#: What the help text shows together, in its order; groups of commands name theirs.
PANELS: Final = {
    "Kernels": (
        "new", "profile", "diff", "optimize", "lint", "run", "report", "view", "record", "probe",
    ),
    "Models": ("plan", "serve", "quantize"),
    "Systems": (
        "spec", "compare", "route", "bound", "ls", "power", "tco", "cost", "goodput", "nccom-test",
    ),
    "Data": ("export", "validate", "info"),
}  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the subcommands to the ``trn3`` command.

    Modules of commands import only what parsing needs; work is imported when a command runs.
    """
    for module in MODULES:
        import_module(f"trn3.cli.{module}").register(app)
    panels = {name: panel for panel, names in PANELS.items() for name in names}
    order = list(panels)
    app.registered_commands.sort(key=lambda each: order.index(_name(each)))
    for each in app.registered_commands:
        each.rich_help_panel = panels[_name(each)]
    for group in app.registered_groups:
        group.cls = PanelGroup
    inner = [group.typer_instance for group in app.registered_groups if group.typer_instance]
    for each in [each for typed in (app, *inner) for each in typed.registered_commands]:
        each.cls = PanelCommand


def _name(command: CommandInfo) -> str:
    return str(command.name or getattr(command.callback, "__name__", ""))
