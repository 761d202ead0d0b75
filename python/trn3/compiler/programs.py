"""Programs compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from trn3._trn3 import compiler as _compiler
from trn3.compiler.level_names import LEVELS

if TYPE_CHECKING:
    from trn3.machine.archs import ArchLike

__all__ = ["CompiledProgram", "compile", "levels", "passes"]


class _WrittenProgram(Protocol):
    """A program that is made from its JSON text, as `trn3.nki.Program` is."""

    def __init__(self, text: str) -> None: ...

    @property
    def arch(self) -> str: ...

    def to_json(self) -> str: ...


AnyProgram = TypeVar("AnyProgram", bound=_WrittenProgram)


@dataclass(frozen=True)
class CompiledProgram(Generic[AnyProgram]):
    """A compiled program, and what the compiler did.

    Attributes
    ----------
    program : Program
        Runs wherever the one that it was made of does, with the same output bits.
    report : dict
        ``level``; ``as_written_us`` (None where that does not fit), ``compiled_us`` and
        ``bound_us``, in microseconds; ``spilled_bytes``; ``passes``, in their order: of each its
        ``name`` and what it counted; and ``verified``, None unless asked for: after how many
        ``passes`` the schedule was legal, and how many ``outputs`` are equal bit for bit.
    """

    program: AnyProgram
    report: dict[str, Any] = field(repr=False)


def levels() -> list[str]:
    """Return the names of the levels, the least first.

    Examples
    --------
    >>> levels()
    ['as-written', 'nki', 'neuronx-cc']
    """
    return list(LEVELS)


def passes(level: str | None = None) -> list[str]:
    """Return the names of the passes of a level, in their order; without one, of all there are.

    Raises
    ------
    ValueError
        If there is no such level.

    Examples
    --------
    >>> "allocate" in passes("nki"), passes("as-written")
    (True, [])
    """
    return _compiler.passes(level)


def compile(  # noqa: A001 - the field's word, as of `re`
    program: AnyProgram,
    passes: Sequence[str] | None = None,
    level: str = "neuronx-cc",
    arch: ArchLike | None = None,
    *,
    verify: bool = False,
    inputs: Mapping[str, Any] | None = None,
) -> CompiledProgram[AnyProgram]:
    """Compile a program of one core.

    Parameters
    ----------
    program : trn3.nki.Program
        What `trn3.nki.record` gives; with ``open_places=True`` tensors that the kernel gave no
        address may lie elsewhere, with ``loops=True`` the compiler knows the loops.
    passes : sequence of str, optional
        Names of the passes to run, in this order, instead of those of the level; of `passes`.
    level : str, optional
        One of `levels`. At ``as-written``, unless passes are named, the program comes back as it
        is.
    arch : str, mapping or ArchSpec, optional
        Machine instead of the one it was recorded on, as `trn3.machine.arch` takes it.
    verify : bool, optional
        Check what each pass did, run both programs on `inputs`, and compare what they give bit for
        bit.
    inputs : mapping of str to array, optional
        Contents of inputs by name, of their shapes and types; for `verify`, and for programs whose
        steps read registers from them.

    Raises
    ------
    ValueError
        If there is no such level or pass, or the machine would refuse a step; with `verify`, if a
        pass changed what it must not, naming it, or an output differs, naming it and the first
        step that does, or an input has no contents.
    MemoryError
        If one instruction's operands do not fit on chip.
    NotImplementedError
        If the program's core meets others, calls a function on GpSimdE, or gives a tensor on chip.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def total(x):
    ...     out = nl.ndarray((128, 1), x.dtype, buffer=nl.shared_hbm)
    ...     nl.store(out, nl.sum(nl.load(x), axis=1, keepdims=True))
    ...     return out
    >>> program = nki.record(total, np.ones((128, 8), np.float32), open_places=True)
    >>> made = compile(program, passes=["allocate", "schedule"])
    >>> [each["name"] for each in made.report["passes"]]
    ['allocate', 'schedule']
    """
    # Descriptions bring much that those who only name levels do without.
    from trn3.machine.archs import arch as described, arch_file

    given = [(name, _bytes_of(contents)) for name, contents in (inputs or {}).items()]
    machine = described(arch if arch is not None else program.arch or "trn3")
    names = None if passes is None else list(passes)
    with arch_file(machine) as path:
        text, report = _compiler.compile_program(
            program.to_json(), path, level, names, given, verify
        )
    return CompiledProgram(type(program)(text), report)


def _bytes_of(contents: Any) -> NDArray[np.uint8]:
    return np.frombuffer(np.ascontiguousarray(contents).tobytes(), np.uint8)
