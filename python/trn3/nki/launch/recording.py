"""Kernels as programs: what a core was given, written down, to run without Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from trn3._trn3.machine import NeuronCore, NkiTensor, recorded_together
from trn3.compiler.level_names import AS_WRITTEN, check_verify, verifying
from trn3.machine.archs import ArchLike
from trn3.nki.launch.arguments import Arguments, named_tensors
from trn3.nki.launch.jit import as_kernel, simulate
from trn3.nki.launch.multirank import RankArguments, rank_arguments
from trn3.nki.launch.new_cores import arch_of
from trn3.nki.launch.profiling import with_options
from trn3.nki.launch.programs import (
    DeclaredTensor,
    Program,
    ProgramReplay,
    ProgramTensor,
    Replay,
    Tensor,
    replay_cores,
    replay_ranks,
)

__all__ = [
    "DeclaredTensor", "Program", "ProgramReplay", "ProgramTensor", "Replay", "Tensor", "record",
    "record_cores", "record_ranks", "replay_cores", "replay_ranks",
]  # fmt: skip


def record(
    kernel: Callable[..., Any],
    *args: Any,
    arch: ArchLike | None = None,
    loops: bool = False,
    open_places: bool = False,
    **kwargs: Any,
) -> Program:
    """Run a kernel and return the program of what its core was given.

    A run of the program with the same inputs gives the same bits at the same times. Loops are
    unrolled, and branches that depended on values stay as they went: recorded is one run. Above
    level as-written the program is the compiled one; over which rings the compiler spread transfers
    is no part of it, so that at neuronx-cc times are near.

    Parameters
    ----------
    kernel : Kernel or function
        On one core; `record_cores` is for several.
    *args, **kwargs
        The kernel's arguments; arrays become the program's inputs.
    arch : str, mapping or ArchSpec, optional
        Machine to run on instead of the kernel's target, as `trn3.machine.arch` takes it.
    loops : bool, optional
        True marks where loops begin, go on and end, and what `nki.language.no_reorder` holds.
    open_places : bool, optional
        True leaves tensors on chip that the kernel gave no address without one: a compiler places
        them, or whoever runs the program. They need not fit together. Times of the program are then
        those of its own places.
    compile, verify : optional
        By keyword, as in `trn3.nki.simulate`. With `loops` or `open_places` the program is one that
        a compiler takes, and as written.

    Returns
    -------
    Program

    Raises
    ------
    NotImplementedError
        For what a program cannot hold; names it.
    ValueError
        For a kernel on several cores; if `arch` names no machine, or `compile` no level.
    """
    runnable = with_options(as_kernel(kernel), kwargs, ["compile", "verify"])
    level = AS_WRITTEN if loops or open_places else runnable.compile_level()
    ((program,),) = _recorded(
        runnable, [(args, kwargs)], arch, level=level, loops=loops, open_places=open_places
    )
    return program


def record_cores(
    kernel: Callable[..., Any],
    *args: Any,
    arch: ArchLike | None = None,
    loops: bool = False,
    open_places: bool = False,
    **kwargs: Any,
) -> list[Program]:
    """Run a kernel on the cores of a logical core and return the program of each.

    They hold the barriers and exchanges at which the cores meet, in version 2 of the format;
    `replay_cores` runs them. Tensors in ``nl.shared_hbm`` are one for all by their names.

    Parameters
    ----------
    kernel : Kernel or function
        ``kernel[2]``.
    *args, arch, loops, open_places, **kwargs
        As for `record`.

    Raises
    ------
    NotImplementedError, ValueError
        As `record`; ValueError for a kernel on one core.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.isa as nisa
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def swapped(x):
    ...     out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    ...     mine = nl.ndarray((128, 4), x.dtype)
    ...     other = nl.ndarray((128, 4), x.dtype)
    ...     here, there = nl.program_id(0), 1 - nl.program_id(0)
    ...     nisa.dma_copy(mine, x[here])
    ...     nisa.sendrecv(mine, other, there, there, 0)
    ...     nisa.dma_copy(out[here], other)
    ...     return out
    >>> x = np.arange(2, dtype=np.float32)[:, None, None] * np.ones((128, 4), np.float32)
    >>> programs = nki.record_cores(swapped[2], x)
    >>> replay = nki.replay_cores(programs, {"x": x})
    >>> replay.outputs["result"][:, 0, 0].tolist()
    [1.0, 0.0]
    """
    if as_kernel(kernel).launched().cores < 2:
        message = f"{as_kernel(kernel)!r} runs on one core; record gives its program"
        raise ValueError(message)
    (programs,) = _recorded(
        kernel, [(args, kwargs)], arch, together=True, loops=loops, open_places=open_places
    )
    return programs


def record_ranks(
    kernel: Callable[..., Any],
    per_rank_args: Sequence[RankArguments],
    *,
    arch: ArchLike | None = None,
    compile: str | None = None,
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
    compile : str, optional
        Level of the compiler. Unless given, several ranks are recorded as written: programs that
        meet others are not compiled.

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
    given = rank_arguments(per_rank_args)
    is_open = compile is None and len(given) > 1
    level = AS_WRITTEN if is_open else as_kernel(kernel).compile_level(compile)
    return [program for (program,) in _recorded(kernel, given, arch, level=level)]


def _recorded(
    kernel: Callable[..., Any],
    given: Sequence[tuple[Sequence[Any], dict[str, Any]]],
    arch: ArchLike | None,
    *,
    level: str = AS_WRITTEN,
    together: bool = False,
    loops: bool = False,
    open_places: bool = False,
) -> list[list[Program]]:
    """Return the programs of the cores of each rank."""
    runnable = as_kernel(kernel)
    verify, runnable = runnable.verify, simulate(runnable, verify=False)
    if verify:
        check_verify(level)
    if runnable.launched().cores != 1 and not together:
        message = (
            f"{runnable!r} runs on {runnable.launched().cores} cores; a program has one, and "
            "record_cores gives that of each"
        )
        raise ValueError(message)
    machine_arch = None if arch is None else arch_of(arch)
    is_compiled = level != AS_WRITTEN
    # Without time, nothing is compiled where places have no limit: the program is, afterwards.
    places = {"unlimited": True, "timing": False} if open_places or is_compiled else {}
    cores = [runnable.cores(machine_arch, compile=AS_WRITTEN, **places) for _ in given]
    for core in (core for own in cores for core in own):
        core.start_recording(runnable.name, loops or is_compiled)
    programs: list[list[Program]] = []
    contents: list[list[Any]] = []

    def observe(arguments: Arguments, result: Any) -> None:
        found = list(arguments.storages()), list(named_tensors(result))
        contents.append(list(arguments.contents()))
        programs.append([Program(text) for text in _texts(cores[len(programs)], *found)])

    runnable.launch_ranks(cores, given, observe=observe)
    if not is_compiled:
        return programs
    # Most recordings do without.
    from trn3 import compiler

    machine = runnable.target() if arch is None else arch
    made = []
    for (program,), arrays in zip(programs, contents, strict=True):
        # Declared as they were wrapped, one after the other.
        names = [tensor.name for tensor in program.inputs] if verify else []
        inputs = dict(zip(names, arrays, strict=False))
        with verifying(runnable.name) if verify else nullcontext():
            found = compiler.compile(
                program, level=level, arch=machine, verify=verify, inputs=inputs
            )
        made.append([Program(found.program.text, found.report["verified"])])
    return made


def _texts(
    cores: Sequence[NeuronCore],
    arguments: Sequence[tuple[int, bool]],
    results: Sequence[tuple[str, NkiTensor]],
) -> list[str]:
    if len(cores) == 1:
        return [cores[0].recorded(arguments, results)]
    return recorded_together(cores, arguments, results)
