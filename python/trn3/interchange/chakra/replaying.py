"""`replay`: the traces of all ranks of a job, run on a simulated system."""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from trn3.interchange.chakra.attributes import Reader
from trn3.interchange.chakra.trace import CollectiveType, NodeType, Trace, TraceError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from trn3.collectives import SystemLike
    from trn3.interchange.chakra.replayed import TraceReplay
    from trn3.system.base import System

Compute: TypeAlias = Literal["duration", "roofline"]
Traces: TypeAlias = "Sequence[Trace] | str | os.PathLike[str]"
Groups: TypeAlias = "Mapping[str, Sequence[int]] | str | os.PathLike[str]"

# How the core names the kinds of nodes; collectives are from 16, by the schema's number.
_NOTHING, _WAIT, _COMPUTE, _MEMORY, _SEND, _RECEIVE, _COLLECTIVE = 0, 1, 2, 3, 4, 5, 16

_ALL = "all ranks"
_PRIORITIES = range(4)
_PS_IN_S = 10**12
_US_IN_S = 10**6
_FIRST_OF_GROUP = -1
_NEWER = {NodeType.STORAGE_NODE, NodeType.BATCH_NODE, NodeType.CHECKPOINT_NODE}


def replay(
    traces: Traces,
    system: SystemLike,
    *,
    ranks_per_chip: int | None = None,
    compute: Compute = "duration",
    memory: Literal["bytes", "duration"] = "bytes",
    dtype: str = "bf16",
    streams: str | None = None,
    groups: Groups | None = None,
    placement: Sequence[int] | None = None,
    algorithm: str | Mapping[str, str] = "auto",
) -> TraceReplay:
    """Run the traces of all ranks of a job on a system.

    Nodes begin when all that they wait for has ended. A rank computes one node at a time, what was
    ready first **(choice)**; everything else runs beside it. Memory traffic, messages and
    collectives share links, memories and DMA engines by max-min fairness within their priority
    classes.

    - Computation takes its measured duration (``duration_ps``, else whole microseconds), or the
      roofline's time from ``num_ops`` and ``tensor_size``. Nodes with ``is_cpu_op`` always take
      the duration, on a stream of their own.
    - Memory nodes move ``tensor_size`` bytes between the chip's memory and the core, through the
      rank's share of the chip's DMA engines.
    - Messages are matched by sender, receiver and ``comm_tag``, in the order of the nodes. One
      begins when it is sent, whether or not it is awaited **(choice)**.
    - Collectives are matched within their process group (``pg_name``), in the order of the nodes,
      and begin when the last rank arrives. ``comm_size`` is in bytes: of one rank's input, or of
      the root's **(choice)**.
    - ``priority``, 0 to 3, is the class of a message, collective or memory node; 0, the default,
      is served first.

    Attributes that are not named here are ignored.

    Parameters
    ----------
    traces
        One trace for each rank, or the beginning ``NAME`` of the files ``NAME.RANK.et``.
    system
        A system of `trn3.systems`, or its name.
    ranks_per_chip
        Ranks that a chip has; by default its logical cores.
    compute : {"duration", "roofline"}
        How long computation takes.
    memory : {"bytes", "duration"}
        Whether memory nodes move their bytes or take their measured duration.
    dtype
        Whose peak the roofline takes: ``"bf16"``, ``"fp8"``, ``"mxfp8"``, ``"mxfp4"``, ``"fp32"``.
    streams
        An attribute whose values are separate compute streams of a rank, like ``"engine"`` of
        traces that `from_profile` made, or ``"stream"``. By default a rank has one.
    groups
        Ranks of each process group, or a JSON file of such a mapping. A group that is not in it
        has the ranks whose traces name it; collectives without a group are of all ranks.
    placement
        The system's rank that each rank of the job runs on; by default the same number.
    algorithm
        Of collectives: ``"auto"``, a name of `trn3.collectives`, or names by operation, such as
        ``{"all_reduce": "ring"}``.

    Returns
    -------
    TraceReplay
        Times of each node, what each rank and link did, and what bound the finish.

    Raises
    ------
    TraceError
        If a trace is wrong, lacks an attribute, ranks disagree about a message or collective, wait
        for each other, or lie outside the system. The text names rank, node and attribute.
    ValueError
        If an argument is none of those allowed.
    trn3.system.UnreachableError
        If faults of the system cut ranks off from each other.
    OSError
        If a file cannot be read.

    Examples
    --------
    >>> from trn3.interchange import chakra
    >>> def rank(us):
    ...     return chakra.Trace(nodes=(
    ...         chakra.Node(0, "matmul", chakra.NodeType.COMP_NODE, duration_micros=us),
    ...         chakra.Node(1, "sum", chakra.NodeType.COMM_COLL_NODE, data_deps=(0,), attributes=(
    ...             chakra.Attribute("comm_type", chakra.CollectiveType.ALL_REDUCE),
    ...             chakra.Attribute("comm_size", 64 << 20),
    ...         )),
    ...     ))
    >>> result = chakra.replay([rank(100)] * 15 + [rank(250)], "gen2")
    >>> result.span(0, 1).start, result.span(0, 0).end == result.span(0, 1).start
    (0.0001, True)
    >>> result.exposed[0] > result.exposed[15]
    True
    """
    from trn3.interchange.chakra.replayed import made
    from trn3.system.catalogue import as_system

    where = as_system(system)
    _one_of("compute", compute, ("duration", "roofline"))
    _one_of("memory", memory, ("bytes", "duration"))
    ranks = _traces(traces)
    per_chip = _ranks_per_chip(ranks_per_chip, where)
    places = _places(placement, len(ranks), where, per_chip)
    peaks = _peaks(where, dtype, per_chip) if compute == "roofline" else None
    lowering = _Lowering(compute, memory, streams, peaks, len(ranks), _groups(groups, len(ranks)))
    columns = [lowering.rank(rank, trace) for rank, trace in enumerate(ranks)]
    algorithms = (
        ("auto", list(algorithm.items())) if isinstance(algorithm, Mapping) else (algorithm, [])
    )
    members = lowering.members_of_groups()
    for each in columns:
        each.set_roots(members)
    from trn3.system.jobs import Job, run

    job = Job(places, per_chip, members, algorithms, [each.columns for each in columns])
    try:
        found = run(where, job)
    except ValueError as error:
        raise TraceError(str(error)) from error
    said = [*_said(compute, memory, streams, dtype, lowering), *where.assumptions]
    return made(
        where, per_chip, places, ranks, [each.order for each in columns], found, tuple(said)
    )


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        message = f"{name} is {value!r}; allowed: {', '.join(map(repr, allowed))}"
        raise ValueError(message)


