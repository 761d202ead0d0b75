"""Cost of owning and of renting, from prices that the caller names.

There is no default price. `prices` gives sets of public prices, each with its date and source, to
choose from by name; whatever was not given is listed in `SystemCost.not_included`.

Examples
--------
>>> import trn3
>>> owned = trn3.tco(
...     capex=3_000_000,
...     years=4,
...     kW=180,
...     pue=1.15,
...     price_kwh=0.07,
...     utilisation=0.6,
...     system="trn3_gen2",
... )
>>> round(owned.per_hour, 2), round(owned.per_pflop_hour, 4)
(100.11, 0.4603)
>>> owned.per_million_tokens is None, owned.not_included[-1]
(True, 'cost of a million tokens (tokens_per_second not given)')
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trn3 import facts
from trn3._trn3 import system as _core
from trn3.files import read_text
from trn3.typed import typed

__all__ = [
    "Cost",
    "Implied",
    "ImpliedCapex",
    "Price",
    "SystemCost",
    "implied_capex",
    "price_sets",
    "prices",
    "rental",
    "tco",
]


@dataclass(frozen=True, slots=True)
class Price:
    """A price that someone named in public: its unit, when it was said or read, and by whom."""

    name: str
    value: float
    unit: str
    date: str
    source: str

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return f"{self.name} = {self.value:g} {self.unit} ({self.date}; {self.source})"


@dataclass(frozen=True, slots=True)
class SystemCost:
    """What something costs, in US dollars.

    Attributes
    ----------
    total : float
        Over all years; for rented chips, over one hour.
    capital, electricity : float
        The shares of `total` that bought equipment and electricity.
    per_hour : float
        Of the whole, used or not.
    per_pflop_hour : float or None
        For an hour of one PFLOPS at the peak that was given.
    per_million_tokens : float or None
        At the rate that was given.
    inputs : Mapping[str, Price or float]
        What the figures were made from.
    not_included : tuple[str, ...]
        What is not in them.
    assumptions : tuple[str, ...]
        What they rest on.
    """

    total: float
    capital: float
    electricity: float
    per_hour: float
    per_pflop_hour: float | None
    per_million_tokens: float | None
    inputs: Mapping[str, Price | float]
    not_included: tuple[str, ...]
    assumptions: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{self.per_hour:,.4g} USD/h"]
        if self.per_pflop_hour is not None:
            lines.append(f"{self.per_pflop_hour:,.4g} USD for a PFLOP-hour")
        if self.per_million_tokens is not None:
            lines.append(f"{self.per_million_tokens:,.4g} USD for a million tokens")
        lines += [f"given: {_said(name, value)}" for name, value in self.inputs.items()]
        lines += [f"not included: {text}" for text in self.not_included]
        return "\n".join([*lines, *(f"assumed: {text}" for text in self.assumptions)])


#: What `SystemCost` was called in 0.1.0.
Cost = SystemCost


@dataclass(frozen=True, slots=True)
class Implied:
    """The highest purchase price in one reading of a claim: over the peer's, and in US dollars."""

    reading: str
    ratio: float
    capex: float | None
    assumptions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ImpliedCapex:
    """What a system may cost if a claim against a peer holds.

    Attributes
    ----------
    claim : float
        The advantage that is claimed, as a share.
    system, peer : str
        Whose.
    per_dollar : Implied
        Read as that much more performance for a dollar.
    per_performance : Implied
        Read as that much less cost for the same performance.
    assumptions : tuple[str, ...]
        What both rest on.
    """

    claim: float
    system: str
    peer: str
    per_dollar: Implied
    per_performance: Implied
    assumptions: tuple[str, ...]

    @property
    def ratio(self) -> float:
        """Highest price over the peer's, read as more performance for a dollar."""
        return self.per_dollar.ratio

    @property
    def ratios(self) -> tuple[float, float]:
        """The ratio in both readings."""
        return self.per_dollar.ratio, self.per_performance.ratio

    @property
    def capex(self) -> float | None:
        """Highest price in US dollars in the first reading; None without the peer's price."""
        return self.per_dollar.capex

    def __float__(self) -> float:
        return self.ratio

    def __str__(self) -> str:
        lines = [f"{self.system} against {self.peer}, claim {self.claim:.0%}"]
        for implied in (self.per_dollar, self.per_performance):
            price = "" if implied.capex is None else f", {implied.capex:,.0f} USD"
            lines.append(f"{implied.ratio:.2f}x the price{price}: {implied.reading}")
        return "\n".join([*lines, *(f"assumed: {text}" for text in self.assumptions)])


