"""Graphs, routes, bounds and faults of systems; networkx is the oracle of ways and distances."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import trn3
from trn3 import systems, traffic
from trn3.system import Chip, Cluster, Instance, System, UltraServer, UnreachableError
from trn3.system.fabric import NodeId

SMALL: dict[str, Callable[[], System]] = {
    "trn1": systems.trn1_instance,
    "trn2": systems.trn2_instance,
    "trn2_ultraserver": systems.trn2_ultraserver,
    "gen1": systems.trn3_gen1,
    "gen2": systems.trn3_gen2,
    "nvl72": systems.gb300_nvl72,
    "h100": systems.h100,
}

MINE = """
[mine]
_title = "two boxes"
_chip = "tiny"
[[mine._fabric.axes]]
name = "box"
size = {{ value = {boxes}, unit = "count", source = "me" }}
[[mine._fabric.axes]]
name = "chip"
size = {{ value = {chips}, unit = "count", source = "me" }}
[[mine._fabric.levels]]
name = "inside"
kind = "{kind}"
over = ["chip"]
links = {{ value = 2, unit = "count", source = "me" }}
rate = {{ value = {inside}, unit = "GB/s/dir", source = "me" }}
latency = {{ value = 1, unit = "us", source = "choice: a guess" }}
[[mine._fabric.levels]]
name = "outside"
kind = "direct"
over = ["box"]
links = {{ value = 1, unit = "count", source = "me" }}
rate = {{ value = {outside}, unit = "GB/s/dir", source = "me" }}
latency = {{ value = 2, unit = "us", source = "me" }}
[mine._fabric.network]
name = "efa"
rate = {{ value = 8, unit = "Gbit/s/dir", source = "me" }}
latency = {{ value = 20, unit = "us", source = "me" }}
[tiny.cores]
default = 6
unit = "count"
sources = [{{ value = 6, source = "me" }}]
"""


def mine(
    folder: Path,
    *,
    boxes: int = 2,
    chips: int = 4,
    kind: str = "ring",
    inside: float = 10,
    outside: float = 5,
) -> System:
    path = folder / "mine.toml"
    text = MINE.format(boxes=boxes, chips=chips, kind=kind, inside=inside, outside=outside)
    path.write_text(text)
    return systems.load(path)


def oracle(system: System) -> nx.DiGraph[NodeId]:
    """Return the graph, with latencies as whole femtoseconds, so that equal ways are equal."""
    graph = system.graph.to_networkx()
    for _, _, edge in graph.edges(data=True):
        edge["cost"] = round(edge["latency"] * 1e15) * 1000 + 1
    return graph


def oracle_loads(
    system: System, bytes_: Callable[[int, int], Fraction]
) -> dict[tuple[NodeId, NodeId], Fraction]:
    """Exact bytes on each link when every pair's are split evenly over all its shortest ways."""
    graph = oracle(system)
    loads: dict[tuple[NodeId, NodeId], Fraction] = {}
    for (i, a), (j, b) in itertools.permutations(enumerate(system.chips), 2):
        amount = bytes_(i, j)
        if not amount:
            continue
        paths = list(nx.all_shortest_paths(graph, a, b, weight="cost"))
        for path in paths:
            for edge in itertools.pairwise(path):
                loads[edge] = loads.get(edge, Fraction(0)) + amount / len(paths)
    return loads


@pytest.mark.parametrize("name", SMALL)
def test_routes_are_shortest_ways(name: str) -> None:
    system = SMALL[name]()
    graph = oracle(system)
    chips = system.chips
    lengths = dict(nx.single_source_dijkstra_path_length(graph, chips[5], weight="cost"))
    for chip in chips:
        route = system.route(chips[5], chip)
        cost = sum(graph.edges[link.source, link.target]["cost"] for link in route.links)
        assert cost == lengths[chip]
        assert route.latency == pytest.approx(lengths[chip] / 1e18, abs=1e-15)
        ends = [chips[5], *(link.target for link in route.links)]
        assert ends[-1] == chip
        assert [link.source for link in route.links] == ends[:-1]
        if chip == chips[5]:
            assert (route.legs, route.latency, route.rate) == ((), 0, math.inf)
        else:
            assert route.rate == min(link.rate for link in route.links)
            assert route.hops == system.hops(chips[5], chip) == len(route.relays) + 1


