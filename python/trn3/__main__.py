"""The ``trn3`` command.

Exit codes: 0, done; 1, ``trn3 validate`` found a miss that nothing explains, ``trn3 lint`` found
something, or the script of ``trn3 run`` raised (which may have other codes of its own); 2, refused
or failed, with one line on the standard error that says why (more where a table of tensors explains
it); 130, interrupted (Ctrl-C); 143 or 129, terminated (SIGTERM, SIGHUP). Nothing half-written is
left in any case.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, NoReturn, cast

import typer

from trn3.cli import commands
from trn3.cli.plots import check_matplotlib, check_plot
from trn3.cli.refusal import RefusedError

if TYPE_CHECKING:
    from trn3.cli.results import Report

UNLIMITED_WIDTH = 10_000

# Typer carries a click of its own from some version on, and used a separate one before.
UsageError = cast(type[typer.BadParameter], typer.BadParameter.__base__)

app = typer.Typer(
    name="trn3",
    help="An open simulator of AWS Trainium3.",
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


class Format(StrEnum):
    """Formats of ``--to``."""

    MXFP8_E4M3 = "mxfp8-e4m3"
    MXFP8_E5M2 = "mxfp8-e5m2"
    MXFP4_E2M1 = "mxfp4-e2m1"


class ScaleRule(StrEnum):
    """Rules of ``--scale-rule``."""

    DEFAULT = "default"
    TRN3 = "trn3"
    OCP = "ocp"
    RCEIL = "rceil"


class Rounding(StrEnum):
    """Modes of ``--rounding``."""

    NEAREST = "nearest"
    ZERO = "zero"
    STOCHASTIC = "stochastic"


@app.command()
def quantize(
    model: Annotated[Path, typer.Argument(help="The safetensors file to quantize.")],
    to: Annotated[
        list[Format],
        typer.Option("--to", help="Element format. Give it several times for several outputs."),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            help="The file to write. With several --to, each format goes to its own file, with the "
            "format's name before the suffix: OUT.mxfp8-e4m3.safetensors.",
        ),
    ],
    scale_rule: Annotated[
        ScaleRule,
        typer.Option(help="How a block's scale is chosen. default: trn3 for MXFP8, ocp for MXFP4."),
    ] = ScaleRule.DEFAULT,
    rounding: Annotated[Rounding, typer.Option(help="How elements are rounded.")] = (
        Rounding.NEAREST
    ),
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=2**64 - 1, help="For --rounding stochastic.  [default: 0]"),
    ] = None,
    axis: Annotated[
        int,
        typer.Option(
            help="The contraction axis, along which blocks of 32 lie. The last suits the "
            "[out, in] weights of linear layers."
        ),
    ] = -1,
    include: Annotated[
        list[str] | None,
        typer.Option(help="Quantize only tensors whose name matches this glob. Repeatable."),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(help="Do not quantize tensors whose name matches this glob. Repeatable."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing outputs.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON for machines instead of tables.")
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw a histogram of the errors: a .png, .svg or .pdf file."),
    ] = None,
) -> None:
    """Quantize the matrices of a safetensors checkpoint to MXFP8 or MXFP4.

    Floating-point tensors (F32, BF16, F16) of two or more axes are quantized as Trainium3's
    QuantizeMX does, if the contraction axis is a multiple of 32 long; everything else is stored
    byte for byte. Read the result with trn3.load_mx. Memory use does not grow with the checkpoint.
    """
    from trn3.checkpoint import FORMATS
    from trn3.cli import results
    from trn3.cli.progress import progress_on_stderr
    from trn3.cli.quantize import quantize_checkpoint

    _check_settings()
    if seed is not None and rounding is not Rounding.STOCHASTIC:
        message = "--seed has a meaning only with --rounding stochastic"
        raise RefusedError(message)
    if len(set(to)) < len(to):
        message = "--to names a format twice"
        raise RefusedError(message)
    if not out.name:
        message = f"{out}: is a directory; a file name is needed"
        raise RefusedError(message)
    outputs = [(FORMATS[name], _output_path(out, name, alone=len(to) == 1)) for name in to]
    for _, path in outputs:
        _check_output(path, model, force=force)
    if plot is not None:
        check_plot(plot)
        _check_output(plot, model, force=force)
        if any(_same_file(plot, path) for _, path in outputs):
            message = f"{plot}: --plot and --out name the same file"
            raise RefusedError(message)
    rule: results.ScaleRule | None = None
    if scale_rule is not ScaleRule.DEFAULT:
        rule = cast("results.ScaleRule", scale_rule.value)
    options = results.Options(
        scale_rule=rule,
        rounding=rounding.value,
        seed=seed or 0,
        axis=axis,
        include=tuple(include or ()),
        exclude=tuple(exclude or ()),
        with_histogram=plot is not None,
    )
    with progress_on_stderr() as on_progress:
        # Links are followed, so that a linked output is written where it points.
        resolved = [(mx_format, _real(path)) for mx_format, path in outputs]
        report = quantize_checkpoint(model, resolved, options, on_progress)
    for written, (_, path) in zip(report.formats, outputs, strict=True):
        written.path = path
    if plot is not None:
        from trn3.report import plot_errors

        plot_errors(report.formats, _real(plot), f"Quantization errors of {model.name}")
    _show(report, as_json=as_json)


@app.command()
def profile(
    kernel: Annotated[str, typer.Argument(help="The kernel, as FILE.py:NAME.")],
    shape: Annotated[
        list[str] | None,
        typer.Option(
            "--shape",
            help="NAME=128x512:bfloat16 makes an array for an argument; NAME=2048 sets a size of "
            "the file's inputs function, or a plain argument. Repeatable.",
        ),
    ] = None,
    arch: Annotated[
        str | None,
        typer.Option(
            help="trn2, mine.toml, or with changes: trn3:vector_clock_mhz=+20%.  [default: the "
            "target, trn3]"
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Folder for trace.perfetto, timeline.png, roofline.png, profile.json."
        ),
    ] = None,
    values: Annotated[
        bool,
        typer.Option("--values/--timing-only", help="Compute values, or time alone (faster)."),
    ] = True,
    strict: Annotated[
        bool, typer.Option("--strict", help="Reading uninitialised memory is an error.")
    ] = False,
    shadow: Annotated[
        bool,
        typer.Option("--shadow", help="Tell what precision each line loses against float64."),
    ] = False,
    max_instructions: Annotated[
        int | None, typer.Option(min=1, help="Stop a kernel that issues more instructions.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the arrays that are made.")] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON for machines instead of tables.")
    ] = False,
) -> None:
    """Run an NKI kernel on one simulated NeuronCore and show what it costs and why.

    The file is imported as it is: `import nki` in it means trn3's. With --out, a timeline that
    opens in the Perfetto UI and two pictures are written too.
    """
    from rich.console import Console

    from trn3.cli import kernel_file, profile as command

    _check_settings()
    if out is not None:
        check_matplotlib("--out")
        command.check_folder(out)
    request = command.ProfileRequest(
        target=kernel,
        shapes=tuple(shape or ()),
        arch=arch,
        values=values,
        strict=strict,
        shadow=shadow,
        max_instructions=max_instructions,
        seed=seed,
    )
    try:
        outcome = command.run(request)
    except (kernel_file.KernelFileError, command.KernelRunError) as error:
        message, *details = str(error).splitlines()
        raise RefusedError(message, details) from error
    written = command.save(outcome.profile, out) if out is not None else []
    console = Console(width=None if sys.stdout.isatty() else 100, highlight=False)
    command.show(outcome, written, console, as_json=as_json)


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def run(
    script: Annotated[Path, typer.Argument(help="The Python script.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="What the script gets as its arguments.")
    ] = None,
) -> None:
    """Run a Python script in which `import nki` means trn3's, unmodified.

    The exit code is the script's own: 1 if an exception leaves it.
    """
    from trn3.cli import script as command

    _check_settings()
    if not script.is_file():
        message = f"{script}: there is no such file"
        raise RefusedError(message)
    code = command.run(script, arguments or [])
    if code:
        raise typer.Exit(code)


@app.command()
def info() -> None:
    """Show versions and what the arithmetic runs on: what a bug report needs."""
    from trn3.cli.info import print_info

    _check_settings()
    print_info()


def _check_settings() -> None:
    """Refuse wrong values of TRN3_SIMD and TRN3_NUM_THREADS before they surprise in mid-work."""
    import trn3

    try:
        trn3.simd_level()
        trn3.get_num_threads()
    except ValueError as error:
        raise RefusedError(str(error)) from error


def _output_path(out: Path, format_name: str, *, alone: bool) -> Path:
    return out if alone else out.with_name(f"{out.stem}.{format_name}{out.suffix}")


def _real(path: Path) -> Path:
    # Path.resolve raises what no caller expects on a loop of links.
    return Path(os.path.realpath(path))


def _same_file(left: Path, right: Path) -> bool:
    return _real(left) == _real(right) or (
        left.exists() and right.exists() and left.samefile(right)
    )


def _check_output(path: Path, model: Path, *, force: bool) -> None:
    problem = None
    if _same_file(path, model):
        problem = "is the input, which is never overwritten"
    elif path.is_dir():
        problem = "is a directory; a file name is needed"
    elif _real(path).is_symlink():
        problem = "is a link that leads in a circle"
    elif path.exists() and not path.is_file():
        problem = "exists and is not a regular file"
    elif path.exists() and not force:
        problem = "exists; --force replaces it"
    elif not _real(path).parent.is_dir():
        problem = f"there is no directory {_real(path).parent}"
    if problem:
        message = f"{path}: {problem}"
        raise RefusedError(message)


def _show(report: Report, *, as_json: bool) -> None:
    if as_json:
        import trn3
        from trn3.cli.results import as_json as to_plain_data

        document = {"trn3_version": trn3.__version__, **to_plain_data(report)}
        typer.echo(json.dumps(document, indent=2, allow_nan=False))
    else:
        from rich.console import Console

        from trn3.report import print_quantize_report

        # A pipe or a file has no width to fit into; tables are as wide as they need then.
        console = Console(width=None if sys.stdout.isatty() else UNLIMITED_WIDTH)
        print_quantize_report(report, console)


commands.register(app)


class _TerminatedError(BaseException):
    """A signal asks to end. Not an `Exception`, so that only cleaning up stands in its way."""

    def __init__(self, number: int) -> None:
        self.number = number


def _on_terminate(number: int, _frame: FrameType | None) -> NoReturn:
    raise _TerminatedError(number)


def _complain(problem: object, details: Sequence[str] = ()) -> None:
    from trn3.text import printable

    typer.echo(f"trn3: error: {printable(' '.join(str(problem).split()))}", err=True)
    for line in details:
        typer.echo(printable(line.rstrip()), err=True)


def _run(arguments: Sequence[str] | None) -> int:
    from trn3._safetensors import CheckpointError

    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = app(args=words or ["--help"], prog_name="trn3", standalone_mode=False)
    except UsageError as error:
        _complain(error.format_message())
        return 2
    except CheckpointError as error:
        _complain(error)
        return 2
    except RefusedError as error:
        _complain(error, error.details)
        return 2
    except MemoryError:
        _complain("not enough memory")
        return 2
    except OSError as error:
        where = f"{error.filename}: " if error.filename is not None else ""
        _complain(f"{where}{error.strerror or error}")
        return 2
    # Typer turns a Ctrl-C into this code itself.
    return code if isinstance(code, int) else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    arguments
        The words after ``trn3``; by default those of the process.
    """
    # What kills a process by default would leave a temporary file. A hang-up that is ignored
    # (nohup) stays so.
    numbers = [signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        numbers.append(signal.SIGHUP)
    previous = {number: signal.signal(number, _on_terminate) for number in numbers}
    try:
        code = _run(arguments)
    except KeyboardInterrupt:
        code = 130
    except _TerminatedError as termination:
        code = 128 + termination.number
        _complain("terminated")
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    if code == 130:
        _complain("interrupted")
    return code


if __name__ == "__main__":
    sys.exit(main())
