"""Operations between ranks: logical cores with memories of their own.

`trn3.nki.simulate_ranks` runs a kernel on several ranks; elsewhere there is one, rank 0. A
collective starts when every rank of the group has come to it and has its operands ready, and takes
as long as the system's fabric says; what does not use the operands goes on meanwhile.

`srcs` and `dsts` are lists of tensors, all in HBM or all in SBUF; several only in HBM. A rank's
*index* is its position in its list of the `ReplicaGroup`. Sums are added in float32 by ascending
index and rounded once, to the result's type; integers wrap (**choice**).

On two cores, both issue the call. Where they pass the same tensors it takes place once, and orders
what both did in HBM; else each core's call is a transfer of its own with the same core of the other
ranks (**choice**).

A core's collectives run one after another. A `priority` puts them in classes: a more urgent one
overtakes those of later classes that wait or run, and the next ones of these wait so much longer;
none is the last class (**choice**). Profiles count what a core sends or gets as bytes of its DMA.

With ``TRN3_NKI_STRICT=1``, refused too (the hardware's rules): `all_gather_v` outside of lists of
four ranks of two cores, and `all_to_all_v` outside of two cores, or in lists that have some of a
device's ranks but not all.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from trn3._trn3.machine import NkiInstruction, NkiTensor, VirtualRegister
from trn3.nki.ranks.operands import (
    Arrays,
    CollectiveCall,
    Tensors,
    flat,
    is_number,
    raw,
    size_of,
    words,
)
from trn3.nki.values.memory_regions import is_sbuf

__all__ = [
    "ReplicaGroup",
    "all_gather",
    "all_gather_v",
    "all_reduce",
    "all_to_all",
    "all_to_all_v",
    "collective_permute",
    "collective_permute_implicit",
    "collective_permute_implicit_current_processing_rank_id",
    "collective_permute_implicit_reduce",
    "rank_id",
    "reduce_scatter",
]


class ReplicaGroup:
    """Lists of ranks; those of one list work together.

    Parameters
    ----------
    groups : list of lists of int
        Global ranks; no rank twice, all lists of one length.

    Raises
    ------
    ValueError
        If a rank is negative or appears twice, or the lists differ in length.

    Examples
    --------
    >>> from trn3.nki.collectives import ReplicaGroup
    >>> group = ReplicaGroup([[0, 1], [2, 3]])
    >>> group[1], len(group)
    ([2, 3], 2)
    """

    __slots__ = ("_groups",)

    def __init__(self, groups: Sequence[Sequence[int]]) -> None:
        self._groups = tuple(tuple(int(rank) for rank in group) for group in groups)
        ranks = [rank for group in self._groups for rank in group]
        problem = None
        if not ranks or len({len(group) for group in self._groups}) != 1:
            problem = "lists of one length, each of one rank or more"
        elif min(ranks) < 0 or len(set(ranks)) != len(ranks):
            problem = "ranks from 0, none of them twice"
        if problem is not None:
            message = f"groups is {groups!r}; allowed: {problem}"
            raise ValueError(message)

    @property
    def groups(self) -> list[list[int]]:
        """The lists, fresh."""
        return [list(group) for group in self._groups]

    def __getitem__(self, index: int) -> list[int]:
        return list(self._groups[index])

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.groups)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReplicaGroup) and self._groups == other._groups

    def __hash__(self) -> int:
        return hash(self._groups)

    def __repr__(self) -> str:
        return f"ReplicaGroup({self.groups})"


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
    where = CollectiveCall("all_reduce", priority, ignored)
    sources, results = where.operands(srcs, dsts, one_type=False)
    reduction = where.reduction(op, sources, results)
    for source, result in zip(sources, results, strict=True):
        where.same_elements(source, result, 1, 1)
    group = where.group(replica_group)
    return where.reduce(sources, results, group, reduction, name)


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
    where = CollectiveCall("all_gather", priority, ignored)
    sources, results = where.operands(srcs, dsts)
    group = where.group(replica_group)
    n = len(group[1])
    axis = where.dimension(collective_dim, (0, 1) if is_sbuf(sources[0]) else (0,))
    for source, result in zip(sources, results, strict=True):
        where.same_elements(source, result, n, 1)
        if is_sbuf(source):
            wanted = list(source.shape)
            if len(wanted) == 2:
                wanted[axis] *= n
            if list(result.shape) != wanted or len(wanted) != 2:
                shapes = f"{source.shape} to {result.shape}"
                allowed = "two dimensions, all but collective_dim equal"
                where.refuse("srcs and dsts", f"in sbuf have shapes {shapes}", allowed)

    def move(inputs: list[Arrays], fabric: Any) -> list[Arrays]:
        outputs: list[Arrays] = fabric.all_gather(raw(inputs), axis, group[1])
        return outputs

    agreed = f"{words(sources)} along {axis}"
    return where.meet(sources, results, group, agreed, n * size_of(sources), move, name)


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
    where = CollectiveCall("reduce_scatter", priority, ignored)
    sources, results = where.operands(srcs, dsts, one_type=False)
    reduction = where.reduction(op, sources, results)
    where.dimension(collective_dim, (0,))
    group = where.group(replica_group)
    n = len(group[1])
    for source, result in zip(sources, results, strict=True):
        where.divides(source, n)
        where.same_elements(source, result, 1, n)
    return where.reduce(sources, results, group, reduction, name)


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
    where = CollectiveCall("all_to_all", priority, ignored)
    sources, results = where.operands(srcs, dsts, on_chip=False)
    where.dimension(collective_dim, (0,))
    group = where.group(replica_group)
    for source, result in zip(sources, results, strict=True):
        where.divides(source, len(group[1]))
        where.same_elements(source, result, 1, 1)

    def move(inputs: list[Arrays], fabric: Any) -> list[Arrays]:
        outputs: list[Arrays] = fabric.all_to_all(raw(inputs), group[1])
        return outputs

    return where.meet(sources, results, group, words(sources), size_of(sources), move, name)


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
    where = CollectiveCall("collective_permute", priority, ignored)
    sources, results = where.operands(srcs, dsts, on_chip=False, several=False)
    where.same_elements(sources[0], results[0], 1, 1)
    pairs = where.pairs(source_target_pairs)
    everyone = tuple(range(where.size))
    targets = {target for _, target in pairs}

    def move(inputs: list[Arrays], fabric: Any) -> list[Arrays]:
        outputs = fabric.permute(raw(inputs), pairs, everyone)
        return [output if i in targets else [] for i, output in enumerate(outputs)]

    group = ((everyone,), everyone)
    return where.meet(sources, results, group, words(sources), size_of(sources), move, name, pairs)


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
    where = CollectiveCall("collective_permute_implicit", priority, ignored)
    group = where.group(replica_group)
    channels = where.channels(channel_ids, group[1], srcs_by_channel, dsts_by_channel)
    sources, results = where.operands(
        flat(srcs_by_channel), flat(dsts_by_channel), per_channel=len(channels)
    )
    for source, result in zip(sources, results, strict=True):
        where.same_elements(source, result, 1, 1)
    return where.ring(sources, results, group, channels, name)


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
    where = CollectiveCall("collective_permute_implicit_reduce", priority, ignored)
    firsts = where.given("srcs0", srcs0, srcs0_by_channel)
    seconds = where.given("srcs1", srcs1, srcs1_by_channel)
    targets = where.given("dsts", dsts, dsts_by_channel)
    group = where.group(replica_group)
    channels = where.channels(channel_ids, group[1], firsts, targets)
    sources, results = where.operands(
        flat(firsts), flat(targets), one_type=False, per_channel=len(channels)
    )
    others, _ = where.operands(
        flat(seconds), flat(targets), one_type=False, per_channel=len(channels)
    )
    reduction = where.reduction(op, sources, results)
    for one, other, result in zip(sources, others, results, strict=True):
        where.same_elements(one, result, 1, 1)
        where.same_elements(other, result, 1, 1)
        if one.dtype_name != other.dtype_name:
            where.refuse("srcs1", f"has dtype {other.dtype_name}", f"{one.dtype_name}, as srcs0")
    return where.ring(sources, results, group, channels, name, others, reduction)


def collective_permute_implicit_current_processing_rank_id(
    iteration_id: int | VirtualRegister,
    replica_group: ReplicaGroup,
    channel_id: int = 0,
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

    Raises
    ------
    NkiValidationError
        If `iteration_id` is no number from 0.
    ValueError
        If the rank is in no list.
    """
    where = CollectiveCall("collective_permute_implicit_current_processing_rank_id", None, ignored)
    step = iteration_id.state if isinstance(iteration_id, VirtualRegister) else iteration_id
    if step is None or not is_number(step):
        where.refuse("iteration_id", f"is {step!r}", "a number from 0")
    if not is_number(channel_id):
        where.refuse("channel_id", f"is {channel_id!r}", "a number from 0")
    _, ranks = where.group(replica_group)
    index = ranks.index(where.rank)
    return where.register(ranks[(index - operator.index(step)) % len(ranks)])


def rank_id() -> VirtualRegister:
    """Return the number of this rank in the launch, as a register.

    Raises
    ------
    RuntimeError
        Outside a kernel.
    """
    where = CollectiveCall("rank_id", None, {})
    return where.register(where.rank)


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
    where = CollectiveCall("all_to_all_v", priority, ignored)
    return where.variable(
        srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls, name
    )


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
    where = CollectiveCall("all_gather_v", priority, ignored)
    if has_rdispls:
        where.refuse("has_rdispls", "is True", "False: all_gather_v has no displacements")
    return where.variable(
        srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls, name
    )
