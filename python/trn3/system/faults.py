"""What fails: how it is named, and the health classes that the driver has for it."""

from __future__ import annotations

from typing import TypeAlias

from trn3._trn3 import system as _core
from trn3.system.joined_chips import JoinedChips
from trn3.system.links import ChipId, Link, NodeId, node_name

Fault: TypeAlias = int | str | ChipId | Link | tuple[NodeId, NodeId]
"""What fails: a chip, a switch by name, a link, or the two nodes it joins."""


def fault_name(system: JoinedChips, fault: Fault) -> str:
    """Return a fault as the core reads it.

    >>> from trn3 import systems
    >>> fault_name(systems.trn3_gen2(), ((0, 3, 1), "rack/0"))
    '0/3/1-rack/0'
    """
    if isinstance(fault, str):
        return fault
    if isinstance(fault, Link):
        return f"{node_name(fault.source)}-{node_name(fault.target)}"
    if isinstance(fault, int):
        return node_name(system.chips[system.index(fault)])
    parts = tuple(fault)
    if len(parts) == 2 and not all(isinstance(part, int) for part in parts):
        # mypy cannot tell an id of two numbers from two ids.
        source, target = parts
        return f"{node_name(source)}-{node_name(target)}"  # type: ignore[arg-type]
    return "/".join(map(str, parts))


def check_health(fabric: _core.Fabric, health: str, named: list[str]) -> None:
    """Refuse a health class that what fails does not have.

    Raises
    ------
    ValueError
        If there is no such class, or it takes something else away.
    """
    classes = dict(_core.health_classes())
    if health not in classes:
        message = f"health is {health!r}; allowed: {', '.join(classes)}"
        raise ValueError(message)
    for name in named:
        found = fabric.health_class(name)
        fits = found == health or (classes[found] == classes[health] == "chip")
        if not fits:
            message = (
                f"health is {health!r}, which takes away a {classes[health]}; "
                f"{name!r} would be {found!r}, a {classes[found]}"
            )
            raise ValueError(message)
