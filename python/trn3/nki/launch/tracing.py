"""Kernels inside functions that JAX traces: ``jax.jit``, ``jax.vmap``, ``jax.lax.scan``."""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from trn3.nki.launch.captured import are_plain
from trn3.nki.launch.given_kernel import GivenKernel

_FIRST_OF_PLATFORMS = (0, 5, 0)


def is_traced(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether an argument, or an element of a list or dict among them, is JAX's tracer."""
    jax: Any = sys.modules.get("jax")
    # A program that imports JAX only now has no tracers yet; what is NumPy's has none in it.
    if jax is None or not hasattr(jax, "core") or are_plain(args, kwargs):
        return False
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((args, kwargs)))


class TracedKernel(GivenKernel):
    """A kernel with its arguments, within a function that JAX traces: arrays in, arrays out.

    Who runs such a function on a simulated machine finds it by its attributes: the computation has
    a call of ``trn3.kernel`` with its number for the platform ``neuron``, and the kernel itself as
    what is called back on all others.

    Attributes
    ----------
    trn3_kernel : int
        Its number, the same for no other in this process.
    """

    _numbers = itertools.count()

    def __init__(self, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._jax: Any = importlib.import_module("jax")
        leaves, structure = self._jax.tree.flatten((args, kwargs))
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, self._jax.Array)]
        super().__init__(kernel, leaves, places, structure.unflatten)
        self.trn3_kernel = next(self._numbers)
        self.traced = [self._leaves[i] for i in self._places]
        zeros = [np.zeros(array.shape, array.dtype) for array in self.traced]
        self._tried, self._tree = self._jax.tree.flatten(self._run(zeros))
        # Tracers are no values: they go when the trace is over.
        for place in self._places:
            self._leaves[place] = None
        self._kept = [i for i, result in enumerate(self._tried) if isinstance(result, np.ndarray)]
        self.results = [
            self._jax.ShapeDtypeStruct(self._tried[i].shape, self._tried[i].dtype)
            for i in self._kept
        ]

    def _run(self, arrays: Sequence[Any]) -> Any:
        args, kwargs = self._arguments(arrays)
        return self._kernel(*args, **kwargs)

    def __call__(self, *arrays: Any) -> list[Any]:
        """Run the kernel on arrays, each in a copy of its own; the arrays that it returns."""
        found = self._jax.tree.leaves(self._run([np.array(array) for array in arrays]))
        return [np.asarray(found[i]) for i in self._kept]

    def result(self, arrays: Sequence[Any]) -> Any:
        """Return what the kernel returns, with these arrays in it."""
        results = list(self._tried)
        for i, array in zip(self._kept, arrays, strict=True):
            results[i] = array
        return self._jax.tree.unflatten(self._tree, results)


def call_back(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Put a kernel into the computation that JAX traces: a call back to the host.

    What shapes and types come back is found by one run on zeros while JAX traces (**choice**); what
    the kernel returns beside arrays is that run's. Arrays that the kernel writes to do not change.

    Parameters
    ----------
    kernel : Kernel
    args, kwargs
        Its arguments; arrays may be tracers.

    Returns
    -------
    what the kernel returns, with tracers in place of arrays
    """
    jax: Any = importlib.import_module("jax")
    call = TracedKernel(kernel, args, kwargs)
    traced, call.traced = call.traced, []

    def on_host(*arrays: Any) -> list[Any]:
        return list(jax.pure_callback(call, call.results, *arrays, vmap_method="sequential"))

    # Before that JAX lowers what is called back for every platform.
    if jax.__version_info__ < _FIRST_OF_PLATFORMS:
        return call.result(on_host(*traced))

    def on_machine(*arrays: Any) -> list[Any]:
        within = jax.ffi.ffi_call("trn3.kernel", call.results, vmap_method="sequential")
        return list(within(*arrays, number=np.int32(call.trn3_kernel)))

    return call.result(jax.lax.platform_dependent(*traced, default=on_host, neuron=on_machine))
