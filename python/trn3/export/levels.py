"""The levels of a system's fabric, as dimensions of one size each."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from trn3.export.document import ExportError
from trn3.system.facts import Facts, factor


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


def dimensions(facts: Facts) -> tuple[tuple[Dimension, ...], tuple[str, ...]]:
    """Return the dimensions of a system, the innermost first, and what was left out of them.

    A switch that joins chips which a level before it joins already counts for the axes it adds.

    Raises
    ------
    ExportError
        If the system has no fabric.
    """
    fabric = facts.parts.get("fabric")
    if not isinstance(fabric, dict):
        message = f"{facts.name} has no fabric to export; try a system of many chips"
        raise ExportError(message)
    sizes = {axis["name"]: int(axis["size"]["value"]) for axis in fabric["axes"]}
    covered: set[str] = set()
    found: list[Dimension] = []
    notes: list[str] = []
    for level in fabric["levels"]:
        rate, latency = _si(level["rate"]), _si(level["latency"])
        rate *= level["links"]["value"]
        fresh = [axis for axis in level["over"] if axis not in covered]
        covered.update(fresh)
        if level["kind"] == "ring":
            found += [Dimension(axis, "ring", sizes[axis], rate, latency) for axis in fresh]
            continue
        if len(fresh) < len(level["over"]):
            notes.append(
                f"the {level['name']} switch also joins the chips of a {found[-1].name}; here it "
                f"joins {' and '.join(fresh)} only"
            )
        size = 1
        for axis in fresh:
            size *= sizes[axis]
        found.append(Dimension(level["name"], level["kind"], size, rate, latency))
    return tuple(found), tuple(notes)


def _si(figure: dict[str, Any]) -> float:
    return float(figure["value"]) * factor(figure["unit"])


def load(system: str | os.PathLike[str] | Facts | object) -> Facts:
    """Return the facts of a system: by name, by the path of a spec file, or of an object."""
    from trn3.system import facts

    if isinstance(system, Facts):
        return system
    if isinstance(system, str | os.PathLike):
        return facts.load(system)
    found = getattr(system, "facts", None)
    if isinstance(found, Facts):
        return found
    message = f"system is {system!r}, must be a name, a spec file or a system of trn3"
    raise TypeError(message)
