"""What came of a replay: times, shares of each rank and link, what bound the finish."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from trn3 import text
from trn3.interchange.chakra.trace import NodeType, Trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from trn3.system.base import System

_COMMUNICATION = {NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE, NodeType.COMM_COLL_NODE}
_MOST_ROWS = 16


@dataclass(frozen=True, slots=True)
class NodeSpan:
    """When a node ran, in seconds.

    A receive and a collective start when their rank arrives there, so that waiting for other ranks
    is part of them.
    """

    rank: int
    id: int
    name: str
    type: NodeType
    start: float
    end: float

    @property
    def time(self) -> float:
        """Seconds from start to end."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class PathStep:
    """A node on the path to the finish.

    Attributes
    ----------
    rank, id : int
        The node; of a collective that of the rank which came last.
    name : str
        Its name.
    start, end : float
        Seconds; a collective starts here when its last rank arrives.
    latency : float
        Seconds of it in which the steps of communication wait.
    what : str
        What it was spent on: ``"computation"``, or the resource that held it back longest.
    """

    rank: int
    id: int
    name: str
    start: float
    end: float
    latency: float
    what: str


@dataclass(frozen=True, slots=True)
class RankUse:
    """What one rank did: seconds until its last node ended, computing, communicating, exposed."""

    rank: int
    chip: tuple[int, ...]
    finish: float
    compute_busy: float
    communication: float
    exposed: float


