"""One launch: the instances of a kernel on their cores, and what they have in common."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import trn3
from trn3._trn3.machine import NeuronCore, NkiTensor
from trn3.nki.launch.arguments import tensors_in
from trn3.nki.launch.grid import Launch
from trn3.nki.ranks.context import Context, Running
from trn3.nki.ranks.gang import DeadlockError
from trn3.nki.ranks.logical import LogicalCore, SharedTensors
from trn3.nki.ranks.turns import Turns
from trn3.nki.ranks.world import World
from trn3.nki.values.targets import MachineSizes

#: Code under this folder is no kernel: lines in errors and profiles are of whoever calls it.
INTERNAL: Final = [str(Path(trn3.__file__).parent) + os.sep]
#: Arguments, by position and by keyword.
Bound: TypeAlias = tuple[list[Any], dict[str, Any]]


class Run:
    """The instances of one launch.

    Parameters
    ----------
    function : callable
        What each runs.
    launch : Launch
        How many there are, and where.
    cores : sequence of NeuronCore
        As many as the launch wants.
    world : World
        The ranks that run side by side.
    rank : int
        Which of them this one is.

    Attributes
    ----------
    contexts : list of Context
        One an instance.
    """

    __slots__ = ("_cores", "_function", "_launch", "_logical", "_returned", "contexts")

    def __init__(
        self,
        function: Callable[..., Any],
        launch: Launch,
        cores: Sequence[NeuronCore],
        world: World,
        rank: int,
    ) -> None:
        self._function = function
        self._launch = launch
        self._cores = cores
        self._logical = (
            LogicalCore(list(cores), world.gang, rank * len(cores)) if len(cores) > 1 else None
        )
        self._returned: list[Any] = []
        # Of this core, not by its name: a description of one's own may bear any.
        figures = MachineSizes(cores[0].arch[0], cores[0])
        instances = len(launch.placement)
        shared = SharedTensors(instances) if instances > 1 else None
        self.contexts: list[Context] = []
        for instance, (number, ids) in enumerate(
            zip(launch.placement, launch.program_ids(), strict=True)
        ):
            context = Context(cores[number], figures, launch.grid)
            context.program_ids = ids
            context.instance = instance
            context.logical = self._logical
            context.shared = shared
            context.world, context.rank = world, rank
            # Kernels read constants only: they are one for all.
            context.constants = self.contexts[0].constants if instance else context.constants
            context.prints = self.contexts[0].prints if instance else context.prints
            self.contexts.append(context)

    def bodies(self, bind: Callable[[], Bound]) -> list[Callable[[], Any]]:
        """Return a function for each core that runs its instances.

        Parameters
        ----------
        bind : callable
            Returns the arguments of an instance, tensors in place of arrays.
        """
        self._returned = [None] * len(self.contexts)
        bound = [bind() for _ in self.contexts]

        def of_core(number: int) -> Callable[[], None]:
            own = [
                instance for instance, place in enumerate(self._launch.placement) if place == number
            ]

            def call(instance: int) -> None:
                self._returned[instance] = self._call(self.contexts[instance], *bound[instance])

            if len(own) == 1:
                return functools.partial(call, own[0])

            def body() -> None:
                turns = Turns([functools.partial(call, instance) for instance in own])
                turns.board["members"] = {self.contexts[each].program_ids for each in own}
                for instance in own:
                    self.contexts[instance].turns = turns
                turns.run()

            return body

        bodies = [of_core(number) for number in range(len(self._cores))]
        return bodies if self._logical is None else self._logical.finishing(bodies)

    def result(self) -> Any:
        """Return what the first instance returned, once all have run.

        Raises
        ------
        ValueError
            If another one returned other tensors.
        """
        if self._logical is not None:
            self._logical.synchronise()
        self._check_same(self._returned)
        return self._returned[0]

    def _call(self, context: Context, positional: list[Any], keyword: dict[str, Any]) -> Any:
        with Running(context):
            try:
                return self._function(*positional, **keyword)
            except Exception as error:
                self._note_line(error, context)
                raise

    def _note_line(self, error: BaseException, context: Context) -> None:
        """Say which line of the kernel raised, where the text does not say so already."""
        trace = error.__traceback__
        line = None
        while trace is not None:
            file = trace.tb_frame.f_code.co_filename
            if not file.startswith(INTERNAL[0]):
                line = f"{file}:{trace.tb_lineno}"
            trace = trace.tb_next
        where = []
        if line is not None and line not in str(error):
            where.append(f"at {line} in the kernel")
        if len(self.contexts) > 1 and not isinstance(error, DeadlockError):
            where.append(f"in program {_place(context.program_ids)} on core {context.core.number}")
        world = context.world
        if world is not None and world.size > 1 and not isinstance(error, DeadlockError):
            where.append(f"of rank {context.rank}")
        if where:
            error.add_note(" ".join(where))

    def _check_same(self, returned: list[Any]) -> None:
        """Refuse results that are not the same tensors in all instances."""
        first = list(map(_identity, tensors_in(returned[0])))
        for context, result in zip(self.contexts[1:], returned[1:], strict=True):
            if list(map(_identity, tensors_in(result))) != first:
                message = (
                    f"program {_place(context.program_ids)} returned {_names(result)}, program "
                    f"{_place(self.contexts[0].program_ids)} {_names(returned[0])}; all of one "
                    "launch return the same tensors, made in nl.shared_hbm, which is one for them"
                )
                raise ValueError(message)


def _place(program_ids: tuple[int, ...]) -> str:
    return str(program_ids[0]) if len(program_ids) == 1 else str(program_ids)


def _identity(tensor: NkiTensor) -> tuple[Any, ...]:
    return (
        tensor.storage_id,
        tuple(tensor.shape),
        tuple(tensor.strides),
        tensor.offset,
        tensor.dtype_name,
    )


def _names(result: Any) -> str:
    found: Iterator[NkiTensor] = tensors_in(result)
    texts = [tensor.describe() for tensor in found]
    return ", ".join(texts) or "no tensor"
