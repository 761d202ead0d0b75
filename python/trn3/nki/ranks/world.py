"""The ranks of one launch: logical cores with memories of their own, which meet in collectives."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from trn3._trn3.machine import NeuronCore, NkiInstruction, NkiTensor, isa
from trn3.nki.ranks.gang import Gang

if TYPE_CHECKING:
    from trn3.nki.ranks.fabric import Fabric

__all__ = ["Call", "World"]

#: Ranks of a group, in order of their positions in it.
Group: TypeAlias = tuple[int, ...]
#: Moves the values of one collective, given the calls of all ranks by position; returns seconds
#: where they depend on what is moved.
Move: TypeAlias = "Callable[[Fabric, Sequence[Call]], float | None]"


@dataclass(eq=False, slots=True)
class Call:
    """One core at a collective.

    Attributes
    ----------
    operation
        As `nki.collectives` spells it.
    groups
        All groups that run it at the same time.
    group
        The one that this rank is in.
    agreed
        What must be equal on all ranks, in words.
    bytes
        Size, as `trn3.collectives.time` counts it.
    pairs
        Who sends to whom, in permutations.
    srcs, dsts
        Operands.
    machine, arrival
        The core, and its part of the instruction.
    move
        Moves the values.
    rank
        The rank that calls.
    moved
        Bytes that this core sends and receives.
    """

    operation: str
    groups: tuple[Group, ...]
    group: Group
    agreed: str
    bytes: float
    pairs: tuple[tuple[int, int], ...]
    srcs: Sequence[NkiTensor]
    dsts: Sequence[NkiTensor]
    machine: NeuronCore
    arrival: isa.Arrival
    move: Move
    rank: int
    moved: tuple[int, int] = (0, 0)
    handle: NkiInstruction | None = field(default=None)

    def __str__(self) -> str:
        groups = [list(group) for group in self.groups]
        return f"{self.operation} of {self.agreed} among {groups} ({self.arrival.line})"

    @property
    def core(self) -> int:
        """Number of the core in its rank."""
        return self.machine.number

    def has_operands_of(self, other: Call) -> bool:
        """Return whether two calls have the same tensors, not only equal ones."""
        return _places(self) == _places(other)


def _places(call: Call) -> list[Any]:
    return [
        (each.storage_id, each.offset, each.shape, each.strides, each.dtype_name)
        for each in (*call.srcs, *call.dsts)
    ]


class World:
    """Ranks that run one kernel side by side, taking turns on the host.

    Parameters
    ----------
    size : int
        How many.
    cores : int
        Cores of each.
    fabric : Fabric, optional
        What connects them. By default the first collective takes that of the machine's own system.

    Attributes
    ----------
    gang : Gang
        The cores of all ranks, rank by rank.
    """

    __slots__ = ("_cores", "_fabric", "_last", "_open", "gang", "size")

    def __init__(self, size: int, cores: int, fabric: Fabric | None = None) -> None:
        self.size = size
        self._cores = cores
        self._fabric = fabric
        names = []
        for rank in range(size):
            for core in range(cores):
                words = [f"rank {rank}"] * (size > 1) + [f"core {core}"] * (cores > 1 or size == 1)
                names.append(" ".join(words))
        self.gang = Gang(names)
        self._open: dict[Group, list[Call]] = {}
        self._last: dict[tuple[int, int], str] = {}

    def run(self, bodies: Sequence[Callable[[], Any]]) -> None:
        """Run one function a core.

        Raises
        ------
        DeadlockError
            If cores do not meet.
        Exception
            What the first of them to fail raised.
        """
        if len(bodies) == 1:
            bodies[0]()
        else:
            self.gang.run(bodies)

    def meet(self, call: Call) -> NkiInstruction | None:
        """Bring a core to a collective, and return when all of its group have come.

        Raises
        ------
        ValueError
            If another one calls a different collective there.
        DeadlockError
            If one never comes.
        """
        number = call.rank * self._cores + call.core
        present = self._open.setdefault(call.group, [])
        # Those present agree with one another: the first stands for all of them, and the first of
        # this core's number for what cores of other numbers may do otherwise.
        peers = (each for each in present if each.core == call.core)
        for other in (*present[:1], *itertools.islice(peers, 1)):
            self._check_same(call, other)
        present.append(call)
        self._last[call.rank, call.core] = str(call)
        if len(present) == len(call.group) * self._cores:
            del self._open[call.group]
            self._perform(present)
        else:
            self.gang.wait(
                number,
                lambda: call.handle is not None,
                lambda: f"{self.gang.name(number)} waits at {call} for {self._missing(call)}",
            )
        return call.handle

    def fabric(self, core: NeuronCore) -> Fabric:
        """Return what connects the ranks; by default, the system of a core's machine."""
        if self._fabric is None:
            from trn3.nki.ranks.fabric import Fabric

            name, generation = core.arch
            self._fabric = Fabric.of_machine(name, generation, self._cores, self.size)
        return self._fabric

    def _check_same(self, call: Call, other: Call) -> None:
        same = call.operation == other.operation and call.groups == other.groups
        if same and call.core == other.core:
            same = call.agreed == other.agreed and call.pairs == other.pairs
        if not same:
            name = self.gang.name
            message = (
                f"{call.arrival.line}: {name(call.rank * self._cores + call.core)} calls {call}, "
                f"{name(other.rank * self._cores + other.core)} calls {other}; ranks of one group "
                "call the same collectives in the same order, with the same sizes and groups"
            )
            raise ValueError(message)

    def _missing(self, call: Call) -> str:
        here = {(each.rank, each.core) for each in self._open.get(call.group, [])}
        words = []
        for rank in call.group:
            for core in range(self._cores):
                if (rank, core) not in here:
                    last = self._last.get((rank, core))
                    came = f"last at {last}" if last else "which came to no collective"
                    words.append(f"{self.gang.name(rank * self._cores + core)}, {came}")
        return " and ".join(words)

    def _perform(self, calls: list[Call]) -> None:
        """Move the values of all ranks of a group, and give all of them its time."""
        fabric = self.fabric(calls[-1].machine)
        group = calls[0].group
        calls.sort(key=lambda call: (group.index(call.rank), call.core))
        ranks = [calls[i : i + self._cores] for i in range(0, len(calls), self._cores)]
        # Cores that pass the same tensors pass them for one transfer, the first core's.
        is_joint = self._cores > 1 and all(
            each.has_operands_of(own[0]) for own in ranks for each in own[1:]
        )
        sharing = []
        if is_joint:
            sharing = [(i, i + self._cores) for i in range(0, len(calls), self._cores)]
            isa.synchronise([call.machine for call in calls])
        lanes = [[own[core] for own in ranks] for core in range(1 if is_joint else self._cores)]
        seconds: list[float] = []
        for lane in lanes:
            known = lane[0].move(fabric, lane)
            if known is not None:
                seconds.append(known)
        if not seconds:
            first = lanes[0][0]
            size = sum(lane[0].bytes for lane in lanes)
            pairs = tuple(dict.fromkeys(pair for lane in lanes for pair in lane[0].pairs))
            seconds.append(fabric.seconds(first.operation, size, first.groups, pairs))
        # A transfer that cores share is the first one's.
        moved = [(0, 0) if is_joint and call.core else call.moved for call in calls]
        handles = isa.meet_ranks([call.arrival for call in calls], max(seconds), sharing, moved)
        for call, handle in zip(calls, handles, strict=True):
            call.handle = handle
