"""Kernels in functions of JAX: they stay themselves, with gradients of the user's own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import trn3.jax
from support.jax_values import assert_types
from trn3.graph import GraphError

nki: Any = pytest.importorskip("trn3.nki")
nl: Any = pytest.importorskip("trn3.nki.language")

if jax.__version_info__ < (0, 5):
    pytest.skip("this JAX lowers calls of Python for every platform", allow_module_level=True)


@nki.jit
def scaled(x: Any, y: Any, scale: float = 2.0) -> Any:
    """Return x * y * scale, and how large that is."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    total = nl.ndarray((x.shape[0], 1), nl.float32, buffer=nl.shared_hbm)
    product = nl.multiply(nl.multiply(nl.load(x), nl.load(y)), scale)
    nl.store(out, product)
    nl.store(total, nl.sum(product, axis=[1]))
    return out, total


@jax.custom_vjp
def product(x: Any, y: Any) -> Any:
    return scaled(x, y)[0]


product.defvjp(
    lambda x, y: (product(x, y), (x, y)), lambda kept, g: (2 * g * kept[1], 2 * g * kept[0])
)

X = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
Y = np.cos(X)


def layer(x: Any, y: Any) -> Any:
    out, total = scaled(jnp.sin(x), y, scale=3.0)
    return out + 1, total.sum()


def same_bits(one: Any, other: Any) -> None:
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    assert all(np.asarray(x).tobytes() == np.asarray(y).tobytes() for x, y in pairs)


def test_a_kernel_is_run_by_itself() -> None:
    """Its values are those of its own run, whichever way the function runs."""
    found = trn3.jax.compile(layer)(X, Y)
    assert_types(found, jax.jit(layer)(X, Y))
    sine = np.asarray(trn3.jax.compile(jnp.sin)(X))
    same_bits(found[0] - 1, np.asarray(scaled(sine, Y, scale=3.0)[0] + np.float32(1)) - 1)
    same_bits(found, trn3.jax.compile(layer, mode="instructions")(X, Y))


def test_its_own_time_stands_in_that_of_the_step() -> None:
    """One row of the account, as long as a run of the kernel by itself."""
    _, step = trn3.jax.profile(layer, X, Y)
    (row,) = (row for row in step.account() if row.operation.startswith("custom_call"))
    _, alone = nki.profile(scaled, X, Y)
    assert (row.template, row.is_fallback) == ("kernel", False)
    assert row.busy_us == pytest.approx(alone.latency_us, rel=1e-6)
    assert Path(row.line.rpartition(":")[0]).name == Path(__file__).name
    assert step.latency_us > alone.latency_us
    assert trn3.jax.compile(layer).time(X, Y).latency_us == step.latency_us


def test_gradients_are_the_users() -> None:
    def loss(x: Any, y: Any) -> Any:
        return jnp.square(product(x, y)).sum()

    found = trn3.jax.compile(jax.grad(loss))(X, Y)
    np.testing.assert_allclose(found, 8 * X * Y * Y, rtol=1e-5)
    with pytest.raises(ValueError, match="cannot be differentiated"):
        trn3.jax.compile(jax.grad(lambda x: scaled(x, Y)[0].sum()))(X)


def test_kernels_in_loops_and_batches() -> None:
    """As JAX itself runs them: one call after the other."""

    def looped(x: Any, y: Any) -> Any:
        return jax.lax.scan(lambda carry, row: (product(carry, row), carry.sum()), x, y)

    rows = np.stack([Y, X])
    same_bits(trn3.jax.compile(looped)(X, rows)[0], jax.jit(looped)(X, rows)[0])
    batched = jax.vmap(product, in_axes=(0, None))
    same_bits(trn3.jax.compile(batched)(rows, Y), jax.jit(batched)(rows, Y))


def test_what_a_kernel_raises_is_raised() -> None:
    """An error of the kernel is the kernel's; other calls of Python stay refused."""

    @nki.jit
    def fails(x: Any) -> Any:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        nl.store(out, tile)
        if fails.is_late:
            raise ZeroDivisionError("on purpose")
        return out

    vars(fails)["is_late"] = False
    compiled = trn3.jax.compile(lambda x: fails(x) * 2)
    graph = compiled.graph(X)
    vars(fails)["is_late"] = True
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        graph.execute([X])

    def both(x: Any) -> Any:
        called = jax.pure_callback(np.asarray, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
        return product(x, called)

    line = re.escape(f"{Path(__file__).name}:{both.__code__.co_firstlineno + 1}: pure_callback: ")
    with pytest.raises(GraphError, match=line + "calls Python"):
        trn3.jax.compile(both)(X)
