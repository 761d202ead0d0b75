"""The subcommands that have a module each; each module registers its own."""

from __future__ import annotations

import typer

from trn3.cli import (
    compare,
    cost,
    diff,
    export,
    fabric,
    k8s,
    lint,
    nccom_test,
    plan,
    power,
    record,
    spec,
    trace,
    validate,
)

# In the order of the help text.
MODULES = (
    spec,
    compare,
    fabric,
    plan,
    power,
    cost,
    nccom_test,
    k8s,
    trace,
    record,
    export,
    validate,
    diff,
    lint,
)


def register(app: typer.Typer) -> None:
    """Add the subcommands to the ``trn3`` command.

    Modules of commands import only what parsing needs; work is imported when a command runs.
    """
    for module in MODULES:
        module.register(app)
