"""What ``trn3 record`` does: a kernel as a program that simulators written in C or Rust load."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trn3.cli.consoles import print_json
from trn3.cli.progress import working
from trn3.cli.refusal import RefusedError
from trn3.cli.settings import CompileLevel, Seed, Verify, use_level
from trn3.text import verification

if TYPE_CHECKING:
    from trn3.nki import Program


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def record(
        context: typer.Context,
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
        level: CompileLevel = None,
        verify: Verify = False,
        seed: Seed = 0,
        ranks: Annotated[
            int,
            typer.Option(
                min=1,
                help="Ranks that run it side by side: OUT becomes a file for each, NAME.0.json and "
                "so on; the seed of rank i is SEED + i.",
            ),
        ] = 1,
        as_json: Annotated[
            bool, typer.Option("--json", help="Print JSON for machines instead of text.")
        ] = False,
    ) -> None:
        """Run an NKI kernel once and write what its core was given, as a program.

        A device loads the program and runs it without Python, on inputs of its own: the same bits
        at the same times, of the level of the compiler. Loops are unrolled; branches stay as they
        went. Ranks that meet in collectives have a program each, and are recorded as written.
        """
        from trn3.cli import kernel_file
        from trn3.nki import record_ranks, simulate

        use_level(context, level)
        if not out.absolute().parent.is_dir():
            message = f"--out {out}: there is no folder {out.absolute().parent}"
            raise RefusedError(message)
        with kernel_file.explained(kernel, arch):
            file = kernel_file.load(kernel)
            words = list(shape or ())
            given = [kernel_file.arguments(file, words, seed + rank) for rank in range(ranks)]
            # One rank has what the kernel, or the environment, says.
            asked = level if ranks > 1 else None
            runnable = simulate(file.kernel, verify=True) if verify else file.kernel
            with working(f"recording {file.name}"), kernel_file.verified():
                programs = record_ranks(runnable, given, arch=arch, compile=asked)
        documents = []
        for rank, program in enumerate(programs):
            path = out if ranks == 1 else out.with_suffix(f".{rank}{out.suffix}")
            program.save(path)
            documents.append(_document(path, program))
        if as_json:
            print_json(documents[0] if ranks == 1 else {"programs": documents})
            return
        for document in documents:
            count, machine = document["instructions"], document["arch"]
            typer.echo(f"wrote {document['program']}: {count} instructions for {machine}")
            for name, text in document["inputs"].items():
                typer.echo(f"  input {name} {text}")
            if verified := document["compile"]["verified"]:
                typer.echo(f"  {verification(**verified)}")


def _document(path: Path, program: Program) -> dict[str, Any]:
    return {
        "program": str(path),
        "name": program.name,
        "arch": program.arch,
        "instructions": program.instructions,
        "inputs": {each.name: f"{list(each.shape)} {each.dtype}" for each in program.inputs},
        "bytes": path.stat().st_size,
        "compile": {"verified": program.verified},
    }
