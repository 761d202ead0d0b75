"""What ``trn3 optimize`` does: say what would make a kernel faster, and write it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trn3.cli.consoles import output, print_json, table
from trn3.cli.refusal import RefusedError
from trn3.cli.settings import (
    JsonForTable,
    MaxHostBytes,
    MaxInstructions,
    Seed,
    check_settings,
    warn_of_arch,
)

if TYPE_CHECKING:
    from trn3.cli.kernel_file import KernelFile
    from trn3.studies.optimizing import OptimizedKernel


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(optimize)


def optimize(
    kernel: Annotated[str, typer.Argument(help="The kernel, as FILE.py:NAME.")],
    shape: Annotated[
        list[str] | None,
        typer.Option("--shape", help="Arguments, as `trn3 profile` takes them. Repeatable."),
    ] = None,
    arch: Annotated[
        str | None,
        typer.Option(help="As of `trn3 profile`.  [default: the target, trn3]"),
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option("--write", help="File for the kernel with the changes that can be written."),
    ] = None,
    max_instructions: MaxInstructions = None,
    max_host_bytes: MaxHostBytes = None,
    seed: Seed = 0,
    as_json: JsonForTable = False,
) -> None:
    """Say what would make an NKI kernel faster, and write a faster one.

    Changes of the text that keep every bit of the result are estimated on the run's timeline, the
    best are made in the text, one after the other, and confirmed by profiling it. One that is no
    faster, or has other values, is taken back. What cannot be made mechanically is left to you.
    """
    from trn3 import nki
    from trn3.cli import kernel_file
    from trn3.compiler.rewrite import ByHandError
    from trn3.machine import arch as described
    from trn3.studies.optimizing import optimize as optimize_kernel, run_as_written

    check_settings()
    warn_of_arch(arch)
    with kernel_file.explained(kernel):
        file = kernel_file.load(kernel)
        arguments = kernel_file.arguments(file, shape or [], seed)
        runnable = nki.simulate(file.kernel)
        place = Path(runnable.__wrapped__.__code__.co_filename)
        if place.resolve() != file.path.resolve():
            message = f"{kernel}: the kernel is of another file; name {place}"
            raise RefusedError(message)
        text = file.path.read_text()
    if write is not None and write.resolve() == place.resolve():
        message = f"--write {write}: it is the kernel's own file; name another one"
        raise RefusedError(message)
    options = {"max_instructions": max_instructions, "max_host_bytes": max_host_bytes}
    with kernel_file.explained(kernel, arch):
        machine = None if arch is None else described(arch)
        try:
            found = optimize_kernel(
                str(file.path),
                text,
                runnable,
                lambda made: nki.simulate(kernel_file.load_text(kernel, made).kernel),
                arguments,
                machine,
                **options,
            )
        except ByHandError as error:
            message = f"{kernel}: {error}"
            raise RefusedError(message) from error
    if write is not None:
        from trn3.files import write_bytes

        write_bytes(write, [found.text.encode()])
        with kernel_file.explained(str(write), arch):
            _, colon, named = kernel.rpartition(":")
            made = nki.simulate(kernel_file.load(f"{write}:{named if colon else file.name}").kernel)
            ran = run_as_written(made, arguments, machine, **options)
        if ran != found.written:
            message = f"{write}: run by itself it does otherwise; it is left to look at"
            raise RefusedError(message)
    if as_json:
        print_json(_document(file, found, write))
    else:
        _show(file, found, write)


def _document(file: KernelFile, found: OptimizedKernel, write: Path | None) -> dict[str, object]:
    figures = found.compiled.figures()
    return {
        "kernel": file.name,
        "arch": figures["arch"],
        "as_written_us": found.as_written.latency_us,
        "latency_us": found.written.latency_us,
        "compile": figures["compile"],
        "changes": [
            {
                **asdict(each),
                "gain": each.gain,
                **dict(zip(("change", "write"), each.words(), strict=True)),
            }
            for each in found.changes
        ],
        "file": None if write is None else str(write),
    }


def _show(file: KernelFile, found: OptimizedKernel, write: Path | None) -> None:
    from trn3.text import printable

    console = output(130)
    console.print(f"{file.name}: {found.as_written.latency_us:,.1f} us as written", markup=False)
    rows = table("gain", "change", "estimate", "confirmed", "", right=("estimate", "confirmed"))
    kept = [each for each in found.changes if each.status != "taken back"]
    useful = [(each.confirmed_us, each) for each in kept if each.confirmed_us is not None]
    for confirmed, each in sorted(useful, key=lambda row: row[0] - row[1].from_us):
        rows.add_row(
            f"{100 * confirmed / each.from_us - 100:+.0f} %",
            printable(": ".join(each.words())),
            f"{each.estimate_us:,.1f} us",
            f"{confirmed:,.1f} us",
            each.status,
        )
    if useful:
        console.print(rows, markup=False)
    else:
        console.print("no change of the text is known to make it faster")
    taken = len(found.changes) - len(useful)
    if taken:
        console.print(f"{taken} more taken back: profiled they are no faster, or differ")
    compiled = found.compiled.compile
    if compiled is not None:
        bound = compiled["bound_us"]
        least = "" if bound is None else f"; no order of its steps takes less than {bound:,.1f} us"
        times = found.as_written.latency_us / found.compiled.latency_us
        console.print(
            f"compiled ({compiled['level']}): {found.compiled.latency_us:,.1f} us "
            f"({times:.2f} times as fast{least})"
        )
    console.print(
        f"written: {found.written.latency_us:,.1f} us ({found.speedup:.2f} times as fast), "
        "the same bits"
    )
    if write is not None:
        console.print(f"wrote {printable(str(write))}", markup=False)
