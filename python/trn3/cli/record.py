"""What ``trn3 record`` does: a kernel as a program that simulators written in C or Rust load."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from trn3.cli.refusal import RefusedError


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def record(
        kernel: Annotated[str, typer.Argument(help="The kernel, as FILE.py:NAME.")],
        out: Annotated[Path, typer.Option("--out", "-o", help="The file to write (JSON).")],
        shape: Annotated[
            list[str] | None,
            typer.Option(
                "--shape",
                help="NAME=128x512:bfloat16 or NAME=2048, as for `trn3 profile`. Repeatable.",
            ),
        ] = None,
        arch: Annotated[
            str | None,
            typer.Option(help="trn1, trn2, trn3, or a .toml file.  [default: the target, trn3]"),
        ] = None,
        seed: Annotated[int, typer.Option(min=0, help="Of the arrays that are made.")] = 0,
        as_json: Annotated[
            bool, typer.Option("--json", help="Print JSON for machines instead of text.")
        ] = False,
    ) -> None:
        """Run an NKI kernel once and write what its core was given, as a program.

        A device loads the program and runs it without Python, on inputs of its own: the same bits
        at the same times. Loops are unrolled; branches stay as they went.
        """
        from trn3.cli import kernel_file, profile as command
        from trn3.nki import record as recorded

        path = kernel_file.path_of(kernel)
        if not out.absolute().parent.is_dir():
            message = f"--out {out}: there is no folder {out.absolute().parent}"
            raise RefusedError(message)
        try:
            with command.explained(path, arch):
                file = kernel_file.load(kernel)
                arguments = kernel_file.arguments(file, list(shape or ()), seed)
                program = recorded(file.kernel, arch=arch, **arguments)
        except (kernel_file.KernelFileError, command.KernelRunError) as error:
            message, *details = str(error).splitlines()
            raise RefusedError(message, details) from error
        program.save(out)
        inputs = {each.name: f"{list(each.shape)} {each.dtype}" for each in program.inputs}
        if as_json:
            document = {
                "program": str(out),
                "name": program.name,
                "arch": program.arch,
                "instructions": program.instructions,
                "inputs": inputs,
                "bytes": out.stat().st_size,
            }
            typer.echo(json.dumps(document, indent=2))
            return
        typer.echo(f"wrote {out}: {program.instructions} instructions for {program.arch}")
        for name, text in inputs.items():
            typer.echo(f"  input {name} {text}")
