"""What a collective of the running kernel does before its rank meets the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from trn3._trn3.machine import NkiInstruction, NkiTensor, VirtualRegister, isa
from trn3.nki.ranks.context import Context, context
from trn3.nki.ranks.world import World
from trn3.nki.values.bound_names import bound_name

__all__ = ["Tensors", "meet", "once", "rank_in_hand", "rank_register"]

#: Tensors of one argument; one alone counts as a list of one.
Tensors: TypeAlias = Sequence[NkiTensor] | NkiTensor

#: Keywords of older versions, which change nothing.
_OLDER: Final = {"num_channels"}


def _here(operation: str, others: dict[str, Any]) -> tuple[Context, World]:
    running = context()
    world = running.world
    if world is None:  # every launch makes one
        message = f"{operation}: the running kernel has no ranks"
        raise RuntimeError(message)
    unknown = sorted(set(others) - _OLDER)
    if unknown:
        message = f"{operation}() got an unexpected keyword argument {unknown[0]!r}"
        raise TypeError(message)
    return running, world


def meet(operation: str, ignored: dict[str, Any], /, **asked: Any) -> NkiInstruction | None:
    """Bring the rank to the others, with what the kernel asks for; `ignored` are more keywords."""
    running, world = _here(operation, ignored)
    return world.meet(running.core, running.rank, operation, asked)


def once(operation: str, argument: str, *spellings: Any) -> Any:
    """Return the one of an argument's spellings that was given."""
    found = [value for value in spellings if value is not None]
    if len(found) != 1:
        message = f"{operation}() needs {argument} once; it came {len(found)} times"
        raise TypeError(message)
    return found[0]


def rank_register() -> VirtualRegister:
    """Return the number of the rank, as a register."""
    running, _ = _here("rank_id", {})
    return _register(running, running.rank)


def rank_in_hand(
    step: Any, channel: Any, replica_group: Any, others: dict[str, Any]
) -> VirtualRegister:
    """Return the rank whose data is in hand at a step of a ring, as a register."""
    running, world = _here("collective_permute_implicit_current_processing_rank_id", others)
    number = step.state if isinstance(step, VirtualRegister) else step
    found = world.room.rank_in_hand(running.core, running.rank, number, channel, replica_group)
    return _register(running, found)


def _register(running: Context, value: int) -> VirtualRegister:
    register = VirtualRegister()
    running.core.own_register(register, bound_name())
    isa.register_move(running.core, register, value, None)
    return register
