"""Kernels as their authors' published text reads, imported by the vendor's names as users do."""

from __future__ import annotations

from typing import Any

import numpy as np

from trn3 import nki
from trn3.validation.experiments._registry import Figures, experiment
from trn3.validation.experiments.kernels import kernel_figures
from trn3.validation.experiments.measure import KernelRun
from trn3.validation.imported import authored


def products(shape: tuple[int, int, int], dtype: str) -> tuple[Any, Any]:
    """Return operands of a product [m, k] x [k, n], the first one transposed."""
    size_m, size_k, size_n = shape
    kind = getattr(nki.language, dtype).np_dtype
    return np.zeros((size_k, size_m), kind), np.zeros((size_k, size_n), kind)


def scan_operands(channels: int, tokens: int, states: int = 16) -> tuple[Any, ...]:
    """Return delta, u, A, B and C of one sequence."""
    shapes = ((1, channels, tokens),) * 2 + ((channels, states),) + ((1, states, tokens),) * 2
    return tuple(np.zeros(shape, np.float32) for shape in shapes)


@experiment
def published_product(
    hardware: str,
    *,
    text: str,
    kernel: str,
    dtype: str,
    shape: tuple[int, int, int] = (4096, 8192, 8192),
    compile: str = "as-written",  # noqa: A002 -- what kernels' runs call it
) -> Figures:
    """Measure a matrix product on one core, as a publication has it, at a level of the compiler."""
    function = getattr(authored(text), kernel)
    run = KernelRun(function, hardware, *products(shape, dtype), level=compile)
    return kernel_figures(run)


@experiment
def published_scan(
    hardware: str,
    *,
    kernel: str,
    channels: int,
    tokens: int,
    compile: str = "as-written",  # noqa: A002 -- what kernels' runs call it
) -> Figures:
    """Measure a fused Mamba layer's scan over 16 states, as the tutorial has it, in float32."""
    function = getattr(authored("fused_mamba"), kernel)
    operands = scan_operands(channels, tokens)
    return kernel_figures(KernelRun(function, hardware, *operands, level=compile))
