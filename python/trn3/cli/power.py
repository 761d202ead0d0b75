"""``trn3 power``: what a chip or a system draws, and what that rests on."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from trn3.cli.refusal import RefusedError


def register(app: typer.Typer) -> None:
    """Add the subcommand to the ``trn3`` command."""
    app.command()(power)


def power(
    system: Annotated[
        str, typer.Argument(help="A chip or a system of chips: trainium3, trn3_gen2, gen2, ...")
    ] = "trainium3",
    dtype: Annotated[str, typer.Option(help="Type of the arithmetic.")] = "mxfp8",
    utilisation: Annotated[float, typer.Option(help="Share of the arithmetic peak, 0 to 1.")] = 1.0,
    hbm: Annotated[float, typer.Option(help="Share of the HBM rate, 0 to 1.")] = 1.0,
    link: Annotated[float, typer.Option(help="GB/s that each chip sends over its links.")] = 0.0,
    tdp: Annotated[
        float | None,
        typer.Option(
            help="TDP of a chip in W.  [default: the facts' choice; others are shown too]"
        ),
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="Compare performance per watt with this chip.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON for machines instead of tables.")
    ] = False,
) -> None:
    """Estimate the power of a chip or a system, and say every assumption in it.

    No vendor publishes the power of a Trainium: all parameters are choices, and each TDP that
    sources give has its own line.
    """
    import trn3.economics.power as model

    try:
        found = model.power(
            system, dtype=dtype, utilisation=utilisation, hbm=hbm, link=link * 1e9, tdp=tdp
        )
        readings = None if against is None else model.perf_per_watt(found.chip, against)
    except ValueError as error:
        raise RefusedError(str(error)) from error
    if as_json:
        document: dict[str, Any] = asdict(found)
        if readings is not None:
            document["perf_per_watt"] = asdict(readings)
        typer.echo(json.dumps(document, indent=2, allow_nan=False))
        return
    _show(found, readings)


def _show(found: Any, readings: Any) -> None:
    from rich.table import Table

    from trn3.cli.consoles import output

    screen = output()
    count = "" if found.chips == 1 else f", {found.chips} chips"
    screen.print(
        f"[bold]{found.system}[/]{count}: {found.watts:,.0f} W at a TDP of {found.tdp:g} W"
    )
    parts = Table(box=None, header_style="bold")
    parts.add_column("part of one chip")
    parts.add_column("W", justify="right")
    for name, watts in found.parts.items():
        parts.add_row(name, f"{watts:,.1f}")
    screen.print(parts)
    variants = Table(box=None, header_style="bold")
    for heading in ("TDP", "power", "racks", "each", "cooling"):
        variants.add_column(heading, justify="right" if heading != "cooling" else "left")
    racks = {rack.tdp: rack for rack in found.racks}
    for tdp, watts in found.variants.items():
        rack = racks.get(tdp)
        cells = ("", "", "")
        if rack is not None:
            said = f" (sources: {rack.published_cooling})" if rack.published_cooling else ""
            cells = (
                str(rack.racks),
                f"{rack.watts_per_rack / 1e3:g} kW",
                f"{rack.cooling}{said}",
            )
        variants.add_row(f"{tdp:g} W", f"{watts:,.0f} W", *cells)
    screen.print(variants)
    if readings is not None:
        table = Table(box=None, header_style="bold")
        table.add_column("performance per watt")
        table.add_column(f"x {readings.peer}", justify="right")
        table.add_column("if")
        for reading in readings:
            table.add_row(reading.name, f"{reading.ratio:.2f}", reading.assumption)
        screen.print(table)
    for text in found.assumptions:
        screen.print(f"assumed: {text}")
