"""The table of who may know whom, as `house.toml` has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter
from typing import Any


class Table:
    """Rooms of one language and what each may know: what it names and all that is below that."""

    def __init__(self, rules: Mapping[str, Any]) -> None:
        self.rooms: Mapping[str, Sequence[str]] = rules["rooms"]
        self.doors: Mapping[str, Sequence[str]] = rules.get("doors", {})
        #: Folders and modules of today, and the room that each belongs to.
        self.today: Mapping[str, str] = rules.get("today", {})
        self._bindings: Mapping[str, Sequence[str]] = rules.get("bindings", {})
        # Raises CycleError for a table that goes in a circle.
        order = TopologicalSorter(self.rooms).static_order()
        self._below: dict[str, set[str]] = {}
        for room in order:
            if room not in self.rooms:
                raise ValueError(f"house.toml names {room!r} as known and gives it no row")
            known = set(self.rooms[room])
            self._below[room] = known.union(*(self._below[other] for other in known))

    def knows(self, room: str) -> bool:
        """Whether the table has the room; the package itself needs no row."""
        return room in self.rooms or room == "trn3"

    def may(self, here: str, there: str) -> bool:
        """Whether `here` may know `there`."""
        return there in self._below.get(here, ())

    def renamed(self, name: str) -> str:
        """Return the room that a folder of today belongs to."""
        return self.today.get(name, name)

    def public(self, door: str) -> Sequence[str]:
        """Return the modules that others may import from a door."""
        return self.doors[door]

    def binding(self, column: str) -> Sequence[str]:
        """Return the rooms that may use a compiled module."""
        return self._bindings.get(column, [column])
