"""Traces made from what a kernel's run recorded."""

from __future__ import annotations

from hypothesis import given, settings

from support.profiles import attention, by_hand, profile_data
from trn3.interchange import chakra
from trn3.profile import Profile, ProfileData


@settings(max_examples=30)
@given(profile_data())
def test_from_profile_survives_its_file(data: ProfileData) -> None:
    trace = chakra.from_profile(Profile(data))
    assert chakra.loads(chakra.dumps(trace)) == trace
    assert len(trace.nodes) == len(data.instructions)


def test_from_profile_counts_work_and_bytes() -> None:
    profile = by_hand()
    trace = chakra.from_profile(profile, rank=3)
    assert sum(node.get("num_ops") for node in trace.nodes) == 2 * profile.macs
    moved = [
        node.get("tensor_size")
        for node in trace.nodes
        if node.type in {chakra.NodeType.MEM_LOAD_NODE, chakra.NodeType.MEM_STORE_NODE}
    ]
    assert sum(moved) == profile.dma_bytes
    assert trace.attributes[2] == chakra.Attribute("rank", 3)


def test_from_profile_ends_when_the_kernel_does() -> None:
    profile = attention(8)
    trace = chakra.from_profile(profile)
    last = max(node.start_time_micros + node.duration_micros for node in trace.nodes)
    assert abs(last - profile.latency_us) <= 0.5
    exact = max(node.get("start_ps") + node.get("duration_ps") for node in trace.nodes)
    assert exact == profile.data.latency_ps


def test_from_profile_waits_for_what_came_before_on_its_engine() -> None:
    trace = chakra.from_profile(attention(4))
    ends: dict[str, int] = {}
    for node in trace.nodes:
        for dep in node.deps:
            assert dep < node.id
        engine = node.get("engine")
        if engine != "dma":
            if engine in ends:
                assert ends[engine] in node.ctrl_deps
            ends[engine] = node.id
