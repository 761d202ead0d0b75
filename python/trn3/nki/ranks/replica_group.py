"""Lists of ranks that work together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

__all__ = ["ReplicaGroup"]


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
