"""``trn3 plan --ops``: every operator of a forward pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from trn3.cli.consoles import output, print_json
from trn3.cli.refusal import RefusedError, refusing
from trn3.text import printable


def run(
    model: str,
    system: Any,
    refused: list[str],
    *,
    as_json: bool,
    html: Path | None = None,
    **options: Any,
) -> None:
    """Print the table of operators; `refused` names options of plans that were given."""
    if refused:
        message = f"{refused[0]} has no meaning with --ops"
        raise RefusedError(message)
    import trn3

    with refusing(ValueError, TypeError, OSError):
        found = trn3.operators(model, system, **options)
    if html is not None:
        found.to_html(html)
    if as_json:
        print_json(found.to_dict(), versioned=True)
        return
    console, result = output(), found.to_dict()
    count = f"{found.model.parameters / 1e9:,.3g} B parameters"
    where = f"{result['chips']:,} x {result['chip']}, batch {result['batch']:,}"
    console.print(printable(f"{found.model.name}: {count}, on {where}"), style="bold")
    for line in str(found).splitlines():
        console.print(printable(line), markup=False, highlight=False, soft_wrap=True)
    console.print("Assumed:", style="bold")
    for text in found.assumptions:
        console.print(f"  {printable(text)}", style="dim", soft_wrap=True)
    if html is not None:
        typer.echo(f"wrote {html}")
