"""What ``trn3 profile`` does: run a kernel, show what it cost and why, write the pictures."""

from __future__ import annotations

import errno
import inspect
import json
import math
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trn3.cli.consoles import output
from trn3.cli.plots import check_matplotlib
from trn3.cli.refusal import RefusedError
from trn3.cli.settings import JsonForTables, MaxInstructions, Seed, check_settings

if TYPE_CHECKING:
    from trn3.profile import Profile

# A faster run needs no sign of life.
PATIENCE_SECONDS = 2.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(profile)


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
    stochastic_rounding: Annotated[
        bool,
        typer.Option(
            "--stochastic-rounding",
            help="Round results of engines stochastically, drawn from --seed.",
        ),
    ] = False,
    max_instructions: MaxInstructions = None,
    seed: Seed = 0,
    as_json: JsonForTables = False,
) -> None:
    """Run an NKI kernel on one simulated NeuronCore and show what it costs and why.

    The file is imported as it is: `import nki` in it means trn3's. With --out, a timeline that
    opens in the Perfetto UI and two pictures are written too.
    """
    from trn3 import nki
    from trn3.cli import kernel_file

    check_settings()
    if out is not None:
        check_matplotlib("--out")
        check_folder(out)
    with kernel_file.explained(kernel):
        file = kernel_file.load(kernel)
        arguments = kernel_file.arguments(file, shape or [], seed)
    runnable = file.kernel
    if stochastic_rounding:
        runnable = nki.simulate(runnable, stochastic_rounding=True, seed=seed)
    started = time.perf_counter()
    with _status(f"running {file.name}"), kernel_file.explained(kernel, arch):
        result, found = nki.profile(
            runnable,
            arch=arch,
            values=values,
            strict=strict,
            shadow=shadow,
            max_instructions=max_instructions,
            **arguments,
        )
    wall_seconds = time.perf_counter() - started
    golden = file.companion("golden")
    error = None
    if values and golden is not None:
        with kernel_file.explained(kernel):
            names = inspect.signature(golden).parameters
            wanted = golden(**{name: arguments[name] for name in names if name in arguments})
        error = _difference(result, wanted)
    written = save(found, out) if out is not None else []
    if as_json:
        document = {
            **found.figures(),
            "golden_error": "nan" if _is_nan(error) else error,
            "wall_seconds": wall_seconds,
            "files": [str(path) for path in written],
        }
        typer.echo(json.dumps(document, indent=2, default=float))
    else:
        _show(found, error, wall_seconds)
        for path in written:
            typer.echo(f"wrote {path}")


def _show(profile: Profile, error: float | None, wall_seconds: float) -> None:
    console = output(100)
    console.print(profile.summary())
    if _is_nan(error):
        console.print("The result is NaN or infinite where the golden is not, or the other way.")
    elif error is not None:
        console.print(f"Largest difference from the golden: {error:.2e} of its largest magnitude")
    rate = sum(len(core.data.instructions) for core in profile.cores) / max(wall_seconds, 1e-9)
    console.print(f"Simulated in {wall_seconds:.2f} s ({rate:,.0f} instructions/s)")


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


def _is_nan(error: float | None) -> bool:
    return error is not None and math.isnan(error)


def _difference(result: Any, golden: Any) -> float:
    import numpy as np

    results = result if isinstance(result, (tuple, list)) else [result]
    goldens = golden if isinstance(golden, (tuple, list)) else [golden]
    if len(results) != len(goldens):
        message = f"the kernel returns {len(results)} tensors, the golden {len(goldens)}"
        raise RefusedError(message)
    worst = 0.0
    for got, wanted in zip(results, goldens, strict=True):
        exact = np.asarray(wanted, dtype=np.float64)
        if np.shape(got) != exact.shape:
            message = f"the kernel returns shape {np.shape(got)}, the golden {exact.shape}"
            raise RefusedError(message)
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
    from rich.console import Console

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
