"""What ``trn3 probe`` does: write probes of a real chip, and compare what they gave."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trn3.cli.consoles import output, print_json, table
from trn3.cli.progress import working
from trn3.cli.refusal import RefusedError, refusing
from trn3.cli.settings import JsonForTable

if TYPE_CHECKING:
    from trn3.validation.probe import ProbeOutcome, ProbeResult


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def probe(
        folder: Annotated[
            Path | None, typer.Argument(help="Where to write the probes: new, or empty.")
        ] = None,
        check: Annotated[
            Path | None, typer.Option(help="Compare this result.json with trn3 instead.")
        ] = None,
        contribution: Annotated[
            Path | None,
            typer.Option(
                help="With --check: write entries for the register (silicon.toml) here.  "
                "[default: print them]"
            ),
        ] = None,
        as_json: JsonForTable = False,
    ) -> None:
        """Write small kernels that show what a chip computes, or compare what they gave.

        The folder runs wherever the vendor's nki does, without trn3: `python run.py` writes
        result.json, bits and times. With --check each probe is equal or differs, with the first
        element that does; the exit code is 1 if one differs.
        """
        from trn3.validation import probe as probing

        if (folder is None) == (check is None):
            message = "name a folder to write, or --check result.json"
            raise RefusedError(message)
        if check is None and (contribution is not None or as_json):
            message = "--contribution and --json go with --check"
            raise RefusedError(message)
        with refusing(probing.ProbeError):
            if folder is not None:
                count = probing.write(folder)
                typer.echo(f"{folder}: {count} probes")
                _list_probes()
                typer.echo(f"run: python {folder / 'run.py'}")
                return
            assert check is not None
            result = probing.read(check)
            with working("running the probes"):
                outcomes = list(probing.check(result))
        _report(result, outcomes, contribution, as_json=as_json)
        if any(outcome.verdict == "differs" for outcome in outcomes):
            raise typer.Exit(1)


def _list_probes() -> None:
    from trn3.validation import probe as probing

    listed = table("probe", "what it shows")
    for each in probing.probes():
        listed.add_row(each.id, each.title)
    output().print(listed)


def _report(
    result: ProbeResult, outcomes: list[ProbeOutcome], contribution: Path | None, *, as_json: bool
) -> None:
    from trn3.files import write_bytes
    from trn3.validation import probe as probing

    entries = probing.contribution(result, outcomes)
    if contribution is not None:
        write_bytes(contribution, [entries.encode()])
    if as_json:
        rows = [
            {"id": o.probe.id, "what": o.probe.title, "verdict": o.verdict, "detail": o.detail}
            for o in outcomes
        ]
        machine = {"chip": result.chip, "machine": result.description}
        print_json({**machine, "probes": rows, "contribution": entries}, versioned=True)
        return
    console = output()
    found = table("probe", "verdict", "where")
    for outcome in outcomes:
        found.add_row(outcome.probe.id, outcome.verdict, outcome.detail)
    console.print(found)
    counts = ", ".join(
        f"{sum(o.verdict == verdict for o in outcomes)} {verdict}"
        for verdict in ("equal", "differs", "not run")
    )
    console.print(f"{result.chip}: {counts} ({result.description})", markup=False, soft_wrap=True)
    if contribution is None:
        console.print(entries, markup=False, soft_wrap=True)
