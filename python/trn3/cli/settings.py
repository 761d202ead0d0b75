"""Options that commands share, and settings of the environment, looked at before a command."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from trn3.cli.refusal import RefusedError, refusing
from trn3.notices import FormatName

#: Of commands that print several tables, and of those that print one.
JsonForTables: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print JSON for machines instead of tables.")
]
JsonForTable: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print JSON for machines instead of a table.")
]
#: Of commands whose answer has a report.
HtmlReport: TypeAlias = Annotated[
    Path | None,
    typer.Option("--html", help="Write a report for a browser into this file, a page."),
]
#: Of commands that find something to act on.
Format: TypeAlias = Annotated[
    FormatName | None,
    typer.Option(
        "--format",
        help="github: workflow commands; sarif and junit for services that read them; markdown for "
        "summaries; json as --json.  [default: text]",
    ),
]
#: Of commands that run kernels.
Seed: TypeAlias = Annotated[int, typer.Option(min=0, help="Of the arrays that are made.")]
MaxInstructions: TypeAlias = Annotated[
    int | None, typer.Option(min=1, help="Stop a kernel that issues more instructions.")
]
MaxHostBytes: TypeAlias = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Most memory that tensors and results may take here; default: 3/4 of what is free.",
    ),
]
CompileLevel: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--compile",
        help="Level of the compiler: as-written, nki or neuronx-cc.  [default: TRN3_COMPILE, else "
        "by the kernel's dialect]",
    ),
]
Verify: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--verify",
        help="Run what the compiler made too: its schedule has to be legal, its outputs equal bit "
        "for bit. Needs level nki or neuronx-cc.",
    ),
]
#: Of commands that hold results against a golden.
Rtol: TypeAlias = Annotated[
    float | None,
    typer.Option(
        min=0,
        help="Allowed of each element: ATOL + RTOL of the golden.  [default: what the file sets, "
        "else by element types]",
    ),
]
Atol: TypeAlias = Annotated[float | None, typer.Option(min=0, help="See --rtol.")]

#: Names of machines by the generation of their cores, which mean other things elsewhere.
_GENERATIONS: Final = {
    "gen2": "is Trainium1 (NeuronCore-v2, as NKI counts); elsewhere in trn3, as in `trn3 plan`, "
    "gen2 is the Trn3 Gen2 UltraServer, whose cores are --arch trn3",
    "gen3": "is Trainium2 (NeuronCore-v3, as NKI counts); Trainium3 is --arch trn3",
}


def warn_of_arch(*archs: str | None) -> None:
    """Warn of machines whose names mean something else elsewhere."""
    for arch in archs:
        if arch is None:
            continue
        name = arch.partition(":")[0].strip().lower()
        meaning = _GENERATIONS.get(name)
        if meaning is not None:
            typer.echo(f"trn3: warning: --arch {name} {meaning}", err=True)


def form_of(form: FormatName | None, *, as_json: bool) -> FormatName:
    """Return the form that ``--format`` and ``--json`` ask for together."""
    if as_json and form not in (None, "json"):
        message = f"--json and --format {form}: give one of them"
        raise RefusedError(message)
    return "json" if as_json else form or "text"


def is_given(context: typer.Context, name: str) -> bool:
    """Return whether the command line has an option, whose default may be a value too."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def use_level(context: typer.Context, *levels: str | None) -> None:
    """Let kernels that name no level of the compiler run at that of ``--compile``.

    They do until the command has ended, in processes that it starts too; several levels are those
    of runs that name theirs.
    """
    from trn3.compiler.level_names import SWITCH, check_level

    before = os.environ.get(SWITCH)
    with refusing(ValueError):
        given = [check_level(level, "--compile") for level in levels if level is not None]
        if before and not given:
            check_level(before, SWITCH)
    if len(given) == 1:
        os.environ[SWITCH] = given[0]

    def restore() -> None:
        os.environ.pop(SWITCH, None)
        if before is not None:
            os.environ[SWITCH] = before

    context.call_on_close(restore)


def check_settings() -> None:
    """Refuse wrong values of the variables that the core reads before they surprise in mid-work."""
    import trn3
    from trn3 import _trn3

    with refusing(ValueError):
        _trn3.kept_bytes()
        trn3.simd_level()
        trn3.get_num_threads()
