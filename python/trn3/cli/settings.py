"""Options that commands share, and settings of the environment, looked at before a command."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from trn3.cli.refusal import refusing

#: Of commands that print several tables, and of those that print one.
JsonForTables: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print JSON for machines instead of tables.")
]
JsonForTable: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print JSON for machines instead of a table.")
]
#: Of commands that run kernels.
Seed: TypeAlias = Annotated[int, typer.Option(min=0, help="Of the arrays that are made.")]
MaxInstructions: TypeAlias = Annotated[
    int | None, typer.Option(min=1, help="Stop a kernel that issues more instructions.")
]


def check_settings() -> None:
    """Refuse wrong values of TRN3_SIMD and TRN3_NUM_THREADS before they surprise in mid-work."""
    import trn3

    with refusing(ValueError):
        trn3.simd_level()
        trn3.get_num_threads()
