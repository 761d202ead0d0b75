"""What ``trn3 spec`` does: a system's figures with formulas, sources and conflicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from trn3.cli.consoles import output, print_json, table
from trn3.cli.refusal import refusing
from trn3.cli.settings import JsonForTable

if TYPE_CHECKING:
    from rich.console import Console

    from trn3.facts import Quantity
    from trn3.facts.spec import Spec

SPREAD_STYLE = "yellow"
#: Narrower terminals have units beside values, and what is published beside how it comes about.
_ROOM = 110


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
        as_json: JsonForTable = False,
    ) -> None:
        """Show a system's figures: computed from its parts, beside what is published.

        Where sources disagree, the range of what they say is shown, and with --sources why one is
        used.
        """
        console = output()
        if system is None:
            _list(console, as_json=as_json)
            return
        from trn3.facts.spec import spec_of

        with refusing(ValueError, OSError):
            figures = spec_of(system)
        if as_json:
            from trn3.facts.spec import as_json as plain

            print_json(plain(figures), versioned=True)
        else:
            _show(figures, console, sources=sources)


def _list(console: Console, *, as_json: bool) -> None:
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
        print_json({"systems": entries})
        return
    headings = ("system", "kind", "title", "figures", "in conflict", "also called")
    rows = table(*headings, right=("figures", "in conflict"))
    for system in systems:
        conflicts = sum(quantity.conflict for quantity in system.values())
        rows.add_row(
            system.name,
            system.kind,
            system.title,
            str(len(system)),
            str(conflicts or ""),
            ", ".join(others.get(system.name, ())),
        )
    console.print(rows)


def _show(figures: Spec, console: Console, *, sources: bool) -> None:
    from trn3.facts import shown
    from trn3.text import printable

    facts = figures.facts
    console.print(f"[bold]{printable(facts.title)}[/bold] ({facts.name}, {facts.kind})")
    for role, part in figures.parts.items():
        if role in {"core", "chip", "server"}:
            console.print(f"{role}: {part.facts.title} (trn3 spec {part.facts.name})")
    is_narrow = console.width < _ROOM
    headings = ["figure", "value", "unit", "status", "published", "how"]
    if is_narrow:
        headings = ["figure", "value", "status", "how"]
    rows = table(*headings, right=() if is_narrow else ("value",), pad_edge=False)
    rows.columns[0].no_wrap = True
    for key, quantity in figures.items():
        value, published = printable(shown(quantity.value)), printable(_published(quantity))
        how = printable(quantity.formula or "")
        cells = [key, value, quantity.unit, quantity.status, published, how]
        if is_narrow:
            said = "; ".join(filter(None, [f"published: {published}" * bool(published), how]))
            cells = [key, f"{value} {quantity.unit or ''}".strip(), quantity.status, said]
        style = SPREAD_STYLE if quantity.status == "conflicting" else None
        rows.add_row(*cells, style=style)
        if sources:
            for line in _sources(quantity):
                rows.add_row(*[""] * (len(cells) - 1), printable(line), style="dim")
    console.print(rows)


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
