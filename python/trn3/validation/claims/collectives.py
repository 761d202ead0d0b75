"""Claims about collectives: thresholds and accesses of memory."""

from __future__ import annotations

from typing import Final

from trn3 import collectives, systems
from trn3.validation.claims._registry import Figures, claim

#: Sizes between which two algorithms change places.
SMALLEST: Final = 1e3
LARGEST: Final = 1e10
#: Servers of the group across servers.
SERVERS: Final = 4
#: A size at which latency is nothing, for slopes.
LONG: Final = 1e12


@claim("kangaring-touches")
def _kangaring_touches() -> Figures:
    def saved(operation: str) -> float:
        ring, kangaring = (
            collectives.time(operation, LARGEST, "trn2_instance", algorithm=name).hbm_touches
            for name in ("ring", "kangaring")
        )
        return 1 - kangaring / ring

    return {
        "all-gather, saved of Ring's": saved("all_gather"),
        "reduce-scatter, saved of Ring's": saved("reduce_scatter"),
    }


def crossing(small: str, large: str) -> float:
    """Return the size from which one algorithm of all-reduce takes less time than another."""

    def gain(size: float) -> float:
        times = collectives.candidates("all_reduce", size, "trn2_instance")
        return times[small] - times[large]

    low, high = SMALLEST, LARGEST
    if gain(low) > 0 or gain(high) < 0:
        message = f"{small} and {large} do not change places from {low:g} to {high:g} bytes"
        raise ValueError(message)
    while high / low > 1 + 1e-9:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if gain(middle) > 0 else (middle, high)
    return high


@claim("collective-thresholds")
def _collective_thresholds() -> Figures:
    return {
        "Mesh to RDH": crossing("mesh", "rdh"),
        "RDH to KangaRing": crossing("rdh", "kangaring"),
    }


@claim("single-step-mesh")
def _single_step_mesh() -> Figures:
    cluster = systems.cluster(SERVERS, "trn2_instance")
    # One rank of the same place in every server: a group as hierarchies use it.
    firsts = [chip for chip in cluster.chips if not any(chip[1:])]
    group = [cluster.index(chip) * cluster.ranks_per_chip for chip in firsts]

    def time(algorithm: str, size: float) -> float:
        return collectives.estimate("all_reduce", size, cluster, group, algorithm)

    def transfer(algorithm: str, size: float) -> float:
        return time(algorithm, size) - time(algorithm, 0)

    low, high = 1.0, LONG
    while high / low > 1 + 1e-9:
        middle = (low * high) ** 0.5
        is_slower = time("single_step_mesh", middle) > time("mesh", middle)
        low, high = (low, middle) if is_slower else (middle, high)
    return {
        "additional transfer where both take as long": transfer("single_step_mesh", high)
        - transfer("mesh", high)
    }
