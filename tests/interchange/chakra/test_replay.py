"""Traces of all ranks, run on simulated systems."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from support.profiles import attention
from trn3 import collectives, systems
from trn3.facts import load
from trn3.interchange import chakra
from trn3.interchange.chakra import Attribute, CollectiveType, Node, NodeType, Trace, TraceError

GEN2 = systems.trn3_gen2()
MIB = 1 << 20


def comp(id_: int, us: int = 0, deps: Sequence[int] = (), **attributes: object) -> Node:
    return node(id_, NodeType.COMP_NODE, deps, us, **attributes)


def node(
    id_: int, type_: NodeType, deps: Sequence[int] = (), us: int = 0, **attributes: object
) -> Node:
    given = tuple(Attribute(name, value) for name, value in attributes.items())  # type: ignore[arg-type]
    return Node(id_, f"n{id_}", type_, data_deps=tuple(deps), duration_micros=us, attributes=given)


def coll(
    id_: int,
    size: int,
    deps: Sequence[int] = (),
    kind: CollectiveType = CollectiveType.ALL_REDUCE,
    **attributes: object,
) -> Node:
    more: dict[str, Any] = {"comm_type": kind, "comm_size": size, **attributes}
    return node(id_, NodeType.COMM_COLL_NODE, deps, **more)


def send(id_: int, to: int, size: int, deps: Sequence[int] = (), tag: int = 0) -> Node:
    return node(id_, NodeType.COMM_SEND_NODE, deps, comm_dst=to, comm_size=size, comm_tag=tag)


def recv(id_: int, from_: int, size: int, deps: Sequence[int] = (), tag: int = 0) -> Node:
    return node(id_, NodeType.COMM_RECV_NODE, deps, comm_src=from_, comm_size=size, comm_tag=tag)


def same(count: int, *nodes: Node) -> list[Trace]:
    return [Trace(nodes=nodes)] * count


def test_replay_of_one_node_takes_its_duration() -> None:
    result = chakra.replay([Trace(nodes=(comp(7, 42),))], GEN2)
    assert result.finish == 42e-6
    assert result.span(0, 7).time == 42e-6
    assert (result.binding, result.binding_link) == ("computation", None)
    assert result.exposed == (0.0,)


def test_replay_of_nothing_takes_no_time() -> None:
    result = chakra.replay([Trace()], GEN2)
    assert (result.finish, result.binding) == (0.0, "nothing")
    assert "0 s" in str(result)


def test_replay_runs_a_chain_in_order_and_a_stream_one_at_a_time() -> None:
    nodes = (comp(3, 5, [2]), comp(2, 10), comp(4, 7, [2]))
    result = chakra.replay([Trace(nodes=nodes)], GEN2)
    assert result.span(0, 3).start == pytest.approx(10e-6)
    assert result.span(0, 4).start == pytest.approx(15e-6)
    assert result.finish == pytest.approx(22e-6)
    assert [step.id for step in result.critical_path] == [2, 3, 4]


def test_replay_keeps_streams_apart_by_an_attribute() -> None:
    nodes = (comp(0, 5, engine="pe"), comp(1, 7, engine="act"), comp(2, 3, is_cpu_op=True))
    trace = [Trace(nodes=nodes)]
    assert chakra.replay(trace, GEN2).finish == pytest.approx(12e-6)
    assert chakra.replay(trace, GEN2, streams="engine").finish == pytest.approx(7e-6)


@pytest.mark.parametrize("ranks", [2, 4, 16, 64])
@pytest.mark.parametrize("size", [4096, MIB, 256 * MIB])
def test_replay_of_an_all_reduce_takes_the_collectives_own_time(ranks: int, size: int) -> None:
    result = chakra.replay(same(ranks, coll(0, size)), GEN2)
    alone = collectives.time("all_reduce", size, system=GEN2, group=range(ranks)).time
    assert result.finish == pytest.approx(alone, rel=0.01)
    assert all(each == pytest.approx(result.finish) for each in result.exposed)


def test_replay_of_all_gather_counts_a_ranks_input() -> None:
    result = chakra.replay(same(8, coll(0, MIB, kind=CollectiveType.ALL_GATHER)), GEN2)
    alone = collectives.time("all_gather", 8 * MIB, system=GEN2, group=range(8)).time
    assert result.finish == pytest.approx(alone, rel=0.01)


@pytest.mark.parametrize("kind", list(CollectiveType))
def test_replay_has_every_collective_and_more_bytes_take_longer(kind: CollectiveType) -> None:
    sizes = [MIB << shift for shift in range(0, 9, 2)]
    times = [chakra.replay(same(16, coll(0, size, kind=kind)), GEN2).finish for size in sizes]
    assert all(a <= b for a, b in pairwise(times))
    assert times[0] > 0
    assert (times[-1] > times[0]) != (kind is CollectiveType.BARRIER)


def test_replay_of_concurrent_collectives_contends() -> None:
    one = chakra.replay(same(16, coll(0, 64 * MIB)), GEN2).finish
    two = chakra.replay(same(16, coll(0, 64 * MIB), coll(1, 64 * MIB)), GEN2)
    assert 1.5 * one < two.finish <= 2 * one * (1 + 1e-9)
    in_turn = chakra.replay(same(16, coll(0, 64 * MIB), coll(1, 64 * MIB, [0])), GEN2).finish
    assert in_turn == pytest.approx(2 * one)
    apart = [Trace(nodes=(coll(0, 64 * MIB, pg_name=f"{rank // 16}"),)) for rank in range(32)]
    assert chakra.replay(apart, GEN2).finish < 1.5 * one


def test_replay_serves_higher_priority_first() -> None:
    nodes = (coll(0, 64 * MIB, priority=3), coll(1, 64 * MIB, priority=0))
    result = chakra.replay(same(16, *nodes), GEN2)
    alone = chakra.replay(same(16, coll(0, 64 * MIB)), GEN2).finish
    assert result.span(0, 1).end == pytest.approx(alone, rel=0.01)
    assert result.span(0, 0).end == pytest.approx(2 * alone, rel=0.05)


def test_replay_depends_on_topology_and_placement() -> None:
    traces = same(16, coll(0, 64 * MIB))
    times = [
        chakra.replay(traces, name, ranks_per_chip=4).finish
        for name in ("trn3_gen2", "trn3_gen1", "trn2_instance", "trn2_ultraserver")
    ]
    assert len({round(t, 12) for t in times[:3]}) == 3
    spread = chakra.replay(traces, GEN2, placement=[36 * rank for rank in range(16)])
    assert spread.finish != pytest.approx(times[0], rel=0.05)
    broken = GEN2.fail("0/0/0-server/0/0:3")
    slower = chakra.replay(traces, broken).finish
    assert slower > times[0]


def test_replay_is_not_slower_on_a_faster_fabric() -> None:
    traces = [
        Trace(
            nodes=(comp(0, 20 + rank), coll(1, 8 * MIB, [0]), coll(2, 4 * MIB), comp(3, 9, [1, 2]))
        )
        for rank in range(32)
    ]
    slow, fast = (
        chakra.replay(traces, systems.trn3_gen2(links=links)).finish
        for links in ("docs", "headline")
    )
    rates = [
        sum(link.rate for link in systems.trn3_gen2(links=links).graph.links)
        for links in ("docs", "headline")
    ]
    assert (slow - fast) * (rates[1] - rates[0]) >= 0


def test_replay_moves_messages_over_routes() -> None:
    size = 256_000_000
    traces = [Trace(nodes=(comp(0, 50), send(1, 1, size, [0], 5)))]
    traces.append(Trace(nodes=(recv(0, 0, size, tag=5), comp(1, 10, [0]))))
    result = chakra.replay(traces, GEN2, ranks_per_chip=1)
    route = GEN2.route(0, 1)
    assert result.span(1, 0).start == 0
    assert result.span(1, 0).end == pytest.approx(50e-6 + route.time(size), rel=0.01)
    assert result.finish == pytest.approx(60e-6 + route.time(size), rel=0.01)
    assert sum(result.bytes_by_link.values()) == pytest.approx(2 * size)
    assert result.binding_link in result.bytes_by_link
    assert result.binding == result.binding_link
    within = chakra.replay(traces, GEN2)
    assert within.bytes_by_link == {}
    assert within.finish < result.finish


def test_replay_matches_messages_of_a_tag_in_order() -> None:
    traces = [
        Trace(nodes=(send(0, 1, 10, tag=1), comp(1, 100), send(2, 1, 20, [1], 1))),
        Trace(nodes=(recv(0, 0, 10, tag=1), recv(1, 0, 20, [0], tag=1))),
    ]
    result = chakra.replay(traces, GEN2)
    assert result.span(1, 0).end < 10e-6
    assert result.span(1, 1).end > 100e-6


def test_replay_of_memory_nodes_takes_the_ranks_dma_engines() -> None:
    size = 528_000_000
    facts = load("neuroncore_v4")
    rate = facts["dma_engines"].number * facts["dma_engine_bw"].number * 1e9 * GEN2.lnc
    nodes = (node(0, NodeType.MEM_LOAD_NODE, tensor_size=size),)
    alone = chakra.replay([Trace(nodes=nodes)], GEN2)
    assert alone.finish == pytest.approx(size / rate)
    assert alone.binding == "DMA engines of rank 0"
    two = (*nodes, node(1, NodeType.MEM_STORE_NODE, tensor_size=size))
    assert chakra.replay([Trace(nodes=two)], GEN2).finish == pytest.approx(2 * size / rate)


def test_replay_by_roofline_takes_the_larger_of_work_and_bytes() -> None:
    # An array of 128 x 128 at 2.4 GHz, of which a rank has two; four ranks share 4.9 TB/s.
    peak, memory = 128 * 128 * 2 * 2.4e9 * 2, 4.9e12 / 4
    trace = [Trace(nodes=(comp(0, 1, num_ops=10**12, tensor_size=8),))]
    result = chakra.replay(trace, GEN2, compute="roofline")
    assert result.finish == pytest.approx(1e12 / peak)
    fp8 = chakra.replay(trace, GEN2, compute="roofline", dtype="mxfp8")
    assert fp8.finish == pytest.approx(result.finish / 4, rel=0.1)
    bytes_ = [Trace(nodes=(comp(0, num_ops=8, tensor_size=10**9),))]
    assert chakra.replay(bytes_, GEN2, compute="roofline").finish == pytest.approx(1e9 / memory)


@st.composite
def job(draw: st.DrawFn) -> list[Trace]:
    """Return a job of a few ranks: random graphs, collectives between layers of them."""
    ranks = draw(st.integers(2, 5))
    layers = draw(st.integers(1, 4))
    sizes = [draw(st.integers(0, 1 << 22)) for _ in range(layers)]
    kinds = [draw(st.sampled_from(list(CollectiveType))) for _ in range(layers)]
    traces = []
    for _ in range(ranks):
        nodes: list[Node] = []
        for layer in range(layers):
            for _ in range(draw(st.integers(0, 3))):
                deps = draw(st.sets(st.integers(0, len(nodes) - 1), max_size=3)) if nodes else set()
                nodes.append(comp(len(nodes), draw(st.integers(0, 100)), sorted(deps)))
            deps = draw(st.sets(st.integers(0, len(nodes) - 1), max_size=2)) if nodes else set()
            # The order of collectives is what ranks agree on.
            before = [n.id for n in nodes if n.type is NodeType.COMM_COLL_NODE][-1:]
            nodes.append(coll(len(nodes), sizes[layer], sorted(deps | set(before)), kinds[layer]))
        traces.append(Trace(nodes=tuple(nodes)))
    return traces


@settings(max_examples=40, deadline=None)
@given(job())
def test_replay_starts_nodes_after_what_they_wait_for(traces: list[Trace]) -> None:
    result = chakra.replay(traces, GEN2, ranks_per_chip=2)
    last = 0.0
    for rank, trace in enumerate(traces):
        spans = {span.id: span for span in result.timeline(rank)}
        computing = []
        for each in trace.nodes:
            span = spans[each.id]
            last = max(last, span.end)
            assert span.end >= span.start >= max((spans[dep].end for dep in each.deps), default=0.0)
            if each.type is NodeType.COMP_NODE:
                assert span.time == pytest.approx(each.duration_micros * 1e-6, abs=1e-15)
                computing.append((span.start, span.end))
        computing.sort()
        for (_, end), (start, _) in pairwise(computing):
            assert start >= end
        assert result.compute_busy[rank] == pytest.approx(sum(e - s for s, e in computing))
        assert 0 <= result.exposed[rank] <= result.communication[rank] + 1e-15
    assert result.finish == last
    steps = result.critical_path
    assert steps[0].start == 0.0
    assert steps[-1].end == result.finish
    assert all(a.end == b.start for a, b in pairwise(steps))
    assert sum(result.by_resource.values()) == pytest.approx(result.finish)


@settings(max_examples=15, deadline=None)
@given(traces=job(), factor=st.integers(2, 5))
def test_replay_of_more_bytes_is_not_faster_in_a_chain(traces: list[Trace], factor: int) -> None:
    def chained(scale: int) -> list[Trace]:
        made = []
        for trace in traces:
            nodes = []
            for at, each in enumerate(trace.nodes):
                deps = (at - 1,) if at else ()
                if each.type is NodeType.COMM_COLL_NODE:
                    size = each.get("comm_size") * scale
                    nodes.append(coll(at, size, deps, each.get("comm_type")))
                else:
                    nodes.append(comp(at, each.duration_micros, deps))
            made.append(Trace(nodes=tuple(nodes)))
        return made

    assert chakra.replay(chained(1), GEN2).finish <= chakra.replay(chained(factor), GEN2).finish


def test_replay_of_files_is_that_of_the_traces(tmp_path: Path) -> None:
    traces = [
        Trace(nodes=(comp(0, 10 * rank), coll(1, MIB, [0]), comp(2, 5, [1]))) for rank in range(4)
    ]
    chakra.write_ranks(traces, tmp_path / "job")
    read, kept = chakra.replay(tmp_path / "job", GEN2), chakra.replay(traces, GEN2)
    assert read.finish == kept.finish
    for a, b in zip(read.ends, kept.ends, strict=True):
        np.testing.assert_array_equal(a, b)
    assert read.to_dict(nodes=True) == kept.to_dict(nodes=True)


def test_replay_reads_attributes_of_other_versions() -> None:
    old = node(
        0,
        NodeType.COMM_COLL_NODE,
        collective_type="allreduce",
        comm_bytes=float(MIB),
        unknown=(1, 2),
        process_group="",
    )
    assert (
        chakra.replay(same(4, old), GEN2).finish
        == chakra.replay(same(4, coll(0, MIB)), GEN2).finish
    )


def test_replay_of_a_kernels_profile_takes_as_long_as_the_kernel() -> None:
    profile = attention(4)
    trace = chakra.from_profile(profile)
    result = chakra.replay([trace], GEN2, streams="engine", memory="duration")
    assert result.finish == pytest.approx(profile.latency_us * 1e-6, rel=0.05)


def test_replay_takes_groups_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "groups.json"
    path.write_text(json.dumps({"tp": [1, 0]}))
    traces = same(2, coll(0, MIB, pg_name="tp", kind=CollectiveType.BROADCAST))
    assert chakra.replay(traces, GEN2, groups=path).finish > 0
    path.write_text('{"tp": [0, 2]}')
    with pytest.raises(ValueError, match=r"groups.json: 'tp' has rank 2; the job has 0 to 1"):
        chakra.replay(traces, GEN2, groups=path)
    with pytest.raises(TraceError, match=r"rank 1, node 0 \('n0'\): process group 'tp'"):
        chakra.replay(traces, GEN2, groups={"tp": [0]})


def test_replay_writes_events_that_chrome_reads(tmp_path: Path) -> None:
    traces = same(2, comp(0, 5), coll(1, MIB), coll(2, MIB))
    result = chakra.replay(traces, GEN2)
    result.to_chrome_trace(tmp_path / "out.json")
    events = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    complete = [event for event in events if event["ph"] == "X"]
    assert len(complete) == 6
    assert max(e["ts"] + e["dur"] for e in complete) == pytest.approx(result.finish * 1e6)
    lanes = {(event["pid"], event["tid"]) for event in complete}
    assert len(lanes) == 6


def test_replay_says_what_it_rests_on() -> None:
    result = chakra.replay(same(64, comp(0, 5), coll(1, MIB)), GEN2)
    assert any("one node at a time" in text for text in result.assumptions)
    assert any("comm_size" in text for text in result.assumptions)
    assert "48 more ranks" in result.table()
    assert "64 ranks on trn3_gen2" in str(result)
    assert sum(result.algorithms.values()) == 1


REFUSED = {
    "size": (same(2, node(0, NodeType.COMM_COLL_NODE, comm_type=0)), r"rank 0, node 0 .*comm_size"),
    "type": (same(2, node(0, NodeType.COMM_COLL_NODE, comm_size=1)), r"comm_type is missing"),
    "kind": (same(2, coll(0, 1, comm_type=77)), r"comm_type is 77; allowed: 0 ALL_REDUCE"),
    "negative": (same(2, coll(0, -1)), r"comm_size is -1; allowed: 0 or more"),
    "priority": (same(2, coll(0, 1, priority=4)), r"priority is 4; allowed: 0"),
    "dimension": (same(2, coll(0, 1, involved_dim=(True, False))), r"involved_dim"),
    "memory": (same(1, node(3, NodeType.MEM_LOAD_NODE)), r"node 3 .*tensor_size .*is missing"),
    "destination": (same(2, node(0, NodeType.COMM_SEND_NODE, comm_size=1)), r"comm_dst"),
    "outside": ([Trace(nodes=(send(0, 5, 1),))], r"comm_dst is 5; the job has ranks 0 to 0"),
    "invalid": (same(1, node(0, NodeType.INVALID_NODE)), r"INVALID_NODE"),
    "duration": (same(1, comp(0, num_ops=5)), r"compute='roofline' would work"),
    "lone send": ([Trace(nodes=(send(0, 1, 1),)), Trace()], r"rank 0, node 0 .*sends to rank 1"),
    "lone receive": ([Trace(), Trace(nodes=(recv(9, 0, 1),))], r"rank 1, node 9 .*waits for"),
    "sizes": ([Trace(nodes=(send(0, 1, 1),)), Trace(nodes=(recv(0, 0, 2),))], r"sends 1 bytes"),
    "never joins": ([Trace(nodes=(coll(0, 1),)), Trace()], r"rank 0, node 0 .*rank 1 never joins"),
    "types": (
        [Trace(nodes=(coll(0, 1, kind=k),)) for k in (CollectiveType(0), CollectiveType(2))],
        r"rank 0, node 0 .* has all_reduce; rank 1, node 0 .* has all_gather",
    ),
    "ranks": (same(577, comp(0, 1)), r"rank 576 is the first outside"),
    "deadlock": (
        [
            Trace(nodes=(recv(0, 1, 1), send(1, 1, 1, [0]))),
            Trace(nodes=(recv(0, 0, 1), send(1, 0, 1, [0]))),
        ],
        r"deadlock: .*rank 0, node 0 .*rank 1, node",
    ),
    "crossed": (
        [
            Trace(nodes=(coll(0, 1, pg_name="a"), coll(1, 1, [0], pg_name="b"))),
            Trace(nodes=(coll(0, 1, pg_name="b"), coll(1, 1, [0], pg_name="a"))),
        ],
        r"deadlock: .*all_reduce of \"[ab]\"",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_replay_refuses_by_rank_and_node(name: str) -> None:
    traces, text = REFUSED[name]
    # The constructor keeps the first attribute of a name; these give theirs later.
    traces = [Trace(nodes=tuple(_last_counts(each) for each in trace.nodes)) for trace in traces]
    with pytest.raises(TraceError, match=text):
        chakra.replay(traces, GEN2)


def _last_counts(each: Node) -> Node:
    values = {attribute.name: attribute for attribute in each.attributes}
    return Node(
        each.id,
        each.name,
        each.type,
        each.ctrl_deps,
        each.data_deps,
        each.start_time_micros,
        each.duration_micros,
        attributes=tuple(values.values()),
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"compute": "guess"}, "compute is 'guess'; allowed: 'duration', 'roofline'"),
        ({"ranks_per_chip": 0}, "ranks_per_chip is 0"),
        ({"placement": [0]}, "placement has 1 entries; the job has 2"),
        ({"placement": [0, 0]}, "ranks 0 and 1 both on 0"),
        ({"placement": [0, 576]}, "rank 1 on 576; trn3_gen2 has 0 to 575"),
        ({"algorithm": "rings"}, "rings"),
        ({"compute": "roofline", "dtype": "int3"}, "dtype is 'int3'"),
    ],
)
def test_replay_refuses_wrong_arguments(options: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        chakra.replay(same(2, comp(0, 1, num_ops=1), coll(1, 8)), GEN2, **options)  # type: ignore[arg-type]


def test_replay_of_ranks_that_faults_cut_off_says_so() -> None:
    cut = systems.trn2_instance().fail(
        *[((0, 0), other) for other in ((0, 1), (0, 3), (1, 0), (3, 0))]
    )
    with pytest.raises(ConnectionError, match="rank 0, node 0"):
        chakra.replay(same(8, coll(0, MIB)), cut)
