"""The third step of a launch: the instances run, on their cores, until all have ended."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trn3.nki.language.loop_marks import end_loops
from trn3.nki.launch.advice import advise
from trn3.nki.launch.place import PlacedLaunch, PlacedRank
from trn3.nki.ranks.context import Context, Running
from trn3.nki.ranks.gang import DeadlockError
from trn3.nki.ranks.turns import Turns
from trn3.nki.values.callers import is_own

__all__ = ["RanLaunch", "name_of_place", "run"]


@dataclass(slots=True)
class RanLaunch:
    """A launch whose instances have ended.

    Attributes
    ----------
    placed : PlacedLaunch
    returned : list of list
        What each instance of each rank returned: tensors.
    """

    placed: PlacedLaunch
    returned: list[list[Any]]


def run(placed: PlacedLaunch) -> RanLaunch:
    """Run all instances of all ranks.

    Raises
    ------
    DeadlockError
        If cores wait for one another.
    Exception
        What the first instance to fail raised, with its line and its place.
    """
    returned: list[list[Any]] = [[None] * len(rank.contexts) for rank in placed.ranks]
    bodies = []
    for rank, results in zip(placed.ranks, returned, strict=True):
        bodies.extend(_bodies(placed.bound.kernel.__wrapped__, placed, rank, results))
    placed.world.run(bodies)
    return RanLaunch(placed, returned)


def _bodies(
    function: Callable[..., Any], placed: PlacedLaunch, rank: PlacedRank, results: list[Any]
) -> list[Callable[[], Any]]:
    """Return a function for each core of a rank that runs its instances."""
    placement = placed.bound.launch.placement

    def call(instance: int) -> None:
        positional, keyword = rank.operands[instance]
        context = rank.contexts[instance]
        with Running(context):
            try:
                results[instance] = function(*positional, **keyword)
            except Exception as error:
                _note_place(error, context, len(rank.contexts))
                raise
            except SystemExit as error:
                # A kernel that ends the program would take its caller along, without a word.
                message = f"the kernel raised SystemExit({error.code!r}); kernels return"
                failure = RuntimeError(message)
                failure.__traceback__ = error.__traceback__
                _note_place(failure, context, len(rank.contexts))
                raise failure from error
            finally:
                # An iterator that the kernel keeps ends no loop of what runs after it.
                end_loops(context)

    def of_core(number: int) -> Callable[[], None]:
        own = [instance for instance, place in enumerate(placement) if place == number]
        if len(own) == 1:
            return functools.partial(call, own[0])

        def body() -> None:
            turns = Turns([functools.partial(call, instance) for instance in own])
            turns.board["members"] = {rank.contexts[each].program_ids for each in own}
            for instance in own:
                rank.contexts[instance].turns = turns
            turns.run()

        return body

    bodies: list[Callable[[], Any]] = [of_core(number) for number in range(len(rank.cores))]
    return bodies if rank.logical is None else rank.logical.finishing(bodies)


def _note_place(error: BaseException, context: Context, instances: int) -> None:
    """Say which line of the kernel raised, and in which instance, where the text does not."""
    advise(error)
    trace = error.__traceback__
    line = None
    while trace is not None:
        code = trace.tb_frame.f_code
        if not is_own(code):
            line = f"{code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    where = []
    if line is not None and line not in str(error):
        where.append(f"at {line} in the kernel")
    if not isinstance(error, DeadlockError):
        if instances > 1:
            place = name_of_place(context.program_ids)
            where.append(f"in program {place} on core {context.core.number}")
        if context.world is not None and context.world.size > 1:
            where.append(f"of rank {context.rank}")
    if where:
        error.add_note(" ".join(where))


def name_of_place(program_ids: tuple[int, ...]) -> str:
    """Return the place of an instance on the grid, as errors name it."""
    return str(program_ids[0]) if len(program_ids) == 1 else str(program_ids)
