"""One run of a kernel that keeps time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trn3.machine import Profile
from trn3.machine.archs import ArchLike
from trn3.machine.core import profile_of
from trn3.nki.launch.kernel import arch_of, as_kernel

__all__ = ["check_shadow", "run_timed"]


def run_timed(
    kernel: Callable[..., Any],
    *args: Any,
    arch: ArchLike | None = None,
    values: bool = True,
    strict: bool = False,
    shadow: bool = False,
    max_instructions: int | None = None,
    **kwargs: Any,
) -> tuple[Any, Profile]:
    """Run a kernel and return its result and its profile; parameters and errors as `profile`."""
    runnable = as_kernel(kernel)
    check_shadow(shadow, values)
    cores = runnable.cores(
        None if arch is None else arch_of(arch),
        values=values,
        strict=strict,
        shadow=shadow,
        max_instructions=max_instructions,
    )
    result = runnable.launch(cores, args, kwargs)
    return result, profile_of(cores, runnable.name)


def check_shadow(shadow: bool, values: bool) -> None:
    """Refuse a run in float64 beside one without values."""
    if shadow and not values:
        message = "shadow is True with values=False: without values none loses precision"
        raise ValueError(message)
