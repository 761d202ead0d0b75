"""Kernels side by side on the cores of a chip: each a launch of its own, one HBM, one start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trn3._trn3 import machine
from trn3.nki.launch.jit import as_kernel
from trn3.nki.launch.new_cores import arch_of, core_of
from trn3.nki.launch.programs import Program
from trn3.nki.ranks.context import slot

if TYPE_CHECKING:
    from trn3.machine.archs import ArchLike
    from trn3.profile import Profile

__all__ = ["run_on_cores", "width"]


def width(kernel: Any) -> int:
    """Return on how many cores a kernel or a recorded program runs.

    Raises
    ------
    TypeError
        If it is neither.
    """
    return 1 if isinstance(kernel, Program) else as_kernel(kernel).launched().cores


def run_on_cores(
    arch: ArchLike,
    kernels: Mapping[int, Sequence[Any]],
    *,
    values: bool = True,
    compile: str | None = None,
) -> tuple[dict[int, Any], Profile]:
    """Run kernels on cores of one chip; what `trn3.Chip.run` asks for.

    Parameters
    ----------
    arch : str, dict or ArchSpec
        The machine of the cores.
    kernels : mapping of int to sequence
        By core, a kernel and its arguments, or a recorded program and its inputs.
    values : bool, optional
        False skips arithmetic: results are then None.
    compile : str, optional
        Level of the compiler, as in `trn3.nki.simulate`; recorded programs run as they were.

    Raises
    ------
    RuntimeError
        Inside a kernel.
    """
    # Reports need more imports than running kernels does.
    from trn3.profile import LogicalProfile, profile_of

    if slot.context is not None:
        message = "a kernel runs on this thread; kernels do not run chips"
        raise RuntimeError(message)
    described = arch_of(arch)
    results: dict[int, Any] = {}
    ran: list[tuple[str, int, list[machine.NeuronCore]]] = []
    for core in sorted(kernels):
        kernel, *args = kernels[core]
        runnable = kernel if isinstance(kernel, Program) else as_kernel(kernel)
        if isinstance(runnable, Program):
            cores = [core_of(described, values=values)]
        else:
            cores = runnable.cores(described, values=values, compile=compile)
        machine.keep_timed(cores)
        for name, other, (first, *_) in ran:
            machine.leave_hbm_to(cores[0], first, f"kernel {name} on core {other}")
        if isinstance(runnable, Program):
            outputs = runnable.run_on(cores[0], *_inputs(core, args))
            results[core] = outputs if values else None
        else:
            results[core] = runnable.launch(cores, args, {})
        ran.append((runnable.name, core, cores))
    if len(ran) > 1:
        # A kernel that has the chip to itself takes the time it takes without one.
        machine.time_together([core for _, _, cores in ran for core in cores])
    profiles = [profile_of(cores, name) for name, _, cores in ran]
    if len(profiles) == 1:
        return results, profiles[0]
    return results, LogicalProfile([core for profile in profiles for core in profile.cores])


def _inputs(core: int, args: Sequence[Any]) -> Sequence[Mapping[str, Any]]:
    if len(args) != 1 or not isinstance(args[0], Mapping):
        message = f"kernels[{core}] is a recorded program; allowed: (program, dict of its inputs)"
        raise TypeError(message)
    return args
