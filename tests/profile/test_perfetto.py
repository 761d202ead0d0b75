"""The Perfetto trace, read back by the public package's own message classes.

What a viewer does with the packets is done here from the format's description: sequences hold names
and a default track, events of a track are taken in order of time, ends close the latest open slice.
"""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from support.profiles import DMA, attention, by_hand, empty, profile_data
from trn3.profile import (
    CAUSES,
    ENGINES,
    NO_INSTRUCTION,
    LogicalProfile,
    Profile,
    ProfileData,
)

pb = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")


@dataclass
class Slice:
    track: int
    name: str
    start: int
    end: int
    arguments: dict[str, Any]
    flows: list[int]
    flow_ends: list[int]


@dataclass
class Viewed:
    """What a viewer would show."""

    processes: dict[int, str] = field(default_factory=dict)
    tracks: dict[int, str] = field(default_factory=dict)
    units: dict[int, Any] = field(default_factory=dict)
    slices: list[Slice] = field(default_factory=list)
    counters: dict[str, list[tuple[int, float]]] = field(default_factory=lambda: defaultdict(list))

    def of(self, prefix: str) -> list[Slice]:
        return [part for part in self.slices if self.tracks[part.track].startswith(prefix)]


def view(raw: bytes) -> Viewed:
    parsed = pb.Trace()
    parsed.ParseFromString(raw)
    viewed = Viewed()
    state: dict[int, Any] = {}
    events = []
    for packet in parsed.packet:
        sequence = packet.trusted_packet_sequence_id
        assert sequence
        if packet.HasField("track_descriptor"):
            describe(viewed, packet.track_descriptor)
        if packet.sequence_flags & 1:
            state[sequence] = (packet.interned_data, packet.trace_packet_defaults)
        if packet.HasField("track_event"):
            assert packet.sequence_flags == 2
            interned, defaults = state[sequence]
            track = defaults.track_event_defaults.track_uuid
            events.append((packet.timestamp, track, packet.track_event, interned))
    open_slices: dict[int, list[Slice]] = defaultdict(list)
    # A stable sort by time, as viewers do: packets of one time keep the order of the file.
    for at, track, event, interned in sorted(events, key=lambda item: item[0]):
        if event.type == pb.TrackEvent.TYPE_SLICE_BEGIN:
            assert not open_slices[track], "slices of one track overlap"
            started = Slice(
                track,
                names(interned.event_names)[event.name_iid],
                at,
                -1,
                arguments(event, interned),
                list(event.flow_ids),
                list(event.terminating_flow_ids),
            )
            viewed.slices.append(started)
            open_slices[track].append(started)
        elif event.type == pb.TrackEvent.TYPE_SLICE_END:
            open_slices[track].pop().end = at
        else:
            assert event.type == pb.TrackEvent.TYPE_COUNTER
            value = event.WhichOneof("counter_value_field")
            viewed.counters[viewed.tracks[track]].append((at, getattr(event, value)))
    assert not any(open_slices.values())
    return viewed


def describe(viewed: Viewed, descriptor: Any) -> None:
    assert descriptor.uuid not in viewed.tracks
    if descriptor.HasField("process"):
        viewed.processes[descriptor.uuid] = descriptor.process.process_name
        return
    assert descriptor.parent_uuid in viewed.processes
    if descriptor.HasField("counter"):
        viewed.tracks[descriptor.uuid] = descriptor.name
        viewed.units[descriptor.uuid] = descriptor.counter
    else:
        viewed.tracks[descriptor.uuid] = descriptor.thread.thread_name


def names(interned: Any) -> dict[int, str]:
    found = {entry.iid: entry.name for entry in interned}
    assert len(found) == len(interned)
    return found


def arguments(event: Any, interned: Any) -> dict[str, Any]:
    keys = names(interned.debug_annotation_names)
    texts = {entry.iid: entry.str.decode() for entry in interned.debug_annotation_string_values}
    found = {}
    for annotation in event.debug_annotations:
        if annotation.WhichOneof("value") == "string_value_iid":
            found[keys[annotation.name_iid]] = texts[annotation.string_value_iid]
        else:
            found[keys[annotation.name_iid]] = annotation.uint_value
    return found


