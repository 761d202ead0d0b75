"""What ``trn3 optimize`` does: say what would make a kernel faster, and write it."""

from __future__ import annotations

import ast
from contextlib import redirect_stdout
from dataclasses import asdict
from inspect import unwrap
from io import StringIO
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated

import typer

from trn3.cli.consoles import print_json
from trn3.cli.progress import working
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
    values: Annotated[
        bool,
        typer.Option("--values/--timing-only", help="Compare values, or time alone (faster)."),
    ] = True,
    max_instructions: MaxInstructions = None,
    max_host_bytes: MaxHostBytes = None,
    seed: Seed = 0,
    as_json: JsonForTable = False,
) -> None:
    """Say what would make an NKI kernel faster, and write a faster one.

    Changes of the text that keep every bit of the result are estimated on the run's timeline, the
    best are made in the text, one after the other, and confirmed by profiling it. One that is no
    faster, or has other values, is taken back. What cannot be made mechanically is left to you.
    What the kernel itself prints is not shown. Exit code 0 if it ran, 2 if it did not.
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
        place = Path(unwrap(runnable).__code__.co_filename)
        if place.resolve() != file.path.resolve():
            message = f"{kernel}: the kernel is of another file; name {place}"
            raise RefusedError(message)
        text = file.path.read_text(encoding="utf-8")
    if write is not None and write.resolve() == place.resolve():
        message = f"--write {write}: it is the kernel's own file; name another one"
        raise RefusedError(message)
    beside = _imports_beside(place, text)
    if write is not None and beside and write.resolve().parent != place.resolve().parent:
        message = (
            f"--write {write}: {place.name} imports {beside[0]} beside it; write to its folder"
        )
        raise RefusedError(message)
    options = {"max_instructions": max_instructions, "max_host_bytes": max_host_bytes}
    # It runs many times.
    quiet = redirect_stdout(StringIO())
    with working(f"optimizing {file.name}"), quiet, kernel_file.explained(kernel, arch):
        machine = None if arch is None else described(arch)
        try:
            found = optimize_kernel(
                str(file.path),
                text,
                runnable,
                lambda made: nki.simulate(kernel_file.load_text(kernel, made).kernel),
                arguments,
                machine,
                values=values,
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
            ran = run_as_written(made, arguments, machine, values=values, **options)
        if ran != found.written:
            message = f"{write}: run by itself it does otherwise; it is left to look at"
            raise RefusedError(message)
    if as_json:
        print_json(_document(file, found, write, values))
    else:
        _show(file, found, write, values)


def _imports_beside(place: Path, text: str) -> list[str]:
    """Return the names of modules in a file's folder that it imports."""
    nodes = list(ast.walk(ast.parse(text)))
    found = [each.name for node in nodes if isinstance(node, ast.Import) for each in node.names]
    found += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    first = [name.partition(".")[0] for name in found]
    at = place.resolve().parent
    return [
        name
        for name in first
        if name and any((at / each).exists() for each in (name, f"{name}.py"))
    ]


def _document(
    file: KernelFile, found: OptimizedKernel, write: Path | None, values: bool
) -> dict[str, object]:
    figures = found.compiled.figures()
    return {
        "kernel": file.name,
        "path": str(file.path),
        "arch": figures["arch"],
        "as_written_us": found.as_written.latency_us,
        "latency_us": found.written.latency_us,
        "values_compared": values,
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


def _show(file: KernelFile, found: OptimizedKernel, write: Path | None, values: bool) -> None:
    from trn3.text import printable

    lines = [f"{file.name}: {found.as_written.latency_us:,.1f} us as written"]
    kept = [each for each in found.changes if each.status != "taken back"]
    useful = [(each.confirmed_us, each) for each in kept if each.confirmed_us is not None]
    if useful:
        lines.append(f"{'gain':>6}  {'estimate':>12}  {'confirmed':>12}")
    for confirmed, each in sorted(useful, key=lambda row: row[0] - row[1].from_us):
        gain = f"{100 * confirmed / each.from_us - 100:+.0f} %"
        times = f"{each.estimate_us:>9,.1f} us  {confirmed:>9,.1f} us"
        place = f"{printable(file.path.name)}:{min(each.lines)}"
        lines.append(f"{gain:>6}  {times}  {each.status:<7}  {place}")
        lines += _wrapped(": ".join(each.words()))
        lines += _wrapped(f"({each.note})") if each.note else []
    if not useful:
        lines.append("no change of the text is known to make it faster")
    if taken := len(found.changes) - len(useful):
        lines.append(f"{taken} more taken back: profiled they are no faster, or differ")
    compiled = found.compiled.compile
    if compiled is not None:
        bound = compiled["bound_us"]
        ratio = found.as_written.latency_us / found.compiled.latency_us
        took = f"{found.compiled.latency_us:,.1f} us ({ratio:.2f} times as fast)"
        lines.append(f"compiled ({compiled['level']}): {took}")
        if bound is not None:
            lines.append(f"no order of its steps takes less than {bound:,.1f} us")
    bits = "the same bits" if values else "values not compared"
    took = f"{found.written.latency_us:,.1f} us ({found.speedup:.2f} times as fast), {bits}"
    lines.append(f"written: {took}")
    if write is not None:
        lines.append(f"wrote {printable(str(write))}")
    for line in lines:
        typer.echo(line)


def _wrapped(words: str) -> list[str]:
    """Return the words of a change below its figures."""
    from trn3.text import printable

    text = printable(words)
    indent = " " * 8
    return wrap(text, 80, initial_indent=indent, subsequent_indent=indent, break_long_words=False)
