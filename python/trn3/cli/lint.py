"""What ``trn3 lint`` does: find what the hardware compiler would refuse in kernels."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from trn3.cli.consoles import output, print_json, table
from trn3.cli.settings import JsonForTable

if TYPE_CHECKING:
    from trn3.nki.lint import PortabilityFinding


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def lint(
        kernel: Annotated[
            str, typer.Argument(help="FILE.py for all kernels in it, or FILE.py:KERNEL.")
        ],
        as_json: JsonForTable = False,
    ) -> None:
        """Find what the hardware compiler would refuse in NKI kernels that run here.

        The file is imported, no kernel runs. The exit code is 1 if anything was found. What only
        values show is found by running with TRN3_NKI_STRICT=1.
        """
        names, findings = _search(kernel)
        if as_json:
            document = {"kernels": names, "findings": [asdict(finding) for finding in findings]}
            print_json(document)
        else:
            _show(names, findings)
        if findings:
            raise typer.Exit(1)


def _search(target: str) -> tuple[list[str], list[PortabilityFinding]]:
    """Return the kernels that were searched, and what was found in any of them."""
    from trn3.cli import kernel_file
    from trn3.nki.lint import lint

    with kernel_file.explained(target):
        kernels = kernel_file.load_all(target)
        findings = {finding for kernel in kernels.values() for finding in lint(kernel)}
    return list(kernels), sorted(findings)


def _show(names: list[str], findings: list[PortabilityFinding]) -> None:
    from trn3.text import printable

    console = output()
    searched = f"{len(names)} kernel{'' if len(names) == 1 else 's'} searched"
    if not findings:
        console.print(f"{searched}: nothing that compilers are known to refuse")
        return
    rows = table("place", "rule", "found", "write instead", pad_edge=False)
    for column in rows.columns:
        column.overflow, column.no_wrap = "fold", column.header == "rule"
    for finding in findings:
        rows.add_row(
            printable(finding.location),
            finding.rule,
            printable(finding.message),
            printable(finding.instead),
            style="yellow" if finding.severity == "warning" else None,
        )
    console.print(rows, markup=False)
    refused = sum(finding.severity == "error" for finding in findings)
    console.print(f"{searched}: {refused} refused, {len(findings) - refused} may be refused")
