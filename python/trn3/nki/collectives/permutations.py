"""Collectives in which each rank sends to one other; numbers of ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from trn3._trn3.machine import NkiInstruction, VirtualRegister
from trn3.nki.ranks.calls import Tensors, meet, once, rank_in_hand, rank_register
from trn3.nki.ranks.replica_group import ReplicaGroup
from trn3.nki.values.operators import op_name

__all__ = [
    "collective_permute",
    "collective_permute_implicit",
    "collective_permute_implicit_current_processing_rank_id",
    "collective_permute_implicit_reduce",
    "rank_id",
]


def collective_permute(
    srcs: Tensors,
    dsts: Tensors,
    source_target_pairs: Iterable[tuple[int, int]],
    priority: int | None = None,
    name: str | None = None,
    **ignored: Any,
) -> NkiInstruction | None:
    """Send one tensor from each source to its target.

    All ranks of the launch call it; those that are no target keep `dsts` (**choice**).

    Parameters
    ----------
    srcs, dsts : list of one tensor
        In HBM, of one shape.
    source_target_pairs : iterable of (int, int)
        Ranks; each sends at most once and receives at most once.
    priority, name
        As in `all_reduce`.

    Raises
    ------
    NkiValidationError, ValueError, DeadlockError
        As `all_reduce`.
    """
    return meet(
        "collective_permute", ignored, srcs=srcs, dsts=dsts,
        source_target_pairs=source_target_pairs, priority=priority, name=name,
    )  # fmt: skip


def collective_permute_implicit(
    srcs_by_channel: Sequence[Tensors],
    dsts_by_channel: Sequence[Tensors],
    replica_group: ReplicaGroup,
    channel_ids: Sequence[int] = (0,),
    priority: int | None = None,
    name: str | None = None,
    **ignored: Any,
) -> NkiInstruction | None:
    """Send tensors around the ring of each list: index i to i + 1, the last to the first.

    Parameters
    ----------
    srcs_by_channel, dsts_by_channel : list of lists of tensor
        In HBM or SBUF, a list for each channel.
    replica_group, priority, name
        As in `all_reduce`.
    channel_ids : sequence of int
        One for each list, from 0; at most four where a list has all ranks of the launch, else
        two (**choice**; the hardware says: all of a node).

    Raises
    ------
    NkiValidationError, ValueError, DeadlockError
        As `all_reduce`.

    Notes
    -----
    Cost: that of one permutation of all channels' bytes (**choice**).
    """
    return meet(
        "collective_permute_implicit", ignored, srcs=srcs_by_channel, dsts=dsts_by_channel,
        replica_group=replica_group, channel_ids=channel_ids, priority=priority, name=name,
    )  # fmt: skip


def collective_permute_implicit_reduce(
    srcs0: Sequence[Tensors] | None = None,
    srcs1: Sequence[Tensors] | None = None,
    dsts: Sequence[Tensors] | None = None,
    replica_group: ReplicaGroup | None = None,
    op: Any = np.add,
    channel_ids: Sequence[int] = (0,),
    priority: int | None = None,
    name: str | None = None,
    *,
    srcs0_by_channel: Sequence[Tensors] | None = None,
    srcs1_by_channel: Sequence[Tensors] | None = None,
    dsts_by_channel: Sequence[Tensors] | None = None,
    **ignored: Any,
) -> NkiInstruction | None:
    """Send ``op(srcs0, srcs1)`` around the ring of each list, as `collective_permute_implicit`.

    Parameters
    ----------
    srcs0, srcs1, dsts : list of lists of tensor
        In HBM or SBUF, a list for each channel; ``_by_channel`` may stand behind their names.
    replica_group, op, channel_ids, priority, name
        As there.

    Raises
    ------
    NkiValidationError, ValueError, DeadlockError
        As `all_reduce`.
    """
    own = "collective_permute_implicit_reduce"
    return meet(
        own, ignored, srcs=once(own, "srcs0", srcs0, srcs0_by_channel),
        others=once(own, "srcs1", srcs1, srcs1_by_channel),
        dsts=once(own, "dsts", dsts, dsts_by_channel), replica_group=replica_group,
        op=op_name(op), channel_ids=channel_ids, priority=priority, name=name,
    )  # fmt: skip


def collective_permute_implicit_current_processing_rank_id(
    iteration_id: int | VirtualRegister,
    replica_group: ReplicaGroup,
    channel_id: int = 0,
    name: str | None = None,
    **ignored: Any,
) -> VirtualRegister:
    """Return the rank whose data is in hand at a step of the ring, as a register.

    Parameters
    ----------
    iteration_id : int or VirtualRegister
        The step k: index i then has what index i - k began with; at step 0 its own.
    replica_group : ReplicaGroup
        Which ranks work together.
    channel_id : int
        All channels go the same way round.
    name : str, optional
        Names the register; no instruction is issued that could have it.

    Raises
    ------
    NkiValidationError
        If `iteration_id` is no number from 0.
    ValueError
        If the rank is in no list.
    """
    del name
    return rank_in_hand(iteration_id, channel_id, replica_group, ignored)


def rank_id(name: str | None = None) -> VirtualRegister:
    """Return the number of this rank in the launch, as a register.

    Parameters
    ----------
    name : str, optional
        Names the register; no instruction is issued that could have it.

    Raises
    ------
    RuntimeError
        Outside a kernel.
    """
    del name
    return rank_register()
