"""Clusters by roles: against the graph of every chip where there is one, and in size."""

from __future__ import annotations

import json
import math
import pickle
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, strategies as st

from trn3 import collectives, systems
from trn3.flows import Message
from trn3.system import Cluster, System, UnreachableError
from trn3.system.exchanges import Exchange

EFA = 25e9
LATENCY = 15e-6
OPERATIONS = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")

MILLION = """
import json, resource, time
from trn3 import systems
from trn3.system import Cluster
from trn3.system.exchanges import Exchange
gen2 = systems.trn3_gen2()
gen2.bound("all_to_all")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
begin = time.perf_counter()
cluster = Cluster(gen2, 6944)
ids = len(cluster.chips)
built = time.perf_counter() - begin
for operation in ("all_reduce", "all_to_all", "send_receive"):
    cluster.step(Exchange(operation, 1e9))
cluster.fail(*range(0, 6944, 100)).bound()
cluster.route(cluster.chips[0], cluster.chips[-1])
asked = time.perf_counter() - begin
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([ids, built, asked, (after - before) * 1024, len(cluster.roles)]))
"""


def test_cluster_of_a_million_chips_costs_what_one_system_does() -> None:
    run = subprocess.run(
        [sys.executable, "-c", MILLION], capture_output=True, check=True, text=True
    )
    chips, built, asked, grown, roles = json.loads(run.stdout)
    assert chips == 999_936
    assert built < 1
    assert asked < 10
    assert grown < 100e6
    assert roles <= 3


def test_cluster_bound_equals_that_of_the_graph() -> None:
    cluster = Cluster(systems.trn2_instance(), 6)
    by_roles, by_graph = cluster.bound(), cluster.system().bound("all_to_all")
    assert by_roles.per_chip == pytest.approx(by_graph.per_chip)
    assert by_roles.binding.level == by_graph.binding.level == "efa"


def test_cluster_routes_equal_those_of_the_graph() -> None:
    cluster = Cluster(systems.trn2_instance(), 3)
    graph = cluster.system()
    for target in (1, 5, 17, 40):
        one, other = cluster.route(0, target), graph.route(0, target)
        assert (one.rate, one.hops) == (other.rate, other.hops)
        assert one.latency == pytest.approx(other.latency)
    assert cluster.network_nodes(0, 5) == ()
    assert cluster.network_nodes(0, 17) == ("bottom 0",)


