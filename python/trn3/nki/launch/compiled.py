"""What comes after the instances have run: the compiler, at levels above as-written."""

from __future__ import annotations

from trn3.compiler.level_names import compile_cores
from trn3.nki.launch.run import RanLaunch

__all__ = ["compiled"]


def compiled(ran: RanLaunch) -> RanLaunch:
    """Compile what the cores of all ranks were given, and time that: cores that meet, together.

    Cores that keep no trace, being at level as-written or without time, stay as they are.

    Raises
    ------
    MemoryError
        If one instruction alone needs more than there is on chip; names its line.
    """
    cores = [core for rank in ran.placed.ranks for core in rank.cores]
    if cores[0].keeps_trace:
        compile_cores(cores, cores[0].compile_level)
    return ran
