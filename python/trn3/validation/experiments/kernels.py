"""Whole kernels, rebuilt: with the work of a compiler of the time done by hand."""

from __future__ import annotations

from typing import Any

import trn3.nki.language as nl
from trn3.validation import kernels
from trn3.validation.experiments._registry import Figures, experiment
from trn3.validation.experiments.measure import KernelRun, engine_figures


def kernel_figures(run: KernelRun) -> Figures:
    """Return what profilers say of a kernel: its window, the time with start and end, engines.

    **(choice)** Starting and ending a kernel is taken to be as unsure as what is between.
    """
    profile = run.profile
    window = profile.latency_us * 1e3
    overhead = profile.overhead_us * 1e3
    found = engine_figures(profile)
    for bound, bound_us in (("low", profile.latency_low_us), ("high", profile.latency_high_us)):
        if bound_us is not None and window > 0:
            found[f"window_{bound}"] = bound_us * 1e3
            found[f"latency_{bound}"] = (window + overhead) * bound_us * 1e3 / window
    found.update(
        window=window,
        latency=window + overhead,
        mfu=profile.mfu,
        mbu=profile.mbu,
        hbm_bytes=float(profile.hbm_read_bytes + profile.hbm_write_bytes),
    )
    return found


@experiment
def matrix_product(
    hardware: str,
    *,
    variant: str,
    dtype: str,
    shape: tuple[int, int, int] = (4096, 8192, 8192),
    **options: Any,
) -> Figures:
    """Measure a product [m, k] x [k, n] on one core, in blocks of two dimensions or three."""
    kernel = getattr(kernels, f"matmul_{variant}")
    return kernel_figures(KernelRun(kernel, hardware, *shape, getattr(nl, dtype), **options))


@experiment
def selective_scan(hardware: str, *, loops: str, channels: int, tokens: int) -> Figures:
    """Measure a fused Mamba layer's scan over 16 states, in float32."""
    kernel = getattr(kernels, f"mamba_{loops}_outside")
    return kernel_figures(KernelRun(kernel, hardware, channels, tokens))