@dataclass(frozen=True, repr=False, eq=False)
class TraceReplay:
    """A job's traces, run on a system. Times are in seconds, from 0.

    Attributes
    ----------
    system : str
        Name of the system.
    finish : float
        When the last node ends.
    starts, ends : tuple of numpy.ndarray
        Start and end of each node of each rank, in the order of its trace, float64.
    exposed : tuple of float
        Seconds in which each rank communicates, or waits for others to, and computes nothing.
    compute_busy : tuple of float
        Seconds in which each rank computes.
    communication : tuple of float
        Seconds in which each rank communicates, or waits for others to.
    bytes_by_link : Mapping[str, float]
        Bytes that links carried, by name; those that carried none are left out.
    binding : str
        What the path to the finish was spent on most: ``"computation"``, a link, a memory.
    binding_link : str or None
        The link that the path to the finish was spent on most, if any.
    by_resource : Mapping[str, float]
        Seconds of that path by what they were spent on, most first.
    critical_path : tuple of PathStep
        That path: each node begins when the one before it ends.
    algorithms : Mapping[tuple[str, str], int]
        How many collectives took which algorithm, by operation and algorithm.
    assumptions : tuple of str
        Choices and unpublished figures that it rests on.
    """

    system: str
    finish: float
    starts: tuple[NDArray[np.float64], ...]
    ends: tuple[NDArray[np.float64], ...]
    exposed: tuple[float, ...]
    compute_busy: tuple[float, ...]
    communication: tuple[float, ...]
    bytes_by_link: Mapping[str, float]
    binding: str
    binding_link: str | None
    by_resource: Mapping[str, float]
    critical_path: tuple[PathStep, ...]
    algorithms: Mapping[tuple[str, str], int]
    assumptions: tuple[str, ...]
    _traces: tuple[Trace, ...] = field(repr=False)
    _chips: tuple[tuple[int, ...], ...] = field(repr=False)

    @property
    def num_ranks(self) -> int:
        """Number of ranks."""
        return len(self.starts)

    @property
    def time(self) -> float:
        """The same as `finish`."""
        return self.finish

    def span(self, rank: int, id: int) -> NodeSpan:  # noqa: A002 - the schema's word
        """Return when a node ran.

        Raises
        ------
        KeyError
            If there is no such rank or node.
        """
        if not 0 <= rank < self.num_ranks:
            message = f"rank {rank}; there are 0 to {self.num_ranks - 1}"
            raise KeyError(message)
        trace = self._traces[rank]
        if id not in trace.by_id:
            message = f"rank {rank} has no node {id}; it has {len(trace.nodes)}"
            raise KeyError(message)
        return self._span(rank, next(at for at, node in enumerate(trace.nodes) if node.id == id))

    def _span(self, rank: int, at: int) -> NodeSpan:
        node = self._traces[rank].nodes[at]
        start, end = float(self.starts[rank][at]), float(self.ends[rank][at])
        return NodeSpan(rank, node.id, node.name, node.type, start, end)

    def timeline(self, rank: int) -> tuple[NodeSpan, ...]:
        """Return when the nodes of a rank ran, in the order of its trace.

        Raises
        ------
        KeyError
            If there is no such rank.
        """
        if not 0 <= rank < self.num_ranks:
            message = f"rank {rank}; there are 0 to {self.num_ranks - 1}"
            raise KeyError(message)
        return tuple(self._span(rank, at) for at in range(len(self.starts[rank])))

    @property
    def ranks(self) -> tuple[RankUse, ...]:
        """What each rank did."""
        return tuple(
            RankUse(
                rank, self._chips[rank], float(self.ends[rank].max(initial=0.0)),
                self.compute_busy[rank], self.communication[rank], self.exposed[rank],
            )
            for rank in range(self.num_ranks)
        )  # fmt: skip

    def table(self, rows: int = _MOST_ROWS) -> str:
        """Return a table of the ranks: the first, and those that communicate exposed longest.

        Parameters
        ----------
        rows
            The most ranks to list.
        """
        shown = self.shown(rows)
        head = (
            f"{'rank':>6} {'chip':>10} {'finish':>10} {'compute':>10} {'comm.':>10} {'exposed':>10}"
        )
        lines = [
            f"{each.rank:>6} {'/'.join(map(str, each.chip)):>10} {text.time(each.finish):>10} "
            f"{text.time(each.compute_busy):>10} {text.time(each.communication):>10} "
            f"{text.time(each.exposed):>10}"
            for each in shown
        ]
        if len(shown) < self.num_ranks:
            lines.append(f"... {self.num_ranks - len(shown)} more ranks")
        return "\n".join([head, *lines])

    def shown(self, rows: int) -> tuple[RankUse, ...]:
        """Return the first ranks and those that communicate exposed longest, `rows` in all."""
        ranks = self.ranks
        if len(ranks) <= rows:
            return ranks
        first = ranks[: max(rows // 2, 1)]
        worst = sorted(ranks[len(first) :], key=lambda each: (-each.exposed, each.rank))
        return (*first, *sorted(worst[: rows - len(first)], key=lambda each: each.rank))

    def __str__(self) -> str:
        worst = max(range(self.num_ranks), key=lambda rank: (self.exposed[rank], -rank))
        share = self.exposed[worst] / self.finish if self.finish else 0.0
        lines = [
            f"{self.num_ranks} ranks on {self.system}: finish after {text.time(self.finish)}",
            f"communication exposed: {text.time(self.exposed[worst])} ({share:.0%}), rank {worst}",
            f"binding: {self.binding}"
            + (
                f"; of links {self.binding_link}"
                if self.binding_link not in {None, self.binding}
                else ""
            ),
        ]
        for what, seconds in list(self.by_resource.items())[:4]:
            lines.append(f"  {text.time(seconds):>10} of the path to the finish: {what}")
        return "\n".join([*lines, self.table()])

    def __repr__(self) -> str:
        return f"<replay of {self.num_ranks} ranks on {self.system}: {text.time(self.finish)}>"

    def to_dict(self, *, nodes: bool = False) -> dict[str, Any]:
        """Return it as plain numbers, texts, lists and mappings; with `nodes`, also their times."""
        document: dict[str, Any] = {
            "system": self.system,
            "finish_s": self.finish,
            "binding": self.binding,
            "binding_link": self.binding_link,
            "by_resource_s": dict(self.by_resource),
            "ranks": [
                {
                    "rank": each.rank,
                    "chip": list(each.chip),
                    "finish_s": each.finish,
                    "compute_busy_s": each.compute_busy,
                    "communication_s": each.communication,
                    "exposed_s": each.exposed,
                }
                for each in self.ranks
            ],
            "bytes_by_link": dict(self.bytes_by_link),
            "algorithms": [
                {"operation": of, "algorithm": by, "collectives": count}
                for (of, by), count in self.algorithms.items()
            ],
            "assumptions": list(self.assumptions),
        }
        if nodes:
            document["nodes"] = [
                {"rank": s.rank, "id": s.id, "name": s.name, "start_s": s.start, "end_s": s.end}
                for rank in range(self.num_ranks)
                for s in self.timeline(rank)
            ]
        return document

    def to_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write it for Perfetto or ``chrome://tracing``: a process a rank, lanes by kind of work.

        Parameters
        ----------
        path
            A ``.json`` file, which appears when it is complete.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        from trn3.files import write_bytes

        write_bytes(path, self._events())

    def to_perfetto(self, path: str | os.PathLike[str]) -> None:
        """Write it for Perfetto: the same as `to_chrome_trace`, a form that it opens."""
        self.to_chrome_trace(path)

    def _events(self) -> Iterator[bytes]:
        yield b'{"displayTimeUnit": "ns", "traceEvents": [\n'
        first = True
        for rank in range(self.num_ranks):
            chip = "/".join(map(str, self._chips[rank]))
            events: list[dict[str, Any]] = [_named(rank, None, f"rank {rank} on chip {chip}")]
            lanes: dict[str, list[float]] = {}
            numbers: dict[tuple[str, int], int] = {}
            for span in sorted(
                self.timeline(rank), key=lambda span: (span.start, span.end, span.id)
            ):
                kind = _lane(span.type)
                ends = lanes.setdefault(kind, [])
                lane = next((at for at, end in enumerate(ends) if end <= span.start), len(ends))
                ends[lane : lane + 1] = [span.end]
                if (kind, lane) not in numbers:
                    numbers[kind, lane] = len(numbers)
                    name = kind if lane == 0 else f"{kind} {lane + 1}"
                    events.append(_named(rank, numbers[kind, lane], name))
                events.append(
                    {
                        "ph": "X", "pid": rank, "tid": numbers[kind, lane], "name": span.name,
                        "cat": span.type.name, "ts": span.start * 1e6, "dur": span.time * 1e6,
                        "args": {"node": span.id},
                    }
                )  # fmt: skip
            for event in events:
                yield (b"" if first else b",\n") + json.dumps(event).encode()
                first = False
        yield b"\n]}\n"


#: Its name in earlier releases.
Replay = TraceReplay


def _lane(type_: NodeType) -> str:
    if type_ is NodeType.COMP_NODE:
        return "computation"
    if type_ in _COMMUNICATION:
        return "communication"
    if type_ in {NodeType.MEM_LOAD_NODE, NodeType.MEM_STORE_NODE}:
        return "memory"
    return "other"


def _named(rank: int, lane: int | None, name: str) -> dict[str, Any]:
    of = "process_name" if lane is None else "thread_name"
    event: dict[str, Any] = {"ph": "M", "pid": rank, "name": of, "args": {"name": name}}
    return event if lane is None else {**event, "tid": lane}


def made(
    system: System, ranks_per_chip: int, traces: Sequence[Trace], found: Mapping[str, Any]
) -> TraceReplay:
    """Return the result of what the core found."""
    for times in (*found["starts"], *found["ends"]):
        times.flags.writeable = False
    nodes = [trace.nodes for trace in traces]
    chips, spent = system.chips, found["by_resource"]
    return TraceReplay(
        system=system.name,
        finish=found["finish"],
        starts=tuple(found["starts"]),
        ends=tuple(found["ends"]),
        exposed=tuple(found["exposed"]),
        compute_busy=tuple(found["computing"]),
        communication=tuple(found["communicating"]),
        bytes_by_link=MappingProxyType(dict(found["bytes_by_link"])),
        binding=spent[0][0] if spent else "nothing",
        binding_link=found["binding_link"],
        by_resource=MappingProxyType(dict(spent)),
        critical_path=tuple(
            PathStep(rank, nodes[rank][at].id, nodes[rank][at].name, *rest)
            for rank, at, *rest in found["path"]
        ),
        algorithms=MappingProxyType({(of, name): count for of, name, count in found["algorithms"]}),
        assumptions=tuple(found["assumptions"]),
        _traces=tuple(traces),
        _chips=tuple(chips[place // ranks_per_chip] for place in found["places"]),
    )
