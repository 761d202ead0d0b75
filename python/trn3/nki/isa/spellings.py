"""Engines, members of other enums and operators, by any of the ways that kernels spell them.

The machine's instructions take them as they come: what is neither a word, a member nor a token is
asked for here.
"""

from __future__ import annotations

import enum
from typing import Any, Final

import numpy as np

from trn3._trn3.machine import isa
from trn3.nki.isa.constants import dge_mode, engine, oob_mode, reduce_cmd
from trn3.nki.values.operators import OPERATORS, look_up

__all__ = ["engine_name", "enum_name"]

_ENGINES: Final = frozenset(engine.__members__)


def engine_name(value: Any) -> str:
    """Return the name of an engine; ``"unknown"`` for None.

    Raises
    ------
    TypeError
        For anything but a member of `nki.isa.engine`, its name or its value.
    """
    if type(value) is engine:
        return value._name_
    if value is None:
        return "unknown"
    if isinstance(value, str) and value in _ENGINES:
        return value
    return _by_value(value, "engine", engine)


def enum_name(value: Any, kind: type[enum.Enum], argument: str) -> str:
    """Return the name of an enum's member that was given as itself, by name or by value.

    Parameters
    ----------
    value
        What the kernel gave.
    kind
        The enum, one of `nki.isa.constants`.
    argument
        Named in the error.

    Raises
    ------
    TypeError
        For anything else.
    """
    if type(value) is kind:
        return value._name_
    if isinstance(value, str) and value in kind.__members__:
        return value
    return _by_value(value, argument, kind)


def _by_value(value: Any, argument: str, kind: type[enum.Enum]) -> str:
    """Return the name of the member of a value: kernels of NKI 0.2 give numbers."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        for member in kind:
            if member.value == value:
                return member.name
    allowed = ", ".join(f"nisa.{kind.__name__}.{name}" for name in kind.__members__)
    message = f"{argument} is {value!r}; allowed: {allowed}"
    raise TypeError(message)


def _register(kind: type[enum.Enum]) -> None:
    isa.spell(kind.__name__, kind, lambda value, argument: enum_name(value, kind, argument))


isa.spell("op", OPERATORS, lambda op, _argument: look_up(op))
isa.spell("engine", engine, lambda value, _argument: engine_name(value))
for _kind in (dge_mode, oob_mode, reduce_cmd):
    _register(_kind)
