"""What ``trn3 profile`` does: run a kernel, show what it cost and why, write the pictures."""

from __future__ import annotations

import json
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
from trn3.machine import Profile


class KernelRunError(Exception):
    """The kernel failed; the text is one line with the kernel's own."""


@dataclass(frozen=True)
class Request:
    """What to run, on what, and how."""

    target: str
    shapes: tuple[str, ...]
    arch: str | None
    values: bool
    strict: bool
    max_instructions: int | None
    seed: int


@dataclass(frozen=True)
class Outcome:
    """What a run gave."""

    profile: Profile
    #: Largest difference from the file's golden over its largest magnitude; None without one.
    error: float | None
    wall_seconds: float


def run(request: Request) -> Outcome:
    """Run the kernel and compare its result with the file's golden where there is one.

    Raises
    ------
    trn3.cli.kernel_file.KernelFileError, KernelRunError
        If the kernel is not found or fails; the message holds the kernel's line.
    """
    from trn3 import nki

    file = _load(request.target)
    arguments = kernel_file.arguments(file, list(request.shapes), request.seed)
    started = time.perf_counter()
    with _status(f"running {file.name}"):
        try:
            result, profile = nki.profile(
                file.kernel,
                arch=request.arch,
                values=request.values,
                strict=request.strict,
                max_instructions=request.max_instructions,
                **arguments,
            )
        except Exception as error:
            raise KernelRunError(_explain(error, file.path)) from error
    wall = time.perf_counter() - started
    golden = file.companion("golden")
    error = None
    if request.values and golden is not None:
        names = golden.__code__.co_varnames[: golden.__code__.co_argcount]
        error = _difference(result, golden(**{n: arguments[n] for n in names if n in arguments}))
    return Outcome(profile, error, wall)


def _load(target: str) -> kernel_file.KernelFile:
    try:
        return kernel_file.load(target)
    except kernel_file.KernelFileError:
        raise
    except Exception as error:
        raise KernelRunError(_explain(error, Path(target.rpartition(":")[0] or target))) from error


def _explain(error: Exception, path: Path) -> str:
    """One line: the innermost frame in the kernel's file, what was raised and why."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == path]
    text = f"{type(error).__name__}: {error}"
    where = f"{path}:{frames[-1].lineno}: " if frames else f"{path}: "
    return text if str(path) in str(error) else where + text


def _difference(result: Any, golden: Any) -> float:
    results = result if isinstance(result, (tuple, list)) else [result]
    goldens = golden if isinstance(golden, (tuple, list)) else [golden]
    worst = 0.0
    for got, wanted in zip(results, goldens, strict=False):
        exact = np.asarray(wanted, dtype=np.float64)
        scale = float(np.abs(exact).max()) or 1.0
        worst = max(worst, float(np.abs(np.asarray(got).astype(np.float64) - exact).max()) / scale)
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


def show(outcome: Outcome, written: list[Path], console: Console, *, as_json: bool) -> None:
    """Print the summary, or its numbers as JSON."""
    if as_json:
        document = {
            **outcome.profile.figures(),
            "golden_error": outcome.error,
            "wall_seconds": outcome.wall_seconds,
        }
        document["files"] = [str(path) for path in written]
        console.file.write(json.dumps(document, indent=2, default=float) + "\n")
        return
    console.print(outcome.profile.summary())
    if outcome.error is not None:
        console.print(
            f"Largest difference from the golden: {outcome.error:.2e} of its largest magnitude"
        )
    rate = len(outcome.profile.data.instructions) / max(outcome.wall_seconds, 1e-9)
    console.print(f"Simulated in {outcome.wall_seconds:.2f} s ({rate:,.0f} instructions/s)")
    for path in written:
        console.print(f"wrote {path}")
