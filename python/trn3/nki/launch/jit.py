"""Kernels: functions that a simulated NeuronCore runs."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from trn3._trn3.machine import NeuronCore
from trn3.compiler.level_names import check_level, check_verify
from trn3.nki.isa.constants import dependency
from trn3.nki.isa.ordering import waits
from trn3.nki.launch import captured, observers, tracing
from trn3.nki.launch.bind import Given, Parameters, bind, parameters_of
from trn3.nki.launch.collect import collect
from trn3.nki.launch.compiled import compiled, prepare
from trn3.nki.launch.debugging import note
from trn3.nki.launch.grid import Launch, as_brackets, check_inner, launch_of
from trn3.nki.launch.host_memory import max_host_bytes
from trn3.nki.launch.levels import is_of_compiled_release, level_of_launch
from trn3.nki.launch.new_cores import cores_of, is_precise
from trn3.nki.launch.place import Edge, Edges, edge_of, place
from trn3.nki.launch.rounding import RoundingChoice
from trn3.nki.launch.run import RanLaunch, run
from trn3.nki.ranks.context import slot
from trn3.nki.values.axes import Spread
from trn3.nki.values.kernel_function import KernelFunction, as_kernel_function
from trn3.nki.values.targets import canonical_target, current_target

if TYPE_CHECKING:
    from trn3._trn3.machine import RankFabric
    from trn3.machine.archs import ArchSpec
    from trn3.nki.launch.arguments import Arguments

F = TypeVar("F", bound=Callable[..., Any])
#: Flags of functions that return before their body runs.
_LATE: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR

_NO_CHOICE: Final = RoundingChoice()


class Kernel(KernelFunction):
    """A function that runs on a simulated NeuronCore; what `jit` makes.

    Calling it runs it on one core: arrays become tensors in HBM (`nl.hbm`), other arguments pass
    unchanged, and the tensors it returns become arrays of the library that the arguments came from.
    Arrays that the kernel wrote to are updated where they lie, unless they are read-only or JAX's.
    Called by a running kernel, it is the plain function on the cores that there are; brackets that
    ask for others are an error (**choice**). Called where ``jax.jit`` traces, it runs when the
    traced function does. Called where ``torch.compile`` captures, it is an operator of the graph.

    ``kernel[lnc]`` is the same kernel on that many cores of a logical core: each runs the function,
    and `nki.language.program_id` says which one it is. ``kernel[a, b]`` runs it a * b times, one
    after the other.

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
    >>> double(np.ones((2, 2), np.float32)).tolist()
    [[2.0, 2.0], [2.0, 2.0]]
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        target: str | None = None,
        axes: tuple[int | Spread, ...] = (),
        legacy: bool = False,
        edges: Edges = (),
        nan_origin: bool = False,
        rounding: RoundingChoice = _NO_CHOICE,
        max_host_bytes: int | None = None,
        compile: str | None = None,
        verify: bool = False,
        is_compiled: bool = False,
    ) -> None:
        if getattr(getattr(function, "__code__", None), "co_flags", 0) & _LATE:
            message = (
                f"kernel {function.__qualname__} is a generator or async function, whose body "
                "would never run; allowed: a plain function"
            )
            raise TypeError(message)
        super().__init__(function, target=target, legacy=legacy)
        self._axes = axes
        self._launch = launch_of(axes, legacy=legacy)
        self._edges = edges
        self._nan_origin = nan_origin
        self._rounding = rounding
        self._max_host_bytes = max_host_bytes
        self._compile = None if compile is None else check_level(compile)
        self.verify = verify
        # Kept: the dialect is the kernel's, whoever runs it under whatever release.
        was_compiled = is_compiled or legacy or _is_compiled(function)
        self._is_compiled = was_compiled or is_of_compiled_release()
        self._parameters: Parameters | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel, or within a running one, the plain function."""
        if captured.is_capturing():
            return captured.torch_calls().captured(self.identity, None, args, kwargs)
        running = slot.context
        if running is not None:
            if self._axes:
                check_inner(self, running)
            return self.__wrapped__(*args, **kwargs)
        if tracing.is_traced(args, kwargs):
            return tracing.call_back(self, args, kwargs)
        if captured.is_captured(args, kwargs):
            return captured.torch_calls().within_graph(self, args, kwargs)
        return self.launch(self.cores(timing=False, nan_origin=self._nan_origin), args, kwargs)

    def __getitem__(self, lnc: int | Spread | tuple[int | Spread, ...]) -> Kernel:
        """Return the kernel on that many cores, or on a launch grid.

        Parameters
        ----------
        lnc : int, or tuple of int and `nki.language.nc`
            One number: cores. Several, or `nki.language.nc`: lengths of the axes of a grid, whose
            instances run one after the other on each core.

        Raises
        ------
        TypeError
            If `lnc` is neither.
        """
        if captured.is_capturing():
            return captured.torch_calls().CapturedBrackets(self, lnc)  # type: ignore[no-any-return]
        return self._with(axes=as_brackets(lnc, self.__name__))

    def _with(self, **changes: Any) -> Kernel:
        own = {
            "target": self.own_target,
            "axes": self._axes,
            "legacy": self.is_legacy,
            "edges": self._edges,
            "nan_origin": self._nan_origin,
            "rounding": self._rounding,
            "max_host_bytes": self._max_host_bytes,
            "compile": self._compile,
            "verify": self.verify,
            "is_compiled": self._is_compiled,
        }
        return Kernel(self.__wrapped__, **{**own, **changes})

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    @property
    def label(self) -> str:
        """Its qualified name, with what stood in brackets."""
        brackets = f"[{', '.join(map(str, self._axes))}]" if self._axes else ""
        return f"{self.__qualname__}{brackets}"

    def with_schedule(self, edges: Iterable[Edge], kind: dependency | None = None) -> Kernel:
        """Return the kernel with more order between instructions than data demands.

        Values stay the same; in time, each consumer waits for its producers.

        Parameters
        ----------
        edges : iterable of (consumer, producer or producers)
            The ``name=`` of instructions. Where several have one name, a consumer waits for the
            last such producer before it.
        kind : nisa.dependency, optional
            ``runtime``, or ``schedule``: an order of issue alone, in which calls run anyway.

        Raises
        ------
        TypeError
            If an edge is no such pair, or `kind` is none.

        Examples
        --------
        >>> from trn3 import nki
        >>> @nki.jit
        ... def kernel(x):
        ...     return x
        >>> kernel.with_schedule([("store", ["first", "second"])])
        <nki.jit kernel trn3.nki.launch.jit.kernel>
        """
        found = tuple(edge_of(edge) for edge in edges)
        return self._with(edges=self._edges + (found if waits(kind, "with_schedule") else ()))

    def target(self) -> str:
        """Return the machine that a call runs on now."""
        return self.own_target or current_target()

    @property
    def nan_origin(self) -> bool:
        """Whether a call follows NaN and infinities to where they come from."""
        return self._nan_origin

    def rounding(self, choice: RoundingChoice) -> Kernel:
        """Return the kernel whose engines round their results so."""
        return self._with(rounding=choice)

    def compile_level(self, compile: str | None = None) -> str:
        """Return the level of the compiler at which a launch that begins now runs.

        Parameters
        ----------
        compile : str, optional
            ``"as-written"``, ``"nki"`` or ``"neuronx-cc"``, which wins. Unless given, it is that of
            `simulate`, else that of ``TRN3_COMPILE``, else that of the kernel's dialect:
            neuronx-cc for ``neuronxcc.nki`` and releases before 0.3, as-written for all others.

        Raises
        ------
        ValueError
            If there is no such level.
        """
        given = self._compile if compile is None else check_level(compile)
        return level_of_launch(given, is_compiled=self._is_compiled)

    @property
    def has_brackets(self) -> bool:
        """Whether it was given a number of cores or a launch grid."""
        return bool(self._axes)

    def launched(self) -> Launch:
        """Return the instances that a call runs, and on which cores."""
        return self._launch

    def cores(
        self, arch: str | ArchSpec | None = None, *, compile: str | None = None, **options: Any
    ) -> list[NeuronCore]:
        """Return new cores for one launch, on one HBM.

        Parameters
        ----------
        arch : str or ArchSpec, optional
            Machine instead of the kernel's target: a name, the path of a description, or one.
        compile : str, optional
            Level of the compiler, as `compile_level` takes it.
        **options
            Those of `trn3.machine.NeuronCore`.

        Raises
        ------
        ValueError
            If a logical core of the machine has fewer cores, or there is no such level.
        """
        options["compile"] = level = self.compile_level(compile)
        if self.verify:
            check_verify(level, values=options.get("values", True))
        precise = options.pop("precise", None)
        options["precise"] = is_precise() if precise is None else precise
        if options.get("max_host_bytes") is None:
            options["max_host_bytes"] = self._max_host_bytes or max_host_bytes()
        machine = arch or self.target()
        if observers.is_observed():
            options["timing"] = True
        return cores_of(machine, self.launched().cores, self, **options)

    def launch(
        self, cores: Sequence[NeuronCore], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        """Run the kernel on new cores, as many as it wants.

        Returns
        -------
        what the kernel returns, with arrays in place of tensors; None where values are skipped

        Raises
        ------
        DeadlockError
            If cores wait for one another.
        ValueError
            If instances return different tensors.
        PortabilityError
            Under ``TRN3_NKI_STRICT=1``, if the hardware compiler would refuse the kernel.
        """
        return self.launch_ranks([cores], [(args, kwargs)])[0]

    def launch_ranks(
        self,
        cores: Sequence[Sequence[NeuronCore]],
        given: Given,
        fabric: RankFabric | None = None,
        observe: Callable[[Arguments, Any], None] | None = None,
        finish: Callable[[RanLaunch], RanLaunch] = compiled,
    ) -> list[Any]:
        """Run the kernel on several ranks side by side, each on new cores of its own.

        Parameters
        ----------
        cores : sequence of sequences of NeuronCore
            As many as the kernel wants, for each rank.
        given : sequence of (args, kwargs)
            The arguments of each rank.
        fabric : RankFabric, optional
            What connects the ranks; by default that of the machine's own system.
        observe : callable, optional
            Called for each rank with its arguments and what the kernel returned, as tensors.
        finish : callable, optional
            What comes after the instances have run, by default the compiler.

        Returns
        -------
        list
            What `launch` returns, of each rank.
        """
        if self._parameters is None:
            self._parameters = parameters_of(self.__wrapped__)
        prepare(self, cores)
        bound = bind(self, self._parameters, self.launched(), given)
        placed = place(bound, cores, fabric, self._edges)
        self._rounding.apply(cores)
        try:
            return collect(finish(run(placed)), observe)
        finally:  # Handing results over finds what was never written in them.
            note([rank.cores for rank in placed.ranks])


def _is_compiled(function: Any) -> bool:
    """Return whether a function is, or wraps, a kernel of a dialect written for a compiler."""
    while function is not None and not isinstance(function, Kernel):
        function = getattr(function, "__wrapped__", None)
    return function is not None and function._is_compiled


def as_kernel(kernel: Callable[..., Any]) -> Kernel:
    """Return a kernel as it is, and a plain function as a kernel.

    Raises
    ------
    TypeError
        If it cannot be called.
    """
    # What times a kernel, as `benchmark` makes it, has the one to run.
    for given in (kernel, getattr(kernel, "kernel", None)):
        if isinstance(given, Kernel):
            return given
    return Kernel(as_kernel_function(kernel).__wrapped__)


@overload
def jit(kernel: Callable[..., Any], /, **options: Any) -> Kernel: ...


@overload
def jit(kernel: None = None, /, **options: Any) -> Callable[[Callable[..., Any]], Kernel]: ...


def jit(
    kernel: Callable[..., Any] | None = None, /, **options: Any
) -> Kernel | Callable[[Callable[..., Any]], Kernel]:
    """Make a function a kernel; with or without parentheses, or called on a function.

    Parameters
    ----------
    kernel : function
        Runs plain Python with the functions of `nki.language` and `nki.isa`.
    platform_target : str, optional
        The target of this kernel, before any environment variable (**choice**).
    compile : str, optional
        As in `simulate`.
    **options
        Those of compilers (``mode``, ``debug_kernel``, ``experimental_flags`` and others) are
        accepted and change nothing.

    Returns
    -------
    Kernel

    Raises
    ------
    ValueError
        If `platform_target` is no target, or `compile` no level.

    Examples
    --------
    >>> from trn3 import nki
    >>> @nki.jit(platform_target="trn2")
    ... def kernel(x):
    ...     return x
    >>> kernel.target()
    'trn2'
    """
    wanted = options.get("platform_target")
    target = None if wanted is None else canonical_target(wanted, "platform_target")

    def decorate(function: Callable[..., Any]) -> Kernel:
        inner = function.__wrapped__ if isinstance(function, Kernel) else function
        compile, is_compiled = options.get("compile"), _is_compiled(function)
        return Kernel(inner, target=target, compile=compile, is_compiled=is_compiled)

    return decorate if kernel is None else decorate(kernel)


def simulate(
    kernel: Callable[..., Any],
    *,
    nan_origin: bool = False,
    stochastic_rounding: bool | None = None,
    seed: int | None = None,
    max_host_bytes: int | None = None,
    compile: str | None = None,
    verify: bool | None = None,
) -> Kernel:
    """Return a callable that runs a kernel on the simulated core.

    A kernel needs no such call: it is simulated whenever it is called. Plain functions do.

    Parameters
    ----------
    kernel : Kernel or function
        ``kernel[lnc]`` too.
    nan_origin : bool, optional
        True follows NaN and infinities to the instruction that wrote the first ones: a finding, see
        `last_findings`. It takes some 10 to 30 per cent more time; `profile` does it anyway.
    stochastic_rounding : bool, optional
        True rounds the float32 results of every engine that computes stochastically where they are
        written as bfloat16, float16 or float8, PSUM included; DMA rounds to nearest as ever, and
        times stay. Unless given, ``NEURON_RT_STOCHASTIC_ROUNDING_EN=1`` says so.
    seed : int, optional
        Of its draws, which are the same in every run. Unless given,
        ``NEURON_RT_STOCHASTIC_ROUNDING_SEED``, and without that 0.
    max_host_bytes : int, optional
        Most bytes of this machine's memory that what a rank writes in HBM may hold, and a result
        beside it; more is a MemoryError. By default what ``TRN3_MAX_HOST_BYTES`` says, else three
        quarters of what is free when that matters **(choice)**.
    compile : str, optional
        Level of the compiler: ``"as-written"``, the kernel's text in its order; ``"nki"``, placed
        and scheduled where the author left that open; ``"neuronx-cc"``, all passes. Values are the
        same at each; times are those of what the level makes, and only as-written refuses a kernel
        whose tensors do not fit on chip in its own order. Unless given, ``TRN3_COMPILE`` says so,
        and without that the kernel's dialect: neuronx-cc for ``neuronxcc.nki`` and releases before
        0.3, as-written for all others.
    verify : bool, optional
        True looks at the schedule after each pass of the compiler, runs the compiled program too,
        and holds all that it gives against the kernel's run, bit for bit. Of a kernel on one rank,
        with values, above level as-written.

    Returns
    -------
    Kernel
        `profile`, `simulate_ranks`, `record` and `diff` take it too.

    Raises
    ------
    TypeError, ValueError
        If `seed` is no number from 0 below 2**64, or `compile` no level; here or at a call, if
        nothing is to be drawn.

    Notes
    -----
    Each engine draws from an XORWOW generator of its own, one lane a partition, apart from those of
    ``nl.rand``, ``nisa.rng`` and ``nisa.dropout`` (**choice**: what hardware draws from is not
    documented). A tile of 128 partitions that VectorE of the first core writes first is
    ``trn3.numerics.cast(x, dtype, rounding="stochastic", rng=Xorwow.seed(seed))``. Generators of
    VectorE, ScalarE, GpSimdE and TensorE are the next lanes of that seed each, and then those of
    the next core of the launch, rank by rank.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> def kernel(x):
    ...     return x[0:1]
    >>> nki.simulate(kernel)(np.arange(4, dtype=np.float32).reshape(2, 2))
    array([[0., 1.]], dtype=float32)

    A sum that rounding to nearest would lose:

    >>> import trn3.nki.isa as nisa
    >>> import trn3.nki.language as nl
    >>> def narrowed(x):
    ...     tile = nl.load(x)
    ...     half = nl.ndarray(x.shape, nl.float16)
    ...     nisa.tensor_copy(half, tile)
    ...     out = nl.ndarray(x.shape, nl.float16, buffer=nl.shared_hbm)
    ...     nl.store(out, half)
    ...     return out
    >>> x = np.full((128, 512), 1024.25, np.float32)
    >>> rounded = nki.simulate(narrowed, stochastic_rounding=True, seed=1)(x)
    >>> round(float(rounded.astype(np.float64).mean()), 2), sorted({*rounded.ravel().tolist()})
    (1024.25, [1024.0, 1025.0])
    """
    choice = RoundingChoice(stochastic_rounding, seed)
    changes: dict[str, Any] = {"nan_origin": True} if nan_origin else {}
    if choice != _NO_CHOICE:
        changes["rounding"] = choice
    given = {"max_host_bytes": max_host_bytes, "compile": compile, "verify": verify}
    changes |= {name: value for name, value in given.items() if value is not None}
    runnable = as_kernel(kernel)
    return runnable._with(**changes) if changes else runnable
