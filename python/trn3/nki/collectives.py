"""Operations between ranks.

`ReplicaGroup` can be made and passed to kernels; the operations themselves are not modelled yet and
say so when they are called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

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


def _missing(name: str) -> Callable[..., NoReturn]:
    def operation(*_: Any, **__: Any) -> NoReturn:
        message = f"nki.collectives.{name}: operations between ranks are not modelled yet"
        raise NotImplementedError(message)

    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = "Not modelled yet: raises NotImplementedError."
    return operation


all_gather = _missing("all_gather")
all_gather_v = _missing("all_gather_v")
all_reduce = _missing("all_reduce")
all_to_all = _missing("all_to_all")
all_to_all_v = _missing("all_to_all_v")
collective_permute = _missing("collective_permute")
collective_permute_implicit = _missing("collective_permute_implicit")
collective_permute_implicit_current_processing_rank_id = _missing(
    "collective_permute_implicit_current_processing_rank_id"
)
collective_permute_implicit_reduce = _missing("collective_permute_implicit_reduce")
rank_id = _missing("rank_id")
reduce_scatter = _missing("reduce_scatter")
