"""One figure: its value, its unit, who published what, and how far they agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from trn3 import _trn3

Value: TypeAlias = "int | float | bool | str | tuple[Value, ...]"
Status: TypeAlias = Literal["exact", "derived", "conflicting"]

#: Figures that differ by no more agree: sources round to three digits.
AGREEMENT: Final = 0.006
#: How far two figures may be apart of which one is the other, rounded: 700 and 705.6.
LARGEST_ROUNDING: Final = 0.025
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
        found = self._numbers()
        return (min(found), max(found)) if len(set(found)) > 1 else None

    def _numbers(self) -> list[float]:
        """All that the figure is said to be, in `unit`."""
        found = [self.number] if self.is_number else []
        for source in self.sources:
            if isinstance(source.value, (int, float)) and not isinstance(source.value, bool):
                unit = self.unit if source.unit is None else source.unit
                found.append(rounded(source.value * factor(unit) / factor(self.unit)))
        if isinstance(self.published, (int, float)):
            found.append(float(self.published))
        if self.computed is not None:
            found.append(float(self.computed))
        return found

    @property
    def status(self) -> Status:
        """``conflicting``, else ``derived`` from other figures, else ``exact``: as published."""
        if self.conflict or self.agrees is False:
            return "conflicting"
        if self.is_number and not all(agree(self.number, other) for other in self._numbers()):
            return "conflicting"
        return "exact" if self.formula is None else "derived"

    def __str__(self) -> str:
        return f"{shown(self.value)} {self.unit}".rstrip()


def agree(value: float, published: float) -> bool:
    """Return whether two figures are within 0.6 %, or one is the other, rounded.

    Examples
    --------
    >>> agree(19.66, 20), agree(705.6, 700), agree(629.1, 671), agree(0.544, 1)
    (True, True, False, False)
    """
    distance = abs(value - published)
    if distance <= AGREEMENT * abs(published):
        return True
    if distance > LARGEST_ROUNDING * abs(published):
        return False
    decimals = len(str(published).partition(".")[2].rstrip("0"))
    return any(round(value, digits) == published for digits in range(-3, decimals + 1))


def factor(unit: str) -> float:
    """Return what one of a unit is in base units.

    Raises
    ------
    ValueError
        If spec files do not know it.

    Examples
    --------
    >>> factor("TB/s"), factor("Gbit/s"), factor("GiB")
    (1000000000000.0, 125000000.0, 1073741824.0)
    """
    found = _trn3.system.unit_factor(unit)
    if found is None:
        message = (
            f"unit {unit!r} is unknown; allowed: count, x, fraction, B to EB, KiB to TiB, FLOPS, "
            "Hz, s, W, USD with SI prefixes, /s and /h"
        )
        raise ValueError(message)
    return found


def rounded(value: float) -> float:
    """Drop the digits that only binary fractions have: 705.6000000000001."""
    return float(f"{value:.12g}")


def shown(value: Value) -> str:
    """Return a value as text: numbers with separators and at most five digits after the point.

    Examples
    --------
    >>> shown(2516.5824), shown(1000000), shown(0.5), shown(("4:16", "1:2")), shown(True)
    ('2,516.6', '1,000,000', '0.5', '4:16, 1:2', 'yes')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(shown(item) for item in value)
    if isinstance(value, str):
        return value
    if isinstance(value, int) or value.is_integer():
        return f"{int(value):,}"
    if abs(value) >= 1000:
        return f"{value:,.1f}"
    return f"{value:.5g}" if abs(value) >= 1e-4 else f"{value:.3g}"
