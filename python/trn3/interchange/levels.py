"""The levels of a system's fabric, as dimensions of one size each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trn3.interchange.exported import ExportError
from trn3.system.base import System


@dataclass(frozen=True, slots=True)
class Dimension:
    """One dimension of a fabric.

    Attributes
    ----------
    name
        Of the level, and of the axis where the level has several.
    kind
        ``ring``, ``switch`` or ``direct``.
    size
        How many chips differ in it only.
    rate
        Bytes a second, one way: to each neighbour of a ring or of direct links, into a switch.
    latency
        Seconds from chip to chip.
    """

    name: str
    kind: str
    size: int
    rate: float
    latency: float


def dimensions(system: System) -> tuple[tuple[Dimension, ...], tuple[str, ...]]:
    """Return the dimensions of a system, the innermost first, and what was left out of them.

    A switch that joins chips which a level before it joins already counts for the axes it adds.

    Raises
    ------
    ExportError
        If chips or links of the system have failed.
    """
    if system.faults:
        message = (
            f"{system.name} has failed parts ({', '.join(system.faults)}), which the format cannot "
            "say; export the whole system"
        )
        raise ExportError(message)
    fabric: Any = system.spec().facts.parts["fabric"]
    sizes = {axis["name"]: int(axis["size"]["value"]) for axis in fabric["axes"]}
    axes = {level["name"]: level["over"] for level in fabric["levels"]}
    covered: set[str] = set()
    found: list[Dimension] = []
    notes: list[str] = []
    for level in system.graph.levels:
        over = axes[level.name]
        fresh = [axis for axis in over if axis not in covered]
        covered.update(fresh)
        if level.kind == "ring":
            found += [
                Dimension(axis, "ring", sizes[axis], level.rate, level.latency) for axis in fresh
            ]
            continue
        if len(fresh) < len(over):
            notes.append(
                f"the {level.name} switch also joins the chips of a {found[-1].name}; here it "
                f"joins {' and '.join(fresh)} only"
            )
        size = math.prod(sizes[axis] for axis in fresh)
        found.append(Dimension(level.name, level.kind, size, level.rate, level.latency))
    return tuple(found), tuple(notes)


def load(system: object) -> System:
    """Return a system by name, by the path of a spec file, or as it is.

    Raises
    ------
    ValueError
        If there is no system of that name.
    TypeError
        If it is none of these.
    """
    from trn3 import systems

    if not isinstance(system, str | Path | System):
        message = f"system is {system!r}, must be a name, a spec file or a system of trn3"
        raise TypeError(message)
    return systems.load(system)
