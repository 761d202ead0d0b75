"""What ``trn3 validate`` does: compute again what was published, and compare."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trn3.cli.consoles import output, print_json, table
from trn3.cli.refusal import RefusedError, refusing
from trn3.cli.settings import JsonForTable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from trn3 import validation
    from trn3.validation import claims
    from trn3.validation.claims import FigureResult


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


@dataclass(frozen=True)
class Selection:
    """What to compare: measurements of kernels, and claims about systems."""

    rows: tuple[validation.Row, ...]
    claims: tuple[claims.Claim, ...]


@dataclass(frozen=True)
class Compared:
    """What came out."""

    rows: list[validation.Result]
    claims: list[claims.Result]

    @property
    def has_miss(self) -> bool:
        """Whether something is off and nothing says why."""
        rows = any(result.verdict == "miss" for result in self.rows)
        return rows or any(result.is_miss for result in self.claims)


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
        as_json: JsonForTable = False,
        write: Annotated[
            Path | None,
            typer.Option(
                help="Replace the comparison in this document: docs/explanation/validation.md."
            ),
        ] = None,
    ) -> None:
        """Compute again every published measurement and claim that can be, and compare.

        Measurements of kernels are marked fit where constants of the model were read off them, and
        hold where not, and by whose text ran: as-written, the authors' own, of which the headline
        figures are; rebuilt kernels do by hand what a compiler did. Claims about systems are exact
        arithmetic, a model, need an assumption that is printed, or are not derivable. The exit code
        is 1 if something is off by more than its tolerance and nothing says why.
        """
        from rich.console import Console

        from trn3.cli.silicon import show_register
        from trn3.validation import RowError

        if silicon:
            if rows or only or write:
                message = "--silicon shows the register; leave names, --only and --write out"
                raise RefusedError(message)
            if not show_register(as_json=as_json):
                raise typer.Exit(1)
            return
        if write is not None and (rows or only):
            message = "--write takes all rows; leave the names and --only out"
            raise RefusedError(message)
        with refusing(RowError):
            if write is not None:
                check_document(write)
            comparison = run(select(rows or [], only or []), Console(stderr=True))
        if write is not None:
            write_document(comparison, write)
        if as_json:
            print_json(plain(comparison), versioned=True)
        else:
            show(comparison, output())
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

    all_rows, all_claims = validation.table().rows, claims.table()
    of_rows = [name for name in names if any(validation.fits(row, name) for row in all_rows)]
    of_claims = [name for name in names if any(claims.fits(claim, name) for claim in all_claims)]
    for name in names:
        if name not in of_rows and name not in of_claims:
            message = (
                f"no row is called {name}; rows: {', '.join(row.id for row in all_rows)}; "
                f"claims: {', '.join(claim.id for claim in all_claims)}"
            )
            raise validation.RowError(message)
    rows = validation.select(of_rows) if of_rows or not names else ()
    chosen = claims.select(of_claims) if of_claims or not names else ()
    if only:
        kinds = {kind.value for kind in only}
        rows = tuple(row for row in rows if kinds & {"machine", row.class_})
        chosen = tuple(c for c in chosen if kinds & {"system", c.status, c.area})
    if not rows and not chosen:
        message = f"--only {', '.join(only)} leaves nothing of {', '.join(names)}"
        raise validation.RowError(message)
    return Selection(rows, chosen)


def run(selection: Selection, console: Console) -> Compared:
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
    with console.status("") as status:
        for number, row in enumerate(selection.rows, start=1):
            status.update(f"{number}/{count} {row.id}")
            rows.extend(validation.run([row]))
        for number, claim in enumerate(selection.claims, start=1 + len(rows)):
            status.update(f"{number}/{count} {claim.id}")
            found.extend(claims.run([claim]))
    return Compared(rows, found)


def show(comparison: Compared, console: Console) -> None:
    """Print the comparisons and their summaries."""
    if comparison.rows:
        _show_rows(comparison.rows, console)
    if comparison.rows and comparison.claims:
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
    for by_class in validation.summarise(results):
        console.print(
            f"{by_class.class_}: {by_class.rows} rows, median error {percent(by_class.median)}, "
            f"worst {percent(by_class.worst)} ({by_class.worst_row}); explained misses "
            f"{by_class.explained}, worst of the others {percent(by_class.worst_unexplained)}",
            soft_wrap=True,
        )


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
            f"{validation.figure(result.predicted)} {row.unit}",
            f"{validation.figure(row.published)} {row.unit}",
            f"{result.ratio:.3f}",
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


def plain(comparison: Compared) -> dict[str, Any]:
    """Return the comparison for machines: one list of rows, of which `kind` says what they are."""
    from trn3 import validation
    from trn3.validation import claims

    rows: list[dict[str, Any]] = [
        {
            "kind": "measurement",
            "id": result.row.id,
            "hardware": result.row.hardware,
            "what": result.row.what,
            "class": result.row.class_,
            "level": result.row.level,
            "measurement": result.row.measurement,
            "status": "model",
            "unit": result.row.unit,
            "predicted": result.predicted,
            "computed": result.predicted,
            "published": result.row.published,
            "ratio": result.ratio,
            "low": None if result.band is None else result.band[0],
            "high": None if result.band is None else result.band[1],
            "tolerance": result.row.tolerance,
            "verdict": result.verdict,
            "reason": result.row.miss if result.verdict != "within" else None,
            "source": result.row.source,
        }
        for result in comparison.rows
    ]
    rows += [_figure(figure) for result in comparison.claims for figure in result.figures]
    summaries: list[dict[str, Any]] = [
        {key.rstrip("_"): value for key, value in asdict(summary).items()}
        for summary in validation.summarise(comparison.rows)
    ]
    summaries += [asdict(summary) for summary in claims.summarise(comparison.claims)]
    levels = [
        {**asdict(summary), "rank_correlation": finite(summary.rank_correlation)}
        for summary in validation.summarise_levels(comparison.rows)
    ]
    band = validation.summarise_band(comparison.rows)
    bounds = None if band is None else {**asdict(band), "share": band.share}
    return {"rows": rows, "summary": summaries, "levels": levels, "band": bounds}


def finite(value: float) -> float | None:
    """Return a number, or None for what JSON cannot write."""
    return value if math.isfinite(value) else None


def _figure(entry: FigureResult) -> dict[str, Any]:
    from trn3.validation import claims

    claim = entry.claim
    return {
        "kind": "claim",
        "id": claim.id,
        "number": claim.number,
        "what": claim.claim,
        "figure": entry.name,
        "class": claim.area,
        "status": claims.STATUS_TEXTS[claim.status],
        "unit": entry.figure.unit,
        "predicted": entry.computed,
        "computed": entry.computed,
        "published": entry.published,
        "printed": entry.figure.published,
        "ratio": entry.ratio,
        "tolerance": entry.figure.tolerance,
        "fitted": entry.figure.is_fitted,
        "verdict": entry.verdict,
        "reason": entry.figure.miss if entry.verdict == "explained miss" else claim.refuted,
        "remarks": list(claim.remarks),
        "source": entry.figure.source or claim.source,
    }


def check_document(path: Path) -> None:
    """Check that a document has its marks, before minutes of work.

    Raises
    ------
    RefusedError
        If it has not.
    OSError
        If it cannot be read.
    """
    from trn3.validation import CLAIMS_BEGIN, CLAIMS_END, replace_section

    with refusing(ValueError, naming=path):
        text = replace_section(path.read_text(encoding="utf-8"), "")
        replace_section(text, "", CLAIMS_BEGIN, CLAIMS_END)


def write_document(comparison: Compared, path: Path) -> None:
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
    from trn3.validation import CLAIMS_BEGIN, CLAIMS_END, claims

    text = path.read_text(encoding="utf-8")
    section = validation.markdown(comparison.rows, validation.table().absent)
    text = validation.replace_section(text, section)
    section = claims.markdown(comparison.claims)
    text = validation.replace_section(text, section, CLAIMS_BEGIN, CLAIMS_END)
    write_bytes(path, [text.encode()])
