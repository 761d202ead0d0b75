"""Collectives of chunks of any lengths."""

from __future__ import annotations

from typing import Any

from trn3._trn3.machine import NkiInstruction, NkiTensor
from trn3.nki.ranks.calls import Tensors, meet
from trn3.nki.ranks.replica_group import ReplicaGroup

__all__ = ["all_gather_v", "all_to_all_v"]


def all_to_all_v(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    metadata_tensor: NkiTensor,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
    **ignored: Any,
) -> NkiInstruction | None:
    """Send any number of elements from each rank to each other.

    What comes from index r lands at ``r * (dst.size // n)``, or at ``recv_displs[r]``; the rest of
    `dsts` stays.

    Parameters
    ----------
    srcs, dsts : list of one tensor
        In HBM (**choice**), counted as flat.
    replica_group, priority, name
        As in `all_reduce`.
    metadata_tensor : tensor
        uint32, of shape (3, n), or (4, n) with `has_rdispls`, in HBM, or (1, 3, n) or (1, 4, n) in
        SBUF: send_counts, send_displs, recv_counts, recv_displs. The third row is written.
    recv_counts_known : bool
        The third row says what will come, and is checked instead of written.
    has_rdispls : bool
        Whether the fourth row counts.

    Raises
    ------
    NkiValidationError, ValueError, DeadlockError
        As `all_reduce`; and if a chunk does not fit where it comes from or goes to.
    SkippedValueError
        Without values, if the counts are unknown.
    """
    return meet(
        "all_to_all_v", ignored, srcs=srcs, dsts=dsts, replica_group=replica_group,
        metadata_tensor=metadata_tensor, recv_counts_known=recv_counts_known,
        has_rdispls=has_rdispls, priority=priority, name=name,
    )  # fmt: skip


def all_gather_v(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    metadata_tensor: NkiTensor,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
    **ignored: Any,
) -> NkiInstruction | None:
    """Give each rank one chunk of every rank, of any lengths.

    The chunk is ``src[send_displ : send_displ + send_count]``, by the first column of the metadata;
    that of index s lands at ``s * (dst.size // n)``.

    Parameters
    ----------
    srcs, dsts, replica_group, metadata_tensor, recv_counts_known, priority, name
        As in `all_to_all_v`.
    has_rdispls : bool
        False.

    Raises
    ------
    NkiValidationError, ValueError, DeadlockError, SkippedValueError
        As `all_to_all_v`.
    """
    return meet(
        "all_gather_v", ignored, srcs=srcs, dsts=dsts, replica_group=replica_group,
        metadata_tensor=metadata_tensor, recv_counts_known=recv_counts_known,
        has_rdispls=has_rdispls, priority=priority, name=name,
    )  # fmt: skip
