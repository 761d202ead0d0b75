"""What would make a kernel faster, found in the trace of its run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trn3._trn3 import compiler

if TYPE_CHECKING:
    from trn3._trn3.compiler import RunAdvice

__all__ = ["advise", "said"]


def advise(
    cores: Sequence[Any],
    file: str,
    loops: Sequence[Sequence[tuple[int, int]]],
    named: Mapping[int, bool] | None = None,
) -> RunAdvice:
    """Return what would make a run faster: each change timed alone on the machine's timeline.

    Parameters
    ----------
    cores : sequence of NeuronCore
        Those of one launch, which keep their traces; they are taken.
    file : str
        The kernel's file. Lines of others are left as they are.
    loops : sequence of sequences of (int, int)
        First and last line of each statement of each loop in it.
    named : mapping of int to bool, optional
        Lines whose text can name an engine, and whether it can name several in turn: changes of
        others are advised apart from theirs. Default: all can.

    Returns
    -------
    RunAdvice
        ``report()`` is the latency as written in microseconds, None where it does not fit, and the
        changes, the best first; ``combined(numbers)`` what several reach together.

    Raises
    ------
    ValueError
        If a core kept no trace.
    """
    return compiler.advise(cores, file, loops, named)


def said(
    kind: str,
    lines: Sequence[int],
    engines: Sequence[Sequence[str]],
    tensors: Sequence[str],
    before: int | None,
) -> tuple[str, str]:
    """Return what a change does and what to write, in words.

    Parameters
    ----------
    kind, lines, engines, tensors, before
        Those of one of the changes of ``RunAdvice.report()``, tensors by name.

    Examples
    --------
    >>> said("engine", [31, 33], [["scalar"], ["scalar"]], [], None)
    ('give lines 31 and 33 to ScalarE', 'engine=nisa.scalar_engine')
    """
    return compiler.words(kind, lines, engines, tensors, before)
