"""What ``trn3 profile`` does: run a kernel, show what it cost and why, write the pictures."""

from __future__ import annotations

import errno
import inspect
import json
import math
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from trn3.cli import kernel_file
from trn3.cli.progress import PATIENCE_SECONDS
from trn3.machine import ArchError
from trn3.profile import Profile

#: How errors of the machine begin that know the kernel's line.
_PLACE = re.compile(r"[^\n:]+:\d+: ")


class KernelRunError(Exception):
    """The kernel failed; the first line says where and why, further ones hold details."""


@dataclass(frozen=True)
class ProfileRequest:
    """What to run, on what, and how."""

    target: str
    shapes: tuple[str, ...]
    arch: str | None
    values: bool
    strict: bool
    shadow: bool
    max_instructions: int | None
    seed: int


@dataclass(frozen=True)
class ProfileOutcome:
    """What a run gave."""

    profile: Profile
    #: Largest difference from the file's golden over its largest magnitude; None without one, NaN
    #: where one of them is no number and the other is.
    error: float | None
    wall_seconds: float


def run(request: ProfileRequest) -> ProfileOutcome:
    """Run the kernel and compare its result with the file's golden where there is one.

    Raises
    ------
    trn3.cli.kernel_file.KernelFileError, KernelRunError
        If the kernel is not found or fails; the message holds the kernel's line.
    """
    from trn3 import nki

    path = kernel_file.path_of(request.target)
    with explained(path):
        file = kernel_file.load(request.target)
        arguments = kernel_file.arguments(file, list(request.shapes), request.seed)
    started = time.perf_counter()
    with _status(f"running {file.name}"), explained(path, request.arch):
        result, profile = nki.profile(
            file.kernel,
            arch=request.arch,
            values=request.values,
            strict=request.strict,
            shadow=request.shadow,
            max_instructions=request.max_instructions,
            **arguments,
        )
    wall = time.perf_counter() - started
    golden = file.companion("golden")
    error = None
    if request.values and golden is not None:
        with explained(path):
            names = inspect.signature(golden).parameters
            wanted = golden(**{name: arguments[name] for name in names if name in arguments})
        error = _difference(result, wanted)
    return ProfileOutcome(profile, error, wall)


def check_folder(folder: Path) -> None:
    """Check, before a long run, that its files can be written there.

    Raises
    ------
    OSError
        If the folder is none, cannot be made or may not be written to.
    """
    if folder.is_dir():
        home = folder
    elif folder.exists() or folder.is_symlink():
        raise NotADirectoryError(errno.ENOTDIR, "exists and is no folder", str(folder))
    else:
        home = folder.absolute().parent
        if not home.is_dir():
            raise FileNotFoundError(errno.ENOENT, f"there is no folder {home}", str(folder))
    if not os.access(home, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(home))


def save(profile: Profile, folder: Path) -> list[Path]:
    """Write the profile's files into a folder, which is made if it is not there.

    Raises
    ------
    OSError
        If that cannot be done; nothing is left then.
    """
    made = not folder.is_dir()
    if made:
        folder.mkdir()
    try:
        return profile.save(folder)
    except BaseException:
        if made:
            folder.rmdir()
        raise


@contextmanager
def explained(path: Path, arch: str | None = None) -> Iterator[None]:
    """Turn what code of the user raises into one error that names the line."""
    try:
        yield
    except (kernel_file.KernelFileError, KernelRunError):
        raise
    except ArchError as error:
        message = f"--arch {arch}: {error}"
        raise KernelRunError(message) from error
    except SystemExit as error:
        message = f"{path}: it ended the process (SystemExit: {error})"
        raise KernelRunError(message) from error
    except Exception as error:
        if type(error) is MemoryError:
            raise
        raise KernelRunError(_explain(error, path)) from error


def _explain(error: Exception, path: Path) -> str:
    """Where the user's code raised, what, and why; the place as the user wrote the path."""
    text = str(error) or "no message"
    where = ""
    if isinstance(error, SyntaxError):
        where, text = f"{error.filename}:{error.lineno}: ", error.msg
    elif place := _PLACE.match(text):
        where, text = place[0], text[place.end() :]
    else:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if _is_below(frame.filename, path)]
        if own:
            where = f"{own[-1].filename}:{own[-1].lineno}: "
    where = where.replace(str(path.resolve()), str(path), 1)
    return f"{where}{type(error).__name__}: {text}"


def _is_below(filename: str, path: Path) -> bool:
    """Whether code is in the kernel's folder: its file, or one that it imports from beside it."""
    return Path(filename).resolve().is_relative_to(path.resolve().parent)


def _is_nan(error: float | None) -> bool:
    return error is not None and math.isnan(error)


def _difference(result: Any, golden: Any) -> float:
    results = result if isinstance(result, (tuple, list)) else [result]
    goldens = golden if isinstance(golden, (tuple, list)) else [golden]
    if len(results) != len(goldens):
        message = f"the kernel returns {len(results)} tensors, the golden {len(goldens)}"
        raise KernelRunError(message)
    worst = 0.0
    for got, wanted in zip(results, goldens, strict=True):
        exact = np.asarray(wanted, dtype=np.float64)
        if np.shape(got) != exact.shape:
            message = f"the kernel returns shape {np.shape(got)}, the golden {exact.shape}"
            raise KernelRunError(message)
        values = np.asarray(got).astype(np.float64)
        if not np.array_equal(np.isfinite(values), np.isfinite(exact)):
            return math.nan
        finite = np.isfinite(exact)
        scale = float(np.abs(exact[finite]).max(initial=0.0)) or 1.0
        off = np.abs(values[finite] - exact[finite])
        worst = max(worst, float(off.max(initial=0.0)) / scale)
    return worst


@contextmanager
def _status(text: str) -> Iterator[None]:
    """Show on a terminal that something is going on, once it has taken a while."""
    if not sys.stderr.isatty():
        yield
        return
    finished = threading.Event()

    def show() -> None:
        if finished.wait(PATIENCE_SECONDS):
            return
        with Console(stderr=True).status(text):
            finished.wait()

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()


def show(outcome: ProfileOutcome, written: list[Path], console: Console, *, as_json: bool) -> None:
    """Print the summary, or its numbers as JSON."""
    if as_json:
        document = {
            **outcome.profile.figures(),
            "golden_error": "nan" if _is_nan(outcome.error) else outcome.error,
            "wall_seconds": outcome.wall_seconds,
        }
        document["files"] = [str(path) for path in written]
        console.file.write(json.dumps(document, indent=2, default=float) + "\n")
        return
    console.print(outcome.profile.summary())
    if _is_nan(outcome.error):
        console.print("The result is NaN or infinite where the golden is not, or the other way.")
    elif outcome.error is not None:
        console.print(
            f"Largest difference from the golden: {outcome.error:.2e} of its largest magnitude"
        )
    rate = sum(len(core.data.instructions) for core in outcome.profile.cores) / max(
        outcome.wall_seconds, 1e-9
    )
    console.print(f"Simulated in {outcome.wall_seconds:.2f} s ({rate:,.0f} instructions/s)")
    for path in written:
        console.print(f"wrote {path}")
