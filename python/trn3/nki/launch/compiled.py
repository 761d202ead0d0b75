"""What comes after the instances have run: the compiler, at levels above as-written."""

from __future__ import annotations

from trn3._trn3 import machine
from trn3.nki.launch.levels import AS_WRITTEN
from trn3.nki.launch.run import RanLaunch

__all__ = ["compiled"]


def compiled(ran: RanLaunch) -> RanLaunch:
    """Compile what the cores of all ranks were given, and time that: cores that meet, together.

    Cores that keep no time, and those at level as-written, stay as they are.

    Raises
    ------
    MemoryError
        If one instruction alone needs more than there is on chip; names its line.
    """
    cores = [core for rank in ran.placed.ranks for core in rank.cores]
    if cores[0].timing and cores[0].compile_level != AS_WRITTEN:
        machine.compile_cores(cores)
    return ran
