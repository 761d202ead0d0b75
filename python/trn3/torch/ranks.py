"""Programs of torch on several ranks at once, with values."""

from __future__ import annotations

import functools
import inspect
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from unittest import mock

import torch

from trn3.graph import GraphError, run_on_ranks as run_rank_on_core
from trn3.torch.eager_collectives import EagerCollectives
from trn3.torch.execution import RankCall, run_eagerly
from trn3.torch.rank_programs import RankProgram
from trn3.torch.rank_turns import current_seat, take_turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["run_on_ranks"]

Result = TypeVar("Result")


def run_on_ranks(step: Callable[[int], Result], world_size: int) -> list[Result]:
    """Run a program of torch on all ranks of a group, and exchange values between them.

    Each rank runs as ``torchrun`` would start it, in a thread of this process and a ``fake``
    process group of its own, one at a time until all come to a collective. Graphs that are
    compiled for trn3 run on all ranks together, by `trn3.graph.OperationGraph.execute_ranks`;
    collectives that torch calls between graphs, as FSDP2 does in its hooks, are exchanged with the
    same arithmetic. All else torch computes for each rank by itself.

    Parameters
    ----------
    step : callable
        Of a rank: makes model and inputs, compiles and runs them, backward too. Random numbers
        begin as they are in each rank, so that all make the same model.
    world_size : int
        How many ranks there are; at most 1,024.

    Returns
    -------
    list
        What `step` gave, by rank. The process groups are gone then: of a DTensor give what
        ``full_tensor()`` or ``to_local()`` returns.

    Raises
    ------
    GraphError
        Where ranks run different operations or wait for one that does not come, for collectives
        that graphs do not have, and as for `trn3.torch.compile`.
    ValueError
        If there is no such number of ranks.

    Examples
    --------
    >>> import torch
    >>> import torch.distributed as dist
    >>> from trn3.torch import compile, run_on_ranks
    >>> def step(rank):
    ...     @compile
    ...     def total(x):
    ...         dist.all_reduce(x)
    ...         return x
    ...     return total(torch.full((2,), float(rank))).tolist()
    >>> run_on_ranks(step, 4)
    [[6.0, 6.0], [6.0, 6.0], [6.0, 6.0], [6.0, 6.0]]
    """
    if not 1 <= world_size <= 1024:
        message = f"world_size is {world_size}; allowed: 1 to 1024"
        raise ValueError(message)
    if current_seat() is not None:
        raise GraphError("run_on_ranks stands in a rank of another run; allowed: outside")
    programs: dict[tuple[int, ...], tuple[Any, RankProgram]] = {}
    with _groups_of_threads(world_size):
        body = functools.partial(_of_rank, step, world_size)
        return take_turns(body, world_size, functools.partial(_exchanged, programs))


def _of_rank(step: Callable[[int], Result], world_size: int, rank: int) -> Result:
    from torch.testing._internal.distributed.fake_pg import FakeStore

    distributed = torch.distributed
    distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world_size)
    try:
        with torch.autograd.set_multithreading_enabled(False), EagerCollectives(run_eagerly):
            return step(rank)
    finally:
        distributed.destroy_process_group()


def _exchanged(
    programs: dict[tuple[int, ...], tuple[Any, RankProgram]], calls: list[RankCall]
) -> list[Any]:
    captured = [call.converted for call in calls]
    key = tuple(map(id, captured))
    if key not in programs:
        # What is held keeps its identity.
        programs[key] = captured, RankProgram.of(captured)
    program = programs[key][1]
    paths = list(dict.fromkeys(call.options.path for call in calls))
    if len(paths) > 1:
        raise GraphError(f"ranks have matmul {', '.join(paths)}; allowed: one for all")
    inputs = [[*call.inputs, *own] for call, own in zip(calls, program.own, strict=True)]
    found = program.graph.execute_ranks(inputs, paths[0])
    steps = [
        run_rank_on_core(program.graph, inputs, rank=rank, **call.places())[1]
        if call.is_timed
        else None
        for rank, call in enumerate(calls)
    ]
    return list(zip(found, steps, strict=True))


def _compile_apart() -> Any:
    """Return `torch.compile` that keeps what it captured for one call, where torch can do so.

    What was captured for one rank is not another one's: numbers in it are those of the rank.
    """
    name = "isolate_recompiles"
    if name not in inspect.signature(torch.compile).parameters:
        return torch.compile
    return functools.partial(torch.compile, **{name: True})


@contextmanager
def _groups_of_threads(world_size: int) -> Iterator[None]:
    """Let each thread have process groups of its own."""
    from torch.distributed import distributed_c10d
    from torch.testing._internal.distributed.multi_threaded_pg import ThreadLocalWorld

    isolate = torch._C._distributed_c10d._set_thread_isolation_mode
    limit = torch._dynamo.config.recompile_limit * world_size
    with (
        mock.patch.object(distributed_c10d, "_world", ThreadLocalWorld()),
        mock.patch.object(torch, "compile", _compile_apart()),
        # A process group gives the hook its rank's number.
        mock.patch.object(sys, "excepthook", sys.excepthook),
        torch._dynamo.config.patch(recompile_limit=limit, fail_on_recompile_limit_hit=True),
    ):
        isolate(True)
        try:
            yield
        finally:
            isolate(False)
