"""What ``trn3 validate`` does: compute again what was published, and compare."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trn3.cli.comparison import Selection, print_commands
from trn3.cli.consoles import output, print_json, table
from trn3.cli.plots import check_html
from trn3.cli.progress import working
from trn3.cli.refusal import RefusedError, refusing
from trn3.cli.settings import HtmlReport, JsonForTable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from trn3 import validation
    from trn3.validation import claims


class Only(StrEnum):
    """Values of ``--only``: measurements of kernels, or claims by status or by what they need."""

    MACHINE = "machine"
    FIT = "fit"
    HOLD = "hold"
    SYSTEM = "system"
    ARITHMETIC = "arithmetic"
    MODEL = "model"
    ASSUMPTION = "assumption"
    OPEN = "open"
    FACTS = "facts"
    FABRIC = "fabric"
    COLLECTIVES = "collectives"
    PLANNER = "planner"
    ENERGY = "energy"


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def validate(
        rows: Annotated[
            list[str] | None,
            typer.Argument(
                help="Measurements and claims by name; NAME* means all that begin so, a number the "
                "claim of that number.  [default: all]"
            ),
        ] = None,
        only: Annotated[
            list[Only] | None,
            typer.Option(
                "--only",
                help="machine (of it fit, hold), system, or claims by status (arithmetic, model, "
                "assumption, open) or by what they need (facts, fabric, collectives, planner, "
                "energy). Repeatable.",
            ),
        ] = None,
        silicon: Annotated[
            bool,
            typer.Option(
                "--silicon",
                help="Show what is known of real chips' bits instead, and what trn3 computes.",
            ),
        ] = False,
        as_commands: Annotated[
            bool,
            typer.Option(
                "--commands",
                help="Print command lines that give the published rows' figures, and run nothing.",
            ),
        ] = False,
        as_json: JsonForTable = False,
        write: Annotated[
            Path | None,
            typer.Option(
                help="Replace the comparison in this document: docs/explanation/validation.md."
            ),
        ] = None,
        html: HtmlReport = None,
    ) -> None:
        """Compute again every published measurement and claim that can be, and compare.

        Measurements of kernels are marked fit where constants of the model were read off them, and
        hold where not, and by whose text ran: as-written, the authors' own, of which the headline
        figures are; rebuilt kernels do by hand what a compiler did. Claims about systems are exact
        arithmetic, a model, need an assumption that is printed, or are not derivable. The exit code
        is 1 if something is off by more than its tolerance and nothing says why.
        """
        from trn3.cli.silicon import show_register
        from trn3.validation import RowError

        if silicon:
            if rows or only or write or html:
                message = (
                    "--silicon shows the register; leave names, --only, --write and --html out"
                )
                raise RefusedError(message)
            if not show_register(as_json=as_json):
                raise typer.Exit(1)
            return
        if write is not None and (rows or only or as_commands):
            message = "--write takes all rows; leave the names, --only and --commands out"
            raise RefusedError(message)
        if html is not None and as_commands:
            message = "--commands runs nothing of which --html could write; leave one out"
            raise RefusedError(message)
        check_html(html)
        with refusing(RowError):
            selection = select(rows or [], only or [])
            if as_commands:
                print_commands(selection, as_json=as_json)
                return
            if write is not None:
                check_document(write)
            comparison = run(selection)
        if write is not None:
            write_document(comparison, write)
        if html is not None:
            comparison.to_html(html)
        if as_json:
            print_json(comparison.to_plain(), versioned=True)
        else:
            show(comparison, output())
            if html is not None:
                typer.echo(f"wrote {html}")
        if comparison.has_miss:
            raise typer.Exit(1)


def select(names: Sequence[str], only: Sequence[Only]) -> Selection:
    """Return what names and ``--only`` leave.

    Raises
    ------
    trn3.validation.RowError
        If a name fits nothing, or nothing is left.
    """
    from trn3 import validation
    from trn3.validation import claims

    kernels, commands = validation.table().rows, validation.commands.published()
    all_claims = claims.table()
    of_rows, of_commands = (
        [name for name in names if any(validation.fits(row, name) for row in rows)]
        for rows in (kernels, commands)
    )
    of_claims = [name for name in names if any(claims.fits(claim, name) for claim in all_claims)]
    for name in names:
        if name not in {*of_rows, *of_commands, *of_claims}:
            message = (
                f"no row is called {name}; rows: "
                f"{', '.join(row.id for row in (*kernels, *commands))}; "
                f"claims: {', '.join(claim.id for claim in all_claims)}"
            )
            raise validation.RowError(message)
    rows = validation.select(of_rows) if of_rows or not names else ()
    if of_commands or not names:
        rows = (*rows, *validation.select(of_commands, commands))
    chosen = claims.select(of_claims) if of_claims or not names else ()
    if only:
        kinds = {kind.value for kind in only}
        rows = tuple(row for row in rows if kinds & _kinds(row))
        chosen = tuple(c for c in chosen if kinds & {"system", c.status, c.area})
    if not rows and not chosen:
        message = f"--only {', '.join(only)} leaves nothing of {', '.join(names)}"
        raise validation.RowError(message)
    return Selection(rows, chosen)


def _kinds(row: validation.PublishedRow) -> set[str]:
    if row.command is None:
        return {"machine", row.class_}
    return {"system", row.class_, "collectives" if "nccom-test" in row.command else "planner"}


def run(selection: Selection) -> validation.Compared:
    """Compute; says on a terminal what it is at.

    Raises
    ------
    trn3.validation.RowError
        If a table asks for what does not exist.
    """
    from trn3 import validation
    from trn3.validation import claims

    rows: list[validation.Result] = []
    found: list[claims.Result] = []
    count = len(selection.rows) + len(selection.claims)
    with working("validating") as update:
        for number, row in enumerate(selection.rows):
            update(f"{number + 1}/{count} {row.id}", number, count)
            rows.extend(validation.run([row]))
        for number, claim in enumerate(selection.claims, start=len(rows)):
            update(f"{number + 1}/{count} {claim.id}", number, count)
            found.extend(claims.run([claim]))
    return validation.Compared(rows, found)


def show(comparison: validation.Compared, console: Console) -> None:
    """Print the comparisons and their summaries."""
    of_kernels, of_commands = comparison.parted
    if of_kernels:
        _show_rows(of_kernels, console)
    if of_kernels and (of_commands or comparison.claims):
        console.print()
    if of_commands:
        _show_commands(of_commands, console)
    if of_commands and comparison.claims:
        console.print()
    if comparison.claims:
        _show_claims(comparison.claims, console)


def _show_rows(results: Sequence[validation.Result], console: Console) -> None:
    from trn3 import validation
    from trn3.validation import percent

    numbers = ("predicted", "published", "ratio")
    for level in validation.LEVELS:
        mine = [result for result in results if result.row.level == level]
        if mine:
            console.print(f"{level}:", style="bold")
            console.print(_rows_table(mine, numbers))
    if several := validation.at_several_levels(results):
        rates = ("published", *validation.LEVELS)
        sides = table("predicted / published", *rates, right=rates, fixed=True)
        for levels in several:
            sides.add_row(*validation.ratios(levels))
        console.print(sides)
    for summary in validation.summarise_levels(results):
        console.print(
            f"{'headline, ' if summary.level == 'as-written' else ''}{summary.level}, held back: "
            f"{summary.rows} rows, median error {percent(summary.median)}, rank correlation "
            f"{summary.rank_correlation:.3f}, worst {percent(summary.worst)} ({summary.worst_row})",
            soft_wrap=True,
        )
    if (band := validation.summarise_band(results)) is not None:
        console.print(
            f"bounds: {band.within} of {band.rows} held-back latencies of whole kernels lie "
            f"between latency_low_us and latency_high_us ({percent(band.share)}); outside: "
            f"{', '.join(band.outside) or 'none'}",
            soft_wrap=True,
        )
    _show_summaries(validation.summarise(results), console)


def _show_summaries(summaries: Sequence[validation.ClassSummary], console: Console) -> None:
    from trn3.validation import percent

    for by_class in summaries:
        console.print(
            f"{by_class.class_}: {by_class.rows} rows, median error {percent(by_class.median)}, "
            f"worst {percent(by_class.worst)} ({by_class.worst_row}); explained misses "
            f"{by_class.explained}, worst of the others {percent(by_class.worst_unexplained)}",
            soft_wrap=True,
        )


def _show_commands(results: Sequence[validation.Result], console: Console) -> None:
    from trn3 import validation

    console.print("commands:", style="bold")
    console.print(_rows_table(results, ("predicted", "published", "ratio")))
    for result in results:
        if result.refusal is not None:
            console.print(f"{result.row.id}: refused: {result.refusal}", soft_wrap=True)
    _show_summaries(validation.summarise(results, "group"), console)


def _rows_table(results: Sequence[validation.Result], numbers: Sequence[str]) -> Table:
    from trn3 import validation

    rows = table("row", "hardware", "class", *numbers, "", right=numbers, fixed=True)
    rows.add_column("source")
    for result in results:
        row = result.row
        rows.add_row(
            row.id,
            row.hardware,
            row.class_,
            *validation.numbers(result),
            "" if result.verdict == "within" else result.verdict,
            row.source,
        )
    return rows


def _show_claims(results: Sequence[claims.Result], console: Console) -> None:
    from trn3.validation import claims, percent

    numbers = ("computed", "published", "ratio")
    rows = table("#", "claim", "figure", *numbers, "status", "verdict", "source",
                 right=("#", *numbers))  # fmt: skip
    for column in rows.columns:
        column.no_wrap = column.justify == "right"
    for result in results:
        claim = result.claim
        for entry in result.figures:
            head = "" if claim.number is None else str(claim.number)
            rows.add_row(head, claim.id, *claims.cells(entry))
    console.print(rows)
    for result in results:
        for remark in result.claim.remarks:
            console.print(f"{result.claim.id}: {remark}", style="dim", soft_wrap=True)
    for summary in claims.summarise(results):
        parts = [f"{summary.claims} claims, {summary.figures} figures"]
        counts = (
            ("exact", summary.exact),
            ("refuted", summary.refuted),
            ("explained misses", summary.explained),
            ("misses", summary.misses),
            ("fitted", summary.fitted),
        )
        parts += [f"{count} {what}" for what, count in counts if count]
        if summary.median is not None and summary.worst is not None:
            parts.append(f"median error {percent(summary.median)}")
            parts.append(f"worst {percent(summary.worst)} ({summary.worst_figure})")
        if summary.explained and summary.worst_unexplained is not None:
            parts.append(f"worst of the unexplained {percent(summary.worst_unexplained)}")
        if summary.fitted and summary.held_median is not None:
            parts.append(f"median of those not fitted {percent(summary.held_median)}")
        console.print(f"{summary.status}: {', '.join(parts)}", soft_wrap=True)


def check_document(path: Path) -> None:
    """Check that a document has its marks, before minutes of work.

    Raises
    ------
    RefusedError
        If it has not.
    OSError
        If it cannot be read.
    """
    from trn3.validation import SECTIONS, replace_section

    with refusing(ValueError, naming=path):
        text = path.read_text(encoding="utf-8")
        for marks in SECTIONS.values():
            text = replace_section(text, "", *marks)


def write_document(comparison: validation.Compared, path: Path) -> None:
    """Replace the comparisons in a document.

    Raises
    ------
    ValueError
        If the document has no marks for them.
    OSError
        If it cannot be read or written.
    """
    from trn3 import validation
    from trn3.files import write_bytes
    from trn3.validation import SECTIONS, claims

    text = path.read_text(encoding="utf-8")
    of_kernels, of_commands = comparison.parted
    written = {
        "kernels": validation.markdown(of_kernels, validation.table().absent),
        "commands": validation.command_tables(of_commands),
        "claims": claims.markdown(comparison.claims),
    }
    for name, marks in SECTIONS.items():
        text = validation.replace_section(text, written[name], *marks)
    write_bytes(path, [text.encode()])
