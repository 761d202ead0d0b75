"""What ``trn3 diff`` does: one kernel, or two, on several machines."""

from __future__ import annotations

from typing import Annotated

import typer

from trn3.cli.consoles import output, print_json
from trn3.cli.refusal import RefusedError, refusing
from trn3.cli.settings import (
    JsonForTable,
    MaxHostBytes,
    MaxInstructions,
    Seed,
    is_given,
    use_level,
    warn_of_arch,
)


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def diff(
        context: typer.Context,
        kernel: Annotated[
            str, typer.Argument(help="FILE.py:KERNEL; FILE.py:KERNEL[2] for two cores.")
        ],
        other: Annotated[
            str | None,
            typer.Argument(help="A second kernel, of the same arguments, to compare with."),
        ] = None,
        arch: Annotated[
            list[str] | None,
            typer.Option(
                "--arch",
                help="A machine; repeatable. trn2, mine.toml, or with changes: "
                "trn3:vector_clock_mhz=+20%,psum_banks=16.  [default: trn2 and trn3; of several "
                "levels, trn3]",
            ),
        ] = None,
        levels: Annotated[
            list[str] | None,
            typer.Option(
                "--compile",
                help="A level of the compiler: as-written, nki or neuronx-cc; repeatable, to "
                "compare them.  [default: TRN3_COMPILE, else by the kernel's dialect]",
            ),
        ] = None,
        shape: Annotated[
            list[str] | None,
            typer.Option(
                "--shape", help="As for `trn3 profile`: NAME=SIZE, NAME=128x512:bfloat16."
            ),
        ] = None,
        rtol: Annotated[
            float,
            typer.Option(
                min=0,
                help="Largest difference of results that are the same, over the largest magnitude; "
                "from the golden and between kernels, where it is not given, what the file sets, "
                "else what element types allow.",
            ),
        ] = 0.0,
        atol: Annotated[
            float | None,
            typer.Option(min=0, help="Allowed beside --rtol, from the golden and between kernels."),
        ] = None,
        check: Annotated[
            bool,
            typer.Option("--check/--no-check", help="Hold results against the file's golden."),
        ] = True,
        values: Annotated[
            bool,
            typer.Option("--values/--timing-only", help="Compare results, or time alone (faster)."),
        ] = True,
        max_instructions: MaxInstructions = None,
        max_host_bytes: MaxHostBytes = None,
        seed: Seed = 0,
        as_json: JsonForTable = False,
    ) -> None:
        """Run an NKI kernel, or two, on several machines and compare what they take and give.

        Results and times are compared with the first machine that runs it. A machine that refuses
        the kernel has its reason in the table; only if all do, the exit code is 2. It is 1 if a
        result misses the file's golden, or a second kernel gives another result on the same
        machine, and 0 if only machines differ.
        """
        from trn3 import nki
        from trn3.cli import kernel_file

        several = levels if levels is not None and len(levels) > 1 else None
        use_level(context, *(levels or ()))
        warn_of_arch(*(arch or ()))
        with kernel_file.explained(kernel):
            file = kernel_file.load(kernel)
            against = None if other is None else kernel_file.load(other).kernel
            arguments = kernel_file.arguments(file, shape or [], seed)
            tolerance = kernel_file.tolerance(
                file, rtol if is_given(context, "rtol") else None, atol
            )
            golden = file.companion("golden") if values and check else None
            if golden is not None:
                golden = nki.CheckedRun(file.kernel, kwargs=arguments).golden(golden)
        # Only the machines are looked at outside of runs.
        with refusing(ValueError, TypeError, naming="--arch"), refusing(nki.GoldenShapeError):
            found = nki.diff(
                file.kernel,
                arguments,
                archs=tuple(arch or (("trn2", "trn3") if several is None else ("trn3",))),
                rtol=rtol,
                values=values,
                max_instructions=max_instructions,
                against=against,
                golden=golden,
                tolerance=tolerance,
                max_host_bytes=max_host_bytes,
                compile=several,
            )
        errors = [row.error for row in found if row.error is not None]
        if len(errors) == len(found):
            message = f"no machine runs it; {found[0].arch}: {errors[0]}"
            raise RefusedError(message)
        if as_json:
            print_json(found.figures())
        else:
            output().print(found.summary())
        if found.is_wrong:
            raise typer.Exit(1)
