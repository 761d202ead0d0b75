"""`profile`, and the decorator that it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from trn3.machine import Profile
from trn3.machine.archs import ArchLike
from trn3.nki.launch.kernel import jit
from trn3.nki.launch.runners import is_decorated, timed
from trn3.nki.launch.timed import run_timed

__all__ = ["profile"]


def profile(
    kernel: Callable[..., Any] | None = None,
    *args: Any,
    arch: ArchLike | None = None,
    values: bool = True,
    strict: bool = False,
    shadow: bool = False,
    max_instructions: int | None = None,
    **kwargs: Any,
) -> tuple[Any, Profile]:
    """Run a kernel and return its result and what it cost.

    As the decorator that it was in NKI 0.1 and 0.2, ``@nki.profile(working_directory=...)``, it
    makes a kernel that keeps its latency, as `trn3.nki.benchmark`: on a function that needs
    arguments and gets none, and with options of the device's profiler alone.

    Parameters
    ----------
    kernel : Kernel or function
        ``kernel[lnc]`` too. Arguments of the names `arch`, `values`, `strict`, `shadow`
        and `max_instructions` cannot be given to it by keyword here.
    *args, **kwargs
        The kernel's arguments.
    arch : str, dict or ArchSpec, optional
        Machine to run on instead of the kernel's target: a target's name, the path of a machine
        description (``.toml``), or a what-if, as `trn3.machine.arch` takes it:
        ``"trn3:vector_clock_mhz=+20%"``.
    values : bool, optional
        False skips arithmetic: only integers that addresses and control flow depend on are
        computed, and the result is None.
    strict : bool, optional
        True makes reading memory that nothing was written to an error instead of a finding.
    shadow : bool, optional
        True runs the kernel in float64 beside the real run, whose bits stay the same, and tells how
        much precision each instruction loses: ``profile.precision``. Several times slower. Needs
        values.
    max_instructions : int, optional
        Most instructions that the kernel may issue: an end for loops that have none.

    Returns
    -------
    result
        As calling the kernel returns it; None without values.
    Profile
        Of ``kernel[2]`` the joint one of both cores; ``profile.cores`` has that of each.

    Raises
    ------
    ValueError
        If `arch` names no machine, or `shadow` is asked for without values.
    SkippedValueError
        Without values, if control flow or an address needs one that was skipped.
    UninitializedReadError
        With `strict`.
    InstructionLimitError
        If the kernel issues more than `max_instructions`.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def double(x):
    ...     out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    ...     nl.store(out, nl.multiply(nl.load(x), 2.0))
    ...     return out
    >>> result, profile = nki.profile(double, np.ones((128, 512), np.float32))
    >>> float(result.sum()), profile.latency_us > 0
    (131072.0, True)
    """
    if kernel is None or is_decorated(kernel, args, kwargs):
        return cast("tuple[Any, Profile]", timed(jit, kernel, kwargs))
    return run_timed(
        kernel,
        *args,
        arch=arch,
        values=values,
        strict=strict,
        shadow=shadow,
        max_instructions=max_instructions,
        **kwargs,
    )
