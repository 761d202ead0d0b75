"""What systems draw and what they cost: `trn3.power` and `trn3.cost`, two modules of this room."""

from __future__ import annotations

from trn3.economics import cost, power
from trn3.economics.cost import (
    Cost,
    Implied,
    ImpliedCapex,
    Price,
    SystemCost,
    implied_capex,
    price_sets,
    prices,
    rental,
    tco,
)
from trn3.economics.power import (
    Energy,
    Parameter,
    PerfPerWatt,
    Power,
    RackPower,
    Reading,
    energy,
    parameters,
    perf_per_watt,
    rack_power,
)

__all__ = [
    "Cost",
    "Energy",
    "Implied",
    "ImpliedCapex",
    "Parameter",
    "PerfPerWatt",
    "Power",
    "Price",
    "RackPower",
    "Reading",
    "SystemCost",
    "cost",
    "energy",
    "implied_capex",
    "parameters",
    "perf_per_watt",
    "power",
    "price_sets",
    "prices",
    "rack_power",
    "rental",
    "tco",
]
