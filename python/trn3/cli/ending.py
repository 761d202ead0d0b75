"""How the command ends: its exit codes, and one line on the standard error where it failed.

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
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TYPE_CHECKING, NoReturn, cast

from trn3.cli.refusal import RefusedError

if TYPE_CHECKING:
    import typer


class _TerminatedError(BaseException):
    """A signal asks to end. Not an `Exception`, so that only cleaning up stands in its way."""

    def __init__(self, number: int) -> None:
        self.number = number


def _on_terminate(number: int, _frame: FrameType | None) -> NoReturn:
    raise _TerminatedError(number)


def _complain(problem: object, details: Sequence[str] = ()) -> None:
    from trn3.text import printable

    lines = [f"trn3: error: {printable(' '.join(str(problem).split()))}"]
    lines += [printable(line.rstrip()) for line in details]
    if sys.stderr is not None:
        sys.stderr.write("".join(f"{line}\n" for line in lines))
        sys.stderr.flush()


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


def usage_error() -> type[typer.BadParameter]:
    """Return the class of what a command line that reads wrongly raises."""
    import typer

    # Typer carries a click of its own from some version on, and used a separate one before.
    return cast("type[typer.BadParameter]", typer.BadParameter.__base__)


def _refusal(error: Exception) -> object:
    """Return what is wrong with what was asked for, if it is that."""
    # Asked of what nobody took before: commands that do not fail so load neither.
    from trn3.checkpoint import CheckpointError

    usage = usage_error()
    if isinstance(error, usage):
        return error.format_message()
    return error if isinstance(error, CheckpointError) else None


def _code(work: Callable[[], object]) -> int:
    try:
        code = work()
        sys.stdout.flush()
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
    except Exception as error:
        problem = _refusal(error)
        if problem is None:
            raise
        _complain(problem)
        return 2
    # Typer turns a Ctrl-C into this code itself.
    return code if isinstance(code, int) else 0


def ended(work: Callable[[], object]) -> int:
    """Do the work of the command and return its exit code: the work's own, if it gives one."""
    # What kills a process by default would leave a temporary file. A hang-up that is ignored
    # (nohup) stays so.
    numbers = [signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        numbers.append(signal.SIGHUP)
    previous = {number: signal.signal(number, _on_terminate) for number in numbers}
    if sys.stdout is None:
        sys.stdout = _ClosedOutput()
    try:
        code = _code(work)
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
