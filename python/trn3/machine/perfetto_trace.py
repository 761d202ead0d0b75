"""A native Perfetto trace of profiles: one process a core, one thread an engine or DMA queue.

Packets are protobuf messages of the public trace format. They are encoded column by column, so that
hundreds of thousands of instructions take a moment. Each track is a packet sequence of its own,
in order of time, with names interned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trn3.machine.data import CAUSES, DMA, ENGINES, NO_INSTRUCTION
from trn3.machine.intervals import lanes
from trn3.machine.wire import (
    Fixed,
    Piece,
    Repeated64,
    constant,
    doubles,
    encode,
    field,
    nested,
    numbers,
    numbers_inside,
)

if TYPE_CHECKING:
    from trn3.machine.profile import Profile

# Field numbers of the trace format: Trace, TracePacket, TrackEvent, ...
PACKET = 1
TIMESTAMP, SEQUENCE, TRACK_EVENT, INTERNED, FLAGS, DEFAULTS, DESCRIPTOR = 8, 10, 11, 12, 13, 59, 60
ANNOTATION, EVENT_TYPE, EVENT_NAME, FLOW, FLOW_END = 4, 9, 10, 47, 48
COUNTER_VALUE, COUNTER_DOUBLE = 30, 44
SLICE_BEGIN, SLICE_END, COUNTER = 1, 2, 4
STATE_CLEARED, NEEDS_STATE = 1, 2
INTERNED_EVENTS, INTERNED_ANNOTATIONS, INTERNED_STRINGS = 2, 3, 29
ANNOTATION_NAME, ANNOTATION_UINT, ANNOTATION_STRING = 1, 3, 17
UNIT_BYTES = 3

# (choice) HBM bandwidth is drawn as means over at most so many bins, none shorter than this.
MAX_BINS = 2000
SHORTEST_BIN_PS = 50_000


@dataclass(frozen=True, slots=True)
class Column:
    """One argument of a track's slices: numbers, or places in a list of texts."""

    name: str
    values: NDArray[Any]
    texts: Sequence[str] | None = None
    where: NDArray[np.bool_] | None = None

    def of(self, rows: NDArray[np.integer[Any]]) -> Column:
        """Return some rows."""
        where = None if self.where is None else self.where[rows]
        return Column(self.name, self.values[rows], self.texts, where)


@dataclass(frozen=True, slots=True)
class Slices:
    """The slices of one track, by rising start and without overlap; times in picoseconds."""

    start_ps: NDArray[np.uint64]
    end_ps: NDArray[np.uint64]
    name: NDArray[Any]
    names: Sequence[str]
    columns: Sequence[Column]
    flows: tuple[NDArray[np.int64], NDArray[np.int64]]
    """Rows and ids of arrows that leave here, by rising row."""
    flow_ends: tuple[NDArray[np.int64], NDArray[np.int64]]
    """Rows and ids of arrows that arrive."""


def trace(profiles: Sequence[Profile]) -> Iterator[bytes]:
    """Yield the trace of the cores of one run, piece by piece.

    Parameters
    ----------
    profiles
        One for each core, in order of their numbers; all start at time 0.
    """
    sequence = 1
    for core, profile in enumerate(profiles):
        for part in _core(profile, core, sequence):
            sequence += 1
            yield part


def _packet(*fields: bytes) -> bytes:
    return field(PACKET, b"".join(fields))


def _core(profile: Profile, core: int, first_sequence: int) -> Iterator[bytes]:
    pid = core + 1
    process = pid << 16
    kernel = profile.data.kernel
    described = field(1, pid) + field(6, f"NeuronCore {core}: {kernel}")
    yield _packet(
        field(SEQUENCE, first_sequence), field(DESCRIPTOR, field(1, process) + field(3, described))
    )
    number = 0
    for name, slices in _tracks(profile, core):
        number += 1
        thread = field(1, pid) + field(2, process + number) + field(5, name)
        descriptor = field(1, process + number) + field(5, process) + field(4, thread)
        yield _slice_track(slices, descriptor, process + number, first_sequence + number)
    for name, unit, times, values in _counters(profile):
        number += 1
        counter = field(1, process + number) + field(5, process) + field(2, name) + field(8, unit)
        yield _counter_track(times, values, counter, process + number, first_sequence + number)


def _opening(descriptor: bytes, track: int, sequence: int, interned: bytes) -> bytes:
    """Return what comes first in a sequence: its track, its names, and that it starts afresh."""
    return _packet(field(SEQUENCE, sequence), field(DESCRIPTOR, descriptor)) + _packet(
        field(SEQUENCE, sequence),
        field(FLAGS, STATE_CLEARED),
        field(DEFAULTS, field(11, field(11, track))),
        field(INTERNED, interned),
    )