@pytest.mark.parametrize("name", ["trn2", "gen1", "h100"])
def test_loads_of_all_to_all_are_those_of_all_shortest_ways(name: str) -> None:
    system = SMALL[name]()
    others = len(system) - 1
    expected = oracle_loads(system, lambda i, j: Fraction(1, others))
    bound = system.bound("all_to_all")
    for link, load in zip(system.graph.links, bound.loads, strict=True):
        assert load == pytest.approx(float(expected.get((link.source, link.target), 0)), rel=1e-12)
    times = {
        link: expected.get((link.source, link.target), Fraction(0)) / Fraction(link.rate)
        for link in system.graph.links
    }
    slowest = max(times.values())
    assert bound.per_chip == pytest.approx(float(1 / slowest), rel=1e-12)
    assert set(bound.binding) == {link for link, time in times.items() if time == slowest}


@settings(max_examples=15, deadline=None)
@given(
    kind=st.sampled_from(["switch", "ring", "direct"]),
    boxes=st.integers(1, 3),
    chips=st.integers(2, 5),
    rates=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    data=st.data(),
)
def test_bounds_of_any_traffic_are_the_fullest_link(
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    boxes: int,
    chips: int,
    rates: tuple[int, int],
    data: st.DataObject,
) -> None:
    folder = tmp_path_factory.mktemp("mine")
    system = mine(folder, kind=kind, boxes=boxes, chips=chips, inside=rates[0], outside=rates[1])
    n = len(system)
    bytes_ = data.draw(
        st.lists(st.lists(st.integers(0, 9), min_size=n, max_size=n), min_size=n, max_size=n)
    )
    moved = sum(row[j] for i, row in enumerate(bytes_) for j in range(n) if i != j)
    if moved == 0:
        with pytest.raises(ValueError, match="moves nothing"):
            system.bound(bytes_)
        return
    loads = oracle_loads(system, lambda i, j: Fraction(bytes_[i][j]))
    slowest = max(
        loads.get((link.source, link.target), Fraction(0)) / Fraction(link.rate)
        for link in system.graph.links
    )
    bound = system.bound(bytes_)
    assert bound.time == pytest.approx(float(slowest), rel=1e-12)
    assert bound.per_chip <= bound.per_chip_by_cut * (1 + 1e-12)
    assert bound.total == pytest.approx(moved / float(slowest), rel=1e-12)
    faster = mine(
        folder, kind=kind, boxes=boxes, chips=chips, inside=rates[0] * 2, outside=rates[1]
    )
    sooner = faster.bound(bytes_).time
    assert sooner is not None
    assert bound.time is not None
    assert sooner <= bound.time * (1 + 1e-12)


def test_the_published_bounds() -> None:
    gen2 = trn3.systems.trn3_gen2(links="docs")
    bound = gen2.bound(trn3.traffic.all_to_all(gen2.chips))
    assert f"{bound.per_chip / 1e9:.1f}" == "254.2"
    assert bound.binding.levels == ("cross-rack",)
    binding: Any = bound.binding
    assert "cross-rack" in binding
    assert "rack/0" not in binding
    assert len(bound.binding) == 144
    assert bound.is_by_cut
    assert bound.per_chip == gen2.bound("all_to_all").per_chip == gen2.bound("alltoall").per_chip
    assert f"{gen2.bound('all_to_all', group='0').per_chip / 1e9:.1f}" == "334.1"
    assert gen2.bound("all_to_all", group="1/3").per_chip == pytest.approx(256e9)
    assert gen2.bisection() == pytest.approx(9.216e12)
    assert gen2.bisection(group="1").rate == pytest.approx(11.52e12)
    assert systems.trn2_instance().bound().per_chip == pytest.approx(240e9)
    ultraserver = systems.trn2_ultraserver().bound()
    assert ultraserver.per_chip == pytest.approx(126e9)
    assert ultraserver.levels == {"z": pytest.approx(126e9), "plane": pytest.approx(252e9)}
    assert ultraserver.binding.level == "z"
    assert systems.gb300_nvl72().bound().per_chip == pytest.approx(900e9)


