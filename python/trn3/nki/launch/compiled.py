"""What comes after the instances have run: the compiler, at levels above as-written."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from trn3._trn3.machine import NeuronCore
from trn3.compiler.level_names import compile_cores, verify_cores, verifying
from trn3.nki.launch.arguments import named_tensors
from trn3.nki.launch.run import RanLaunch
from trn3.nki.values.kernel_function import KernelFunction

__all__ = ["compiled", "prepare"]


def prepare(kernel: KernelFunction, cores: Sequence[Sequence[NeuronCore]]) -> None:
    """Let the cores of a kernel that is to be verified write down what they are given.

    Raises
    ------
    NotImplementedError
        If it is, and runs on several ranks.
    """
    if not kernel.verify:
        return
    if len(cores) > 1:
        message = (
            f"verify runs what one rank is compiled to; {kernel!r} runs on {len(cores)} ranks, "
            "whose collectives are part of no compiled program"
        )
        raise NotImplementedError(message)
    for core in cores[0]:
        core.start_recording(kernel.name, loops=True)


def compiled(ran: RanLaunch) -> RanLaunch:
    """Compile what the cores of all ranks were given, and time that: cores that meet, together.

    Cores that keep no trace, being at level as-written or without time, stay as they are. A kernel
    that is to be verified has recorded its program, which runs as written and as compiled.

    Raises
    ------
    MemoryError
        If one instruction alone needs more than there is on chip; names its line.
    VerificationError
        If the kernel is to be verified, and a pass broke the schedule or bits differ.
    """
    kernel = ran.placed.bound.kernel
    if not (kernel.verify or ran.placed.ranks[0].cores[0].keeps_trace):
        return ran
    cores = [core for rank in ran.placed.ranks for core in rank.cores]
    level = cores[0].compile_level
    with verifying(kernel.name) if kernel.verify else nullcontext():
        if cores[0].keeps_trace:
            compile_cores(cores, level, verify=kernel.verify)
        if kernel.verify:
            verify_cores(cores, level, list(named_tensors(ran.returned[0][0])))
    return ran
