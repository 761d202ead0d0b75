"""Runs of kernels that keep time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trn3._trn3.machine import NeuronCore
from trn3.machine import Profile, ProfileData
from trn3.nki.kernel import as_kernel
from trn3.nki.targets import figures_of

__all__ = ["profile"]

_COLUMNS = (
    "opcode", "engine", "queue", "site", "label", "start_ps", "slot_end_ps", "end_ps", "wait_ps",
    "cause", "waited_on", "dma_bytes", "hbm_read", "hbm_write", "macs", "peak_macs_per_cycle",
)  # fmt: skip


def profile(
    kernel: Callable[..., Any],
    *args: Any,
    arch: str | None = None,
    values: bool = True,
    strict: bool = False,
    **kwargs: Any,
) -> tuple[Any, Profile]:
    """Run a kernel and return its result and what it cost.

    Parameters
    ----------
    kernel : Kernel or function
        ``kernel[lnc]`` too. Arguments of the names `arch`, `values` and `strict` cannot be given
        to it by keyword here.
    *args, **kwargs
        The kernel's arguments.
    arch : str, optional
        Machine to run on instead of the kernel's target: a target's name, or the path of a
        machine description (``.toml``).
    values : bool, optional
        False skips arithmetic: only integers that addresses and control flow depend on are
        computed, and the result is None.
    strict : bool, optional
        True makes reading memory that nothing was written to an error instead of a finding.

    Returns
    -------
    result
        As calling the kernel returns it; None without values.
    Profile

    Raises
    ------
    ValueError
        If `arch` names no machine.
    SkippedValueError
        Without values, if control flow or an address needs one that was skipped.
    UninitializedReadError
        With `strict`.

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
    runnable = as_kernel(kernel)
    core = runnable.profiled_core(arch, values=values, strict=strict)
    result = runnable.launch(core, args, kwargs)
    return result, Profile(profile_data(core, runnable.name))


def profile_data(core: NeuronCore, kernel: str) -> ProfileData:
    """Return what a core recorded."""
    recorded = core.profile()
    entries = figures_of(core.arch[0]).entries()
    occupancy = {name: recorded[name] for name in ("sbuf_bytes", "psum_bytes")}
    peaks = {
        f"{name[:4]}_peak_bytes": int(column.max(initial=0)) for name, column in occupancy.items()
    }
    document = {
        "arch": {
            "name": core.arch[0],
            **entries,
            "psum_partition_bytes": entries["psum_banks"] * entries["psum_bank_bytes"],
        },
        "kernel": kernel,
        "latency_ps": recorded["latency_ps"],
        "overhead_ps": recorded["overhead_ps"],
        "opcodes": recorded["opcodes"],
        "labels": recorded["labels"],
        "sites": recorded["sites"],
        "findings": core.findings(),
        "instructions": {name: recorded[name] for name in _COLUMNS},
        "transfers": {
            "instruction": recorded["transfer_instruction"],
            "dma_engine": recorded["transfer_engine"],
            "start_ps": recorded["transfer_start_ps"],
            "end_ps": recorded["transfer_end_ps"],
            "bytes": recorded["transfer_bytes"],
        },
        "occupancy": {"time_ps": recorded["occupancy_time_ps"], **occupancy, **peaks},
        "critical": recorded["critical"],
    }
    return ProfileData.from_dict(document)
