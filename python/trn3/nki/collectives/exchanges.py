"""Collectives whose ranks all give as much."""

from __future__ import annotations

from typing import Any

import numpy as np

from trn3._trn3.machine import NkiInstruction
from trn3.nki.ranks.calls import Tensors, meet
from trn3.nki.ranks.replica_group import ReplicaGroup
from trn3.nki.values.operators import op_name

__all__ = ["all_gather", "all_reduce", "all_to_all", "reduce_scatter"]


def all_reduce(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    op: Any,
    priority: int | None = None,
    name: str | None = None,
    **ignored: Any,
) -> NkiInstruction | None:
    """Reduce the tensors of all ranks of a group, for each of them.

    Parameters
    ----------
    srcs, dsts : list of tensor
        In HBM or SBUF, of one shape. Floating-point types may differ.
    replica_group : ReplicaGroup
        Which ranks work together.
    op
        ``nl.add``, ``nl.maximum`` or ``nl.minimum``.
    priority : int, optional
        Class of service, 0 (first) to 3, on gen4; the same on all ranks.
    name : str, optional
        Label in profiles.

    Raises
    ------
    NkiValidationError
        If operands or `op` are none that it takes.
    ValueError
        If ranks call different collectives, or a group has ranks that the launch has not.
    DeadlockError
        If a rank never comes.

    Notes
    -----
    Cost: `trn3.collectives.time` from when the last rank is ready.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.collectives as ncc
    >>> import trn3.nki.isa as nisa
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def total(x, group):
    ...     mine = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    ...     out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    ...     nisa.dma_copy(mine, x)
    ...     ncc.all_reduce([mine], [out], group, nl.add)
    ...     return out
    >>> group = ncc.ReplicaGroup([[0, 1]])
    >>> ranks = [{"x": np.full((1, 2), value, np.float32), "group": group} for value in (1, 2)]
    >>> [result.tolist() for result in nki.simulate_ranks(total, ranks)]
    [[[3.0, 3.0]], [[3.0, 3.0]]]
    """
    return meet(
        "all_reduce", ignored, srcs=srcs, dsts=dsts, replica_group=replica_group, op=op_name(op),
        priority=priority, name=name,
    )  # fmt: skip


def all_gather(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    collective_dim: int = 0,
    priority: int | None = None,
    name: str | None = None,
    **ignored: Any,
) -> NkiInstruction | None:
    """Give each rank the tensors of all, joined along a dimension by index.

    Parameters
    ----------
    srcs, dsts : list of tensor
        In HBM, joined along dimension 0; or in SBUF, of two dimensions, along either.
    replica_group, priority, name
        As in `all_reduce`.
    collective_dim : int
        Along which dimension.

    Raises
    ------
    NkiValidationError, ValueError, DeadlockError
        As `all_reduce`.
    """
    return meet(
        "all_gather", ignored, srcs=srcs, dsts=dsts, replica_group=replica_group,
        collective_dim=collective_dim, priority=priority, name=name,
    )  # fmt: skip


def reduce_scatter(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    collective_dim: int = 0,
    op: Any = np.add,
    priority: int | None = None,
    name: str | None = None,
    **ignored: Any,
) -> NkiInstruction | None:
    """Reduce the tensors of all ranks; that of index i keeps chunk i along dimension 0.

    Parameters
    ----------
    srcs, dsts : list of tensor
        In HBM or SBUF; the ranks of a list divide dimension 0 of `srcs`.
    replica_group, op, priority, name
        As in `all_reduce`.
    collective_dim : int
        0.

    Raises
    ------
    NkiValidationError, ValueError, DeadlockError
        As `all_reduce`.
    """
    return meet(
        "reduce_scatter", ignored, srcs=srcs, dsts=dsts, replica_group=replica_group,
        collective_dim=collective_dim, op=op_name(op), priority=priority, name=name,
    )  # fmt: skip


def all_to_all(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    collective_dim: int = 0,
    priority: int | None = None,
    name: str | None = None,
    **ignored: Any,
) -> NkiInstruction | None:
    """Split each tensor along dimension 0; chunk j goes to index j, which joins what it gets.

    Parameters
    ----------
    srcs, dsts : list of tensor
        In HBM; the ranks of a list divide dimension 0.
    replica_group, priority, name
        As in `all_reduce`.
    collective_dim : int
        0.

    Raises
    ------
    NkiValidationError, ValueError, DeadlockError
        As `all_reduce`.
    """
    return meet(
        "all_to_all", ignored, srcs=srcs, dsts=dsts, replica_group=replica_group,
        collective_dim=collective_dim, priority=priority, name=name,
    )  # fmt: skip
