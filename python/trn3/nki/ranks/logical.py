"""The cores of one launch: where they meet, and the tensors that all of them reach."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from trn3._trn3.machine import NeuronCore, NkiInstruction, NkiTensor, isa
from trn3.nki.ranks.gang import DeadlockError, Gang

__all__ = ["LogicalCore", "SharedTensors"]

#: core_barrier, or sendrecv on a pipe.
Meeting: TypeAlias = tuple[Literal["core_barrier"]] | tuple[Literal["sendrecv"], int]


class SharedTensors:
    """Tensors in ``nl.shared_hbm`` that instances of a launch make: each is made once.

    The k-th one without a name is the same for all instances, and so is the k-th of one name.

    Parameters
    ----------
    instances : int
        How many take each tensor.
    """

    __slots__ = ("_counts", "_instances", "_made")

    def __init__(self, instances: int) -> None:
        self._instances = instances
        self._counts: list[dict[str, int]] = [{} for _ in range(instances)]
        # Tensor, the line that made it, how many instances have it.
        self._made: dict[tuple[str, int], tuple[NkiTensor, str, int, int]] = {}

    def take(
        self,
        instance: int,
        core: NeuronCore,
        shape: tuple[int, ...],
        dtype: str,
        name: str,
        make: Callable[[], NkiTensor],
    ) -> NkiTensor:
        """Return an instance's next tensor of a name: a new one, or the one another made.

        Raises
        ------
        ValueError
            If that one has another shape or element type.
        """
        counts = self._counts[instance]
        key = (name, counts.get(name, 0))
        counts[name] = key[1] + 1
        known = self._made.get(key)
        if known is None:
            tensor, line, maker, takers = make(), core.line(), instance, 1
        else:
            tensor, line, maker, takers = known
            if tuple(tensor.shape) != tuple(shape) or tensor.dtype_name != dtype:
                message = (
                    f"{core.line()}: shared_hbm tensor {name or key[1]!r} has shape {tuple(shape)} "
                    f"and dtype {dtype} in instance {instance}, but {tuple(tensor.shape)} and "
                    f"{tensor.dtype_name} in instance {maker} ({line}); it is one tensor, matched "
                    "by name, or by order where it has none"
                )
                raise ValueError(message)
            takers += 1
        if takers == self._instances:
            self._made.pop(key, None)
        else:
            self._made[key] = (tensor, line, maker, takers)
        return tensor


class _Call:
    """A core at a meeting."""

    __slots__ = ("arrival", "handle", "kind", "passed")

    def __init__(self, kind: Meeting, arrival: isa.Arrival) -> None:
        self.kind = kind
        self.arrival = arrival
        self.handle: NkiInstruction | None = None
        #: The core went on without it, because the cores' pipes cross.
        self.passed = False

    def __str__(self) -> str:
        pipe = f" on pipe {self.kind[1]}" if len(self.kind) == 2 else ""
        return f"{self.kind[0]}{pipe} ({self.arrival.line})"


class LogicalCore:
    """Cores that run one program side by side, taking turns on the host.

    Parameters
    ----------
    cores : list of NeuronCore
        In order of their numbers, on one HBM.
    gang : Gang
        Whose members they are.
    first : int
        The member of the gang that the first of them is; the others follow.
    """

    __slots__ = ("_calls", "_first", "_gang", "_last", "cores")

    def __init__(self, cores: list[NeuronCore], gang: Gang, first: int) -> None:
        self.cores = cores
        self._gang = gang
        self._first = first
        self._calls: list[deque[_Call]] = [deque() for _ in cores]
        self._last = [""] * len(cores)

    def finishing(self, bodies: list[Callable[[], Any]]) -> list[Callable[[], Any]]:
        """Return functions, one a core, that end once the exchanges of that core have ended."""

        def finishing(number: int, body: Callable[[], Any]) -> Callable[[], Any]:
            def finish() -> Any:
                result = body()
                self._settle(number, "its end")
                return result

            return finish

        return [finishing(number, body) for number, body in enumerate(bodies)]

    def meet(self, number: int, kind: Meeting, arrival: isa.Arrival) -> NkiInstruction | None:
        """Bring a core to a meeting, and return when the other one has come there too.

        None comes back where the core goes on before, because the other one exchanges on another
        pipe first; what the exchange fills counts as unwritten until it takes place.

        Raises
        ------
        DeadlockError
            If the other core stands at another meeting, or never comes.
        """
        if kind[0] == "core_barrier":
            self._settle(number, f"core_barrier ({arrival.line})")
        call, other = _Call(kind, arrival), 1 - number
        self._last[number] = str(call)
        for waiting in self._calls[other]:
            if waiting.kind == kind:
                pair = [waiting.arrival, arrival] if other == 0 else [arrival, waiting.arrival]
                self._calls[other].remove(waiting)
                handles = isa.meet(pair)
                waiting.handle, call.handle = handles[other], handles[number]
                return call.handle
        blocked = next((each for each in self._calls[other] if not each.passed), None)
        if blocked is not None:
            if blocked.kind[0] == kind[0] == "sendrecv":
                # Pipes are independent: the other core goes on to the one that is wanted here.
                blocked.passed = True
                blocked.arrival.forget()
            else:
                message = (
                    f"deadlock: core {number} is at {call}, core {other} at {blocked}; cores of "
                    "one launch meet in the same order"
                )
                raise DeadlockError(message)
        self._calls[number].append(call)
        self._gang.wait(
            self._first + number,
            lambda: call.handle is not None or call.passed,
            lambda: (
                f"{self._name(number)} waits at {call} for core {other}{self._whereabouts(other)}"
            ),
        )
        return call.handle

    def whereabouts(self, number: int) -> str:
        """Return where a core waits, as the end of a sentence; nothing where it does not."""
        waiting = [call for call in self._calls[number] if not call.passed]
        return f" (core {number} is at {waiting[0]})" if waiting else ""

    def _settle(self, number: int, where: str) -> None:
        """Wait until the exchanges that a core went on without have taken place."""
        calls = self._calls[number]
        if calls:
            other = 1 - number
            self._gang.wait(
                self._first + number,
                lambda: not calls,
                lambda: (
                    f"{self._name(number)} waits at {where} for its {calls[0]} with core "
                    f"{other}{self._whereabouts(other)}"
                ),
            )

    def _name(self, number: int) -> str:
        return self._gang.name(self._first + number)

    def _whereabouts(self, number: int) -> str:
        if not self._gang.is_ended(self._first + number):
            return ""
        last = self._last[number]
        return f", whose last meeting was {last}" if last else ", which came to no meeting"

    def synchronise(self) -> None:
        """End the run: the host reads what both cores wrote."""
        isa.synchronise(self.cores)
