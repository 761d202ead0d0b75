"""Functions of JAX as StableHLO, with what goes in and comes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from trn3.graph import GraphError
from trn3.graph.writing import Frame
from trn3.jax.graph_names import graph_names
from trn3.jax.locations import TracedFunction, at_line, user_frame
from trn3.jax.stablehlo import HloReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trn3.jax.hlo import HloModule

__all__ = ["TracedCall", "TracingFunction"]

# What JAX lowers for: it has no rules of its own for the first, so all is StableHLO's and CHLO's.
# What has no rule without a platform has one for the second, a call that is refused with its line.
_PLATFORM = "neuron"
_OTHER_PLATFORM = "tpu"
_LONGEST_TRACEBACK = 100


@dataclass(frozen=True)
class TracedCall:
    """A function traced for arguments of certain shapes and types.

    Attributes
    ----------
    key : object
        The same object for arguments of the same shapes and types.
    inputs : list of array
        The arguments, as graphs take them.
    has_values : bool
        Whether all of them are arrays, and none a shape alone.
    """

    key: object
    inputs: list[NDArray[Any]]
    has_values: bool
    _traced: Any

    def module(self) -> HloModule:
        """Lower the function to StableHLO; every argument is an input, used or not."""
        module = _lowered(self._traced)
        if len(module.functions["main"].body.inputs) == len(self.inputs):
            return module
        # A jitted function drops what it does not use.
        function = jax.extend.core.jaxpr_as_fun(self._traced.jaxpr)
        kinds = jax.tree_util.tree_leaves(self._traced.in_avals)
        return _lowered(jax.jit(function, keep_unused=True).trace(*kinds))

    def result(self, outputs: list[NDArray[Any]]) -> Any:
        """Return arrays of JAX in the tree that the function gives."""
        kinds, tree = jax.tree_util.tree_flatten(self._traced.out_info)
        return jax.tree_util.tree_unflatten(tree, map(_returned, outputs, kinds))


class TracingFunction:
    """A function that JAX traces."""

    def __init__(self, function: Callable[..., Any]) -> None:
        # What is jitted already keeps what its decorator says.
        is_jitted = hasattr(function, "trace") and hasattr(function, "lower")
        self._jitted: Any = function if is_jitted else jax.jit(function, keep_unused=True)

    def trace(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TracedCall:
        """Trace for these arguments; JAX remembers those that it has seen.

        Raises
        ------
        TypeError
            If JAX is tracing already, or an argument of a jitted function is static.
        """
        leaves = jax.tree_util.tree_leaves((args, kwargs))
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            raise TypeError(
                "a function of trn3.jax.compile is called while JAX traces; compile the outermost "
                "one, as in trn3.jax.compile(jax.grad(f))"
            )
        traced = self._jitted.trace(*args, **kwargs)
        kinds = jax.tree_util.tree_leaves(traced.in_avals)
        if len(kinds) != len(leaves):
            raise TypeError(
                "the function is jitted with static arguments; give trn3.jax.compile one without "
                "them, as functools.partial makes it"
            )
        inputs = list(map(_given, leaves, kinds))
        has_values = not any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves)
        return TracedCall(traced.jaxpr, inputs, has_values, traced)


def _lowered(traced: Any) -> HloModule:
    config: Any = jax.config
    frames = config.jax_traceback_in_locations_limit
    config.update("jax_traceback_in_locations_limit", _LONGEST_TRACEBACK)
    try:
        lowered = _lowered_for(traced, _PLATFORM)
    except (NotImplementedError, ValueError):
        if (called := next(_callbacks(traced.jaxpr.jaxpr), None)) is not None:
            raise GraphError(called) from None
        lowered = _lowered_for(traced, _OTHER_PLATFORM)
    finally:
        config.update("jax_traceback_in_locations_limit", frames)
    own = frozenset(name for name in graph_names() if name.startswith("chlo."))
    module = HloReader(own).read(lowered.compiler_ir("stablehlo"))
    module.kernels = {kernel.trn3_kernel: kernel for kernel in _kernels(traced.jaxpr.jaxpr)}
    return module


def _lowered_for(traced: Any, platform: str) -> Any:
    return traced.lower(lowering_platforms=(platform,))


def _equations(jaxpr: Any) -> Iterator[Any]:
    """Find all equations of a function, those of bodies included."""
    for equation in jaxpr.eqns:
        yield equation
        for value in jax.tree_util.tree_leaves(equation.params, is_leaf=_has_equations):
            if _has_equations(value):
                yield from _equations(getattr(value, "jaxpr", value))


def _kernel(equation: Any) -> Any | None:
    """Return the kernel that an equation calls back: whatever has a number `trn3_kernel`."""
    callback = equation.params.get("callback")
    called = getattr(callback, "callback_func", callback)
    return called if hasattr(called, "trn3_kernel") else None


def _kernels(jaxpr: Any) -> Iterator[Any]:
    found = map(_kernel, _equations(jaxpr))
    return (kernel for kernel in found if kernel is not None)


def _callbacks(jaxpr: Any) -> Iterator[str]:
    """Find calls of Python from within the function, as refusals."""
    for equation in _equations(jaxpr):
        name = equation.primitive.name
        if name.endswith("callback") or name == "debug_print":
            kernel = _kernel(equation)
            if kernel is not None and _has_platforms(jaxpr):
                continue
            traceback = equation.source_info.traceback
            frames = traceback.frames if traceback else ()
            own = [Frame(at.file_name, at.line_num, at.function_name) for at in frames]
            frame = user_frame(own, TracedFunction("main", None))
            reason = "calls Python, which does not run on the machine"
            if kernel is not None:
                reason = f"{kernel.name}: kernels in functions need a later JAX than this"
            yield at_line(frame, name, reason)


def _has_platforms(jaxpr: Any) -> bool:
    """Whether JAX keeps what is there for this platform alone."""
    return any("branches_platforms" in equation.params for equation in _equations(jaxpr))


def _has_equations(value: Any) -> bool:
    return hasattr(value, "eqns")


def _is_key(dtype: Any) -> bool:
    return bool(jnp.issubdtype(dtype, jax.dtypes.prng_key))


def _given(leaf: Any, kind: Any) -> NDArray[Any]:
    if _is_key(kind.dtype):
        leaf, kind = jax.random.key_data(leaf), np.dtype(np.uint32)
    if isinstance(leaf, jax.ShapeDtypeStruct):
        # Of its shape, and of no size in memory.
        return np.broadcast_to(np.zeros((), kind.dtype), kind.shape)
    return np.asarray(leaf).astype(getattr(kind, "dtype", kind), copy=False)


def _returned(output: NDArray[Any], kind: Any) -> Any:
    if kind.dtype == jax.dtypes.float0:
        return np.zeros(kind.shape, jax.dtypes.float0)
    if not _is_key(kind.dtype):
        return jnp.asarray(output)
    implementations: list[Any] = []
    jax.eval_shape(lambda key: implementations.append(jax.random.key_impl(key)), kind)
    return jax.random.wrap_key_data(jnp.asarray(output), impl=implementations[0])