def price_sets() -> list[str]:
    """Return the names of the price sets that come with the package."""
    return _core.price_sets()


def prices(source: str | os.PathLike[str]) -> dict[str, Price]:
    """Return a set of dated prices.

    Parameters
    ----------
    source : str or path
        Name of a set of the package (see `price_sets`), or a ``.toml`` file with one set in the
        same form.

    Raises
    ------
    ValueError
        If there is no such set, or the file holds none, several, or a price without its date.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> from trn3 import cost
    >>> print(cost.prices("facts-2026-08")["h100_hour"])
    h100_hour = 3 USD/chip/h (2026-08; press (an investor deep dive))
    """
    text = os.fspath(source)
    if text.endswith(".toml"):
        found = _core.parse_prices(text, read_text(text, "spec file"))
        if len(found) != 1:
            names = ", ".join(entry["name"] for entry in found)
            message = f"{text} holds {len(found)} sets of prices ({names}); needed: one"
            raise ValueError(message)
        chosen = found[0]
    else:
        chosen = _core.built_in_prices(text)
    return {entry["name"]: Price(**entry) for entry in chosen["prices"]}


def tco(
    capex: float | Price,
    years: float,
    kW: float,  # noqa: N803 - the unit's own spelling
    pue: float,
    price_kwh: float | Price,
    utilisation: float,
    *,
    pflops: float | None = None,
    system: str | None = None,
    tokens_per_second: float | None = None,
) -> SystemCost:
    """Cost of owning a system. Nothing has a default: what is unknown has to be decided.

    Parameters
    ----------
    capex : float or Price
        Price of the whole, US dollars.
    years : float
        Of use; written off evenly.
    kW : float
        Average power of the equipment.
    pue : float
        Power of the building over power of the equipment, at least 1.
    price_kwh : float or Price
        US dollars a kilowatt-hour.
    utilisation : float
        Share of the hours in which the system works, above 0 and at most 1.
    pflops : float, optional
        Peak of the whole, for the cost of a PFLOP-hour.
    system : str, optional
        Instead of `pflops`: a chip or system, whose published 8-bit peak is used.
    tokens_per_second : float, optional
        Of the whole while it works, for the cost of a million tokens.

    Returns
    -------
    Cost

    Raises
    ------
    ValueError
        If an input is negative, not finite or out of its range, a price has the wrong unit, or
        both `pflops` and `system` are given.

    Examples
    --------
    >>> import trn3
    >>> owned = trn3.tco(
    ...     876_000, years=1, kW=100, pue=1.2, price_kwh=0.1, utilisation=0.5, pflops=112
    ... )
    >>> owned.per_hour, owned.per_pflop_hour
    (112.0, 2.0)
    """
    ownership = {
        "capex": _amount("capex", capex, "USD"),
        "years": years,
        "kilowatts": kW,
        "pue": pue,
        "price_kwh": _amount("price_kwh", price_kwh, "USD/kWh"),
        "utilisation": utilisation,
    }
    peak = _peak(pflops, system)
    # Python's json writes NaN and infinities as no other reader takes them.
    for name, value in ownership.items():
        _check_finite("kW" if name == "kilowatts" else name, value)
    return cost_of(
        _core.cost_own(ownership, peak, tokens_per_second),
        capex=capex,
        years=years,
        kW=kW,
        pue=pue,
        price_kwh=price_kwh,
        utilisation=utilisation,
        pflops=peak,
        tokens_per_second=tokens_per_second,
    )


