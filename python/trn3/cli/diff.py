"""What ``trn3 diff`` does: one kernel on several machines."""

from __future__ import annotations

from typing import Annotated

import typer

from trn3.cli.consoles import output, print_json
from trn3.cli.refusal import RefusedError, refusing
from trn3.cli.settings import JsonForTable, MaxInstructions, Seed


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def diff(
        kernel: Annotated[
            str, typer.Argument(help="FILE.py:KERNEL; FILE.py:KERNEL[2] for two cores.")
        ],
        arch: Annotated[
            list[str] | None,
            typer.Option(
                "--arch",
                help="A machine; repeatable. trn2, mine.toml, or with changes: "
                "trn3:vector_clock_mhz=+20%,psum_banks=16.  [default: trn2 and trn3]",
            ),
        ] = None,
        shape: Annotated[
            list[str] | None,
            typer.Option(
                "--shape", help="As for `trn3 profile`: NAME=SIZE, NAME=128x512:bfloat16."
            ),
        ] = None,
        rtol: Annotated[
            float, typer.Option(min=0, help="Largest relative difference of equal results.")
        ] = 0.0,
        values: Annotated[
            bool,
            typer.Option("--values/--timing-only", help="Compare results, or time alone (faster)."),
        ] = True,
        max_instructions: MaxInstructions = None,
        seed: Seed = 0,
        as_json: JsonForTable = False,
    ) -> None:
        """Run an NKI kernel on several machines and compare what it takes and what it gives.

        Results and times are compared with the first machine that runs it. A machine that refuses
        the kernel has its reason in the table; only if all do, the exit code is 2.
        """
        from trn3 import nki
        from trn3.cli import kernel_file

        with kernel_file.explained(kernel):
            file = kernel_file.load(kernel)
            arguments = kernel_file.arguments(file, shape or [], seed)
        # Only the machines are looked at outside of runs.
        with refusing(ValueError, TypeError, naming="--arch"):
            found = nki.diff(
                file.kernel,
                arguments,
                archs=tuple(arch or ("trn2", "trn3")),
                rtol=rtol,
                values=values,
                max_instructions=max_instructions,
            )
        errors = [row.error for row in found if row.error is not None]
        if len(errors) == len(found):
            message = f"no machine runs it; {found[0].arch}: {errors[0]}"
            raise RefusedError(message)
        if as_json:
            print_json(found.figures())
        else:
            output().print(found.summary())
