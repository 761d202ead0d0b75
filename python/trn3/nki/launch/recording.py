"""Kernels as programs: what a core was given, written down, to run without Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from trn3._trn3.machine import NkiTensor
from trn3.machine.archs import ArchLike
from trn3.nki.launch.arguments import Arguments, tensors_in
from trn3.nki.launch.jit import as_kernel
from trn3.nki.launch.levels import AS_WRITTEN
from trn3.nki.launch.multirank import RankArguments, rank_arguments
from trn3.nki.launch.new_cores import arch_of
from trn3.nki.launch.programs import (
    Program,
    ProgramReplay,
    ProgramTensor,
    Replay,
    Tensor,
    replay_ranks,
)

__all__ = [
    "Program", "ProgramReplay", "ProgramTensor", "Replay", "Tensor", "record", "record_ranks",
    "replay_ranks",
]  # fmt: skip


def record(
    kernel: Callable[..., Any], *args: Any, arch: ArchLike | None = None, **kwargs: Any
) -> Program:
    """Run a kernel and return the program of what its core was given.

    A run of the program with the same inputs gives the same bits at the same times. Loops are
    unrolled, and branches that depended on values stay as they went: recorded is one run.

    Parameters
    ----------
    kernel : Kernel or function
        On one core: what cores do together is no part of a program, nor are functions
        of one's own on GpSimdE.
    *args, **kwargs
        The kernel's arguments; arrays become the program's inputs.
    arch : str, mapping or ArchSpec, optional
        Machine to run on instead of the kernel's target, as `trn3.machine.arch` takes it.

    Returns
    -------
    Program

    Raises
    ------
    NotImplementedError
        For what a program cannot hold; names it.
    ValueError
        For a kernel on several cores; if `arch` names no machine.
    """
    (program,) = _recorded(kernel, [(args, kwargs)], arch)
    return program


def record_ranks(
    kernel: Callable[..., Any],
    per_rank_args: Sequence[RankArguments],
    *,
    arch: ArchLike | None = None,
) -> list[Program]:
    """Run a kernel on several ranks and return the program of each.

    They hold the collectives at which ranks meet, in version 2 of the format; a device with a core
    for each rank runs them.

    Parameters
    ----------
    kernel : Kernel or function
        On one core a rank.
    per_rank_args : sequence of dict or sequence
        The arguments of each rank, by keyword or by position, as for `simulate_ranks`.
    arch : str, mapping or ArchSpec, optional
        As for `record`.

    Raises
    ------
    NotImplementedError, ValueError
        As `record` and `simulate_ranks`.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.collectives as ncc
    >>> import trn3.nki.isa as nisa
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def total(x, group):
    ...     mine = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    ...     out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    ...     nisa.dma_copy(mine, x)
    ...     ncc.all_reduce([mine], [out], group, nl.add)
    ...     return out
    >>> group = ncc.ReplicaGroup([[0, 1]])
    >>> x = np.ones((128, 4), np.float32)
    >>> programs = nki.record_ranks(total, [(x, group)] * 2)
    >>> replays = nki.replay_ranks(programs, [{"x": x}, {"x": 2 * x}])
    >>> [float(replay.outputs["result"][0, 0]) for replay in replays]
    [3.0, 3.0]
    """
    return _recorded(kernel, rank_arguments(per_rank_args), arch)


def _recorded(
    kernel: Callable[..., Any],
    given: Sequence[tuple[Sequence[Any], dict[str, Any]]],
    arch: ArchLike | None,
) -> list[Program]:
    runnable = as_kernel(kernel)
    if runnable.launched().cores != 1:
        message = f"{runnable!r} runs on {runnable.launched().cores} cores; a program has one"
        raise ValueError(message)
    machine_arch = None if arch is None else arch_of(arch)
    cores = [runnable.cores(machine_arch, compile=AS_WRITTEN) for _ in given]
    for own in cores:
        own[0].start_recording(runnable.name)
    programs: list[Program] = []

    def observe(arguments: Arguments, result: Any) -> None:
        text = cores[len(programs)][0].recorded(list(arguments.storages()), list(_named(result)))
        programs.append(Program(text))

    runnable.launch_ranks(cores, given, observe=observe)
    return programs


def _named(result: Any) -> Iterator[tuple[str, NkiTensor]]:
    """Yield what a kernel returns with names: ``result``, or ``result[0]`` and so on."""
    found = list(tensors_in(result))
    for place, tensor in enumerate(found):
        yield ("result" if isinstance(result, NkiTensor) else f"result[{place}]"), tensor