def trace_of(profile: Profile) -> bytes:
    """Return the bytes of the trace that a profile writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.perfetto"
        profile.to_perfetto(path)
        return path.read_bytes()


def test_trace_by_hand(tmp_path: Path) -> None:
    by_hand().to_perfetto(tmp_path / "t.perfetto")
    viewed = view((tmp_path / "t.perfetto").read_bytes())
    assert list(viewed.processes.values()) == ["NeuronCore 0: toy"]
    (load,) = viewed.of("DMA queue 0")
    assert (load.name, load.start, load.end) == ("dma_copy", 0, 3000)
    assert load.arguments["line"] == "toy.py:3 in toy"
    assert load.arguments["DMA bytes"] == 250_000
    assert load.arguments["HBM read bytes"] == 200_000
    assert load.arguments["HBM write bytes"] == 50_000
    first, second = viewed.of("tensor")
    assert (first.name, first.start, first.end) == ("nc_matmul", 3000, 5000)
    assert first.arguments == {
        "line": "toy.py:5 in toy",
        "label": "first",
        "instruction": 1,
        "result visible after (ps)": 3_000_000,
        "slot held (ps)": 2_000_000,
        "waited before (ps)": 3_000_000,
        "waited for": "dma",
        "MACs": 2000 * 16384,
    }
    assert (second.name, second.start, second.end) == ("nc_matmul_mx", 8000, 9000)
    assert "label" not in second.arguments
    (added,) = viewed.of("vector")
    assert load.flows == first.flow_ends
    assert first.flows == added.flow_ends
    assert added.flows == second.flow_ends
    assert second.flows == []
    steps = viewed.of("critical path")
    assert [(s.start, s.end) for s in steps] == [
        (0, 3000),
        (3000, 6000),
        (6000, 8000),
        (8000, 10_000),
    ]
    assert steps[2].arguments == {"line": "toy.py:9 in toy", "instruction": 2, "engine": "vector"}
    (whole,) = viewed.of("kernel")
    assert (whole.name, whole.start, whole.end) == ("toy", 0, 10_000)
    assert "verdict" in whole.arguments
    moves = viewed.of("DMA engine 0") + viewed.of("DMA engine 1")
    assert [(part.start, part.end) for part in moves] == [(500, 2500), (2000, 3000)]
    assert [part.arguments["bytes"] for part in moves] == [30_000, 10_000]
    assert viewed.counters["SBUF bytes per partition"] == [(0, 256), (3000, 512), (10_000, 0)]
    assert viewed.counters["PSUM bytes per partition"] == [(0, 0), (3000, 64), (10_000, 0)]
    rates = viewed.counters["HBM bandwidth"]
    assert len(rates) == 10_000 // 50 + 1
    assert sum(rate for _, rate in rates) * 50 == pytest.approx(250_000)
    assert dict(rates)[1000] == pytest.approx(93.75)
    units = {viewed.tracks[track]: counter for track, counter in viewed.units.items()}
    assert units["HBM bandwidth"].unit_name == "GB/s"
    assert units["SBUF bytes per partition"].unit == pb.CounterDescriptor.UNIT_SIZE_BYTES


@settings(max_examples=40)
@given(profile_data())
def test_trace_holds_every_instruction_and_arrow(data: ProfileData) -> None:
    viewed = view(trace_of(Profile(data)))
    instructions = data.instructions
    own = ("DMA engine", "kernel", "critical path")
    shown = [part for part in viewed.slices if not viewed.tracks[part.track].startswith(own)]
    assert len(viewed.of("critical path")) == len(data.critical)
    by_number = {part.arguments["instruction"]: part for part in shown}
    assert sorted(by_number) == list(range(len(instructions)))
    assert len(shown) == len(instructions)
    producers = {flow: number for number, part in by_number.items() for flow in part.flows}
    assert len(producers) == sum(len(part.flows) for part in shown)
    for i, part in by_number.items():
        dma = instructions.engine[i] == DMA
        end = (instructions.end_ps if dma else instructions.slot_end_ps)[i]
        assert (part.start, part.end) == (int(instructions.start_ps[i]) // 1000, int(end) // 1000)
        assert part.name == data.opcodes[instructions.opcode[i]]
        track = viewed.tracks[part.track].split(" (")[0]
        name = f"DMA queue {instructions.queue[i]}" if dma else ENGINES[instructions.engine[i]]
        assert track == name
        if instructions.wait_ps[i]:
            assert part.arguments["waited before (ps)"] == instructions.wait_ps[i]
            assert part.arguments["waited for"] == CAUSES[instructions.cause[i]]
        else:
            assert "waited for" not in part.arguments
        assert part.arguments.get("label", "") == data.labels[instructions.label[i]]
        if instructions.waited_on[i] == NO_INSTRUCTION:
            assert part.flow_ends == []
        else:
            (flow,) = part.flow_ends
            assert producers.pop(flow) == instructions.waited_on[i]
    assert not producers
    moved = [(s.start, s.end, s.arguments["bytes"]) for s in viewed.of("DMA engine")]
    transfers = data.transfers
    assert sorted(moved) == sorted(
        zip(
            (transfers.start_ps // 1000).tolist(),
            (transfers.end_ps // 1000).tolist(),
            transfers.bytes.tolist(),
            strict=True,
        )
    )


def test_trace_of_two_cores_shares_no_track_or_arrow() -> None:
    viewed = view(trace_of(LogicalProfile([attention(2), attention(3)])))
    assert sorted(viewed.processes.values()) == [
        "NeuronCore 0: attention",
        "NeuronCore 1: attention",
    ]
    flows = [flow for part in viewed.slices for flow in part.flows]
    assert len(flows) == len(set(flows)) > 20
    assert len(viewed.of("tensor")) == 5 * 3


def test_trace_of_nothing() -> None:
    viewed = view(trace_of(Profile(empty())))
    assert [part.name for part in viewed.slices] == ["toy"]


def test_trace_of_200_000_instructions_takes_less_than_5_seconds(tmp_path: Path) -> None:
    small = attention(20).data.to_dict()
    count = len(small["instructions"]["start_ps"])
    repeat = -(-200_000 // count)
    period = small["latency_ps"]
    shifts = np.arange(repeat).repeat(count)
    columns = {name: np.tile(values, repeat) for name, values in small["instructions"].items()}
    for name in ("start_ps", "slot_end_ps", "end_ps"):
        columns[name] = columns[name] + period * shifts
    none = columns["waited_on"] == NO_INSTRUCTION
    columns["waited_on"] = np.where(none, NO_INSTRUCTION, columns["waited_on"] + count * shifts)
    large = {
        **small,
        "latency_ps": period * repeat,
        "instructions": columns,
        "transfers": {name: [] for name in small["transfers"]},
    }
    profile = Profile(ProfileData.from_dict(large))
    assert len(profile.data.instructions) >= 200_000
    begin = time.perf_counter()
    profile.to_perfetto(tmp_path / "t.perfetto")
    assert time.perf_counter() - begin < 5
    parsed = pb.Trace()
    parsed.ParseFromString((tmp_path / "t.perfetto").read_bytes())
    begins = sum(p.track_event.type == pb.TrackEvent.TYPE_SLICE_BEGIN for p in parsed.packet)
    assert begins == len(profile.data.instructions) + len(profile.data.critical) + 1
