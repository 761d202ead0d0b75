"""Kernels of the legacy dialect: decorators, launching, latency."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from trn3._trn3.machine import NkiTensor
from trn3.nki.dialects.legacy import issuing
from trn3.nki.dialects.legacy.views import Tensor, View
from trn3.nki.launch.jit import Kernel
from trn3.nki.launch.profiling import BenchmarkKernel, timed
from trn3.nki.values.targets import canonical_target


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
        ``platform_target`` names the target, ``compile`` the level of the compiler, as in
        `trn3.nki.simulate`; others are accepted and change nothing.
    """
    del mode
    wanted = options.get("platform_target")
    target = None if wanted is None else canonical_target(wanted, "platform_target")

    def decorate(function: Any) -> Kernel:
        return Kernel(_plain(function), target=target, legacy=True, compile=options.get("compile"))

    return decorate if func is None else decorate(func)


#: ``nki.trace`` and ``nki.baremetal``: run on a device upstream, simulated here.
trace = jit


def baremetal(kernel: Any = None, **options: Any) -> Any:
    """Make a function a kernel; options of the device's runner change nothing."""
    return jit(kernel, **options)


def benchmark(kernel: Any = None, **options: Any) -> Any:
    """Make a function a kernel whose calls leave their latency in ``benchmark_result``.

    ``compile`` names the level, as for `jit`. ``warmup``, ``iters``, ``save_neff_name`` and other
    options of the device's runner change nothing: one simulated run says all.
    """
    return timed(jit, kernel, options)


def profile(func: Any = None, **options: Any) -> Any:
    """Make a function a kernel, as `benchmark`; no files are written."""
    return benchmark(func, **options)


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