def rental(
    price: float | Price,
    chips: int,
    utilisation: float,
    *,
    pflops: float | None = None,
    system: str | None = None,
    tokens_per_second: float | None = None,
) -> SystemCost:
    """Cost of renting chips at a price for a chip and hour.

    Parameters
    ----------
    price : float or Price
        US dollars a chip and hour.
    chips : int
        How many.
    utilisation : float
        Share of the paid hours in which they work.
    pflops, system, tokens_per_second
        As for `tco`; of all chips together.

    Returns
    -------
    Cost

    Raises
    ------
    ValueError
        As `tco`.

    Examples
    --------
    >>> from trn3 import cost
    >>> contract = cost.prices("facts-2026-08")["trainium_hour_contract"]
    >>> cost.rental(contract, chips=2, utilisation=0.5, tokens_per_second=1000).per_million_tokens
    0.5555555555555556
    """
    rate = _amount("price", price, "USD/chip/h")
    if chips < 1:
        message = f"chips is {chips}; it must be at least 1"
        raise ValueError(message)
    peak = _peak(pflops, system)
    return cost_of(
        _core.cost_rent(rate, chips, utilisation, peak, tokens_per_second),
        price=price,
        chips=chips,
        utilisation=utilisation,
        pflops=peak,
        tokens_per_second=tokens_per_second,
    )


def implied_capex(
    claim: float = 0.30,
    *,
    system: str = "trn3_gen2",
    peer: str = "gb300_nvl72",
    peer_capex: float | Price | None = None,
    running: Mapping[str, float] | None = None,
) -> ImpliedCapex:
    """Solve a claim of better cost per PFLOPS for the purchase price that makes it true.

    Parameters
    ----------
    claim : float
        The advantage, as a share; 0.30 is what sources say of a Trn3 UltraServer against a GB300
        NVL72 on 8-bit peaks.
    system, peer : str
        Whose published 8-bit peaks are compared.
    peer_capex : float or Price, optional
        What the peer costs, US dollars; without it the result is a ratio alone.
    running : Mapping[str, float], optional
        ``years``, ``kilowatts``, ``peer_kilowatts``, ``pue``, ``price_kwh``: makes the claim one
        about purchase and electricity together. Needs `peer_capex`.

    Returns
    -------
    ImpliedCapex

    Raises
    ------
    ValueError
        If the claim is not above 0 and below 1, an input is missing or negative, or no price makes
        the claim true.

    Examples
    --------
    >>> import trn3
    >>> [round(ratio, 2) for ratio in trn3.implied_capex(claim=0.30).ratios]
    [0.77, 0.7]
    """
    capex = None if peer_capex is None else _amount("peer_capex", peer_capex, "USD")
    for name, value in (running or {}).items():
        _check_finite(name, value)
    first, second = _core.published_pflops(system), _core.published_pflops(peer)
    given = None if running is None else dict(running)
    readings = _core.cost_implied(claim, first, second, capex, given)
    per_dollar, per_performance = (typed(Implied, reading) for reading in readings)
    return ImpliedCapex(
        claim=claim,
        system=facts.load(system).name,
        peer=facts.load(peer).name,
        per_dollar=per_dollar,
        per_performance=per_performance,
        assumptions=per_dollar.assumptions,
    )


def cost_of(found: Mapping[str, Any], **given: Price | float | None) -> SystemCost:
    """Return the cost that a result of the core says, and what it was made from."""
    inputs = {name: value for name, value in given.items() if value is not None}
    return typed(SystemCost, {**found, "inputs": inputs})


def _amount(name: str, value: float | Price, unit: str) -> float:
    if isinstance(value, Price) and value.unit != unit:
        message = f"{name} is {value.name} in {value.unit}; needed: a price in {unit}, or a number"
        raise ValueError(message)
    return float(value)


def _check_finite(name: str, value: float) -> None:
    if not float("-inf") < value < float("inf"):
        message = f"{name} is {value}; it must be a finite number"
        raise ValueError(message)


def _peak(pflops: float | None, system: str | None) -> float | None:
    if system is None:
        return pflops
    if pflops is not None:
        message = f"pflops={pflops:g} and system={system!r} are given; needed: one of them"
        raise ValueError(message)
    return _core.published_pflops(system)


def _said(name: str, value: Price | float) -> str:
    return f"{name}: {value}" if isinstance(value, Price) else f"{name} {value:g}"
