"""Claims about collectives: thresholds, accesses of memory, and the tables of nccom-test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from trn3 import collectives, facts, systems
from trn3.collectives import SystemLike
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


@dataclass(frozen=True, slots=True)
class Example:
    """A line of an example of nccom-test: its figure in the spec file, size and algorithm."""

    name: str
    key: str
    size: float
    algorithm: str = "auto"


def examples(
    operation: str, system: SystemLike, ranks: Sequence[int], lines: Sequence[Example]
) -> Figures:
    """Return times of a table: those of the model, and one constant for what starts a step.

    The constant is read off the table's first line. Within a table the mode of launching is the
    same; between tables it is not. Where the example names no algorithm, the one that then takes
    the least time is meant.
    """

    def forms(line: Example) -> list[tuple[int, float]]:
        """Give steps and seconds of the algorithms that may be meant."""
        names = [line.algorithm]
        if line.algorithm == "auto":
            names = list(collectives.candidates(operation, line.size, system, ranks))
        return [
            (
                collectives.time(operation, line.size, system, ranks, name).steps,
                collectives.estimate(operation, line.size, system, ranks, name),
            )
            for name in names
        ]

    first = lines[0]
    published = facts.load("collectives")[first.key].si
    # With the largest of these the quickest algorithm takes the published time.
    start = max((published - seconds) / steps for steps, seconds in forms(first))
    return {
        line.name: min(steps * start + seconds for steps, seconds in forms(line)) for line in lines
    }


KI: Final = 2**10
MI: Final = 2**20
GI: Final = 2**30


@claim("nccom-all-gather-32")
def _all_gather_32() -> Figures:
    lines = [
        Example("1 KiB", "nccom_allgather_32r_1k", KI),
        Example("8 KiB", "nccom_allgather_32r_8k", 8 * KI),
        Example("64 KiB", "nccom_allgather_32r_64k", 64 * KI),
        Example("512 KiB", "nccom_allgather_32r_512k", 512 * KI),
    ]
    return examples("all_gather", "trn1_32xlarge", range(32), lines)


@claim("nccom-all-gather-8")
def _all_gather_8() -> Figures:
    lines = [
        Example("1 KiB", "nccom_allgather_8r_1k", KI),
        Example("512 KiB", "nccom_allgather_8r_512k", 512 * KI),
    ]
    return examples("all_gather", "trn1_32xlarge", range(8), lines)


@claim("nccom-all-reduce-2")
def _all_reduce_2() -> Figures:
    lines = [
        Example("1 KiB", "nccom_allreduce_2r_1k", KI),
        Example("4 MiB", "nccom_allreduce_2r_4m", 4 * MI),
        Example("1 GiB", "nccom_allreduce_2r_1g", GI),
    ]
    return examples("all_reduce", "trn1_32xlarge", range(2), lines)


@claim("nccom-all-reduce-16")
def _all_reduce_16() -> Figures:
    lines = [
        Example("4 B, mesh", "nccom_allreduce_16r_4b", 4, "mesh"),
        Example("2 MiB, rdh", "nccom_allreduce_16r_2m", 2 * MI, "rdh"),
        Example("32 MiB, kangaring", "nccom_allreduce_16r_32m", 32 * MI, "kangaring"),
        Example("512 MiB, kangaring", "nccom_allreduce_16r_512m", 512 * MI, "kangaring"),
    ]
    return examples("all_reduce", "trn1_32xlarge", range(16), lines)


@claim("nccom-all-reduce-64")
def _all_reduce_64() -> Figures:
    lines = [
        Example("8 B", "nccom_allreduce_64r_2node_8b", 8),
        Example("1 MiB", "nccom_allreduce_64r_2node_1m", MI),
        Example("1 GiB", "nccom_allreduce_64r_2node_1g", GI),
    ]
    return examples("all_reduce", systems.cluster(2, "trn1_32xlarge"), range(64), lines)