def _slice_track(slices: Slices, descriptor: bytes, track: int, sequence: int) -> bytes:
    count = len(slices.start_ps)
    interned = _interned(INTERNED_EVENTS, slices.name, slices.names, 0)
    event: list[Piece] = [
        constant(field(EVENT_TYPE, SLICE_BEGIN), count),
        numbers(EVENT_NAME, slices.name.astype(np.int64) + 1),
    ]
    texts = 0
    for place, column in enumerate(slices.columns, 1):
        interned += field(INTERNED_ANNOTATIONS, field(1, place) + field(2, column.name))
        values, inner = column.values, ANNOTATION_UINT
        if column.texts is not None:
            shown = values if column.where is None else values[column.where]
            interned += _interned(INTERNED_STRINGS, shown, column.texts, texts)
            values, inner = values.astype(np.int64) + texts + 1, ANNOTATION_STRING
            texts += len(column.texts)
        name = field(ANNOTATION_NAME, place)
        event.append(numbers_inside(ANNOTATION, name, inner, values, column.where))
    for number, (rows, ids) in ((FLOW, slices.flows), (FLOW_END, slices.flow_ends)):
        if len(rows):
            event.append(Repeated64(number, rows, ids, count))
    begin = _event_packet(slices.start_ps, sequence, event)
    end_event: list[Piece] = [constant(field(EVENT_TYPE, SLICE_END), count)]
    # The end stands right behind its begin, so that it comes before a begin at the same time.
    both = [*begin, *_event_packet(slices.end_ps, sequence, end_event)]
    return _opening(descriptor, track, sequence, interned) + encode(both)


