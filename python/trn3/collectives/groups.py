"""Groups of ranks as callers write them: ranks, chips, patterns, or several lists at once."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from trn3.collectives.engine import CollectiveEngine

GroupLike: TypeAlias = str | Iterable[Any] | None
"""Ranks (whole numbers), chips (tuples, or a pattern ``"0/*"``), a list of such lists, or None."""

Member: TypeAlias = int | tuple[int, ...]
"""A rank by number, or a chip by id where a chip is one rank."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """Groups that are understood.

    Attributes
    ----------
    lists : tuple of tuple of int
        Global ranks of each group, by position.
    ranks_per_chip : int
        Ranks of a chip of the system, in the group or not.
    places : mapping
        Position in its group of each rank, and of each chip where it stands for one rank.
    """

    lists: tuple[tuple[int, ...], ...]
    ranks_per_chip: int
    places: Mapping[Member, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Ranks of a group."""
        return len(self.lists[0])

    @property
    def total(self) -> int:
        """Ranks of all groups."""
        return sum(map(len, self.lists))

    def position(self, argument: str, member: Any) -> int:
        """Return where a rank or a chip stands in its group.

        Raises
        ------
        ValueError
            If it does not.
        """
        key = tuple(member) if isinstance(member, tuple | list) else _whole(argument, member)
        if key not in self.places:
            first, last = self.lists[0][0], self.lists[-1][-1]
            message = f"{argument} has {member!r}, which is not in the group ({first} to {last})"
            raise ValueError(message)
        return self.places[key]


def _whole(argument: str, value: Any) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        message = f"{argument} has {value!r}; allowed: ranks (whole numbers) or chips (tuples)"
        raise ValueError(message) from None


def parse(where: CollectiveEngine, group: GroupLike, count: int | None) -> Ranks:
    """Return the ranks of a group of a system.

    Parameters
    ----------
    where
        Of the system.
    group
        A list of ranks; a list of chips (tuples), or a pattern of chips; or a list of such lists,
        which work at the same time. None means all ranks, or all chips with one rank each.
    count
        How many arrays there are, which tells the last two apart: as many as ranks, or as chips
        (each chip's first rank then takes part). None: all ranks.

    Raises
    ------
    ValueError
        If a group is empty, names what the system does not have, or the arrays are neither as many
        as its ranks nor as its chips.
    """
    per_chip = where.ranks_per_chip
    if group is None:
        chips = list(range(where.fabric.chips))
        return _of_chips(where, [chips], count, "the system")
    if isinstance(group, str):
        return _of_chips(where, [where.fabric.select(group)], count, f"group {group!r}")
    members = list(group)
    if not members:
        message = "group is empty; needed: one rank or more"
        raise ValueError(message)
    if all(isinstance(member, tuple) for member in members):
        parts_of_id = len(where.fabric.id_parts)
        strange = next((member for member in members if len(member) != parts_of_id), None)
        if strange is not None:
            named = ", ".join(where.fabric.id_parts)
            message = (
                f"group has {strange!r}; a tuple is a chip, ({named}), and groups of ranks are "
                "lists, like [[0, 1], [2, 3]]"
            )
            raise ValueError(message)
        return _of_chips(where, [[_index(where, chip) for chip in members]], count, "group")
    if all(isinstance(member, Sequence) or hasattr(member, "__iter__") for member in members):
        parts = [
            list(where.fabric.select(part) if isinstance(part, str) else part) for part in members
        ]
        are_chips = [
            isinstance(part, str) or _are_tuples(got)
            for part, got in zip(members, parts, strict=True)
        ]
        if all(are_chips):
            lists = [
                list(got) if isinstance(part, str) else [_index(where, chip) for chip in got]
                for part, got in zip(members, parts, strict=True)
            ]
            return _of_chips(where, lists, count, "group")
        ranks = [tuple(_whole("group", rank) for rank in part) for part in parts]
        return _checked(Ranks(tuple(ranks), per_chip, _places(ranks)), count, "group")
    ranks = [tuple(_whole("group", rank) for rank in members)]
    return _checked(Ranks(tuple(ranks), per_chip, _places(ranks)), count, "group")


def _index(where: CollectiveEngine, chip: Sequence[Any]) -> int:
    parts = [operator.index(part) for part in chip]
    if all(0 <= part < 2**32 for part in parts):
        return where.fabric.index_of(parts)
    ends = f"{where.chips[0]} to {where.chips[-1]}"
    message = f"{where.fabric.name} has no chip {chip!r}; allowed: ids from {ends}"
    raise ValueError(message)


def _are_tuples(members: list[Any]) -> bool:
    return bool(members) and all(isinstance(member, tuple) for member in members)


def _places(lists: Sequence[Sequence[int]]) -> dict[Member, int]:
    for ranks in lists:
        if any(rank < 0 for rank in ranks):
            message = f"group has rank {min(ranks)}; ranks begin at 0"
            raise ValueError(message)
    return {rank: position for ranks in lists for position, rank in enumerate(ranks)}


def _checked(ranks: Ranks, count: int | None, what: str) -> Ranks:
    if count is not None and count != ranks.total:
        message = (
            f"arrays has {count} entries; {what} has {ranks.total} ranks, and needs one for each"
        )
        raise ValueError(message)
    return ranks


def _of_chips(
    where: CollectiveEngine, lists: list[list[int]], count: int | None, what: str
) -> Ranks:
    per_chip = where.ranks_per_chip
    chips = sum(map(len, lists))
    if count is None or count == chips * per_chip:
        every = [tuple(c * per_chip + k for c in part for k in range(per_chip)) for part in lists]
        return Ranks(tuple(every), per_chip, _places(every))
    if count != chips:
        message = (
            f"arrays has {count} entries; {what} has {chips} chips with {chips * per_chip} ranks: "
            f"give one array for each rank ({chips * per_chip}) or for each chip ({chips})"
        )
        raise ValueError(message)
    firsts = [tuple(chip * per_chip for chip in part) for part in lists]
    places: dict[Member, int] = {}
    for part in lists:
        for position, chip in enumerate(part):
            places[chip] = position
            places[where.chips[chip]] = position
    return Ranks(tuple(firsts), per_chip, places)
