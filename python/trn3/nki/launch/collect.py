"""The last step of a launch: results as arrays, and what the run showed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trn3._trn3.machine import NkiTensor
from trn3.nki.launch import observers
from trn3.nki.launch.arguments import Arguments, tensors_in
from trn3.nki.launch.run import RanLaunch, name_of_place
from trn3.nki.ranks.context import Context, Running

__all__ = ["collect"]


def collect(ran: RanLaunch, observe: Callable[[Arguments, Any], None] | None = None) -> list[Any]:
    """Return what the kernel returned on each rank; None where values are skipped.

    Arrays of the caller that the kernel wrote to are updated.

    Parameters
    ----------
    ran : RanLaunch
    observe : callable, optional
        Called for each rank with its arguments and what the kernel returned, as tensors.

    Raises
    ------
    ValueError
        If instances returned different tensors, or ranks wrote to one array.
    PortabilityError
        If the run did what the hardware would refuse.
    """
    placed = ran.placed
    _check_apart([rank.arguments for rank in placed.ranks])
    results = []
    for rank, returned in zip(placed.ranks, ran.returned, strict=True):
        first = rank.contexts[0]
        with Running(first):
            if rank.logical is not None:
                rank.logical.synchronise()
            _check_same(rank.contexts, returned)
            if observe is not None:
                observe(rank.arguments, returned[0])
            if placed.edges:
                for context in rank.contexts:
                    context.core.check_schedule()
            if first.core.values:
                rank.arguments.update_callers()
                results.append(rank.arguments.unwrap(returned[0]))
            else:
                results.append(None)
    bound = placed.bound
    if bound.watch is not None:
        bound.watch.finish()
    if observers.is_observed():
        label = bound.kernel.label.rpartition("<locals>.")[2]
        observers.report(label, [rank.cores for rank in placed.ranks])
    return results


def _check_apart(arguments: Sequence[Arguments]) -> None:
    """Refuse one array of the caller that several ranks wrote to, each with its own values."""
    writers: dict[int, int] = {}
    for rank, own in enumerate(arguments):
        for identity, name in own.updated() if len(arguments) > 1 else ():
            other = writers.setdefault(identity, rank)
            if other != rank:
                message = (
                    f"ranks {other} and {rank} wrote to {name}, which is one array for both; give "
                    "each rank its own, as x.copy() makes it"
                )
                raise ValueError(message)


def _check_same(contexts: Sequence[Context], returned: Sequence[Any]) -> None:
    """Refuse results that are not the same tensors in all instances."""
    if len(contexts) == 1:
        return
    first = list(map(_identity, tensors_in(returned[0])))
    for context, result in zip(contexts[1:], returned[1:], strict=True):
        if list(map(_identity, tensors_in(result))) != first:
            message = (
                f"program {name_of_place(context.program_ids)} returned {_names(result)}, program "
                f"{name_of_place(contexts[0].program_ids)} {_names(returned[0])}; all of one "
                "launch return the same tensors, made in nl.shared_hbm, which is one for them"
            )
            raise ValueError(message)


def _identity(tensor: NkiTensor) -> tuple[Any, ...]:
    return (
        tensor.storage_id,
        tuple(tensor.shape),
        tuple(tensor.strides),
        tensor.offset,
        tensor.dtype_name,
    )


def _names(result: Any) -> str:
    return ", ".join(tensor.describe() for tensor in tensors_in(result)) or "no tensor"
