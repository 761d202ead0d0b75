"""The ``trn3`` command.

Exit codes: 0, done; 1, ``trn3 profile`` or ``trn3 diff`` found a wrong result, ``trn3 validate`` a
miss that nothing explains, ``trn3 probe`` a difference, ``trn3 lint`` something, or the script of
``trn3 run`` raised (which may have other codes of its own); 2, refused or failed, with one line on
the standard error that says why (more where a table of tensors explains it); 130, interrupted
(Ctrl-C); 143 or 129, terminated (SIGTERM, SIGHUP); 141, whoever read the output stopped (SIGPIPE).
Nothing half-written is left in any case. The table of them is in docs/reference/command-line.md.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn, cast

import typer

from trn3.cli import commands, profile, quantize
from trn3.cli.help import PanelGroup
from trn3.cli.refusal import RefusedError
from trn3.cli.settings import CompileLevel, check_settings, use_level

# Typer carries a click of its own from some version on, and used a separate one before.
UsageError = cast(type[typer.BadParameter], typer.BadParameter.__base__)

app = typer.Typer(
    name="trn3",
    cls=PanelGroup,
    help="An open simulator of AWS Trainium3.",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        import trn3

        typer.echo(f"trn3 {trn3.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Take what stands before a command."""


quantize.register(app)
profile.register(app)


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def run(
    context: typer.Context,
    script: Annotated[Path, typer.Argument(help="The Python script.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="What the script gets as its arguments.")
    ] = None,
    level: CompileLevel = None,
) -> None:
    """Run a Python script in which `import nki` means trn3's, unmodified.

    The exit code is the script's own: 1 if an exception leaves it.
    """
    from trn3.cli import script as command

    check_settings()
    use_level(context, level)
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

    check_settings()
    print_info()


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


class _ClosedOutput(io.TextIOBase):
    """The standard output of a process that was started without one."""

    def write(self, _text: str) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), "standard output")


def _drop_output() -> None:
    """Let an output that takes no more write to nowhere, or Python complains anew."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        with contextlib.suppress(OSError):
            os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _run(arguments: Sequence[str] | None) -> int:
    from trn3.checkpoint import CheckpointError

    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = app(args=words or ["--help"], prog_name="trn3", standalone_mode=False)
        sys.stdout.flush()
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
    except (BrokenPipeError, SystemExit) as error:
        # Whoever read the output has read enough: `trn3 spec gen2 | head`. Typer and rich make an
        # exit of it.
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise
        _drop_output()
        return 128 + signal.SIGPIPE
    except OSError as error:
        _drop_output()
        # Whatever writes files names them.
        is_output = error.filename is None and error.errno in (errno.ENOSPC, errno.EFBIG)
        named = "standard output" if is_output else error.filename
        where = f"{named}: " if named is not None else ""
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
    if sys.stdout is None:
        sys.stdout = _ClosedOutput()
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
