"""Results of `trn3.jax.compile` held against JAX in float64 and in the types of the program."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.experimental
import jax.numpy as jnp
import numpy as np

# Of the largest magnitude: of float32, of its gradients, and of bfloat16's 8 bits.
FLOAT32 = 2e-3
GRADIENT = 2e-2
BFLOAT16 = 3e-2


def in_float64(function: Callable[..., Any], *args: Any) -> Any:
    """Return what JAX gives with every float as float64."""
    with float64():
        return jax.jit(function)(*jax.tree_util.tree_map(_widened, args))


def float64() -> AbstractContextManager[Any]:
    """Let JAX have 64-bit types."""
    holder: Any = jax if hasattr(jax, "enable_x64") else jax.experimental
    context: AbstractContextManager[Any] = holder.enable_x64(True)
    return context


def _widened(leaf: Any) -> Any:
    array = np.asarray(leaf)
    return array.astype(np.float64) if jnp.issubdtype(array.dtype, jnp.floating) else array


def assert_close(found: Any, expected: Any, bound: float = FLOAT32) -> None:
    """Hold trees against each other: floats within `bound` of the largest, all else exactly."""
    ours: Any = jax.tree_util.tree_flatten(found)
    theirs: Any = jax.tree_util.tree_flatten(expected)
    assert ours[1] == theirs[1]
    for one, other in zip(ours[0], theirs[0], strict=True):
        assert one.shape == other.shape
        if not jnp.issubdtype(one.dtype, jnp.floating):
            np.testing.assert_array_equal(one, other)
            continue
        x, y = np.asarray(one, np.float64), np.asarray(other, np.float64)
        is_finite = np.isfinite(y)
        np.testing.assert_array_equal(x[~is_finite], y[~is_finite])
        largest = np.abs(y[is_finite]).max(initial=1e-30)
        np.testing.assert_allclose(x[is_finite], y[is_finite], rtol=0, atol=bound * largest)


def assert_types(found: Any, expected: Any) -> None:
    """Hold trees against each other: structure, who owns the arrays, shapes, types."""
    ours: Any = jax.tree_util.tree_flatten(found)
    theirs: Any = jax.tree_util.tree_flatten(expected)
    assert ours[1] == theirs[1]
    for one, other in zip(ours[0], theirs[0], strict=True):
        assert isinstance(one, jax.Array) == isinstance(other, jax.Array)
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