def _traces(traces: Traces) -> list[Trace]:
    from trn3.interchange.chakra.ranks import read_ranks

    if isinstance(traces, (str, os.PathLike)):
        return read_ranks(traces)
    if isinstance(traces, Trace):
        return [traces]
    found: list[Any] = list(traces)
    if not found:
        message = (
            "traces is empty; needed: one trace for each rank, or the beginning of their names"
        )
        raise ValueError(message)
    wrong = next((each for each in found if not isinstance(each, Trace)), None)
    if wrong is not None:
        message = f"traces has a {type(wrong).__name__}; needed: a Trace for each rank"
        raise TypeError(message)
    for rank, trace in enumerate(found):
        trace.check(f"rank {rank}")
    return found


def _ranks_per_chip(given: int | None, system: System) -> int:
    if given is None:
        return system.ranks_per_chip
    number = operator.index(given)
    if number < 1:
        message = (
            f"ranks_per_chip is {number}; allowed: 1 or more, here usually {system.ranks_per_chip}"
        )
        raise ValueError(message)
    return number


def _places(given: Sequence[int] | None, count: int, system: System, per_chip: int) -> list[int]:
    there = system.num_chips * per_chip
    if given is None:
        if count > there:
            message = (
                f"the job has {count} ranks; {system.name} has {there}, {system.num_chips} chips "
                f"of {per_chip}; rank {there} is the first outside"
            )
            raise TraceError(message)
        return list(range(count))
    places = [operator.index(place) for place in given]
    if len(places) != count:
        message = f"placement has {len(places)} entries; the job has {count} ranks"
        raise ValueError(message)
    for rank, place in enumerate(places):
        if not 0 <= place < there:
            message = f"placement puts rank {rank} on {place}; {system.name} has 0 to {there - 1}"
            raise ValueError(message)
        if places.index(place) != rank:
            message = f"placement puts ranks {places.index(place)} and {rank} both on {place}"
            raise ValueError(message)
    return places


