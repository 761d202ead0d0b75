"""Levels of the compiler, and what runs it over cores.

>>> LEVELS
('as-written', 'nki', 'neuronx-cc')
"""

from __future__ import annotations

from typing import Any, Final

from trn3._trn3 import compiler as _compiler
from trn3._trn3.compiler import compile_cores

__all__ = ["AS_WRITTEN", "LEVELS", "SWITCH", "check_level", "compile_cores"]

#: What a process asks for, where a call does not: the name of a variable.
SWITCH: Final = "TRN3_COMPILE"
#: Every level, the least first.
LEVELS: Final = tuple(_compiler.levels())
#: The kernel's own text in its own order.
AS_WRITTEN: Final = LEVELS[0]


def check_level(level: Any, origin: str = "compile") -> str:
    """Return a level of the compiler.

    Raises
    ------
    ValueError
        If it is none; the text names `origin`.

    Examples
    --------
    >>> check_level("nki")
    'nki'
    """
    if level not in LEVELS:
        message = f"{origin} is {level!r}; allowed: {', '.join(LEVELS)}"
        raise ValueError(message)
    return str(level)
