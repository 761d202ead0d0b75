"""What ``trn3 profile`` does: run a kernel, show what it cost and why, write the pictures."""

from __future__ import annotations

import errno
import json
import math
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trn3.cli.consoles import output
from trn3.cli.refusal import refusing
from trn3.cli.settings import (
    Atol,
    CompileLevel,
    Format,
    JsonForTables,
    MaxHostBytes,
    MaxInstructions,
    Rtol,
    Seed,
    Verify,
    check_settings,
    form_of,
    use_level,
    warn_of_arch,
)
from trn3.notices import Notice, NoticeLevel, NoticeReport

if TYPE_CHECKING:
    from trn3.nki import ResultCheck
    from trn3.profile import Profile

# A faster run needs no sign of life.
PATIENCE_SECONDS = 2.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(profile)


def profile(
    context: typer.Context,
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
    level: CompileLevel = None,
    verify: Verify = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Folder for report.html, profile.json, trace.perfetto and two pictures."
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
    rtol: Rtol = None,
    atol: Atol = None,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Hold the result against the file's golden.")
    ] = True,
    max_host_bytes: MaxHostBytes = None,
    seed: Seed = 0,
    as_json: JsonForTables = False,
    form: Format = None,
) -> None:
    """Run an NKI kernel on one simulated NeuronCore and show what it costs and why.

    The file is imported as it is: `import nki` in it means trn3's. A function `golden` or
    `KERNEL_golden` in it says what the result should be; the exit code is 1 if it is another, and
    with --strict if cores race. With --out, a report that opens in a browser, a timeline for the
    Perfetto UI and two pictures are written too.
    """
    from trn3 import nki
    from trn3.cli import kernel_file
    from trn3.profile import profile_of

    check_settings()
    chosen = form_of(form, as_json=as_json)
    use_level(context, level)
    warn_of_arch(arch)
    if out is not None:
        check_folder(out)
    with kernel_file.explained(kernel):
        file = kernel_file.load(kernel)
        arguments = kernel_file.arguments(file, shape or [], seed)
        tolerance = kernel_file.tolerance(file, rtol, atol)
    runnable = file.kernel
    if stochastic_rounding:
        runnable = nki.simulate(runnable, stochastic_rounding=True, seed=seed)
    if verify:
        runnable = nki.simulate(runnable, verify=True)
    golden = file.companion("golden") if values and check else None
    with _status(f"running {file.name}"), kernel_file.explained(kernel, arch):
        attempt = nki.CheckedRun(
            runnable,
            kwargs=arguments,
            keeps=golden is not None,
            arch=arch,
            values=values,
            strict=strict,
            shadow=shadow,
            max_instructions=max_instructions,
            max_host_bytes=max_host_bytes,
        )
        started = time.perf_counter()
        with kernel_file.verified():
            attempt.run()
        wall_seconds = time.perf_counter() - started
        found = profile_of(attempt.cores, attempt.kernel.name)
    held = None
    if golden is not None:
        with _status(f"checking {file.name}"), kernel_file.explained(kernel):
            wanted = attempt.golden(golden)
            with refusing(ValueError):
                held = attempt.check(wanted, tolerance)
    written = save(found, out) if out is not None else []
    if chosen == "json":
        document = {
            **found.figures(),
            "golden_error": None if held is None else _plain_error(held),
            "check": None if held is None else held.figures(),
            "wall_seconds": wall_seconds,
            "files": [str(path) for path in written],
        }
        typer.echo(json.dumps(document, indent=2, default=float))
    elif chosen != "text":
        typer.echo(_report(found, held, is_strict=strict).written(chosen))
    else:
        _show(found, held, wall_seconds, file.path)
        for path in written:
            typer.echo(f"wrote {path}")
    has_raced = strict and any(each.kind == "race" for each in found.findings)
    if has_raced or (held is not None and held.is_wrong):
        raise typer.Exit(1)


def _report(profile: Profile, check: ResultCheck | None, *, is_strict: bool) -> NoticeReport:
    """Return a wrong result, and races under --strict, as errors, other findings as warnings."""
    name = profile.data.kernel
    notices = []
    if check is not None and check.is_wrong:
        file, _, line = (check.line or ":0").rpartition(":")
        text = f"{check.headline()}. {check.details()}"
        notices.append(Notice("error", "wrong-result", text, file, int(line), about=name))
    for each in profile.findings:
        level: NoticeLevel = "error" if is_strict and each.kind == "race" else "warning"
        rule = each.kind.replace("_", "-")
        notices.append(Notice(level, rule, each.message, each.file, each.line, about=name))
    hottest = next((each for each in profile.lines() if each.line), None)
    place = ("", 0) if hottest is None else (hottest.file, hottest.line)
    text = f"{profile.latency_us:.3f} us. {profile.verdict()}"
    notices.append(Notice("note", "verdict", text, *place, about=name))
    return NoticeReport("trn3 profile", tuple(notices), (name,))


def _show(profile: Profile, check: ResultCheck | None, wall_seconds: float, path: Path) -> None:
    from rich.text import Text

    from trn3.text import printable

    console = output(100)
    if check is not None and check.is_wrong:
        headline = check.headline().replace(str(path.resolve()), str(path))
        console.print(Text(printable(headline), "bold red"))
        console.print(Text(printable(check.details())))
    console.print(profile.summary())
    if check is not None and not check.is_wrong:
        console.print(Text(printable(check.headline())))
    rate = sum(len(core.data.instructions) for core in profile.cores) / max(wall_seconds, 1e-9)
    console.print(f"Simulated in {wall_seconds:.2f} s ({rate:,.0f} instructions/s)")


def _plain_error(check: ResultCheck) -> float | str:
    return check.largest_error if math.isfinite(check.largest_error) else "nan"


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
