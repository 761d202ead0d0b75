"""What ``trn3 diff`` does: one kernel on several machines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from trn3.cli.refusal import RefusedError

if TYPE_CHECKING:
    from trn3.nki import Diff


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
        max_instructions: Annotated[
            int | None, typer.Option(min=1, help="Stop a kernel that issues more instructions.")
        ] = None,
        seed: Annotated[int, typer.Option(min=0, help="Of the arrays that are made.")] = 0,
        as_json: Annotated[
            bool, typer.Option("--json", help="Print JSON for machines instead of a table.")
        ] = False,
    ) -> None:
        """Run an NKI kernel on several machines and compare what it takes and what it gives.

        Results and times are compared with the first machine that runs it. A machine that refuses
        the kernel has its reason in the table; only if all do, the exit code is 2.
        """
        from trn3.cli.consoles import output

        archs = tuple(arch or ("trn2", "trn3"))
        found = _run(kernel, archs, tuple(shape or ()), rtol, values, max_instructions, seed)
        errors = [row.error for row in found if row.error is not None]
        if len(errors) == len(found):
            message = f"no machine runs it; {found[0].arch}: {errors[0]}"
            raise RefusedError(message)
        if as_json:
            typer.echo(json.dumps(found.figures(), indent=2, allow_nan=False))
        else:
            output().print(found.summary())


def _run(
    target: str,
    archs: tuple[str, ...],
    shapes: tuple[str, ...],
    rtol: float,
    values: bool,
    max_instructions: int | None,
    seed: int,
) -> Diff:
    from trn3 import nki
    from trn3.cli import kernel_file
    from trn3.cli.profile import KernelRunError, explained

    try:
        with explained(kernel_file.path_of(target)):
            file = kernel_file.load(target)
            arguments = kernel_file.arguments(file, list(shapes), seed)
        try:
            return nki.diff(
                file.kernel,
                arguments,
                archs=archs,
                rtol=rtol,
                values=values,
                max_instructions=max_instructions,
            )
        except (ValueError, TypeError) as error:
            # Only the machines are looked at outside of runs.
            message = f"--arch: {error}"
            raise RefusedError(message) from error
    except (kernel_file.KernelFileError, KernelRunError) as error:
        message, *details = str(error).splitlines()
        raise RefusedError(message, details) from error
