"""What ``trn3 lint`` does: find what the hardware compiler would refuse in kernels."""

from __future__ import annotations

import linecache
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from trn3.cli.consoles import output, print_json, table
from trn3.cli.settings import Format, JsonForTable, form_of
from trn3.notices import Notice, NoticeReport

if TYPE_CHECKING:
    from trn3.nki.lint import PortabilityFinding

#: A comment that allows a line to break rules.
_ALLOWED: Final = re.compile(r"#\s*trn3:\s*allow\s+([\w, -]+)")

#: An import of NKI, and somewhere behind it a decorator.
_KERNELS: Final = re.compile(r"(?ms)^\s*(?:import|from)\s[^\n]*\bnki\b.*^\s*@[^\n]*\bjit\b")


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def lint(
        kernel: Annotated[
            str, typer.Argument(help="FILE.py for all kernels in it, or FILE.py:KERNEL.")
        ],
        more: Annotated[list[str] | None, typer.Argument(help="And further ones.")] = None,
        as_json: JsonForTable = False,
        form: Format = None,
        skip: Annotated[
            bool,
            typer.Option(
                "--skip-others", help="Pass over files that do not read as having kernels."
            ),
        ] = False,
    ) -> None:
        """Find what the hardware compiler would refuse in NKI kernels that run here.

        The file is imported, no kernel runs. The exit code is 1 if anything was found. What only
        values show is found by running with TRN3_NKI_STRICT=1. A line that is meant to break a rule
        says so: `# trn3: allow TRN3-P025`.
        """
        chosen = form_of(form, as_json=as_json)
        names: list[str] = []
        findings: list[PortabilityFinding] = []
        for target in [kernel, *(more or ())]:
            if not skip or _has_kernels(target):
                own, found = _search(target)
                names, findings = [*names, *own], [*findings, *found]
        allowed = [finding for finding in findings if _is_allowed(finding)]
        refused = [finding for finding in findings if finding not in allowed]
        if chosen == "json":
            document = {
                "kernels": names,
                "findings": [asdict(finding) for finding in refused],
                "allowed": [asdict(finding) for finding in allowed],
            }
            print_json(document)
        elif chosen == "text":
            _show(names, refused, len(allowed))
        else:
            typer.echo(_report(names, refused).written(chosen))
        if refused:
            raise typer.Exit(1)


def _has_kernels(target: str) -> bool:
    """Return whether a file reads as if it had kernels; it is not imported."""
    path = Path(target.partition(".py:")[0] + ".py" if ".py:" in target else target)
    return not path.is_file() or _KERNELS.search(path.read_text(errors="replace")) is not None


def _search(target: str) -> tuple[list[str], list[PortabilityFinding]]:
    """Return the kernels that were searched, and what was found in any of them."""
    from trn3.cli import kernel_file
    from trn3.nki.lint import lint

    with kernel_file.explained(target):
        kernels = kernel_file.load_all(target)
        findings = {finding for kernel in kernels.values() for finding in lint(kernel)}
    return list(kernels), sorted(findings)


def _report(names: list[str], findings: list[PortabilityFinding]) -> NoticeReport:
    from trn3.nki.lint import RULES

    notices = tuple(
        Notice(
            each.severity, each.rule, f"{each.message}; write {each.instead}", each.file, each.line,
            each.column, each.function,
        )
        for each in findings
    )  # fmt: skip
    rules = {rule.id: rule.what for rule in RULES}
    return NoticeReport("trn3 lint", notices, tuple(names), rules, frozenset({"error", "warning"}))


def _is_allowed(finding: PortabilityFinding) -> bool:
    """Return whether a comment in the line says that it is meant."""
    mark = _ALLOWED.search(linecache.getline(finding.file, finding.line))
    return mark is not None and finding.rule in mark[1].replace(",", " ").split()


def _show(names: list[str], findings: list[PortabilityFinding], allowed: int) -> None:
    from trn3.text import printable

    console = output()
    searched = f"{len(names)} kernel{'' if len(names) == 1 else 's'} searched"
    also = f", {allowed} allowed by {'its line' if allowed == 1 else 'their lines'}" * bool(allowed)
    if not findings:
        console.print(f"{searched}: nothing that compilers are known to refuse{also}")
        return
    rows = table("place", "rule", "found", "write instead", pad_edge=False)
    for column in rows.columns:
        column.overflow, column.no_wrap = "fold", column.header == "rule"
    places = [printable(finding.location) for finding in findings]
    if max(map(len, places)) > console.width // 3:
        # Folders fold; what names file and line stays whole.
        places = ["/\n".join(place.rsplit("/", 1)) for place in places]
        rows.columns[0].min_width = max(len(place.rpartition("\n")[2]) for place in places)
    for place, finding in zip(places, findings, strict=True):
        rows.add_row(
            place,
            finding.rule,
            printable(finding.message),
            printable(finding.instead),
            style="yellow" if finding.severity == "warning" else None,
        )
    console.print(rows, markup=False)
    refused = sum(finding.severity == "error" for finding in findings)
    console.print(f"{searched}: {refused} refused, {len(findings) - refused} may be refused{also}")
