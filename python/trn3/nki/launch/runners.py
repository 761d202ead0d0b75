"""Runners of NKI 0.1 and 0.2: decorators that ran a kernel on a device, or measured it there."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from trn3.nki.launch.kernel import Kernel, jit
from trn3.nki.ranks.context import slot

__all__ = [
    "BenchmarkKernel",
    "BenchmarkResult",
    "Latency",
    "baremetal",
    "benchmark",
    "is_decorated",
    "simulate_kernel",
    "timed",
    "trace",
]


class Latency:
    """Simulated latency of the last call."""

    def __init__(self, microseconds: float) -> None:
        self._microseconds = microseconds

    def get_latency_percentile(self, percentile: float) -> float:
        """Return the latency in microseconds: every run of a simulation takes the same time."""
        if not 0 <= percentile <= 100:
            message = f"percentile is {percentile}; allowed: from 0 to 100"
            raise ValueError(message)
        return self._microseconds


class BenchmarkResult:
    """What a benchmarked kernel knows of its last call.

    Attributes
    ----------
    nc_latency : Latency
    """

    def __init__(self, microseconds: float) -> None:
        self.nc_latency = Latency(microseconds)


class BenchmarkKernel:
    """A kernel whose calls are timed; what `benchmark` makes.

    Attributes
    ----------
    benchmark_result : BenchmarkResult or None
        Of the last call.
    """

    def __init__(self, kernel: Kernel) -> None:
        functools.update_wrapper(self, kernel)
        self._kernel = kernel
        self._origin: BenchmarkKernel | None = None
        self.benchmark_result: BenchmarkResult | None = None

    @property
    def kernel(self) -> Kernel:
        """What is timed."""
        return self._kernel

    def __getitem__(self, grid: Any) -> BenchmarkKernel:
        made = BenchmarkKernel(self._kernel[grid])
        made._origin = self
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel with the machine's clock."""
        if slot.context is not None:
            return self._kernel(*args, **kwargs)
        # Reports need more imports than running kernels does.
        from trn3.nki.launch.timed import run_timed

        result, report = run_timed(self._kernel, *args, **kwargs)
        self.benchmark_result = BenchmarkResult(report.latency_us)
        if self._origin is not None:
            self._origin.benchmark_result = self.benchmark_result
        return result

    def __repr__(self) -> str:
        return f"<benchmark of {self._kernel!r}>"


def timed(make: Callable[..., Kernel], kernel: Any, options: dict[str, Any]) -> Any:
    """Return a kernel whose calls are timed, or without a kernel a decorator that makes one."""
    target = {name: options[name] for name in ("platform_target",) if name in options}

    def decorate(function: Any) -> BenchmarkKernel:
        if isinstance(function, BenchmarkKernel):
            return function
        return BenchmarkKernel(
            function if isinstance(function, Kernel) else make(function, **target)
        )

    return decorate if kernel is None else decorate(kernel)


def baremetal(kernel: Any = None, **options: Any) -> Any:
    """Make a function a kernel, as `jit` does.

    Parameters
    ----------
    kernel : function, optional
    **options
        ``platform_target`` names the target; those of the device's runner change nothing.

    Examples
    --------
    >>> from trn3 import nki
    >>> @nki.baremetal(save_neff_name="kernel.neff")
    ... def kernel(x):
    ...     return x
    >>> type(kernel).__name__
    'Kernel'
    """
    return jit(kernel, **options)


#: ``nki.trace``: as `baremetal`.
trace = baremetal


def benchmark(kernel: Any = None, **options: Any) -> Any:
    """Make a function a kernel whose calls leave their latency in ``benchmark_result``.

    ``warmup``, ``iters``, ``save_neff_name`` and other options of the device's runner change
    nothing: one simulated run says all.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.isa as nisa
    >>> import trn3.nki.language as nl
    >>> @nki.benchmark(warmup=10, iters=100)
    ... def kernel(x):
    ...     out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    ...     nisa.dma_copy(out, x)
    ...     return out
    >>> kernel(np.ones((2, 2), np.float32)).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    >>> kernel.benchmark_result.nc_latency.get_latency_percentile(99) > 0
    True
    """
    return timed(jit, kernel, options)


def simulate_kernel(kernel: Any, *args: Any, **kwargs: Any) -> Any:
    """Run a kernel at once and return its result.

    Parameters
    ----------
    kernel : kernel or function
        With a launch grid too: ``kernel[4, 2]``.
    *args, **kwargs
        The kernel's arguments.
    """
    runnable = kernel if isinstance(kernel, (Kernel, BenchmarkKernel)) else jit(kernel)
    return runnable(*args, **kwargs)


#: Options of the device's profiler, as ``nki.profile`` took them when it was a decorator.
_PROFILER = frozenset(
    {
        "working_directory", "save_neff_name", "save_trace_name", "additional_compile_opt",
        "overwrite", "profile_nth", "warmup", "iters", "platform_target",
    }
)  # fmt: skip


def is_decorated(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a call of ``nki.profile`` is that of the older decorator.

    It is with options of the device's profiler alone, and on a function that needs arguments and
    got none.
    """
    if args or not kwargs.keys() <= _PROFILER:
        return False
    if kwargs:
        return True
    if isinstance(kernel, Kernel):
        return False
    parameters = inspect.signature(kernel).parameters.values()
    return any(
        each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        for each in parameters
    )