@pytest.mark.parametrize(
    ("system", "group", "milliseconds"),
    [
        ("gen2", "*", "0.92"),
        ("gen2", "0", "0.70"),
        ("nvl72", "*", "0.26"),
        ("trn2_ultraserver", "*", "1.86"),
    ],
)
def test_dispatch_of_the_worked_example(system: str, group: str, milliseconds: str) -> None:
    of = systems.load(system)
    dispatch = traffic.expert_dispatch(of.group(group), tokens=4096, width=7168, top_k=8)
    assert dispatch.bytes_per_chip == 234_881_024
    time = of.bound(dispatch).time
    assert time is not None
    assert f"{time * 1e3:.2f}" == milliseconds


def test_tori_are_cubes_with_rings() -> None:
    for system, dimension, rings in (
        (systems.trn1_instance(), 4, 2),
        (systems.trn2_instance(), 4, 2),
        (systems.trn2_ultraserver(), 6, 3),
    ):
        graph = nx.Graph(system.graph.to_networkx())
        assert nx.is_isomorphic(graph, nx.hypercube_graph(dimension))
        assert nx.diameter(graph) == dimension
        count = 2**dimension
        mean = Fraction(dimension * count // 2, count - 1)
        assert mean == {4: Fraction(32, 15), 6: Fraction(192, 63)}[dimension]
        assert nx.average_shortest_path_length(graph) == pytest.approx(float(mean))
        used: set[frozenset[NodeId]] = set()
        for ring in system.rings():
            edges = {frozenset(pair) for pair in zip(ring, (*ring[1:], ring[0]), strict=True)}
            assert len(edges) == len(set(ring)) == count
            assert all(graph.has_edge(*edge) for edge in edges)
            assert not edges & used
            used |= edges
        assert len(system.rings()) == rings


def test_gen2_ids_links_and_latencies() -> None:
    gen2 = UltraServer.gen2()
    assert gen2.chips == tuple(itertools.product(range(2), range(18), range(4)))
    for number, chip in enumerate(gen2.chips):
        assert gen2.index(chip) == gen2.index(number) == number
        assert gen2.index("/".join(map(str, chip))) == number
        links = {link.level: link.links for link in gen2.graph.links_from(chip)}
        assert links == {"server": 4, "rack": 5, "cross-rack": 2}
    for link in gen2.graph.links:
        if isinstance(link.source, tuple) and isinstance(link.target, tuple):
            assert link.source[0] != link.target[0]
            assert link.source[1:] == link.target[1:]
    for a, b in itertools.product(gen2.chips[::7], gen2.chips):
        route = gen2.route(a, b)
        assert len(route.relays) <= 1
        assert route.latency < (5e-6 if a[0] == b[0] else 10e-6)
    paths = gen2.paths((0, 3, 1), (1, 9, 2))
    assert [path.share for path in paths] == [0.5, 0.5]
    assert sum(level.chip_rate for level in gen2.graph.levels) == 704e9


def test_headline_scales_all_levels_alike() -> None:
    docs, headline = systems.trn3_gen2(), systems.trn3_gen2(links="headline")
    assert docs != headline
    ratios = {b.rate / a.rate for a, b in zip(docs.graph.links, headline.graph.links, strict=True)}
    assert max(ratios) == pytest.approx(1280 / 704)
    assert min(ratios) == pytest.approx(1280 / 704)
    ratio = headline.bound().per_chip / docs.bound().per_chip
    assert ratio == pytest.approx(1280 / 704)


def test_faults_lead_around_or_say_what_is_cut_off() -> None:
    gen2 = systems.trn3_gen2()
    link = gen2.route((0, 3, 1), (1, 3, 1)).links[0]
    for broken in (
        gen2.fail(link),
        gen2.fail(link=link),
        gen2.fail(link=((0, 3, 1), (1, 3, 1))),
        gen2.fail("0/3/1-1/3/1", health="link_interserver"),
    ):
        assert broken.faults == ("link 0/3/1-1/3/1 failed",)
        assert broken.route((0, 3, 1), (1, 3, 1)).hops == 3
        assert 1 < broken.slowdown.factor < 1.1
        assert broken != gen2
    without = gen2.fail(chip=(0, 3, 1))
    assert len(without) == 143
    assert without.ranks == 572
    with pytest.raises(ValueError, match="chip 0/3/1 of trn3_gen2 has failed"):
        without.route((0, 3, 1), (0, 0, 0))
    assert without == gen2.fail((0, 3, 1)) == gen2.fail("0/3/1", health="hbm")
    plane = gen2.fail(switch="rack/0")
    assert plane.route((0, 0, 0), (0, 17, 3)).hops == 3
    assert gen2.fail("rack/0:1").bound(group="0").per_chip == pytest.approx(256e9 * 71 / 68)
    alone = gen2.fail("0/2/0-1/2/0", "0/2/0-rack/0", "0/2/0-server/0/2")
    assert alone.cut_off == ((0, 2, 0),)
    with pytest.raises(UnreachableError, match="cut off from the other 143 chips: 0/2/0"):
        _ = alone.slowdown
    with pytest.raises(ConnectionError, match="no way leads from chip 0/0/0 to chip 0/2/0"):
        alone.route((0, 0, 0), (0, 2, 0))
    assert systems.trn2_instance().fail(((0, 0), (0, 1))).route(0, 1).hops == 3


@pytest.mark.parametrize(
    ("call", "needle"),
    [
        (lambda s: s.route((0, 18, 0), 0), "server 0 to 17"),
        (lambda s: s.route("0/x", 0), "rack/server/chip"),
        (lambda s: s.route(144, 0), "allowed: ids from"),
        (lambda s: s.route((0, 0), 0), "has no chip 0/0"),
        (lambda s: s.route((-1, 0, 0), 0), "allowed: ids from"),
        (lambda s: s.bound("some_to_some"), "all_to_all"),
        (lambda s: s.bound(np.ones((3, 3))), r"\(144, 144\)"),
        (lambda s: s.bound(-np.ones((144, 144))), r"traffic\[0, 0\] is -1"),
        (lambda s: s.bound(np.ones(3)), r"\(n, n\)"),
        (lambda s: s.bound(np.ones((144, 144)), group="0"), "group has a meaning only"),
        (lambda s: s.bound(traffic.all_to_all([(0, 0, 0), (0, 0, 0)])), "twice"),
        (lambda s: s.bound(traffic.all_to_all([(0, 0, 0), (5, 0, 0)])), "rack 0 to 1"),
        (lambda s: s.bound(group="7"), "no chip of trn3_gen2 matches"),
        (lambda s: s.fail(), "nothing was named"),
        (lambda s: s.fail("rack/2"), "a switch like server/0/0"),
        (lambda s: s.fail(((0, 0, 0), (0, 0, 1))), "no link joins 0/0/0 and 0/0/1"),
        (lambda s: s.fail("0/0/0", health="link_switch"), "takes away a switch"),
        (lambda s: s.fail("0/0/0", health="hmb"), "allowed: hbm"),
        (lambda s: s.slowdown, "nothing of trn3_gen2 has failed"),
        (lambda s: s.chip_of(576), "0 to 575"),
        (lambda s: s.plot("x.bmp"), ".png, .svg, .pdf"),
        (lambda s: s.rings(), "no whole torus"),
        (lambda s: s.graph.links_from((9, 9, 9)), "not in the graph"),
        (lambda s: systems.trn3_gen2(links="best"), "docs, headline"),  # type: ignore[arg-type]
        (lambda s: systems.load("gen3"), "nearest is 'gen2'"),
        (lambda s: systems.load("measured"), "no system that chips are joined in"),
        (lambda s: traffic.all_to_all([1]), "at least 2"),
        (lambda s: traffic.permutation([]), "empty"),
        (lambda s: traffic.permutation([(0, 1), (0, 2)]), "sends twice"),
        (lambda s: traffic.ring([0, 1], -3), "must be positive"),
        (lambda s: traffic.from_matrix(np.ones((2, 2)), [0]), "2 rows for 1 chips"),
        (lambda s: traffic.expert_dispatch([0, 1], tokens=0, width=1, top_k=1), "tokens is 0"),
        (lambda s: Cluster(s, 0), "n is 0"),
        (lambda s: Cluster(s, 2, "ib"), "'efa'"),
        (lambda s: Cluster(systems.trainium4_announced(), 2), "no network table"),
        (lambda s: Cluster(s.fail("rack/0"), 2), "whole systems"),
        (lambda s: Cluster(s, 1000).system(), "28 of trn3_gen2"),
        (lambda s: Cluster(s, 1000).bound("ring"), "28 of trn3_gen2"),
        (lambda s: s.fail("rack/0").to_astra_sim(), "whole systems"),
        (lambda s: Cluster(s, 10).route((10, 0, 0, 0), 0), "has no chip"),
    ],
)
def test_wrong_questions_say_what_would_work(call: Callable[[System], object], needle: str) -> None:
    with pytest.raises(ValueError, match=needle):
        call(systems.trn3_gen2())


@pytest.mark.parametrize("lnc", [0, 3, 4, 8, True, "2", 2.0])
def test_other_lnc_are_refused(lnc: int) -> None:
    with pytest.raises(ValueError, match="1 or 2") as caught:
        Chip(lnc=lnc)
    assert ("logical cores a chip shows" in str(caught.value)) == (lnc == 4)
    with pytest.raises(ValueError, match="1 or 2"):
        UltraServer.gen2(lnc=lnc)


def test_parts_of_chips() -> None:
    chip = Chip("trainium3", lnc=2)
    assert chip == Chip() == Chip("trn3")
    assert (chip.num_cores, chip.chiplets, chip.hbm_stacks) == (8, 2, 4)
    assert (chip.dma_engines, chip.cc_cores, chip.ranks) == (128, 16, 4)
    assert [core.chiplet for core in chip.cores] == [0] * 4 + [1] * 4
    assert [core.hbm_stack for core in chip.cores] == [0, 0, 1, 1, 2, 2, 3, 3]
    engines = [engine for core in chip.cores for engine in core.dma_engines]
    assert engines == list(range(128))
    assert {len(core.cc_cores) for core in chip.cores} == {2}
    assert chip.logical_cores == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert sum(level.chip_rate for level in chip.ports.values()) == 704e9
    assert Chip("trainium1").lnc == 1
    assert chip.spec()["tflops_mxfp8"].number == pytest.approx(2516.6, rel=1e-4)
    assert chip.neuron_core(values=False).arch == ("trn3", 4)
    with pytest.raises(ValueError, match="trainium3"):
        Chip("trainium5")
    with pytest.raises(AttributeError):
        chip.lnc = 1  # type: ignore[misc]


def test_ranks() -> None:
    assert UltraServer.gen2().ranks == 576
    assert UltraServer.gen2(lnc=1).ranks == 1152
    assert Instance.trn2().logical_cores == 64
    assert Instance.trn1().ranks == 32
    assert systems.gb300_nvl72().ranks == 72
    gen2 = UltraServer.gen2()
    assert [gen2.chip_of(rank) for rank in (0, 3, 4, 575)] == [
        (0, 0, 0),
        (0, 0, 0),
        (0, 0, 1),
        (1, 17, 3),
    ]


def test_systems_of_ones_own(tmp_path: Path) -> None:
    system = mine(tmp_path, kind="switch")
    assert (len(system), system.title, system.chip) == (8, "two boxes", "tiny")
    assert system.cores_per_chip == 6
    assert any("a guess" in line for line in system.assumptions)
    assert system.bound().binding.level == "outside"
    assert pickle.loads(pickle.dumps(system)) == system
    assert system.spec().facts.name == "mine"
    cluster = Cluster(system, 3)
    assert cluster.network_rate == 1e9
    assert cluster.bound().per_chip == pytest.approx(cluster.system().bound().per_chip, rel=1e-9)
    path = tmp_path / "bad.toml"
    good = MINE.format(boxes=2, chips=4, kind="ring", inside=10, outside=5)
    for before, after, needle in (
        ("value = 10,", "value = -10,", "levels.inside.rate is -10"),
        ('kind = "ring"', 'kind = "star"', "star"),
        ('over = ["box"]', 'over = ["bax"]', "the nearest is 'box'|the nearest is \"box\""),
        ("[mine._fabric.network]", "[mine._fabric.netwerk]", "netwerk"),
        ("[mine]", "[[mine]]", "table"),
    ):
        assert before in good
        path.write_text(good.replace(before, after))
        with pytest.raises(ValueError, match=needle) as caught:
            systems.load(path)
        assert "\n" not in str(caught.value)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="UTF-8"):
        systems.load(path)
    with pytest.raises(FileNotFoundError):
        systems.load(tmp_path / "none.toml")


