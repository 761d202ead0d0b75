"""Claims about power and cost: no vendor publishes either, so each is a matter of assumptions."""

from __future__ import annotations

from trn3 import facts
from trn3.economics.cost import implied_capex
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
