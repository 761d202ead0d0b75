"""Claims about power and cost: no vendor publishes either, so each is a matter of assumptions."""

from __future__ import annotations

from trn3 import facts
from trn3.economics.cost import implied_capex, prices, rental
from trn3.economics.power import perf_per_watt
from trn3.validation.claims._registry import Figures, claim


@claim("performance-per-watt")
def _performance_per_watt() -> Figures:
    default, equal, narrow, *_ = perf_per_watt("trainium3", "trainium2")
    return {
        "MXFP8 against BF16, equal power": narrow.ratio,
        "8 bits against 8 bits, equal power": equal.ratio,
        "8 bits against 8 bits, default powers": default.ratio,
    }


@claim("tco")
def _tco() -> Figures:
    advantage = facts.load("trn3_gen2")["tco_vs_gb300_fp8"].number
    implied = implied_capex(advantage, system="trn3_gen2", peer="gb300_nvl72")
    return {
        "price, if 30 % more performance a dollar": implied.per_dollar.ratio,
        "price, if 30 % less cost for a PFLOPS": implied.per_performance.ratio,
    }


def _hour(price: float, system: str, dtype: str = "tflops_bf16") -> float:
    """Return what an hour of a PFLOPS costs, USD, of a chip at a price of its hour."""
    pflops = facts.load(system)[dtype].si / 1e15
    return rental(price, 1, 1.0, pflops=pflops).per_pflop_hour or 0.0


@claim("hour-beside-h100")
def _hour_beside_h100() -> Figures:
    named = prices("facts-2026-08")
    ours, theirs = (named[name].value for name in ("trainium_hour_contract", "h100_hour"))
    return {
        "Trainium": rental(ours, 1, 1.0).per_hour,
        "H100": rental(theirs, 1, 1.0).per_hour,
        "PFLOPS-hour of BF16, Trainium2 over H100": _hour(ours, "trainium2")
        / _hour(theirs, "h100"),
    }


@claim("twice-for-the-price")
def _twice_for_the_price() -> Figures:
    named = prices("facts-2026-08")
    ours, theirs = (facts.load(chip)["tflops_bf16"].number for chip in ("trainium2", "h100"))
    return {
        # A price that is so much a TFLOPS, of either.
        "at an equal price of a TFLOPS": _hour(theirs, "h100") / _hour(ours, "trainium2"),
        "at the prices of an hour, list": _hour(named["h100_hour"].value, "h100")
        / _hour(named["trainium_hour_list"].value, "trainium2"),
    }


@claim("a-fifth")
def _a_fifth() -> Figures:
    pairs = {
        "price, Gen2 over GB300 NVL72": ("trn3_gen2", "gb300_nvl72"),
        "price, TPU v7 over B300": ("tpu_v7", "b300"),
    }
    return {
        name: implied_capex(0.8, system=system, peer=peer).per_performance.ratio
        for name, (system, peer) in pairs.items()
    }