def test_clusters_equal_their_graph_and_cost_nothing() -> None:
    small = systems.cluster(3, "gen1")
    whole = small.system()
    assert tuple(small.chips) == whole.chips
    assert small.bound().per_chip == pytest.approx(whole.bound().per_chip)
    assert small.bound().binding.levels == whole.bound().binding.levels
    assert dict(small.bound().levels) == pytest.approx(dict(whole.bound().levels))
    assert systems.cluster(4, "gen1").bisection() == pytest.approx(
        systems.cluster(4, "gen1").system().bisection()
    )
    for a, b in itertools.product(small.chips[::31], small.chips[::17]):
        one, other = small.route(a, b), whole.route(a, b)
        assert (one.rate, one.hops, one.relays) == (other.rate, other.hops, other.relays)
        assert one.latency == pytest.approx(other.latency)
    ring = small.bound("ring").per_chip
    assert ring == pytest.approx(25e9)
    assert small.system().fail((0, 0, 0, 0)).num_chips == 191
    million = systems.cluster(6945)
    assert million.num_chips == len(million.chips) == 1_000_080
    assert million.chips[1_000_079] == (6944, 1, 17, 3)
    assert million.index((6944, 1, 17, 3)) == 1_000_079
    assert (6944, 1, 17, 3) in million.chips
    assert (6945, 0, 0, 0) not in million.chips
    assert million.bound().per_chip == pytest.approx(25e9 * 1_000_079 / (1_000_080 - 144))
    assert pickle.loads(pickle.dumps(million)) == million
    assert million.spec()["chips"].value == 1_000_080


