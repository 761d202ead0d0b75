"""Systems: flows, collectives on data, plans and steps of clusters.

No public package does these on the same machine descriptions, so rates stand beside a fixed pace,
their goal; collectives on data also beside the bare NumPy sum of the same arrays, which moves
nothing from rank to rank.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import trn3
from comparison import Comparison, Rival, Work, pace
from trn3.flows import Message
from trn3.system.exchanges import Exchange

ALONE = pytest.mark.parametrize("threads", [1], ids=["1-thread"], indirect=True)


@ALONE
def bench_exchange_of_an_ultraserver(compare: Comparison, quick: bool) -> None:
    ultraserver = trn3.UltraServer.gen1() if quick else trn3.UltraServer.gen2()
    pairs = itertools.permutations(ultraserver.chips, 2)
    messages = [Message(source, target, 1e6) for source, target in pairs]
    compare(
        f"flows, all-to-all of {len(ultraserver.chips)} chips, {len(messages):,} messages",
        lambda: ultraserver.simulate(messages),
        [pace(1, 1.0, "one a second")],
        Work(len(messages), "messages"),
    )


@ALONE
def bench_all_reduce_on_data(compare: Comparison, quick: bool) -> None:
    count = 1 << 10 if quick else 1 << 20
    instance = trn3.Instance.trn2()
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(count, dtype=np.float32) for _ in range(instance.ranks)]

    def numpy_sum() -> object:
        total = np.sum(arrays, axis=0, dtype=np.float32)
        return [np.array(total) for _ in arrays]

    compare(
        f"all_reduce on data, {instance.ranks} ranks of {count:,} float32, ring",
        lambda: instance.all_reduce(arrays, algorithm="ring"),
        [Rival("numpy.sum and copies", numpy_sum)],
        Work(instance.ranks * count, "elements"),
    )


@ALONE
def bench_collective_times(compare: Comparison, quick: bool) -> None:
    ultraserver = trn3.UltraServer.gen2()
    sizes = [float(1 << exponent) for exponent in range(10, 14 if quick else 31)]
    compare(
        f"times of {len(sizes)} all-reduces of 576 ranks, the best algorithm of each",
        lambda: [ultraserver.collective_time("all_reduce", size) for size in sizes],
        [],
        Work(len(sizes), "collectives"),
    )


@ALONE
def bench_plan_of_a_point(compare: Comparison, quick: bool) -> None:
    ultraserver = trn3.UltraServer.gen2()

    def plan() -> object:
        return trn3.plan("gpt-oss-120b", ultraserver, tp=4, ep=4, batch=64, context=10_000)

    compare("plan of one layout", plan, [pace(1, 20, "50 ms a plan")], Work(1, "plans"))


@ALONE
def bench_search_of_serving_layouts(compare: Comparison, quick: bool) -> None:
    ultraserver = trn3.UltraServer.gen2()
    model = "llama-3-8b" if quick else "gpt-oss-120b"
    limits = {"tpot_slo": 0.05}
    found = trn3.search(model, ultraserver, "throughput", limits)
    compare(
        f"search, {found.evaluated:,} plans of {model} in serving",
        lambda: trn3.search(model, ultraserver, "throughput", limits),
        [pace(found.evaluated, 2000)],
        Work(found.evaluated, "plans"),
    )


@ALONE
def bench_step_of_a_million_chips(compare: Comparison, quick: bool) -> None:
    exchanges = (Exchange("all_reduce", 140e9), Exchange("all_to_all", 1e8, units=4, count=61))

    def step() -> object:
        cluster = trn3.Cluster(trn3.UltraServer.gen2(), 6945)
        return cluster.step(*exchanges)

    compare(
        "exchanges of a step on 1,000,080 chips, building the cluster",
        step,
        [pace(1, 1.0, "one a second")],
        Work(1, "steps"),
    )
