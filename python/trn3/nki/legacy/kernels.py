"""Kernels of the legacy dialect: decorators, launching, latency."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from trn3._trn3.machine import NkiTensor
from trn3.nki.context import slot
from trn3.nki.kernel import Kernel
from trn3.nki.legacy import issuing
from trn3.nki.legacy.tensors import Tensor, View
from trn3.nki.targets import canonical_target


def adapted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that takes and returns the machine's tensors."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if issuing.state.depth:
            return function(*args, **kwargs)
        issuing.warn_not_of_patterns()
        issuing.state.filled.clear()
        issuing.state.depth += 1
        try:
            result = function(
                *(_mapped(item, _in) for item in args),
                **{name: _mapped(item, _in) for name, item in kwargs.items()},
            )
            issuing.flush()
            return _mapped(result, _out)
        finally:
            issuing.state.depth -= 1
            issuing.discard()

    try:
        # Text names what the kernel's own file imports, not this one's.
        run.__annotations__ = inspect.get_annotations(function, eval_str=True)
    except Exception:  # it may name what exists for checkers only
        return run
    return run


def _in(value: Any) -> Any:
    return View(value) if isinstance(value, NkiTensor) else value


def _out(value: Any) -> Any:
    return value.view if isinstance(value, Tensor) else value


def _mapped(value: Any, convert: Callable[[Any], Any]) -> Any:
    if isinstance(value, (tuple, list)):
        items = [_mapped(item, convert) for item in value]
        if isinstance(value, list):
            return items
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, dict):
        return {key: _mapped(item, convert) for key, item in value.items()}
    return convert(value)


def _plain(function: Any) -> Callable[..., Any]:
    return function.__wrapped__ if isinstance(function, Kernel) else adapted(function)


def jit(func: Any = None, mode: str = "auto", **options: Any) -> Any:
    """Make a function a kernel of the legacy dialect; a decorator with or without arguments.

    Parameters
    ----------
    func : function, optional
    mode : str, optional
        Of compilers; every mode is simulated.
    **options
        ``platform_target`` names the target; others are accepted and change nothing.
    """
    del mode
    wanted = options.get("platform_target")
    target = None if wanted is None else canonical_target(wanted, "platform_target")

    def decorate(function: Any) -> Kernel:
        return Kernel(_plain(function), target=target, legacy=True)

    return decorate if func is None else decorate(func)


#: ``nki.trace`` and ``nki.baremetal``: run on a device upstream, simulated here.
trace = jit


def baremetal(kernel: Any = None, **options: Any) -> Any:
    """Make a function a kernel; options of the device's runner change nothing."""
    options.pop("platform_target", None)
    return jit(kernel)


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
    """A kernel whose calls are timed; what `benchmark` and `profile` make.

    Attributes
    ----------
    benchmark_result : BenchmarkResult or None
        Of the last call.
    """

    def __init__(self, kernel: Kernel) -> None:
        functools.update_wrapper(self, kernel)
        self._kernel = kernel
        self.benchmark_result: BenchmarkResult | None = None

    def __getitem__(self, grid: Any) -> BenchmarkKernel:
        made = BenchmarkKernel(self._kernel[grid])
        made._origin = self
        return made

    _origin: BenchmarkKernel | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel with the machine's clock."""
        if slot.context is not None:
            return self._kernel(*args, **kwargs)
        from trn3.nki.profiling import profile as run

        result, report = run(self._kernel, *args, **kwargs)
        self.benchmark_result = BenchmarkResult(report.latency_us)
        if self._origin is not None:
            self._origin.benchmark_result = self.benchmark_result
        return result

    def __repr__(self) -> str:
        return f"<benchmark of {self._kernel!r}>"


def benchmark(kernel: Any = None, **_options: Any) -> Any:
    """Make a function a kernel whose calls leave their latency in ``benchmark_result``.

    ``warmup``, ``iters``, ``save_neff_name`` and other options of the device's runner change
    nothing: one simulated run says all.
    """

    def decorate(function: Any) -> BenchmarkKernel:
        return BenchmarkKernel(jit(function))

    return decorate if kernel is None else decorate(kernel)


def profile(func: Any = None, **_options: Any) -> Any:
    """Make a function a kernel, as `benchmark`; no files are written."""
    return benchmark(func)


def simulate_kernel(kernel: Any, *args: Any, **kwargs: Any) -> Any:
    """Run a kernel at once and return its result.

    Parameters
    ----------
    kernel : kernel or function
        With a launch grid too: ``kernel[4, 2]``.
    """
    runnable = kernel if isinstance(kernel, (Kernel, BenchmarkKernel)) else jit(kernel)
    return runnable(*args, **kwargs)


#: The class of kernels, under its name in the legacy package.
FrameworkKernel = Kernel
