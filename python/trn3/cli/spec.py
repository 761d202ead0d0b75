"""What ``trn3 spec`` does: a system's figures with formulas, sources and conflicts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from trn3.cli.refusal import RefusedError

if TYPE_CHECKING:
    from rich.console import Console

    from trn3.facts import Quantity
    from trn3.facts.spec import Spec

SPREAD_STYLE = "yellow"


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def spec(
        system: Annotated[
            str | None,
            typer.Argument(help="trainium3, gen2, b300, ... or a .toml file.  [default: list all]"),
        ] = None,
        sources: Annotated[
            bool, typer.Option("--sources", help="Show every source and why one is used.")
        ] = False,
        as_json: Annotated[
            bool, typer.Option("--json", help="Print JSON for machines instead of a table.")
        ] = False,
    ) -> None:
        """Show a system's figures: computed from its parts, beside what is published.

        Where sources disagree, the range of what they say is shown, and with --sources why one is
        used.
        """
        from trn3.cli.consoles import output

        console = output()
        if system is None:
            _list(console, as_json=as_json)
            return
        figures = _spec_of(system)
        if as_json:
            import trn3
            from trn3.facts.spec import as_json as plain

            document = {"trn3_version": trn3.__version__, **plain(figures)}
            typer.echo(json.dumps(document, indent=2, allow_nan=False))
        else:
            _show(figures, console, sources=sources)


def _spec_of(system: str) -> Spec:
    from trn3.facts.spec import spec_of

    try:
        return spec_of(system)
    except (ValueError, OSError) as error:
        raise RefusedError(str(error)) from error


def _list(console: Console, *, as_json: bool) -> None:
    from rich.table import Table

    from trn3 import facts

    others: dict[str, list[str]] = {}
    for alias, name in facts.aliases().items():
        others.setdefault(name, []).append(alias)
    systems = [facts.load(name) for name in facts.names()]
    if as_json:
        entries = [
            {
                "name": system.name,
                "title": system.title,
                "kind": system.kind,
                "aliases": others.get(system.name, []),
                "quantities": len(system),
            }
            for system in systems
        ]
        typer.echo(json.dumps({"systems": entries}, indent=2))
        return
    table = Table(box=None, header_style="bold")
    for heading in ("system", "kind", "title", "figures", "in conflict", "also called"):
        right = heading in {"figures", "in conflict"}
        table.add_column(heading, justify="right" if right else "left")
    for system in systems:
        conflicts = sum(quantity.conflict for quantity in system.values())
        table.add_row(
            system.name,
            system.kind,
            system.title,
            str(len(system)),
            str(conflicts or ""),
            ", ".join(others.get(system.name, ())),
        )
    console.print(table)


def _show(figures: Spec, console: Console, *, sources: bool) -> None:
    from rich.table import Table

    from trn3.text import printable

    facts = figures.facts
    console.print(f"[bold]{printable(facts.title)}[/bold] ({facts.name}, {facts.kind})")
    for role, part in figures.parts.items():
        if role in {"core", "chip", "server"}:
            console.print(f"{role}: {part.facts.title} (trn3 spec {part.facts.name})")
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("figure", no_wrap=True)
    table.add_column("value", justify="right")
    for heading in ("unit", "status", "published", "how"):
        table.add_column(heading)
    for key, quantity in figures.items():
        table.add_row(
            key,
            printable(_value(quantity)),
            quantity.unit,
            quantity.status,
            printable(_published(quantity)),
            printable(quantity.formula or ""),
            style=SPREAD_STYLE if quantity.status == "conflicting" else None,
        )
        if sources:
            for line in _sources(quantity):
                table.add_row("", "", "", "", "", printable(line), style="dim")
    console.print(table)


def _value(quantity: Quantity) -> str:
    from trn3.facts import shown

    return shown(quantity.value)


def _published(quantity: Quantity) -> str:
    from trn3.facts import shown

    if quantity.range is not None and quantity.status == "conflicting":
        least, most = quantity.range
        return f"{shown(least)} to {shown(most)}"
    if quantity.published is not None:
        return shown(quantity.published)
    return ""


def _sources(quantity: Quantity) -> list[str]:
    from trn3.facts import shown

    lines = [
        f"{shown(source.value)}{'' if source.unit is None else ' ' + source.unit}: {source.source}"
        for source in quantity.sources
    ]
    if quantity.status == "conflicting":
        is_computed = quantity.formula is not None and quantity.computed is None
        lines.append(f"used: {quantity}, {'computed' if is_computed else 'as published'}")
    if quantity.why is not None:
        lines.append(f"why: {quantity.why}")
    if quantity.note is not None:
        lines.append(f"note: {quantity.note}")
    return lines
