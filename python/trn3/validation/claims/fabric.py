"""Claims about ways from chip to chip, read off the graph."""

from __future__ import annotations

from functools import cache
from itertools import permutations

from trn3 import systems
from trn3.system import UltraServer
from trn3.validation.claims._registry import Figures, claim


@cache
def _gen2() -> UltraServer:
    return systems.trn3_gen2()


def _same_rack(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return a[0] == b[0]


@claim("no-multi-hop")
def _no_multi_hop() -> Figures:
    system = _gen2()
    legs = {pair: len(system.route(*pair).legs) for pair in permutations(system.chips, 2)}
    return {
        "most legs of a route": max(legs.values()),
        "most legs within a rack": max(n for pair, n in legs.items() if _same_rack(*pair)),
    }


@claim("chip-to-chip-latency")
def _chip_to_chip_latency() -> Figures:
    system = _gen2()
    times = {pair: system.route(*pair).latency for pair in permutations(system.chips, 2)}
    return {
        "slowest pair": max(times.values()),
        "slowest pair of a rack": max(time for pair, time in times.items() if _same_rack(*pair)),
    }
