"""One figure: its value, its unit, who published what, and how far they agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from trn3._trn3 import facts as _core
from trn3._trn3.facts import agree, factor, shown

__all__ = [
    "Quantity",
    "Source",
    "Status",
    "Value",
    "agree",
    "factor",
    "figure_of",
    "shown",
    "source_of",
]

Value: TypeAlias = "int | float | bool | str | tuple[Value, ...]"
Status: TypeAlias = Literal["exact", "derived", "conflicting"]

DERIVED: Final = "derived:"


@dataclass(frozen=True, slots=True)
class Source:
    """One source of a figure and the value it gives.

    Attributes
    ----------
    value
        In `unit`.
    source
        Who published it; ``derived: EXPRESSION`` for arithmetic on other figures.
    unit
        Its unit, None where it is the figure's.
    """

    value: Value
    source: str
    unit: str | None = None

    @property
    def expression(self) -> str | None:
        """The arithmetic of a derived source; None for one that was published."""
        if not self.source.startswith(DERIVED):
            return None
        return self.source.removeprefix(DERIVED).strip()


@dataclass(frozen=True, slots=True)
class Quantity:
    """A figure of a system.

    Attributes
    ----------
    value
        What is used, in `unit`; an int where it is whole, a tuple for several.
    unit
        Decimal prefixes unless it says ``iB``; ``dir`` is one direction of a link, ``bidir`` both.
    formula
        How it follows from other figures, with their numbers; None where it is as published.
    sources
        Who published what.
    conflict
        Whether sources disagree, or the parts with what is published.
    why, note
        Why this value is used, and what else a reader should know.
    published
        What is published, where `value` is computed from parts; in `unit`.
    agrees
        Whether the formula gives what is published, within 0.6 % or rounded; None without both.
    computed
        What the formula gives, in `unit`, where the published figure is used all the same.
    """

    value: Value
    unit: str = ""
    formula: str | None = None
    sources: tuple[Source, ...] = ()
    conflict: bool = False
    why: str | None = None
    note: str | None = None
    published: Value | None = None
    agrees: bool | None = None
    computed: int | float | None = None

    @property
    def number(self) -> float:
        """The value as a float, in `unit`.

        Raises
        ------
        TypeError
            If it is no number.
        """
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)):
            message = f"{self.value!r} is no number"
            raise TypeError(message)
        return float(self.value)

    def __float__(self) -> float:
        return self.number

    @property
    def is_number(self) -> bool:
        """Whether the value is a number."""
        return isinstance(self.value, (int, float)) and not isinstance(self.value, bool)

    @property
    def si(self) -> float:
        """The value in bytes, seconds, operations, hertz, watts, US dollars or their quotients.

        Raises
        ------
        TypeError
            If it is no number.
        """
        return self.number * factor(self.unit)

    @property
    def range(self) -> tuple[float, float] | None:
        """The least and the largest number that a source gives, in `unit`; None without two."""
        return _core.range_of(self)

    @property
    def status(self) -> Status:
        """``conflicting``, else ``derived`` from other figures, else ``exact``: as published."""
        return _core.status_of(self)

    def __str__(self) -> str:
        return f"{shown(self.value)} {self.unit}".rstrip()


def source_of(fields: Mapping[str, Any]) -> Source:
    """Return a source, given its fields."""
    return Source(**fields)


def figure_of(fields: Mapping[str, Any]) -> Quantity:
    """Return a figure, given its fields."""
    return Quantity(**{**fields, "sources": tuple(map(source_of, fields["sources"]))})
