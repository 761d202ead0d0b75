"""Cores of chips, physical and logical, by the chips' spec files."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trn3.facts import Quantity


@lru_cache(maxsize=64)
def chip_facts(name: str, file: tuple[str, str] | None = None) -> Mapping[str, Quantity]:
    """Return a chip's figures: of the file's own, else of the package's; empty if none has it."""
    from trn3 import facts

    if file is not None:
        siblings = facts.parse(file[1], file[0])
        if name in siblings:
            return siblings[name]
    return facts.load(name) if name in facts.names() else MappingProxyType({})


def count_of(figures: Mapping[str, Quantity], key: str) -> int | None:
    """Return a count among a chip's figures; None where it is not published."""
    return int(figures[key].number) if key in figures else None


def lnc_modes(chip: str, file: tuple[str, str] | None = None) -> tuple[int, ...]:
    """Return how many physical cores a logical one may have, the default last.

    Documented for Trainium2 and Trainium3 alike; chips before them have no logical cores.

    >>> lnc_modes("trainium3"), lnc_modes("trainium1")
    ((1, 2), (1,))
    """
    figures = chip_facts(chip, file)
    if "lnc_modes" not in figures:
        return (1,)
    modes = figures["lnc_modes"].value
    return tuple(int(str(mode)) for mode in modes) if isinstance(modes, tuple) else (1,)


def checked_lnc(chip: str, lnc: int | None, file: tuple[str, str] | None = None) -> int:
    """Return `lnc`, or the default of the chip for None.

    Raises
    ------
    ValueError
        If the chip has no such mode.
    """
    modes = lnc_modes(chip, file)
    if lnc is None:
        return modes[-1]
    try:
        mode = operator.index(lnc)
    except TypeError:
        mode = 0
    if isinstance(lnc, bool) or mode not in modes:
        allowed = " or ".join(map(str, modes))
        message = f"lnc is {lnc!r}; allowed on {chip}: {allowed} physical cores a logical core"
        if mode == 4 and 2 in modes:
            message += (
                "; 4 is how many logical cores a chip shows at lnc=2, which some articles took for "
                "a mode that fuses four"
            )
        raise ValueError(message)
    return mode
