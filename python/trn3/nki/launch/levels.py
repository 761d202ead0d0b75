"""At which level of the compiler a launch runs: the caller's, the environment's, the dialect's."""

from __future__ import annotations

from typing import Final

from trn3.compiler.level_names import AS_WRITTEN, SWITCH, check_level
from trn3.nki.values.environment import variable
from trn3.nki.values.releases import COMPILE_LEVEL

__all__ = ["is_of_compiled_release", "level_of_launch"]

#: What compilers made of the kernels of older releases.
_OF_OLDER_KERNELS: Final = COMPILE_LEVEL.changes[0].value


def is_of_compiled_release() -> bool:
    """Return whether the release in force is one whose kernels a compiler placed and ordered."""
    return COMPILE_LEVEL.value() != AS_WRITTEN


def level_of_launch(given: str | None, *, is_compiled: bool) -> str:
    """Return the level of a launch that begins now.

    Parameters
    ----------
    given : str or None
        What the call, or the kernel, asks for.
    is_compiled : bool
        Whether the kernel is of a dialect that was written for a compiler.

    Raises
    ------
    ValueError
        If ``TRN3_COMPILE`` names no level.
    """
    if given is not None:
        return given
    wanted = variable(SWITCH)
    if wanted:
        return check_level(wanted, SWITCH)
    return _OF_OLDER_KERNELS if is_compiled or is_of_compiled_release() else AS_WRITTEN
