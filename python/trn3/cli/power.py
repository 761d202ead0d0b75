"""``trn3 power``: what a chip or a system draws, and what that rests on."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from trn3.cli.consoles import output, print_json, table
from trn3.cli.refusal import refusing
from trn3.cli.settings import JsonForTables


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
    as_json: JsonForTables = False,
) -> None:
    """Estimate the power of a chip or a system, and say every assumption in it.

    No vendor publishes the power of a Trainium: all parameters are choices, and each TDP that
    sources give has its own line.
    """
    import trn3.economics.power as model

    with refusing(ValueError, OSError):
        found = model.power(
            system, dtype=dtype, utilisation=utilisation, hbm=hbm, link=link * 1e9, tdp=tdp
        )
        readings = None if against is None else model.perf_per_watt(system, against)
    if as_json:
        document: dict[str, Any] = asdict(found)
        if readings is not None:
            document["perf_per_watt"] = asdict(readings)
        print_json(document)
        return
    _show(found, readings)


def _show(found: Any, readings: Any) -> None:
    screen = output()
    count = "" if found.chips == 1 else f", {found.chips} chips"
    screen.print(
        f"[bold]{found.system}[/]{count}: {found.watts:,.0f} W at a TDP of {found.tdp:g} W"
    )
    parts = table("part of one chip", "W", right=("W",))
    for name, watts in found.parts.items():
        parts.add_row(name, f"{watts:,.1f}")
    screen.print(parts)
    numbers = ("TDP", "power", "racks", "each")
    variants = table(*numbers, "cooling", right=numbers)
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
        times = f"x {readings.peer}"
        ratios = table("performance per watt", times, "if", right=(times,))
        for reading in readings:
            ratios.add_row(reading.name, f"{reading.ratio:.2f}", reading.assumption)
        screen.print(ratios)
    for text in found.assumptions:
        screen.print(f"assumed: {text}")
