"""Runs that keep time: `profile`, and the decorators of NKI 0.1 and 0.2 that ran on a device."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from trn3.nki.launch.jit import Kernel, as_kernel, jit, simulate
from trn3.nki.launch.new_cores import arch_of
from trn3.nki.ranks.context import slot
from trn3.nki.typing import tensor as annotated_tensor
from trn3.nki.values.element_types import canonicalise

if TYPE_CHECKING:
    from trn3.machine.archs import ArchLike
    from trn3.profile import Profile

__all__ = [
    "BenchmarkKernel",
    "BenchmarkResult",
    "Latency",
    "baremetal",
    "benchmark",
    "check_shadow",
    "filled",
    "profile",
    "simulate_kernel",
    "timed",
    "trace",
    "with_options",
]


def profile(
    kernel: Callable[..., Any] | None = None,
    *args: Any,
    arch: ArchLike | None = None,
    values: bool = True,
    strict: bool = False,
    shadow: bool = False,
    max_instructions: int | None = None,
    max_host_bytes: int | None = None,
    **kwargs: Any,
) -> tuple[Any, Profile]:
    """Run a kernel and return its result and what it cost.

    As the decorator that it was in NKI 0.1 and 0.2, ``@nki.profile(working_directory=...)``, it
    makes a kernel that keeps its latency, as `trn3.nki.benchmark`: on a function that needs
    arguments and gets none, and with options of the device's profiler alone.

    Parameters
    ----------
    kernel : Kernel or function
        ``kernel[lnc]`` too. Arguments of the names `arch`, `values`, `strict`, `shadow`,
        `max_instructions` and `max_host_bytes` cannot be given to it by keyword here.
    *args, **kwargs
        The kernel's arguments. ``nt.tensor[[128, 512], nl.bfloat16]`` stands for an array whose
        values do not matter **(choice)**: normally distributed from a fixed seed, integers 0.
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
    max_host_bytes : int, optional
        As in `trn3.nki.simulate`.
    compile, verify, stochastic_rounding, seed : optional
        By keyword, as in `simulate`. A kernel that has parameters of these names gets them instead:
        give it as ``nki.simulate(kernel, compile="nki", stochastic_rounding=True, seed=7)``.

    Returns
    -------
    result
        As calling the kernel returns it; None without values.
    Profile
        Of ``kernel[2]`` the joint one of both cores; ``profile.cores`` has that of each.

    Raises
    ------
    ValueError
        If `arch` names no machine or `compile` no level, `shadow` is asked for without values, or a
        seed without anything to draw.
    SkippedValueError
        Without values, if control flow or an address needs one that was skipped.
    UninitializedReadError
        With `strict`.
    InstructionLimitError
        If the kernel issues more than `max_instructions`.
    MemoryError
        If the host has no room for what the kernel writes, takes or returns.

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
    # Reports need more imports than running kernels does.
    from trn3.profile import profile_of

    runnable = as_kernel(kernel)
    check_shadow(shadow, values)
    runnable = with_options(runnable, kwargs)
    cores = runnable.cores(
        None if arch is None else arch_of(arch),
        values=values,
        strict=strict,
        shadow=shadow,
        max_instructions=max_instructions,
        max_host_bytes=max_host_bytes,
    )
    result = runnable.launch(
        cores, tuple(map(filled, args)), {name: filled(value) for name, value in kwargs.items()}
    )
    return result, profile_of(cores, runnable.name)


#: Options of `simulate` that stand among a kernel's own arguments.
_AMONG_ARGUMENTS: Final = ("compile", "verify", "stochastic_rounding", "seed")


def with_options(
    kernel: Kernel, given: dict[str, Any], names: Sequence[str] = _AMONG_ARGUMENTS
) -> Kernel:
    """Take options of `simulate` out of a kernel's arguments, and return the kernel with them."""
    parameters = inspect.signature(kernel.__wrapped__).parameters
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return kernel
    options = {name: given.pop(name) for name in names if name in given and name not in parameters}
    return simulate(kernel, **options) if options else kernel


def filled(value: Any) -> Any:
    """Return an array for an argument that only says its shape and type, others as they are."""
    declared = value.declared if isinstance(value, annotated_tensor) else None
    if declared is None:
        return value
    shape, dtype = declared[0], canonicalise(declared[1])
    values = np.zeros(shape)
    if dtype.is_float and not dtype.is_packed:
        values = np.random.default_rng(0).standard_normal(shape)
    return values.astype(dtype.np_dtype)


def check_shadow(shadow: bool, values: bool) -> None:
    """Refuse a run in float64 beside one without values."""
    if shadow and not values:
        message = "shadow is True with values=False: without values none loses precision"
        raise ValueError(message)


class Latency:
    """Simulated latency of the last call, with what starting and ending the kernel costs.

    That is what devices report of a kernel, and what `trn3 validate` compares with published times;
    `Profile.latency_us` is the part between, `Profile.overhead_us` the rest.
    """

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
        result, report = profile(self._kernel, *args, **kwargs)
        self.benchmark_result = BenchmarkResult(report.latency_us + report.overhead_us)
        if self._origin is not None:
            self._origin.benchmark_result = self.benchmark_result
        return result

    def __repr__(self) -> str:
        return f"<benchmark of {self._kernel!r}>"


def timed(make: Callable[..., Kernel], kernel: Any, options: dict[str, Any]) -> Any:
    """Return a kernel whose calls are timed, or without a kernel a decorator that makes one."""
    target = {name: options[name] for name in ("platform_target",) if name in options}
    level = options.get("compile")

    def decorate(function: Any) -> BenchmarkKernel:
        if isinstance(function, BenchmarkKernel) and level is None:
            return function
        found = getattr(function, "kernel", function)
        runnable = found if isinstance(found, Kernel) else make(function, **target)
        return BenchmarkKernel(simulate(runnable, compile=level))

    return decorate if kernel is None else decorate(kernel)


def baremetal(kernel: Any = None, **options: Any) -> Any:
    """Make a function a kernel, as `jit` does.

    Parameters
    ----------
    kernel : function, optional
    **options
        ``platform_target`` names the target, ``compile`` the level, as in `simulate`; those of the
        device's runner change nothing.

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

    ``compile`` names the level, as in `simulate`. ``warmup``, ``iters``, ``save_neff_name`` and
    other options of the device's runner change nothing: one simulated run says all.

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
