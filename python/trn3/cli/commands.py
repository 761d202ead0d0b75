"""The subcommands that have a module each; each module registers its own."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import typer

# In the order of the help text.
MODULES: Final = (
    "spec", "compare", "fabric", "plan", "power", "cost", "nccom_test", "k8s", "trace", "record",
    "export", "validate", "probe", "diff", "optimize", "lint",
)  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the subcommands to the ``trn3`` command.

    Modules of commands import only what parsing needs; work is imported when a command runs.
    """
    for module in MODULES:
        import_module(f"trn3.cli.{module}").register(app)