def test_cluster_exchange_between_systems_equals_simulated_messages() -> None:
    cluster = Cluster(systems.trn2_instance(), 4)
    size = 1e6
    everyone = range(64)
    messages = [Message(a, b, size) for a in everyone for b in everyone if a // 16 != b // 16]
    simulated = cluster.simulate(messages).finish
    # 48 of the 64 parts leave the instance, which the network binds.
    step = cluster.step(Exchange("all_to_all", 64 * size))
    assert step.binding == "efa"
    assert step.time == pytest.approx(simulated)


@pytest.mark.parametrize("units", [2, 8, 64])
@pytest.mark.parametrize("operation", ["all_reduce", "reduce_scatter", "all_gather"])
@pytest.mark.parametrize("algorithm", ["ring", "rdh"])
def test_step_between_systems_equals_the_closed_form(
    units: int, operation: str, algorithm: str
) -> None:
    cluster = Cluster(systems.trn3_gen2(), 64)
    rounds = 2 if operation == "all_reduce" else 1
    k = units
    steps = rounds * (k - 1 if algorithm == "ring" else int(math.log2(k)))
    expected = steps * LATENCY + rounds * (k - 1) / k * 64e6 / EFA
    asked = Exchange(operation, 64e6, units=k, chips=1, algorithm=algorithm)
    (time,) = cluster.step(asked).exchanges
    (phase,) = time.phases
    assert (phase.steps, phase.binding) == (steps, "efa")
    assert time.time == pytest.approx(expected)
    assert phase.bytes == pytest.approx(rounds * (k - 1) / k * 64e6)


def test_step_is_hierarchical_and_counts() -> None:
    cluster = Cluster(systems.trn3_gen2(), 32)
    exchange = Exchange("all_reduce", 144e6, algorithm="ring")
    (time,) = cluster.step(exchange).exchanges
    inside = 1.5e-6  # at least: the shortest latency
    names = [phase.name for phase in time.phases]
    assert names == ["reduce_scatter inside", "all_reduce between (ring)", "all_gather inside"]
    assert time.phases[1].bytes == pytest.approx(2 * 31 / 32 * 1e6)
    assert time.phases[0].time > inside
    thrice = cluster.step(Exchange("all_reduce", 144e6, count=3, algorithm="ring"), exchange)
    assert thrice.time == pytest.approx(4 * time.time)
    assert cluster.step({"operation": "all_reduce", "bytes": 144e6}).time <= time.time
    assert any("choice" in text for text in thrice.assumptions)


@given(
    count=st.integers(1, 600),
    size=st.floats(0, 1e9),
    factor=st.floats(1, 4),
    operation=st.sampled_from(OPERATIONS),
    oversubscription=st.sampled_from([1.0, 2.0, 8.0]),
)
def test_step_is_monotone(
    count: int, size: float, factor: float, operation: str, oversubscription: float
) -> None:
    unit = systems.trn2_instance()
    cluster = Cluster(unit, count, oversubscription=oversubscription)
    time = cluster.step(Exchange(operation, size)).time
    assert cluster.step(Exchange(operation, size * factor)).time >= time * (1 - 1e-12)
    narrower = Cluster(unit, count, oversubscription=oversubscription * factor)
    assert narrower.step(Exchange(operation, size)).time >= time * (1 - 1e-12)
    if count > 1:
        assert narrower.bound().per_chip <= cluster.bound().per_chip * (1 + 1e-12)


def test_oversubscription_changes_the_answer() -> None:
    wide = Cluster(systems.trn3_gen2(), 64)
    narrow = Cluster(systems.trn3_gen2(), 64, oversubscription=4)
    assert narrow.bound().per_chip < wide.bound().per_chip
    assert narrow.bound().binding.level == "bottom uplinks"
    assert narrow.bisection() == pytest.approx(wide.bisection() / 4)
    asked = Exchange("all_to_all", 1e9)
    assert narrow.step(asked).binding == "bottom uplinks"
    with pytest.raises(ValueError, match="non-blocking network only"):
        Cluster(systems.trn2_instance(), 2, oversubscription=2).simulate([])


def test_oversubscription_slows_collectives_and_none_beats_the_bound() -> None:
    def cluster(unit: System, count: int, oversubscription: float) -> Cluster:
        return Cluster(unit, count, oversubscription=oversubscription, units_per_bottom_node=4)

    for unit, count, size in ((systems.trn3_gen2(), 100, 1e8), (systems.trn1_instance(), 6, 1e7)):
        times = []
        for oversubscription in (1, 4, 16):
            of = cluster(unit, count, oversubscription)
            cost = collectives.time("all_to_all", size, of)
            sent = size * of.ranks_per_chip * (1 - of.ranks_per_chip / of.ranks)
            assert cost.time >= sent / of.bound().per_chip
            times.append(cost.time)
        assert times[0] <= times[1] < times[2]
        assert times[2] > 4 * times[0]


def test_failed_systems_are_gone() -> None:
    whole = Cluster(systems.trn3_gen2(), 20)
    broken = whole.fail(3, 7)
    assert (len(broken), broken.num_chips, broken.failed) == (18, 18 * 144, (3, 7))
    assert len(broken.chips) == broken.num_chips
    assert list(broken.chips)[:: 144 * 5] == [broken.chips[i] for i in range(0, 18 * 144, 720)]
    assert [chip[0] for chip in broken.chips[::144]] == [
        number for number in range(20) if number not in (3, 7)
    ]
    assert (3, 0, 0, 0) not in broken.chips
    assert all(broken.index(broken.chips[at]) == at for at in (0, 431, 432, 1000, -1 % 2592))
    assert broken.bound().per_chip != whole.bound().per_chip
    rdh = Exchange("all_reduce", 1e9, algorithm="rdh")
    sixteen = Cluster(systems.trn3_gen2(), 16)
    assert sixteen.fail(0).step(rdh).time > sixteen.step(rdh).time
    with pytest.raises(ValueError, match=r"system 3 of .* has failed"):
        broken.route((3, 0, 0, 0), (0, 0, 0, 0))
    with pytest.raises(UnreachableError, match="unit 3 has failed"):
        broken.fail(3)
    with pytest.raises(ValueError, match="the only one left"):
        Cluster(systems.trn3_gen2(), 1).fail(0)
    with pytest.raises(ValueError, match="outside"):
        whole.fail(20)
    with pytest.raises(ValueError, match="whole systems"):
        whole.fail((0, 0, 0, 0))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("exchange", "text"),
    [
        ({"operation": "allreduce", "bytes": 1}, 'the nearest is "all_reduce"'),
        ({"operation": "all_reduce", "bytes": -1}, "bytes is -1"),
        ({"operation": "all_reduce", "bytes": 1, "units": 9}, "9 units; allowed: 1 to 8"),
        ({"operation": "all_reduce", "bytes": 1, "chips": 5}, "nearest that does is 4"),
        ({"operation": "all_reduce", "bytes": 1, "count": 0}, "count is 0"),
        ({"operation": "all_gather", "bytes": 1, "algorithm": "tree"}, "all_reduce only"),
        ({"operation": "all_gather", "bytes": 1, "algorithm": "mesh"}, '"mesh" is unknown'),
        ({"operation": "all_gather", "size": 1}, "its fields are operation, bytes"),
    ],
)
def test_step_refuses_by_name(exchange: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=r"exchange|operation|all_|algorithm") as caught:
        Cluster(systems.trn3_gen2(), 8).step(exchange)
    assert text in str(caught.value)


def test_cluster_refuses_by_name() -> None:
    gen2 = systems.trn3_gen2()
    with pytest.raises(ValueError, match=r"oversubscription is 0\.5; allowed: 1"):
        Cluster(gen2, 2, oversubscription=0.5)
    with pytest.raises(ValueError, match="there is no exchange"):
        Cluster(gen2, 2).step()
    with pytest.raises(TypeError, match="needed: Exchange or a mapping"):
        Cluster(gen2, 2).step(3)  # type: ignore[arg-type]


def test_spec_adds_up() -> None:
    spec = Cluster(systems.trn3_gen2(), 100).spec()
    assert spec["chips"].value == 14_400
    assert spec["hbm_bandwidth"].value == 70_560
    assert "14,400 x" in str(spec["hbm_bandwidth"].formula)
    broken = Cluster(systems.trn3_gen2(), 100).fail(1).spec()
    assert broken["chips"].value == 14_256


def test_cluster_survives_pickling() -> None:
    cluster = Cluster(systems.trn3_gen2(), 100, oversubscription=2).fail(4)
    again = pickle.loads(pickle.dumps(cluster))
    assert (again, again.bound().per_chip) == (cluster, cluster.bound().per_chip)
