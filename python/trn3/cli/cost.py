"""``trn3 tco`` and ``trn3 cost``: what owning and renting cost, from prices that are given."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from trn3.cli.consoles import output, print_json, table
from trn3.cli.refusal import RefusedError, refusing
from trn3.cli.settings import JsonForTables

PriceSource = Annotated[
    str | None,
    typer.Option(help="A set of dated prices, or a .toml file; names of it may stand for numbers."),
]
Tokens = Annotated[
    float | None, typer.Option(help="Tokens a second, of the whole, while it works.")
]
System = Annotated[str | None, typer.Option(help="Take the 8-bit peak of this chip or system.")]
Pflops = Annotated[float | None, typer.Option(help="Peak of the whole in PFLOPS.")]


def register(app: typer.Typer) -> None:
    """Add the subcommands to the ``trn3`` command."""
    app.command()(tco)
    app.command()(cost)


def tco(
    capex: Annotated[str, typer.Option(help="Price of the whole in USD, or a name of --prices.")],
    years: Annotated[float, typer.Option(help="Years of use.")],
    kw: Annotated[float, typer.Option("--kw", help="Average power of the equipment in kW.")],
    pue: Annotated[float, typer.Option(help="Power of the building over that of equipment.")],
    price_kwh: Annotated[str, typer.Option(help="USD a kWh, or a name of --prices.")],
    utilisation: Annotated[float, typer.Option(help="Share of the hours in which it works.")],
    pflops: Pflops = None,
    system: System = None,
    tokens_per_second: Tokens = None,
    prices: PriceSource = None,
    as_json: JsonForTables = False,
) -> None:
    """Cost of owning a system: an hour, a PFLOP-hour, a million tokens.

    Nothing has a default: prices differ, and a price that nobody named is not an answer.
    """
    import trn3.economics.cost as model

    with refusing(ValueError):
        found = model.tco(
            capex=_price("--capex", capex, prices),
            years=years,
            kW=kw,
            pue=pue,
            price_kwh=_price("--price-kwh", price_kwh, prices),
            utilisation=utilisation,
            pflops=pflops,
            system=system,
            tokens_per_second=tokens_per_second,
        )
    _print(found, as_json=as_json)


def cost(
    price: Annotated[
        str | None, typer.Option(help="USD a chip and hour, or a name of --prices.")
    ] = None,
    chips: Annotated[int, typer.Option(min=1, help="Chips that are rented.")] = 1,
    utilisation: Annotated[
        float, typer.Option(help="Share of the hours in which they work.")
    ] = 1.0,
    pflops: Pflops = None,
    system: System = None,
    tokens_per_second: Tokens = None,
    prices: PriceSource = None,
    claim: Annotated[
        float | None,
        typer.Option(help="Instead: solve this claim of better cost per PFLOPS, like 0.30."),
    ] = None,
    as_json: JsonForTables = False,
) -> None:
    """Cost of rented chips at a price; without one, the dated prices that can be chosen.

    With --claim, the purchase price of a Trn3 Gen2 UltraServer, as a share of a GB300 NVL72's, that
    makes a claim true.
    """
    import trn3.economics.cost as model

    if claim is not None and price is not None:
        message = "--claim and --price answer different questions; give one of them"
        raise RefusedError(message)
    with refusing(ValueError):
        if claim is not None:
            _print(model.implied_capex(claim), as_json=as_json)
        elif price is not None:
            rented = model.rental(
                _price("--price", price, prices),
                chips,
                utilisation,
                pflops=pflops,
                system=system,
                tokens_per_second=tokens_per_second,
            )
            _print(rented, as_json=as_json)
        else:
            names = model.price_sets() if prices is None else [prices]
            _list({name: model.prices(name) for name in names}, as_json)


def _price(option: str, text: str, source: str | None) -> Any:
    import trn3.economics.cost as model

    try:
        return float(text)
    except ValueError:
        pass
    if source is None:
        sets = ", ".join(model.price_sets())
        message = f"{option} is {text!r}: a number is needed, or --prices with its name ({sets})"
        raise RefusedError(message)
    with refusing(ValueError):
        found = model.prices(source)
    if text not in found:
        message = f"{option}: {source} has no price {text!r}; it has {', '.join(found)}"
        raise RefusedError(message)
    return found[text]


def _print(found: Any, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(found))
    else:
        output().print(str(found))


def _list(sets: dict[str, dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json({name: list(map(asdict, found.values())) for name, found in sets.items()})
        return
    headings = ("price", "value", "unit", "date", "source")
    for name, found in sets.items():
        rows = table(*headings, right=("value",), title=name, title_justify="left")
        for price in found.values():
            rows.add_row(price.name, f"{price.value:g}", price.unit, price.date, price.source)
        output().print(rows)
