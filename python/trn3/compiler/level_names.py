"""Levels of the compiler, and what runs it over cores.

>>> LEVELS
('as-written', 'nki', 'neuronx-cc')
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from trn3._trn3 import compiler as _compiler
from trn3._trn3.compiler import compile_cores, verify_cores

__all__ = [
    "AS_WRITTEN", "LEVELS", "SWITCH", "VerificationError", "check_level", "check_verify",
    "compile_cores", "verify_cores", "verifying",
]  # fmt: skip

#: What a process asks for, where a call does not: the name of a variable.
SWITCH: Final = "TRN3_COMPILE"
#: Every level, the least first.
LEVELS: Final = tuple(_compiler.levels())
#: The kernel's own text in its own order.
AS_WRITTEN: Final = LEVELS[0]


class VerificationError(ValueError):
    """A compiled program gives other bits than the kernel, or a pass broke its schedule."""


@contextmanager
def verifying(what: str) -> Iterator[None]:
    """Make what the compiler refuses, as it looks at what it made of `what`, VerificationErrors."""
    try:
        yield
    except ValueError as error:
        message = f"{what} is not verified: {error}"
        raise VerificationError(message) from error


def check_verify(level: str, *, values: bool = True) -> None:
    """Refuse to verify what is not compiled, or has no values.

    Examples
    --------
    >>> check_verify("as-written")
    Traceback (most recent call last):
    ValueError: verify is True at level as-written, which compiles nothing; allowed: nki, neuronx-cc
    """
    if level == AS_WRITTEN:
        allowed = ", ".join(LEVELS[1:])
        message = f"verify is True at level {level}, which compiles nothing; allowed: {allowed}"
        raise ValueError(message)
    if not values:
        message = "verify is True with values=False: without values no bits are compared"
        raise ValueError(message)


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