def _groups(given: Groups | None, count: int) -> dict[str, list[int]]:
    if given is None:
        return {}
    what = "groups"
    if isinstance(given, (str, os.PathLike)):
        what = os.fspath(given)
        try:
            given = json.loads(Path(given).read_text(encoding="utf-8"))
        except ValueError as error:
            message = f"{what}: is no JSON: {error}"
            raise ValueError(message) from error
    if not isinstance(given, Mapping):
        message = f"{what}: is {type(given).__name__}; needed: ranks by the name of their group"
        raise ValueError(message)
    made: dict[str, list[int]] = {}
    for name, ranks in given.items():
        try:
            made[str(name)] = [operator.index(rank) for rank in ranks]
        except TypeError:
            message = f"{what}: {name!r} is {ranks!r}; needed: a list of ranks"
            raise ValueError(message) from None
        outside = next((rank for rank in made[str(name)] if not 0 <= rank < count), None)
        if outside is not None:
            message = f"{what}: {name!r} has rank {outside}; the job has 0 to {count - 1}"
            raise ValueError(message)
    return made


@dataclass(frozen=True)
class _Peaks:
    """What one rank does a second."""

    ops: float
    bytes: float


def _peaks(system: System, dtype: str, per_chip: int) -> _Peaks:
    from trn3.facts.spec import spec_of

    chip = system.facts.part("chip") or system.facts
    spec = spec_of(chip)
    key = f"tflops_{dtype}"
    if key not in spec:
        known = sorted(
            str(each).removeprefix("tflops_") for each in spec if str(each).startswith("tflops_")
        )
        allowed = ", ".join(known)
        message = f"dtype is {dtype!r}, for which {chip.name} has no peak; allowed: {allowed}"
        raise ValueError(message)
    return _Peaks(spec[key].si / per_chip, spec["hbm_bandwidth"].si / per_chip)


@dataclass
class _Rank:
    """A rank's nodes in an order in which each stands after what it waits for."""

    order: NDArray[np.int64]
    columns: Any

    def set_roots(self, groups: list[tuple[str, list[int]]]) -> None:
        """Make a group's first rank the root of collectives that name none."""
        kinds, peers, tags = self.columns[2], self.columns[4], self.columns[5]
        for at in ((kinds >= _COLLECTIVE) & (tags == _FIRST_OF_GROUP)).nonzero()[0]:
            tags[at] = groups[peers[at]][1][0]


