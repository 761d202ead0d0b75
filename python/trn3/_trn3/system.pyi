# Facts, fabrics, collectives and plans; descriptions and results are JSON texts.

__all__ = [
    "DoesNotFitError",
    "UnreachableError",
    "built_in_facts",
    "built_in_prices",
    "built_in_systems",
    "cost_implied",
    "cost_own",
    "cost_rent",
    "energy_chip",
    "energy_estimate",
    "energy_load",
    "energy_parameters",
    "energy_per_watt",
    "energy_racks",
    "parse_facts",
    "parse_prices",
    "price_sets",
    "unit_factor",
]

class DoesNotFitError(MemoryError): ...
class UnreachableError(ConnectionError): ...

def built_in_facts(name: str, /) -> str: ...
def built_in_prices(name: str, /) -> str: ...
def built_in_systems() -> list[str]: ...
def cost_implied(
    claim: float,
    pflops: float,
    peer_pflops: float,
    peer_capex: float | None,
    running: str | None,
    /,
) -> str: ...
def cost_own(ownership: str, pflops: float | None, tokens_per_second: float | None, /) -> str: ...
def cost_rent(
    price: float,
    chips: int,
    utilisation: float,
    pflops: float | None,
    tokens_per_second: float | None,
    /,
) -> str: ...
def energy_chip(system: str, /) -> str: ...
def energy_estimate(
    chip: str,
    tdp: float | None,
    flops: list[tuple[str, float]],
    hbm_bytes: float,
    link_bytes: float,
    sbuf_bytes: float,
    seconds: float,
    /,
) -> str: ...
def energy_load(
    chip: str,
    tdp: float | None,
    dtype: str,
    utilisation: float,
    hbm: float,
    link_rate: float,
    sbuf_rate: float,
    /,
) -> str: ...
def energy_parameters() -> str: ...
def energy_per_watt(chip: str, peer: str, /) -> str: ...
def energy_racks(system: str, tdp: float | None, /) -> str: ...
def parse_facts(file: str, text: str, /) -> str: ...
def unit_factor(unit: str, /) -> float | None: ...
def parse_prices(file: str, text: str, /) -> str: ...
def price_sets() -> list[str]: ...
