"""The instructions of a core, as the machine's table describes them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeAlias

from trn3._trn3 import machine

__all__ = [
    "REQUIRED",
    "InstructionArgument",
    "InstructionDescription",
    "dropped_keywords",
    "family_of",
    "instructions",
]

Default: TypeAlias = "bool | int | float | str | None"


class _Required:
    """Stands where there is no default."""

    def __repr__(self) -> str:
        return "REQUIRED"


#: The default of an argument that has to be given.
REQUIRED: Final = _Required()


@dataclass(frozen=True)
class InstructionArgument:
    """One argument of an instruction.

    Attributes
    ----------
    name
        Keyword.
    kind
        What it may be, as the table calls it: ``Tile``, ``Scalar``, ``Op``, ...
    annotation
        Python type that the core takes.
    enum
        The enum of `nki.isa` whose member it is; None: of none.
    default
        What stands for it where it is left out; `REQUIRED` if it may not be.
    """

    name: str
    kind: str
    annotation: str
    enum: str | None
    default: Default | _Required


@dataclass(frozen=True)
class InstructionDescription:
    """One instruction.

    Attributes
    ----------
    name
        As `nki.isa` spells it.
    arguments
        By keyword, in order; `name`, the label, comes after them.
    family
        What it is for: the key of a colour in timelines.
    engines
        Engines that may run it on some machine, the usual one first.
    is_own
        Whether `nki.isa` has no instruction of that name.
    keys
        Entries of its step in a program; none for what the cores of a logical core run together.
    """

    name: str
    arguments: tuple[InstructionArgument, ...]
    family: str
    engines: tuple[str, ...]
    is_own: bool
    keys: tuple[str, ...]


def _row(row: dict[str, Any]) -> InstructionDescription:
    arguments = tuple(
        InstructionArgument(
            argument["name"],
            argument["kind"],
            argument["annotation"],
            argument["enum"],
            argument.get("default", REQUIRED),
        )
        for argument in row["arguments"]
    )
    return InstructionDescription(
        row["name"], arguments, row["family"], tuple(row["engines"]), row["own"], tuple(row["keys"])
    )


@cache
def instructions() -> dict[str, InstructionDescription]:
    """Return every instruction by its name.

    Examples
    --------
    >>> row = instructions()["tensor_copy"]
    >>> row.family, row.engines
    ('copy, set', ('vector', 'scalar', 'gpsimd'))
    >>> [(argument.name, argument.default) for argument in row.arguments]
    [('dst', REQUIRED), ('src', REQUIRED), ('engine', None)]
    """
    return {row["name"]: _row(row) for row in machine.instruction_table()}


@cache
def dropped_keywords() -> dict[tuple[str, str], str]:
    """Return what says today what a keyword said that an instruction or a collective once had.

    Examples
    --------
    >>> dropped_keywords()["register_move", "imm"]
    'it is called `src`'
    """
    return {(name, keyword): instead for name, keyword, instead in machine.dropped_keywords()}


def family_of(opcode: str) -> str:
    """Return the family of an instruction as timelines spell it.

    Parameters
    ----------
    opcode
        Its first word counts, up to a dot, slash, bracket or space; capitals do not.

    Returns
    -------
    str
        As `InstructionDescription.family`; ``"other"`` of one that is not known.

    Examples
    --------
    >>> family_of("nc_matmul"), family_of("activation(exp)"), family_of("unheard_of")
    ('matmul', 'function', 'other')
    """
    return machine.family_of(opcode)
