"""Jobs side by side: where claims put them, and what their traffic takes on a common fabric."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from trn3 import systems
from trn3.flows import Message
from trn3.k8s.allocate import Placed, allocate
from trn3.k8s.documents import Document
from trn3.k8s.errors import K8sError
from trn3.k8s.report import FragmentationReport, fragmentation
from trn3.k8s.slices import DEFAULT_DRIVER, resource_slices
from trn3.system.joined_chips import JoinedChips

#: Exchanges of a collective: in each, every chip sends its part to every other one.
PHASES: Final = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1, "all_to_all": 1}
#: Annotations of claims, templates and workloads that say what a job exchanges.
COLLECTIVE: Final = "trn3.internal/collective"
BYTES: Final = "trn3.internal/bytes"
#: Times that the longest job repeats its collective while the others repeat theirs, and the most
#: that any does **(choice)**: short jobs meet their neighbours' steady traffic.
ROUNDS: Final = 2
MOST_ROUNDS: Final = 16


@dataclass(frozen=True, slots=True)
class JobTraffic:
    """A job that was placed, and its collective alone and beside the others.

    Attributes
    ----------
    name, nodes : str, tuple[str, ...]
        The job and the nodes that it is on.
    ultraserver : int
        The UltraServer, or instance, whose fabric it uses; -1 if its chips are on several.
    chips : tuple[int, ...]
        Its chips, by their numbers in that system.
    collective, bytes : str, float
        What they do: all chips of the job take part, with so many bytes each.
    alone, together : float
        Seconds of one collective without neighbours and with them; 0 where nothing is sent, or
        what is sent leaves the system.
    binding : tuple[str, ...]
        Links that are full while all send.
    """

    name: str
    nodes: tuple[str, ...]
    ultraserver: int
    chips: tuple[int, ...]
    collective: str
    bytes: float
    alone: float = 0.0
    together: float = 0.0
    binding: tuple[str, ...] = ()

    @property
    def slowdown(self) -> float:
        """How many times longer the collective takes beside the others."""
        return self.together / self.alone if self.alone else 1.0


@dataclass(frozen=True, slots=True)
class Schedule:
    """Jobs on a system.

    Attributes
    ----------
    jobs : tuple[JobTraffic, ...]
        In the order in which they were placed.
    free : FragmentationReport
        What is left.
    notes, assumptions : tuple[str, ...]
        What the caller should know, and what the times rest on.
    """

    jobs: tuple[JobTraffic, ...]
    free: FragmentationReport
    notes: tuple[str, ...]
    assumptions: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        jobs = [{**asdict(job), "slowdown": job.slowdown} for job in self.jobs]
        return {**asdict(self), "jobs": jobs, "free": self.free.to_dict()}


def schedule(
    jobs: Sequence[Document | Mapping[str, Any]],
    system: str = "gen2",
    *,
    nodes: int | None = None,
    driver: str = DEFAULT_DRIVER,
    collective: str = "all_reduce",
    size: float = 1e8,
    timing: bool = True,
) -> Schedule:
    """Place jobs by topology and time their collectives beside each other.

    A job is a claim, a pod with its claims, a whole Job, or one group of a LeaderWorkerSet. Its
    chips exchange all with all, over and over, and share links with the other jobs max-min fairly.

    Parameters
    ----------
    jobs
        Claims, templates and workloads, in the order in which they come.
    system, nodes, driver
        As of `resource_slices`: what there is.
    collective, size
        What jobs do whose claim or workload has no annotation ``trn3.internal/collective`` and
        ``trn3.internal/bytes``; bytes of each chip.
    timing
        Whether to time them at all.

    Raises
    ------
    AllocationError
        If a job finds no place.
    K8sError
        If an object is malformed, or a collective unknown.

    Examples
    --------
    >>> def job(name, count):
    ...     exactly = {"deviceClassName": "trn3.internal", "count": count}
    ...     return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
    ...             "metadata": {"name": name},
    ...             "spec": {"devices": {"requests": [{"name": "chips", "exactly": exactly}]}}}
    >>> found = schedule([job("a", 4), job("b", 4)], "gen2")
    >>> [(each.name, each.slowdown) for each in found.jobs]  # each on a server with a switch
    [('default/a', 1.0), ('default/b', 1.0)]
    """
    inventory = resource_slices(system, nodes=nodes, driver=driver)
    found = allocate(jobs, inventory)
    unit = systems.load(system)
    numbered = _Numbers(inventory, unit, driver)
    workloads = [each for each in jobs if _kind(each) in {"LeaderWorkerSet", "Job"}]
    groups: dict[str, list[Placed]] = {}
    for placed in found.placed:
        groups.setdefault(_job(placed, workloads), []).append(placed)
    made = [numbered.job(name, group, collective, size) for name, group in groups.items()]
    if timing:
        made = _timed(made, unit)
    sends = "a job's chips exchange all with all, again and again, without pauses (choice)"
    leaves = [each.name for each in made if each.ultraserver < 0]
    notes = [*found.notes, *(f"{name}: chips of several systems, not timed" for name in leaves)]
    said = (*unit.assumptions, sends) if timing else found.assumptions
    return Schedule(tuple(made), fragmentation(inventory, found.objects), tuple(notes), tuple(said))


class _Numbers:
    """Numbers of devices in the systems that their nodes make up, in the order of these."""

    def __init__(
        self, inventory: Iterable[Mapping[str, Any]], unit: JoinedChips, driver: str
    ) -> None:
        self._driver = driver
        specs = [each["spec"] for each in inventory]
        self._nodes = {spec["nodeName"]: place for place, spec in enumerate(specs)}
        is_chip = [device["name"].startswith("neuron-device") for device in specs[0]["devices"]]
        self._room = sum(is_chip)
        self._size = unit.num_chips // self._room

    def job(self, name: str, group: Sequence[Placed], collective: str, size: float) -> JobTraffic:
        """Return a job and its chips."""
        places: list[tuple[int, int]] = []
        for placed in group:
            ultraserver, node = divmod(self._nodes[placed.node], self._size)
            for _, device in placed.devices:
                chip = device.attributes.get((self._driver, "deviceId"))
                of_node = range(self._room) if chip is None else [int(chip)]
                places += [(ultraserver, node * self._room + number) for number in of_node]
        systems_of = {ultraserver for ultraserver, _ in places}
        notes = group[0].claim.document.body.get("metadata", {}).get("annotations") or {}
        kind = str(notes.get(COLLECTIVE, collective))
        if kind not in PHASES:
            message = f"{name}: collective is {kind!r}; allowed: {', '.join(PHASES)}"
            raise K8sError(message)
        try:
            sent = float(notes.get(BYTES, size))
        except ValueError:
            sent = -1.0
        if not 0 < sent < float("inf"):
            message = f"{name}: bytes are {notes.get(BYTES, size)!r}; needed: a number above 0"
            raise K8sError(message)
        return JobTraffic(
            name,
            tuple(dict.fromkeys(placed.node for placed in group)),
            systems_of.pop() if len(systems_of) == 1 else -1,
            tuple(sorted(chip for _, chip in places)),
            kind,
            sent,
        )


def _kind(document: Document | Mapping[str, Any]) -> str:
    body = document.body if isinstance(document, Document) else document
    return str(body.get("kind"))


def _job(placed: Placed, workloads: Iterable[Document | Mapping[str, Any]]) -> str:
    """Return the job that a claim belongs to: pods of one that exchange data are one."""
    origin = placed.claim.origin
    for workload in workloads:
        body = workload.body if isinstance(workload, Document) else workload
        name = re.escape(str((body.get("metadata") or {}).get("name")))
        index = r"-\d+" if body["kind"] == "LeaderWorkerSet" else ""
        if match := re.fullmatch(rf"({name}{index})(-\d+)?", origin):
            return f"{placed.claim.document.namespace}/{match[1]}"
    return f"{placed.claim.document.namespace}/{origin}" if origin else placed.claim.label


def _timed(jobs: Sequence[JobTraffic], unit: JoinedChips) -> list[JobTraffic]:
    sending = [each for each in jobs if each.ultraserver >= 0 and len(each.chips) > 1]
    alone = {each.name: unit.simulate(_messages(each, 1)).time for each in sending}
    timed: dict[str, JobTraffic] = {}
    for ultraserver in dict.fromkeys(each.ultraserver for each in sending):
        here = [each for each in sending if each.ultraserver == ultraserver]
        longest = ROUNDS * max(alone[each.name] for each in here)
        messages: list[Message] = []
        ends: dict[str, tuple[int, int]] = {}
        for each in here:
            rounds = min(MOST_ROUNDS, max(1, round(longest / alone[each.name])))
            messages += _messages(each, rounds, len(messages))
            ends[each.name] = (len(messages) - 1, rounds)
        result = unit.simulate(messages)
        for each in here:
            last, rounds = ends[each.name]
            timed[each.name] = replace(
                each,
                alone=alone[each.name],
                together=result.spans[last].end / rounds,
                binding=tuple(result.binding),
            )
    return [timed.get(each.name, each) for each in jobs]


def _messages(job: JobTraffic, rounds: int, first: int = 0) -> list[Message]:
    """Return a job's messages, the last one when all have arrived; `first` is its number."""
    messages: list[Message] = []
    part = job.bytes / len(job.chips)
    pairs = [(source, target) for source in job.chips for target in job.chips if source != target]
    meeting: tuple[int, ...] = ()
    for _ in range(rounds * PHASES[job.collective]):
        start = first + len(messages)
        messages += [Message(source, target, part, after=meeting) for source, target in pairs]
        # Nobody goes on before all have what they wait for: it crosses no link and takes no time.
        waits = tuple(range(start, start + len(pairs)))
        messages.append(Message(job.chips[0], job.chips[0], 0.0, after=waits))
        meeting = (first + len(messages) - 1,)
    return messages
