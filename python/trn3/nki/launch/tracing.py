"""Kernels inside functions that JAX traces: ``jax.jit``, ``jax.vmap``, ``jax.lax.scan``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np


def is_traced(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether an argument, or an element of a list or dict among them, is JAX's tracer."""
    jax: Any = sys.modules.get("jax")
    # A program that imports JAX only now has no tracers yet.
    if jax is None or not hasattr(jax, "core"):
        return False
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((args, kwargs)))


def call_back(run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Put a kernel into the computation that JAX traces, as a call back to the host.

    What shapes and types come back is found by one run on zeros while JAX traces (**choice**); what
    the kernel returns beside arrays is that run's. Arrays that the kernel writes to do not change.

    Parameters
    ----------
    run : callable
        The kernel.
    args, kwargs
        Its arguments; arrays may be tracers.

    Returns
    -------
    what the kernel returns, with tracers in place of arrays
    """
    jax: Any = importlib.import_module("jax")
    leaves, structure = jax.tree.flatten((args, kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, jax.Array)]

    def on_host(arrays: list[Any]) -> Any:
        given = list(leaves)
        for place, array in zip(places, arrays, strict=True):
            given[place] = array
        own_args, own_kwargs = jax.tree.unflatten(structure, given)
        return run(*own_args, **own_kwargs)

    tried = on_host([np.zeros(leaves[i].shape, leaves[i].dtype) for i in places])
    results, result_structure = jax.tree.flatten(tried)
    kept = [i for i, result in enumerate(results) if isinstance(result, np.ndarray)]

    def computed(*arrays: Any) -> list[Any]:
        found = jax.tree.leaves(on_host([np.array(array) for array in arrays]))
        return [np.asarray(found[i]) for i in kept]

    shapes = [jax.ShapeDtypeStruct(results[i].shape, results[i].dtype) for i in kept]
    arrays = jax.pure_callback(
        computed, shapes, *(leaves[i] for i in places), vmap_method="sequential"
    )
    for i, array in zip(kept, arrays, strict=True):
        results[i] = array
    return jax.tree.unflatten(result_structure, results)
