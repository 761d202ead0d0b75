"""Launches of one kernel on several ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from trn3._trn3.machine import NeuronCore
from trn3.nki.launch.jit import Kernel, as_kernel
from trn3.nki.launch.new_cores import arch_of

if TYPE_CHECKING:
    from trn3._trn3.machine import RankFabric
    from trn3.collectives import SystemLike
    from trn3.machine.archs import ArchLike
    from trn3.profile import Profile

__all__ = ["RankArguments", "profile_ranks", "rank_arguments", "simulate_ranks", "spmd"]

#: Arguments of one rank: by keyword, or by position.
RankArguments: TypeAlias = Mapping[str, Any] | Sequence[Any]


def simulate_ranks(
    kernel: Callable[..., Any],
    per_rank_args: Sequence[RankArguments],
    *,
    system: SystemLike | None = None,
    ranks_per_chip: int | None = None,
    arch: ArchLike | None = None,
    strict: bool = False,
    max_host_bytes: int | None = None,
    compile: str | None = None,
) -> list[Any]:
    """Run a kernel on several ranks and return the result of each.

    Ranks have memories of their own and meet in `trn3.nki.collectives`. They run one at a time and
    take turns there, so that nothing depends on the host's scheduling.

    Parameters
    ----------
    kernel : Kernel or function
        ``kernel[2]`` too: each rank is then a logical core of two.
    per_rank_args : sequence of dict or sequence
        The arguments of each rank, by keyword or by position.
    system : System or str, optional
        What connects the ranks: a system of `trn3.systems`, or its name. By default that of the
        kernel's target.
    ranks_per_chip : int, optional
        Ranks that a chip has, one after the other; all that it can by default.
    arch : str, dict or ArchSpec, optional
        Machine to run on instead of the kernel's target.
    strict : bool, optional
        True makes reading memory that nothing was written to an error instead of a finding.
    max_host_bytes : int, optional
        As in `trn3.nki.simulate`, for each rank.
    compile : str, optional
        Level of the compiler, as in `trn3.nki.simulate`: above as-written, what does not fit on
        chip in the kernel's own order is no error.

    Returns
    -------
    list
        As calling the kernel returns it, rank by rank.

    Raises
    ------
    ValueError
        If there is no rank, the system has no room for them, or they call different collectives.
    DeadlockError
        If ranks wait for one another; names the line of each.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.collectives as ncc
    >>> import trn3.nki.isa as nisa
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def gather(x, group):
    ...     mine = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    ...     out = nl.ndarray((len(group[0]), *x.shape[1:]), x.dtype, buffer=nl.shared_hbm)
    ...     nisa.dma_copy(mine, x)
    ...     ncc.all_gather([mine], [out], group, collective_dim=0)
    ...     return out
    >>> group = ncc.ReplicaGroup([[0, 1]])
    >>> ranks = [(np.array([[value]], np.int32), group) for value in (7, 8)]
    >>> [result.tolist() for result in nki.simulate_ranks(gather, ranks)]
    [[[7], [8]], [[7], [8]]]
    """
    runnable, given, fabric = _prepared(kernel, per_rank_args, system, ranks_per_chip)
    nan_origin = strict or runnable.nan_origin
    cores = _cores(
        runnable,
        len(given),
        arch,
        timing=False,
        strict=strict,
        nan_origin=nan_origin,
        max_host_bytes=max_host_bytes,
        compile=compile,
    )
    return runnable.launch_ranks(cores, given, fabric)


def profile_ranks(
    kernel: Callable[..., Any],
    per_rank_args: Sequence[RankArguments],
    *,
    system: SystemLike | None = None,
    ranks_per_chip: int | None = None,
    arch: ArchLike | None = None,
    values: bool = True,
    strict: bool = False,
    shadow: bool = False,
    max_instructions: int | None = None,
    max_host_bytes: int | None = None,
    compile: str | None = None,
) -> tuple[list[Any], list[Profile]]:
    """Run a kernel on several ranks and return the result of each, and what it cost.

    All timelines count from one start. A collective is an instruction of the ``dma`` engine, in a
    queue of its own: it starts when the operands of the last rank are ready, and takes what
    `trn3.collectives.time` says.

    Parameters
    ----------
    kernel, per_rank_args, system, ranks_per_chip, arch, strict
        As in `simulate_ranks`.
    values : bool, optional
        False skips arithmetic; results are then None.
    shadow : bool, optional
        As in `profile`.
    max_instructions : int, optional
        Most instructions that a core may issue.
    max_host_bytes : int, optional
        As in `simulate_ranks`.
    compile : str, optional
        Level of the compiler, as in `trn3.nki.simulate`. Each core is compiled by itself between
        the points where ranks and cores meet.

    Returns
    -------
    results : list
    profiles : list of Profile

    Raises
    ------
    ValueError, DeadlockError
        As `simulate_ranks`.
    SkippedValueError
        Without values, if control flow or an address needs one that was skipped.
    """
    from trn3.nki.launch.profiling import check_shadow
    from trn3.profile import profile_of

    runnable, given, fabric = _prepared(kernel, per_rank_args, system, ranks_per_chip)
    check_shadow(shadow, values)
    cores = _cores(
        runnable,
        len(given),
        arch,
        values=values,
        strict=strict,
        shadow=shadow,
        max_instructions=max_instructions,
        max_host_bytes=max_host_bytes,
        compile=compile,
    )
    results = runnable.launch_ranks(cores, given, fabric)
    return results, [profile_of(own, runnable.name) for own in cores]


def spmd(
    kernel: Callable[..., Any], world_size: int, **options: Any
) -> Callable[[Sequence[RankArguments]], list[Any]]:
    """Return a function that runs a kernel on so many ranks, given the arguments of each.

    Parameters
    ----------
    kernel : Kernel or function
        ``kernel[2]`` too.
    world_size : int
        How many ranks.
    **options
        Those of `simulate_ranks`.

    Raises
    ------
    ValueError
        If `world_size` is no number from 1; when called, if there are not so many arguments.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> def kernel(x):
    ...     return x
    >>> nki.spmd(kernel, world_size=2)([(np.array([1.0], np.float32),)] * 2)
    [array([1.], dtype=float32), array([1.], dtype=float32)]
    """
    wanted: Any = world_size
    if not isinstance(wanted, int) or isinstance(wanted, bool) or wanted < 1:
        message = f"world_size is {world_size!r}; allowed: a whole number from 1"
        raise ValueError(message)
    runnable = as_kernel(kernel)

    def run(per_rank_args: Sequence[RankArguments]) -> list[Any]:
        given = list(per_rank_args)
        if len(given) != world_size:
            message = (
                f"per_rank_args has {len(given)} entries; world_size is {world_size}, and each "
                "rank needs one"
            )
            raise ValueError(message)
        return simulate_ranks(runnable, given, **options)

    return run


def _prepared(
    kernel: Callable[..., Any],
    per_rank_args: Sequence[RankArguments],
    system: SystemLike | None,
    ranks_per_chip: int | None,
) -> tuple[Kernel, list[tuple[Sequence[Any], dict[str, Any]]], RankFabric | None]:
    runnable, given = as_kernel(kernel), rank_arguments(per_rank_args)
    if system is None and ranks_per_chip is None:
        return runnable, given, None
    from trn3.nki.ranks.fabric import connect

    if system is None:
        from trn3 import systems

        system = systems.load(runnable.target(), lnc=runnable.launched().cores)
    return runnable, given, connect(system, len(given), ranks_per_chip)


def rank_arguments(
    per_rank_args: Sequence[RankArguments],
) -> list[tuple[Sequence[Any], dict[str, Any]]]:
    """Return the arguments of each rank by position and by keyword.

    Raises
    ------
    TypeError
        If those of one are neither.
    ValueError
        If there is no rank.
    """
    given: list[tuple[Sequence[Any], dict[str, Any]]] = []
    for rank, arguments in enumerate(per_rank_args):
        if isinstance(arguments, Mapping):
            given.append(((), dict(arguments)))
        elif isinstance(arguments, (list, tuple)):
            given.append((arguments, {}))
        else:
            message = (
                f"per_rank_args[{rank}] is of type {type(arguments).__name__}; allowed: a dict of "
                "the kernel's arguments, or a tuple of them"
            )
            raise TypeError(message)
    if not given:
        message = "per_rank_args is empty; allowed: the arguments of one rank or more"
        raise ValueError(message)
    return given


def _cores(
    kernel: Kernel, ranks: int, arch: ArchLike | None, **options: Any
) -> list[list[NeuronCore]]:
    machine = None if arch is None else arch_of(arch)
    return [kernel.cores(machine, **options) for _ in range(ranks)]