@dataclass
class _Lowering:
    """From attributes to the core's columns."""

    compute: str
    memory: str
    streams: str | None
    peaks: _Peaks | None
    count: int
    given: dict[str, list[int]]
    members: dict[str, set[int]] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    kinds: set[NodeType] = field(default_factory=set)

    def members_of_groups(self) -> list[tuple[str, list[int]]]:
        """Return groups with their ranks: in the order given, else ascending."""
        return [
            (name, self.given[name] if name in self.given else sorted(self.members[name]))
            for name in self.numbers
        ]

    def rank(self, rank: int, trace: Trace) -> _Rank:
        import numpy as np

        ordered = trace.order(f"rank {rank}")
        place = {node.id: at for at, node in enumerate(ordered)}
        where = {node.id: at for at, node in enumerate(trace.nodes)}
        streams: dict[Any, int] = {}
        rows = [self.row(Reader(node, rank), streams) for node in ordered]
        kinds, amounts, peers, tags, priorities = zip(*rows, strict=True) if rows else ((),) * 5
        self.kinds.update(node.type for node in ordered)
        columns = (
            [node.id for node in ordered],
            [node.name for node in ordered],
            np.array(kinds, np.uint8),
            np.array(amounts, np.float64),
            np.array(peers, np.uint32),
            np.array(tags, np.int64),
            np.array(priorities, np.uint8),
            [sorted({place[dep] for dep in node.deps}) for node in ordered],
        )
        return _Rank(np.array([where[node.id] for node in ordered], np.int64), columns)

    def row(self, read: Reader, streams: dict[Any, int]) -> tuple[int, float, int, int, int]:
        """Return kind, seconds or bytes, stream or rank or group, tag or root, and priority."""
        node = read.node
        match node.type:
            case NodeType.METADATA_NODE:
                return _NOTHING, 0.0, 0, 0, 0
            case NodeType.COMP_NODE:
                host = read.flag("is_cpu_op")
                stream = ("host",) if host else (node.get(self.streams) if self.streams else None,)
                number = streams.setdefault(stream, len(streams))
                return _COMPUTE, self.seconds(read, host=host), number, 0, 0
            case NodeType.MEM_LOAD_NODE | NodeType.MEM_STORE_NODE:
                if self.memory == "duration":
                    return _WAIT, self.measured(read), 0, 0, 0
                size = read.needed("tensor_size", "a memory node")
                return _MEMORY, float(size), 0, 0, self.priority(read)
            case NodeType.COMM_SEND_NODE | NodeType.COMM_RECV_NODE:
                return self.message(read)
            case NodeType.COMM_COLL_NODE:
                return self.collective(read)
            case each if each in _NEWER:
                return _WAIT, self.measured(read), 0, 0, 0
        message = f"has type {node.type.name}, which does nothing that can be replayed"
        raise read.wrong(message)

    def seconds(self, read: Reader, *, host: bool) -> float:
        if self.peaks is None or host:
            seconds = self.measured(read)
            if (
                seconds == 0.0
                and not host
                and read.whole("num_ops")
                and read.value("duration_ps") is None
            ):
                message = "has num_ops but no duration; compute='roofline' would work"
                raise read.wrong(message)
            return seconds
        ops, size = read.whole("num_ops"), read.whole("tensor_size")
        if ops is None and size is None:
            message = (
                "attributes num_ops and tensor_size are missing, of which compute='roofline' needs "
                "one; compute='duration' takes the measured time"
            )
            raise read.wrong(message)
        return max((ops or 0) / self.peaks.ops, (size or 0) / self.peaks.bytes)

    @staticmethod
    def measured(read: Reader) -> float:
        exact = read.whole("duration_ps")
        return read.node.duration_micros / _US_IN_S if exact is None else exact / _PS_IN_S

    @staticmethod
    def priority(read: Reader) -> int:
        number = read.whole("priority") or 0
        if number not in _PRIORITIES:
            message = f"attribute priority is {number}; allowed: 0 (served first) to 3"
            raise read.wrong(message)
        return number

    def message(self, read: Reader) -> tuple[int, float, int, int, int]:
        is_send = read.node.type is NodeType.COMM_SEND_NODE
        end, own = ("comm_dst", "comm_src") if is_send else ("comm_src", "comm_dst")
        what = "a send" if is_send else "a receive"
        peer, here = read.needed(end, what), read.whole(own)
        if here is not None and here != read.rank:
            message = f"attribute {own} is {here}, but the trace is that of rank {read.rank}"
            raise read.wrong(message)
        if peer >= self.count:
            message = f"attribute {end} is {peer}; the job has ranks 0 to {self.count - 1}"
            raise read.wrong(message)
        size = read.whole("comm_size")
        if size is None and is_send:
            size = read.needed("comm_size", what)
        tag = read.whole("comm_tag", least=-(2**63)) or 0
        amount = float("nan") if size is None else float(size)
        return (_SEND if is_send else _RECEIVE), amount, peer, tag, self.priority(read)

    def collective(self, read: Reader) -> tuple[int, float, int, int, int]:
        kind = read.collective()
        size = 0 if kind is CollectiveType.BARRIER else read.needed("comm_size", "a collective")
        name = read.group()
        if name is None:
            members = set(range(self.count))
            name = _ALL
        elif name in self.given:
            members = set(self.given[name])
            if read.rank not in members:
                message = f"process group {name!r} has ranks {sorted(members)}, not this one"
                raise read.wrong(message)
        else:
            members = {read.rank}
        self.members.setdefault(name, set()).update(members)
        root = read.whole("comm_root")
        index = self.numbers.setdefault(name, len(self.numbers))
        root = _FIRST_OF_GROUP if root is None else root
        return _COLLECTIVE + kind, float(size), index, root, self.priority(read)


def _said(
    compute: str, memory: str, streams: str | None, dtype: str, lowering: _Lowering
) -> list[str]:
    """Return what was chosen, as far as the traces touch it."""
    kinds = lowering.kinds
    said = []
    if NodeType.COMP_NODE in kinds:
        if compute == "duration":
            said.append("computation takes its measured duration")
        else:
            said.append(
                f"computation takes the roofline's time at the {dtype} peak, without overheads"
            )
        if streams is None:
            said.append("a rank computes one node at a time, what was ready first (choice)")
        else:
            said.append(f"a rank computes one node at a time for each value of {streams!r}")
    if kinds & {NodeType.MEM_LOAD_NODE, NodeType.MEM_STORE_NODE}:
        if memory == "bytes":
            said.append(
                "memory nodes move bytes through their rank's DMA engines, without setup (choice)"
            )
        else:
            said.append("memory nodes take their measured duration, beside everything else")
    if kinds & {NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE}:
        said.append("a message begins when it is sent, whether or not it is awaited (choice)")
    if NodeType.COMM_COLL_NODE in kinds:
        said.append("comm_size is one rank's input in bytes, of a scatter the root's (choice)")
        said.append(
            "a collective begins when its last rank arrives; any number run at once (choice)"
        )
        said.append(
            "a collective is one stream through its schedule's links, at most as fast as alone "
            "(choice)"
        )
    if kinds & _NEWER:
        said.append("storage, batch and checkpoint nodes take their measured duration (choice)")
    return said
