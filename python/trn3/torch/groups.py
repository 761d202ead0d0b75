"""Which ranks meet in a process group of torch, and beside which others."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch

from trn3.torch.aten.refusal import AtenError

__all__ = ["is_fake", "is_initialised", "members", "own_rank", "replica_groups", "world_size"]


def is_initialised() -> bool:
    """Whether there is a process group."""
    return bool(torch.distributed.is_available() and torch.distributed.is_initialized())


def own_rank() -> int:
    """Return the rank that this program is; 0 without a process group."""
    return int(torch.distributed.get_rank()) if is_initialised() else 0


def world_size() -> int:
    """Return how many ranks there are; 1 without a process group."""
    return int(torch.distributed.get_world_size()) if is_initialised() else 1


def is_fake() -> bool:
    """Whether the ranks are those of torch's ``fake`` process group, of which one is here."""
    return world_size() > 1 and "fake" in torch.distributed.get_backend()


def members(group: Any) -> list[int]:
    """Return the ranks of a process group, or of the one that is called so, in its order.

    Raises
    ------
    AtenError
        If there is none of the name.
    """
    if isinstance(group, str):
        try:
            group = torch.distributed.distributed_c10d._resolve_process_group(group)
        except RuntimeError:
            raise AtenError(
                f"joins the process group {group!r}, which is gone; torch remembers how it cut "
                "tensors on an equal mesh before: time meshes of one shape in one process group, "
                "or in processes of their own"
            ) from None
    elif not isinstance(group, torch.distributed.ProcessGroup):
        group = getattr(group, "real_obj", group)
    return list(torch.distributed.get_process_group_ranks(group))


def replica_groups(own: list[int], ranks: int) -> list[list[int]]:
    """Return the groups that meet at once, of one rank's own.

    A rank knows its own group. Others are those of a mesh, whose groups are cut from all ranks in
    one way, or what is left.

    Raises
    ------
    AtenError
        If these are not known.

    Examples
    --------
    >>> replica_groups([1, 5], 8)
    [[0, 4], [1, 5], [2, 6], [3, 7]]
    >>> replica_groups([3, 0], 4)
    [[3, 0], [1, 2]]
    """
    count = len(own)
    steps = {second - first for first, second in pairwise(own)}
    if count == 1:
        return [[rank] for rank in range(ranks)]
    if len(steps) == 1 and (step := steps.pop()) > 0:
        block = count * step
        if own[0] % block < step and ranks % block == 0:
            starts = [first + offset for first in range(0, ranks, block) for offset in range(step)]
            return [list(range(start, start + block, step)) for start in starts]
    left = [rank for rank in range(ranks) if rank not in own]
    if len(left) not in (0, count):
        raise AtenError(
            f"joins ranks {own} of {ranks}; allowed: groups of a mesh of all ranks, in rows"
        )
    return sorted([own, left], key=min) if left else [own]
