"""What ``trn3 profile`` does: run a kernel, show what it cost and why, write the pictures."""

from __future__ import annotations

import errno
import json
import math
import os
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trn3.cli.consoles import output
from trn3.cli.progress import working
from trn3.cli.refusal import RefusedError, refusing
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

_RULES: Final = {
    "wrong-result": "The result is another one than the golden's.",
    "verdict": "How long the kernel takes, and what binds it.",
    "speed-of-light": "How long it would take if nothing waited.",
    "advice": "What would make it faster, and by how much; the largest gain first.",
    "precision": "What an instruction loses of the result against float64.",
}


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
    parquet: Annotated[
        Path | None,
        typer.Option("--parquet", help="Folder for the tables of Neuron Explorer, in Parquet."),
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
    ranks: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Run it on so many ranks that meet in collectives; the file's inputs function is "
            "given rank and ranks.",
        ),
    ] = None,
    system: Annotated[
        str | None,
        typer.Option(help="What connects the ranks.  [default: the system of the target]"),
    ] = None,
    ranks_per_chip: Annotated[
        int | None, typer.Option(min=1, help="Ranks of a chip.  [default: as many as fit]")
    ] = None,
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
    Perfetto UI and two pictures are written too; with --ranks, in a folder of each rank, and one
    report of all. With --parquet, tables for SQL and scripts.
    """
    from trn3 import nki
    from trn3.cli import kernel_file, profile_ranks
    from trn3.profile import profile_of

    check_settings()
    chosen = form_of(form, as_json=as_json)
    use_level(context, level)
    warn_of_arch(arch)
    profile_ranks.check_ranks(ranks, system, ranks_per_chip)
    if parquet is not None and ranks is not None:
        message = "--parquet is given with --ranks; allowed: a kernel of one rank"
        raise RefusedError(message)
    for folder in filter(None, (out, parquet)):
        check_folder(folder)
    if parquet is not None and find_spec("pyarrow") is None:
        message = "--parquet needs pyarrow: pip install 'trn3[parquet]'"
        raise RefusedError(message)
    with kernel_file.explained(kernel):
        file = kernel_file.load(kernel)
        given = profile_ranks.inputs_of(file, shape or [], seed, ranks)
        tolerance = kernel_file.tolerance(file, rtol, atol)
    runnable = file.kernel
    if stochastic_rounding:
        runnable = nki.simulate(runnable, stochastic_rounding=True, seed=seed)
    if verify:
        runnable = nki.simulate(runnable, verify=True)
    golden = file.companion("golden") if values and check else None
    options: dict[str, Any] = {
        "arch": arch,
        "values": values,
        "strict": strict,
        "shadow": shadow,
        "max_instructions": max_instructions,
        "max_host_bytes": max_host_bytes,
    }
    if ranks is not None:
        with working(f"running {file.name}"), kernel_file.explained(kernel, arch):
            started = time.perf_counter()
            with kernel_file.verified():
                _, profiles = nki.profile_ranks(
                    runnable, given, system=system, ranks_per_chip=ranks_per_chip, **options
                )
            wall_seconds = time.perf_counter() - started
        written = profile_ranks.save(profiles, out) if out is not None else []
        if chosen == "json":
            answer = profile_ranks.document(profiles, wall_seconds, written)
            typer.echo(json.dumps(answer, indent=2, default=float))
        elif chosen != "text":
            typer.echo(_report(profiles, None, is_strict=strict).written(chosen))
        else:
            profile_ranks.show(profiles, wall_seconds, has_golden=golden is not None)
            _say_written(written)
        _end_of_races(profiles, is_strict=strict)
        return
    with working(f"running {file.name}"), kernel_file.explained(kernel, arch):
        attempt = nki.CheckedRun(runnable, kwargs=given[0], keeps=golden is not None, **options)
        started = time.perf_counter()
        with kernel_file.verified():
            attempt.run()
        wall_seconds = time.perf_counter() - started
        found = profile_of(attempt.cores, attempt.kernel.name)
    held = None
    if golden is not None:
        with working(f"checking {file.name}"), kernel_file.explained(kernel):
            wanted = attempt.golden(golden)
            with refusing(ValueError):
                held = attempt.check(wanted, tolerance)
    written = []
    if out is not None:
        with working(f"writing {out}"):
            written = save(found.save, out)
    if parquet is not None:
        with working(f"writing {parquet}"):
            written += save(found.to_parquet, parquet)
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
        typer.echo(_report([found], held, is_strict=strict).written(chosen))
    else:
        _show(found, held, wall_seconds, file.path)
        _say_written(written)
    _end_of_races([found], is_strict=strict)
    if held is not None and held.is_wrong:
        raise typer.Exit(1)


def _say_written(files: Sequence[Path]) -> None:
    for path in files:
        typer.echo(f"wrote {path}")


def _end_of_races(profiles: Sequence[Profile], *, is_strict: bool) -> None:
    """End with 1 where cores raced and must not."""
    if is_strict and any(each.kind == "race" for one in profiles for each in one.findings):
        raise typer.Exit(1)


def _report(
    profiles: Sequence[Profile], check: ResultCheck | None, *, is_strict: bool
) -> NoticeReport:
    """Return a wrong result, and races under --strict, as errors, other findings as warnings.

    What the run costs, and what would make it faster, are notes. What several ranks found alike is
    said once; verdict and advice are the first one's.
    """
    from trn3.profile.summary import SHOWN_LOSSES, microseconds

    profile, name = profiles[0], profiles[0].data.kernel
    notices: list[Notice] = []
    if check is not None and check.is_wrong:
        text = f"{check.headline()}. {check.details()}"
        notices.append(Notice("error", "wrong-result", text, *_place(check.line or ""), about=name))
    for each in (finding for one in profiles for finding in one.findings):
        level: NoticeLevel = "error" if is_strict and each.kind == "race" else "warning"
        rule = each.kind.replace("_", "-")
        notice = Notice(level, rule, each.message, each.file, each.line, about=name)
        if notice not in notices:
            notices.append(notice)
    hottest = next((each for each in profile.lines() if each.line), None)
    place = ("", 0) if hottest is None else (hottest.file, hottest.line)
    text = f"{microseconds(profile.latency_us)}. {profile.verdict()}"
    notices.append(Notice("note", "verdict", text, *place, about=name))
    if profile.speed_of_light is not None:
        notices.append(
            Notice("note", "speed-of-light", profile.speed_of_light["text"], *place, about=name)
        )
    # Largest gain first, as they are ranked.
    for advice in profile.advice:
        at = _place(advice["line"])
        notices.append(Notice("note", "advice", advice["text"], *at, about=name))
    if profile.advice_note:
        notices.append(Notice("note", "advice", profile.advice_note, *place, about=name))
    for loss in (loss for loss in profile.precision[:SHOWN_LOSSES] if loss.error):
        text = (
            f"{loss.instruction} writes {loss.tensor} {loss.dtype}: adds an error of "
            f"{loss.relative_added_error:.1e} against float64, {loss.relative_error:.1e} in all"
        )
        notices.append(Notice("note", "precision", text, loss.file, loss.line, about=name))
    return NoticeReport("trn3 profile", tuple(notices), (name,), _RULES)


def _place(line: str) -> tuple[str, int]:
    """Return file and number of ``file:line``; neither where it says none."""
    file, _, number = line.rpartition(":")
    return (file, int(number)) if file and number.isdecimal() else ("", 0)


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


def save(write: Callable[[Path], list[Path]], folder: Path) -> list[Path]:
    """Let a profile write its files into a folder, which is made if it is not there.

    Raises
    ------
    OSError
        If that cannot be done; nothing is left then.
    """
    made = not folder.is_dir()
    if made:
        folder.mkdir()
    try:
        return write(folder)
    except BaseException:
        if made:
            folder.rmdir()
        raise