def _event_packet(times_ps: NDArray[Any], sequence: int, event: list[Piece]) -> list[Piece]:
    # The format counts nanoseconds. Cut off, not rounded, they keep the order of picoseconds.
    stamp = numbers(TIMESTAMP, times_ps // 1000)
    state = constant(field(SEQUENCE, sequence) + field(FLAGS, NEEDS_STATE), len(times_ps))
    return nested(PACKET, [stamp, state, *nested(TRACK_EVENT, event)])


def _counter_track(
    times_ps: NDArray[Any], values: NDArray[Any], descriptor: bytes, track: int, sequence: int
) -> bytes:
    value: Fixed
    if values.dtype.kind == "f":
        value = doubles(COUNTER_DOUBLE, values)
    else:
        value = numbers(COUNTER_VALUE, values)
    kind = constant(field(EVENT_TYPE, COUNTER), len(values))
    rows = _event_packet(times_ps, sequence, [kind, value])
    return _opening(descriptor, track, sequence, b"") + encode(rows)


def _interned(number: int, places: NDArray[Any], texts: Sequence[str], offset: int) -> bytes:
    """Return the texts that are used, each under its place, from 1, plus an offset."""
    used = np.unique(places).tolist()
    return b"".join(
        field(number, field(1, place + offset + 1) + field(2, texts[place])) for place in used
    )


def _tracks(profile: Profile, core: int) -> Iterator[tuple[str, Slices]]:
    data, instructions = profile.data, profile.data.instructions
    columns = _columns(profile)
    yield "kernel", _whole(profile)
    if len(data.critical):
        yield "critical path", _critical(profile, columns)
    consumers = np.flatnonzero(instructions.waited_on != NO_INSTRUCTION)
    producers = instructions.waited_on[consumers].astype(np.int64)
    for number, queue, name in _streams(profile):
        rows = np.flatnonzero((instructions.engine == number) & (instructions.queue == queue))
        ends = instructions.slot_end_ps
        if number == DMA:
            # A queue's slot is free before its bytes have arrived; what is of interest is the way.
            ends = instructions.end_ps
        else:
            rows = np.flatnonzero(instructions.engine == number)
        for suffix, part in _by_lane(rows, instructions.start_ps, ends):
            # Arrows of all cores have different numbers.
            flows = _flows(part, producers, consumers + (core << 32) + 1)
            flow_ends = _flows(part, consumers, consumers + (core << 32) + 1)
            yield (
                name + suffix,
                Slices(
                    start_ps=instructions.start_ps[part],
                    end_ps=ends[part],
                    name=instructions.opcode[part],
                    names=data.opcodes,
                    columns=[
                        column.of(part)
                        for column in columns
                        if number == DMA or not column.name.endswith("bytes")
                        if number == 0 or column.name != "MACs"
                    ],
                    flows=flows,
                    flow_ends=flow_ends,
                ),
            )
    transfers = data.transfers
    none = np.zeros(0, np.int64)
    for engine in np.unique(transfers.dma_engine).tolist():
        rows = np.flatnonzero(transfers.dma_engine == engine)
        for suffix, part in _by_lane(rows, transfers.start_ps, transfers.end_ps):
            instruction = transfers.instruction[part]
            yield (
                f"DMA engine {engine}{suffix}",
                Slices(
                    start_ps=transfers.start_ps[part],
                    end_ps=transfers.end_ps[part],
                    name=instructions.opcode[instruction],
                    names=data.opcodes,
                    columns=[
                        columns[0].of(instruction),
                        Column("instruction", instruction),
                        Column("bytes", transfers.bytes[part]),
                    ],
                    flows=(none, none),
                    flow_ends=(none, none),
                ),
            )


def _critical(profile: Profile, columns: Sequence[Column]) -> Slices:
    """Return the critical path as one row: each step lasts until the next one starts."""
    data, instructions, critical = profile.data, profile.data.instructions, profile.data.critical
    none = np.zeros(0, np.int64)
    starts = instructions.start_ps[critical]
    shown = [column.of(critical) for column in columns if column.name in {"line", "instruction"}]
    return Slices(
        start_ps=starts,
        end_ps=np.append(starts[1:], instructions.end_ps[critical[-1]]),
        name=instructions.opcode[critical],
        names=data.opcodes,
        columns=[*shown, Column("engine", instructions.engine[critical], ENGINES)],
        flows=(none, none),
        flow_ends=(none, none),
    )


def _whole(profile: Profile) -> Slices:
    data = profile.data
    none = np.zeros(0, np.int64)
    return Slices(
        start_ps=np.zeros(1, np.uint64),
        end_ps=np.array([data.latency_ps], np.uint64),
        name=np.zeros(1, np.int64),
        names=[data.kernel],
        columns=[
            Column("latency (ns)", np.array([data.latency_ps // 1000])),
            Column("kernel start and end, not shown (ns)", np.array([data.overhead_ps // 1000])),
            Column("verdict", np.zeros(1, np.int64), [profile.verdict()]),
        ],
        flows=(none, none),
        flow_ends=(none, none),
    )


def _streams(profile: Profile) -> Iterator[tuple[int, int, str]]:
    instructions = profile.data.instructions
    for number in np.unique(instructions.engine).tolist():
        if number == DMA:
            queues = instructions.queue[instructions.engine == DMA]
            for queue in np.unique(queues).tolist():
                yield DMA, queue, f"DMA queue {queue}"
        else:
            yield number, 0, ENGINES[number]


def _by_lane(
    rows: NDArray[np.intp], start: NDArray[np.uint64], end: NDArray[np.uint64]
) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """Yield rows by rising start; what overlaps goes to a second track, a third and so on."""
    # In the trace's whole nanoseconds, which make some starts and ends equal.
    starts, ends = start[rows] // 1000, end[rows] // 1000
    chosen = lanes(starts, ends)
    rows_by_start = np.lexsort((ends, starts))
    for lane in range(int(chosen.max(initial=-1)) + 1):
        part = rows[rows_by_start[chosen[rows_by_start] == lane]]
        yield (f" ({lane + 1})" if lane else ""), part


def _flows(
    part: NDArray[np.intp], instructions: NDArray[np.int64], ids: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of a track that these instructions have, rising, and the ids of arrows."""
    size = int(max(part.max(initial=-1), instructions.max(initial=-1))) + 1
    place = np.full(size, -1, np.int64)
    place[part] = np.arange(len(part))
    rows = place[instructions]
    order = np.argsort(rows, kind="stable")
    order = order[rows[order] >= 0]
    return rows[order], ids[order]


def _columns(profile: Profile) -> list[Column]:
    data, instructions = profile.data, profile.data.instructions
    places = [
        (f"{file}:{line}" + (f" in {function}" if function else "")) if line else "unknown line"
        for file, line, function in data.sites
    ]
    labelled = np.array([bool(label) for label in data.labels], bool)
    waited = instructions.wait_ps > 0
    delay = instructions.end_ps - instructions.start_ps
    return [
        Column("line", instructions.site, places),
        Column(
            "label",
            instructions.label,
            data.labels,
            labelled[instructions.label] if len(labelled) else np.zeros(len(instructions), bool),
        ),
        Column("instruction", np.arange(len(instructions))),
        Column("result visible after (ps)", delay),
        Column("slot held (ps)", instructions.slot_end_ps - instructions.start_ps),
        Column("waited before (ps)", instructions.wait_ps, None, waited),
        Column("waited for", instructions.cause, CAUSES, waited),
        Column("MACs", instructions.macs),
        Column("DMA bytes", instructions.dma_bytes),
        Column("HBM read bytes", instructions.hbm_read),
        Column("HBM write bytes", instructions.hbm_write),
    ]


def _counters(
    profile: Profile,
) -> Iterator[tuple[str, bytes, NDArray[Any], NDArray[Any]]]:
    """Yield names, descriptors of units, times and values."""
    data, occupancy = profile.data, profile.data.occupancy
    for name, values in (("SBUF", occupancy.sbuf_bytes), ("PSUM", occupancy.psum_bytes)):
        if len(values):
            yield f"{name} bytes per partition", field(3, UNIT_BYTES), occupancy.time_ps, values
    if data.latency_ps and profile.hbm_read_bytes + profile.hbm_write_bytes:
        bins = min(MAX_BINS, -(-data.latency_ps // SHORTEST_BIN_PS))
        edges = np.linspace(0, data.latency_ps, bins + 1)
        rate = profile.hbm_bytes_by_bin(edges) / np.diff(edges) * 1e3
        yield "HBM bandwidth", field(6, "GB/s"), edges.astype(np.uint64), np.append(rate, 0.0)
