"""Functions of JAX that run in Trainium's arithmetic."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeVar, cast

from trn3.graph import GraphError, run_on_core, run_on_ranks
from trn3.graph.kernels import KernelThere
from trn3.graph.run_options import RunOptions
from trn3.jax.conversion import convert
from trn3.jax.lowering import TracedCall, TracingFunction
from trn3.jax.rank_graph import RankGraph

if TYPE_CHECKING:
    from collections.abc import Callable

    from trn3.collectives import SystemLike
    from trn3.graph import OperationGraph, StepProfile
    from trn3.machine.archs import ArchLike

__all__ = ["CompiledFunction", "compile", "profile"]

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

# Graphs that a function keeps.
_KEPT = 64


def _with_values(call: TracedCall) -> TracedCall:
    if not call.has_values:
        raise TypeError("an argument is a jax.ShapeDtypeStruct, which has no values; allowed: time")
    return call


class CompiledFunction(Generic[Parameters, Result]):
    """A function of JAX that runs in Trainium's arithmetic; `compile` makes it.

    Calls with arguments of shapes and types that came before, weak types included, run what was
    made then. What was made for the 64 (**choice**) combinations that were asked for last is kept.

    Attributes
    ----------
    mode : str
        How it runs: ``operations`` or ``instructions``.
    """

    mode: str

    def __init__(
        self,
        function: Callable[Parameters, Result],
        mode: str = "operations",
        matmul: str = "as_typed",
        arch: ArchLike | None = None,
        level: str = "neuronx-cc",
        system: SystemLike | None = None,
        ranks_per_chip: int | None = None,
        cores: int = 1,
    ) -> None:
        functools.update_wrapper(self, function)
        self.mode = mode
        self._matmul = matmul
        self._arch = arch
        self._cores = cores
        self._level = level
        self._places: dict[str, Any] = {"system": system, "ranks_per_chip": ranks_per_chip}
        self._function = TracingFunction(function)
        # Keys are objects that JAX keeps; holding them keeps their identity. The last asked for is
        # the last.
        self._graphs: dict[int, tuple[object, RankGraph]] = {}

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        """Run the function on the simulated core."""
        call = _with_values(self._function.trace(args, kwargs))
        if self.mode == "instructions":
            return cast("Result", self._run(call, has_values=True)[0])
        outputs = self._graph(call).execute(call.inputs, self._matmul)
        return cast("Result", call.result(outputs))

    def profile(
        self, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> tuple[Result, StepProfile]:
        """Run the function by instructions: what it gives, and what that cost.

        Examples
        --------
        >>> import jax.numpy as jnp
        >>> y, step = compile(jnp.sqrt).profile(jnp.full((128, 64), 4.0))
        >>> float(y[0, 0]), step.latency_us > 0
        (2.0, True)
        """
        call = _with_values(self._function.trace(args, kwargs))
        result, step = self._run(call, has_values=True)
        return cast("Result", result), step

    def time(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> StepProfile:
        """Return what the function costs for arguments of these shapes, without computing values.

        An argument may be a `jax.ShapeDtypeStruct`.

        Examples
        --------
        >>> import jax.numpy as jnp
        >>> x = jnp.zeros((256, 256), jnp.bfloat16)
        >>> [cost.template for cost in compile(jnp.matmul).time(x, x).account()]
        ['instructions']
        """
        call = self._function.trace(args, kwargs)
        return self._run(call, has_values=False)[1]

    def _run(self, call: TracedCall, *, has_values: bool) -> tuple[Any, StepProfile]:
        made = self._graph(call)
        if made.whole:
            raise GraphError(made.whole)
        options: dict[str, Any] = {"arch": self._arch, "matmul": self._matmul}
        options |= {"compile": self._level, "cores": self._cores}
        if made.graph.ranks == 1:
            found, step = run_on_core(made.graph, call.inputs if has_values else None, **options)
        else:
            inputs = made.split(call.inputs) if has_values else None
            found, step = run_on_ranks(made.graph, inputs, **self._places, **options)
        if not has_values:
            return None, step
        outputs = [output for output in found if output is not None]
        if made.graph.ranks > 1:
            outputs = made.beside(outputs, call.inputs, self._matmul)
        return call.result(outputs), step

    def graph(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> OperationGraph:
        """Return the graph that runs for arguments of these shapes and types, without running it.

        Examples
        --------
        >>> import jax.numpy as jnp
        >>> compile(jnp.sin).graph(jnp.zeros(3)).outputs
        [('float32', [3])]
        """
        return self._graph(self._function.trace(args, kwargs)).graph

    def _graph(self, call: TracedCall) -> RankGraph:
        known = self._graphs.pop(id(call.key), None)
        if known is None:
            written = convert(call.module())
            there = [KernelThere(kernel, self._arch) for kernel in written.kernels]
            known = call.key, RankGraph.of(written, there)
            if len(self._graphs) >= _KEPT:
                del self._graphs[next(iter(self._graphs))]
        self._graphs[id(call.key)] = known
        return known[1]


def compile(  # noqa: A001 - the field's word
    f: Callable[Parameters, Result],
    *,
    arch: ArchLike | None = None,
    cores: int = 1,
    mode: Literal["auto", "instructions", "operations"] = "auto",
    matmul: Literal["bf16", "mxfp8", "mxfp4"] | None = None,
    compile: str | None = None,  # noqa: A002 - the name that kernels' launches have for it
    system: SystemLike | None = None,
    ranks_per_chip: int | None = None,
) -> CompiledFunction[Parameters, Result]:
    """Compile a function of JAX for a simulated core.

    Types are the program's: a float32 product is one of float32, a bfloat16 one of bfloat16;
    integers are exact, and random bits are JAX's own. The result gives arrays of JAX in the tree
    that `f` gives, on JAX's default device; weak types become strong.

    Parameters
    ----------
    f : callable
        Whatever `jax.jit` takes: of arrays and trees of them, the result of `jax.grad`, `jax.vmap`
        and other transformations included, or a jitted function without static arguments.
    arch : str, mapping or ArchSpec, optional
        The machine, as `trn3.machine.arch` takes it. By operation all have the same values.
    cores : int, optional
        How many physical cores work as one: 1, or 2 where the machine has logical cores of two.
        Both have the same values; by instructions each makes a part of the results.
    mode : {"auto", "instructions", "operations"}, optional
        ``operations`` computes each operation on whole tensors, in the order and arithmetic of the
        instructions that it is made of; ``instructions`` runs these on a simulated core, with the
        same bits, some thousand times slower. ``auto`` is ``operations``: only `profile` needs the
        core.
    matmul : {"bf16", "mxfp8", "mxfp4"}, optional
        Arithmetic that products of floating-point operands are cast down to: bfloat16, or MX blocks
        along the contraction.
    compile : str, optional
        Level of the compiler, of `trn3.compiler.levels`; neuronx-cc if not given. By operation
        nothing depends on it.
    system : str or system, optional
        What the ranks of `jax.shard_map` stand on, of `trn3.systems`: it says how long collectives
        take. That of the machine if not given.
    ranks_per_chip : int, optional
        How many of them a chip has; all that it can if not given.

    Returns
    -------
    CompiledFunction
        Takes what `f` takes. Called outside of `jax.jit` and other transformations.

    Raises
    ------
    ValueError
        If an argument is none of what is allowed.

    When called, the result raises `trn3.graph.GraphError`, a ValueError, for an operation that
    graphs do not have and for types that Trainium does not have (float64, complex, integers of 64
    bits that are not known to fit 32), with the line of the user's code; and TypeError while JAX
    traces.

    Examples
    --------
    >>> import jax
    >>> import jax.numpy as jnp
    >>> def loss(w, x):
    ...     return jnp.square(jnp.tanh(x @ w)).sum()
    >>> step = compile(jax.value_and_grad(loss))
    >>> value, gradient = step(jnp.ones((4, 2)) / 8, jnp.ones((3, 4)))
    >>> round(float(value), 4), gradient.shape, gradient.dtype
    (1.2813, (4, 2), dtype('float32'))
    """
    options = RunOptions(arch, cores, mode, matmul, compile)
    return CompiledFunction(
        f, options.way, options.path, arch, options.level, system, ranks_per_chip, cores
    )


# What `profile` has an argument of the same name for.
_compiled = compile


def profile(
    f: Callable[..., Result],
    *args: Any,
    arch: ArchLike | None = None,
    cores: int = 1,
    matmul: Literal["bf16", "mxfp8", "mxfp4"] | None = None,
    compile: str | None = None,  # noqa: A002 - the name that kernels' launches have for it
    system: SystemLike | None = None,
    ranks_per_chip: int | None = None,
) -> tuple[Result, StepProfile]:
    """Run a function of JAX by instructions on a simulated core: what it gives, and what that cost.

    Parameters
    ----------
    f : callable
        As `trn3.jax.compile` takes it.
    *args
        What `f` is called with.
    arch, cores, matmul, compile, system, ranks_per_chip
        As for `trn3.jax.compile`.

    Returns
    -------
    tuple
        What ``compile(f)(*args)`` gives, bit for bit, and its `trn3.graph.StepProfile`: time, lines
        of the user's code, the account of every operation, the report.

    Raises
    ------
    GraphError
        As for `trn3.jax.compile`, and for an operation that has no template of instructions and
        does not fit on chip.
    ValueError
        If an argument is none of what is allowed.

    Examples
    --------
    >>> import jax
    >>> import jax.numpy as jnp
    >>> y, step = profile(lambda x, w: jax.nn.relu(x @ w), jnp.ones((64, 128)), jnp.ones((128, 32)))
    >>> y.shape, [cost.operation.partition(".")[0] for cost in step.account() if cost.instructions]
    ((64, 32), ['dot_general', 'maximum'])
    """
    made: CompiledFunction[Any, Result] = _compiled(
        f,
        arch=arch,
        cores=cores,
        mode="instructions",
        matmul=matmul,
        compile=compile,
        system=system,
        ranks_per_chip=ranks_per_chip,
    )
    return made.profile(*args)
