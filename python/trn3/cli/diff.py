"""What ``trn3 diff`` does: one kernel on several machines, or several kernels and runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trn3.cli.consoles import output, print_json
from trn3.cli.progress import working
from trn3.cli.refusal import RefusedError, refusing
from trn3.cli.settings import (
    Format,
    JsonForTable,
    MaxHostBytes,
    MaxInstructions,
    Seed,
    form_of,
    is_given,
    use_level,
    warn_of_arch,
)
from trn3.files import write_bytes
from trn3.markup import as_page
from trn3.notices import Notice, NoticeReport

_RULES: Final = {
    "verdict": "How long a kernel takes on a machine, and what binds it.",
    "refused": "A machine does not run the kernel.",
    "wrong-result": "The result is another one than the golden's.",
    "other-result": "The result is another one than the first kernel's on the same machine.",
    "latency": "How long it takes beside the first kernel.",
    "engine": "What an engine did, or waited for, for another time than under the first kernel.",
    "slower-line": "A line takes more of the critical path than under the first kernel.",
}
#: A line whose part of the critical path grew by less of the latency is no notice.
LEAST_SHARE = 0.01

if TYPE_CHECKING:
    from trn3.cli.candidates import Version, Versions
    from trn3.nki import Diff


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def diff(
        context: typer.Context,
        kernel: Annotated[
            str,
            typer.Argument(
                help="FILE.py:KERNEL; FILE.py:KERNEL[2] for two cores; git:REV:FILE.py:KERNEL; the "
                "folder of a run, as `trn3 profile --out` writes it."
            ),
        ],
        other: Annotated[
            str | None,
            typer.Argument(help="Another, of the same arguments, to compare with the first."),
        ] = None,
        more: Annotated[list[str] | None, typer.Argument(help="And further ones.")] = None,
        arch: Annotated[
            list[str] | None,
            typer.Option(
                "--arch",
                help="A machine; repeatable. trn2, mine.toml, or with changes: "
                "trn3:vector_clock_mhz=+20%,psum_banks=16.  [default: trn2 and trn3; of several "
                "levels, trn3; with runs, theirs]",
            ),
        ] = None,
        levels: Annotated[
            list[str] | None,
            typer.Option(
                "--compile",
                help="A level of the compiler: as-written, nki or neuronx-cc; repeatable, to "
                "compare them.  [default: TRN3_COMPILE, else by the kernel's dialect]",
            ),
        ] = None,
        shape: Annotated[
            list[str] | None,
            typer.Option(
                "--shape", help="As for `trn3 profile`: NAME=SIZE, NAME=128x512:bfloat16."
            ),
        ] = None,
        rtol: Annotated[
            float,
            typer.Option(
                min=0,
                help="Largest difference of results that are the same, over the largest magnitude; "
                "from the golden and between kernels, where it is not given, what the file sets, "
                "else what element types allow.",
            ),
        ] = 0.0,
        atol: Annotated[
            float | None,
            typer.Option(min=0, help="Allowed beside --rtol, from the golden and between kernels."),
        ] = None,
        check: Annotated[
            bool,
            typer.Option("--check/--no-check", help="Hold results against the file's golden."),
        ] = True,
        values: Annotated[
            bool,
            typer.Option("--values/--timing-only", help="Compare results, or time alone (faster)."),
        ] = True,
        max_instructions: MaxInstructions = None,
        max_host_bytes: MaxHostBytes = None,
        seed: Seed = 0,
        html: Annotated[
            Path | None, typer.Option(help="Write what is shown into this file, a page.")
        ] = None,
        as_json: JsonForTable = False,
        form: Format = None,
    ) -> None:
        """Run an NKI kernel, or several, on several machines and compare what they take and give.

        Results and times are compared with the first machine that runs it. A machine that refuses
        the kernel has its reason in the table; only if all do, the exit code is 2. It is 1 if a
        result misses the file's golden, or another kernel gives another result on the same
        machine, and 0 if only machines differ.

        Of several kernels the first is the base, and arguments are those of the first that is no
        run. Lines are aligned by what they say.
        """
        from trn3 import nki
        from trn3.cli import kernel_file
        from trn3.cli.candidates import Versions, check_arguments, titles

        chosen = form_of(form, as_json=as_json)
        several = levels if levels is not None and len(levels) > 1 else None
        use_level(context, *(levels or ()))
        warn_of_arch(*(arch or ()))
        targets = [kernel, *filter(None, [other]), *(more or ())]
        with Versions() as versions:
            loaded = [versions.load(target) for target in targets]
            file = next((each.file for each in loaded if each.file is not None), None)
            arguments: dict[str, Any] = {}
            tolerance = golden = None
            if file is not None:
                with kernel_file.explained(versions.named(str(file.path))):
                    arguments = kernel_file.arguments(file, shape or [], seed)
                    tolerance = kernel_file.tolerance(
                        file, rtol if is_given(context, "rtol") else None, atol
                    )
                    golden = file.companion("golden") if values and check else None
                    if golden is not None:
                        golden = nki.CheckedRun(file.kernel, kwargs=arguments).golden(golden)
            for each in loaded:
                check_arguments(each, arguments)
            # Only the machines are looked at outside of runs.
            refused = refusing(ValueError, TypeError, naming="--arch")
            names = " and ".join(targets)
            with working(f"running {names}"), refused, refusing(nki.GoldenShapeError):
                found = nki.diff(
                    loaded[0].kernel,
                    arguments,
                    archs=tuple(arch or _archs(loaded, several)),
                    rtol=rtol,
                    values=values,
                    max_instructions=max_instructions,
                    against=[each.kernel for each in loaded[1:]],
                    golden=golden,
                    tolerance=tolerance,
                    max_host_bytes=max_host_bytes,
                    compile=several,
                    names=titles(loaded),
                )
            found = _named(found, versions, loaded)
            _refuse_what_never_ran(found)
            if html is not None:
                write_bytes(html, [as_page(f"trn3 diff {found.kernel}", found.summary()).encode()])
            if chosen == "json":
                print_json(found.figures())
            elif chosen == "text":
                output().print(found.summary())
            else:
                typer.echo(_report(found, versions).written(chosen))
        if found.is_wrong:
            raise typer.Exit(1)


def _archs(loaded: Sequence[Version], levels: Sequence[str] | None) -> list[str]:
    """Return the machines of runs; without any, those to compare unless others are named."""
    from trn3.profile import Profile

    runs = [each.kernel for each in loaded if isinstance(each.kernel, Profile)]
    if runs and any(each.file is not None for each in loaded):
        return list(dict.fromkeys(str(run.data.arch["name"]) for run in runs))
    return ["trn2", "trn3"] if levels is None else ["trn3"]


def _report(found: Diff, versions: Versions) -> NoticeReport:
    """Return wrong results as errors, refusals as warnings, and what changed as notes."""
    from trn3.profile.summary import microseconds

    notices = []
    for row in found:
        if row.error is not None:
            notices.append(Notice("warning", "refused", row.error, about=found.title(row)))
        for check, rule in ((row.check, "wrong-result"), (row.agreement, "other-result")):
            if check is not None and check.is_wrong:
                text = f"{check.headline()}. {check.details()}"
                notices.append(Notice("error", rule, text, about=found.title(row)))
    for row in found:
        if row.latency_us is not None:
            text = f"{microseconds(row.latency_us)}. {row.verdict}"
            notices.append(Notice("note", "verdict", text, about=found.title(row)))
    for change in found.changes:
        notices.append(Notice("note", "latency", change.headline(), about=change.title))
        for name, *both in change.largest():
            text = f"{name}: {' -> '.join(microseconds(each, max(both)) for each in both)}"
            notices.append(Notice("note", "engine", text, about=change.title))
        for line in change.lines():
            other = line.other
            if other is not None and line.change_us > LEAST_SHARE * change.other.latency_us:
                is_there = versions.named(other.file) == other.file
                place = (other.file, other.line) if is_there else ("", 0)
                text = f"{microseconds(line.change_us)} more of the critical path: {line.text}"
                notices.append(Notice("note", "slower-line", text, *place, about=change.title))
    return NoticeReport("trn3 diff", tuple(notices), tuple(map(found.title, found)), _RULES)


def _named(found: Diff, versions: Versions, loaded: Sequence[Version]) -> Diff:
    """Return what was found with the names of files that were given, and doubts about texts."""
    rows = tuple(
        row if row.error is None else dataclasses.replace(row, error=versions.named(row.error))
        for row in found.rows
    )
    unknown = [each.kernel for each in loaded if not each.is_source_known]
    changes = tuple(
        dataclasses.replace(each, is_source_known=each.is_source_known and not is_old)
        for each in found.changes
        for is_old in [any(run in unknown for run in (each.base, each.other))]
    )
    return dataclasses.replace(found, rows=rows, changes=changes)


def _refuse_what_never_ran(found: Diff) -> None:
    """Refuse where a kernel ran on no machine."""
    kernels = list(dict.fromkeys(row.kernel for row in found))
    for kernel in kernels:
        of = [row for row in found if row.kernel == kernel]
        if all(row.error is not None for row in of):
            whose = f"{kernel}: " if len(kernels) > 1 else ""
            message = f"{whose}no machine runs it; {of[0].arch}: {of[0].error}"
            raise RefusedError(message)