def test_traffic_patterns() -> None:
    trn2 = systems.trn2_instance()
    ring = traffic.ring(trn2.rings()[0], 1e9)
    bound = trn2.bound(ring)
    assert bound.time == pytest.approx(1e9 / 128e9)
    assert len(bound.binding) == 16
    both = trn2.bound(traffic.ring(trn2.rings()[0], 1e9, both_ways=True))
    assert both.time == pytest.approx(0.5e9 / 128e9)
    swap = traffic.permutation({(0, 0): (2, 2), (2, 2): (0, 0)}, 4e9)
    assert trn2.bound(swap).per_chip == pytest.approx(4 * 128e9)
    mixed = trn2.bound(traffic.from_matrix([[0.0, 3e9], [0.0, 0.0]], [(0, 0), (0, 1)]))
    assert mixed.senders == 1
    assert mixed.time == pytest.approx(3e9 / 128e9)
    assert mixed.slowest == ((0, 0), (0, 1))
    matrix = np.zeros((16, 16))
    matrix[0, 1] = 3e9
    assert trn2.bound(matrix).time == mixed.time


def test_systems_are_values() -> None:
    gen2 = systems.trn3_gen2()
    assert gen2 == UltraServer.gen2() == copy.copy(gen2) == pickle.loads(pickle.dumps(gen2))
    assert hash(gen2) == hash(UltraServer.gen2())
    assert gen2 != systems.trn3_gen2(lnc=1)
    with pytest.raises(AttributeError):
        gen2.lnc = 1  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(gen2.fail("rack/0"))).faults == ("switch rack/0 failed",)
    bound = gen2.bound()
    with pytest.raises(ValueError, match="read-only"):
        bound.loads[0] = 1
    assert "[4, 18, 2]" in " ".join(gen2.to_astra_sim().split())
    assert gen2.facts.name == "trn3_gen2"
    assert trn3.UltraServer is UltraServer
    assert trn3.Chip is Chip


def test_pods_are_answered_by_symmetry() -> None:
    pod = systems.tpu_v7_pod()
    assert len(pod) == 9216
    # Mean hops of a ring of 24 are 6, of 16 are 4; a chip has two links of 100 GB/s on each axis.
    longest = 6 * 9216 / 9215
    assert pod.bound().per_chip == pytest.approx(2 * 100e9 / longest)
    assert pod.hops(0, 9215) == 3


@pytest.mark.parametrize("name", SMALL)
def test_drawings_have_every_chip(name: str, tmp_path: Path) -> None:
    from xml.etree import ElementTree as ET

    system = SMALL[name]()
    root = ET.fromstring(system.to_svg())
    circles = [node for node in root.iter() if node.tag.endswith("circle")]
    assert len(circles) == len(system)
    places = {(node.get("cx"), node.get("cy")) for node in circles}
    assert len(places) == len(system)
    path = tmp_path / "graph.png"
    assert system.plot(path) == path
    assert path.read_bytes().startswith(b"\x89PNG")


def test_pods_are_too_large_to_draw() -> None:
    with pytest.raises(ValueError, match="at most 1024"):
        systems.tpu_v7_pod().to_svg()
