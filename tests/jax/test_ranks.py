"""Functions on meshes of simulated ranks; JAX's own vmap over a named axis is the oracle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import trn3.jax
from trn3 import collectives
from trn3.graph import GraphError

# JAX's own signatures are untyped in part.
P: Any = PartitionSpec
lax: Any = jax.lax
ShapeDtype: Any = jax.ShapeDtypeStruct


def shard_map(function: Any, mesh: Any, in_specs: Any, out_specs: Any, checked: bool = True) -> Any:
    """Call JAX's own, wherever this version has it."""
    specs = {"mesh": mesh, "in_specs": in_specs, "out_specs": out_specs}
    newer: Any = getattr(jax, "shard_map", None)
    if newer is not None:
        return newer(function, **specs, check_vma=checked)
    from jax.experimental.shard_map import shard_map as older

    return older(function, **specs, check_rep=checked)


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def on_ranks(function: Any, ranks: int, in_specs: Any, out_specs: Any) -> Any:
    mesh = trn3.jax.mesh({"data": ranks})
    return shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, checked=False)


COLLECTIVES: dict[str, Any] = {
    "psum": lambda x: lax.psum(x, "data"),
    "pmean": lambda x: lax.pmean(x, "data"),
    "pmax": lambda x: lax.pmax(x, "data"),
    "pmin": lambda x: lax.pmin(x, "data"),
    "all_gather": lambda x: lax.all_gather(x, "data"),
    "all_gather_tiled": lambda x: lax.all_gather(x, "data", axis=1, tiled=True),
    "psum_scatter": lambda x: lax.psum_scatter(x, "data", scatter_dimension=1, tiled=True),
    "all_to_all": lambda x: lax.all_to_all(x, "data", 1, 0, tiled=True),
    "ppermute": lambda x: lax.ppermute(x, "data", [(0, 1), (1, 3), (2, 0), (3, 2)]),
    "axis_index": lambda x: x * lax.axis_index("data"),
    "groups": lambda x: lax.all_gather(x, "data", tiled=True, axis_index_groups=[[0, 3], [2, 1]]),
}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives_are_those_of_jax(name: str) -> None:
    """Each rank takes what JAX's own rules give it."""
    function = COLLECTIVES[name]
    x = numbers(4, 6, 8)
    expected = jax.vmap(function, axis_name="data")(x) if name != "groups" else None
    if expected is None:
        expected = np.stack([np.concatenate([x[a], x[b]]) for a, b in ((0, 3), (2, 1))] * 2)
        expected = expected[[0, 1, 1, 0]]

    def own(part: Any) -> Any:
        return function(part[0])[None]

    found = trn3.jax.compile(on_ranks(own, 4, P("data"), P("data")))(x)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.int32])
def test_sums_have_the_bits_of_collectives(dtype: Any) -> None:
    """One engine adds for graphs, kernels and `trn3.collectives`."""
    x = jnp.asarray(numbers(4, 128) * 100).astype(dtype)
    total = on_ranks(lambda part: lax.psum(part[0], "data"), 4, P("data"), P())
    found = np.asarray(trn3.jax.compile(total)(x))
    parts = [np.asarray(part) for part in x]
    expected = collectives.all_reduce(parts, "trn3", range(4), order="index").outputs[0]
    assert found.tobytes() == expected.tobytes()


def loss(weights: Any, x: Any, y: Any) -> Any:
    hidden = jnp.tanh(x @ weights["up"])
    return jnp.square(hidden @ weights["down"] - y).mean()


def state() -> tuple[dict[str, Any], Any, Any]:
    weights = {"up": numbers(8, 16, seed=1) / 4, "down": numbers(16, 1, seed=2) / 4}
    x = numbers(32, 8, seed=3)
    return weights, x, x.sum(1, keepdims=True)


def test_a_data_parallel_step_is_that_of_the_whole_batch() -> None:
    """Gradients go through the ranks' sums, by JAX's own rules of differentiation."""

    def parted(weights: Any, x: Any, y: Any) -> Any:
        return lax.pmean(loss(weights, x, y), "data")

    def step(weights: Any, x: Any, y: Any) -> Any:
        value, gradient = jax.value_and_grad(parted)(weights, x, y)
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradient), value

    mesh = trn3.jax.mesh({"data": 4})
    specs = (P(), P("data"), P("data"))
    ranked = trn3.jax.compile(shard_map(step, mesh=mesh, in_specs=specs, out_specs=(P(), P())))
    weights, x, y = state()
    found, value = ranked(weights, x, y)
    expected_value, gradient = jax.value_and_grad(loss)(weights, x, y)
    np.testing.assert_allclose(value, expected_value, rtol=1e-5)
    for name, weight in weights.items():
        expected = weight - 0.1 * gradient[name]
        np.testing.assert_allclose(found[name], expected, rtol=1e-4, atol=1e-6)
    assert ranked.graph(weights, x, y).ranks == 4


def test_gradients_of_a_function_on_ranks() -> None:
    """What stands around the ranks' part is computed whole, or on parts where it may be."""
    mesh = trn3.jax.mesh({"data": 4})
    parted = shard_map(
        lambda w, x: lax.psum(jnp.tanh(x @ w).sum(), "data"),
        mesh=mesh, in_specs=(P(), P("data")), out_specs=P(),
    )  # fmt: skip

    def step(w: Any, x: Any) -> Any:
        value, gradient = jax.value_and_grad(lambda w: parted(w, x) / 3)(w)
        return w - 0.5 * gradient, value, (x * 2).sum(0), x.T

    w, x = numbers(8, 4), numbers(16, 8, seed=1)
    found = trn3.jax.compile(step)(w, x)
    value, gradient = jax.value_and_grad(lambda w: jnp.tanh(x @ w).sum() / 3)(w)
    expected = (w - 0.5 * gradient, value, (x * 2).sum(0), x.T)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_two_axes_and_parts_that_are_gathered() -> None:
    """Rows and columns on a mesh of two axes, cut and put together again."""
    mesh = trn3.jax.mesh({"data": 2, "model": 3})

    def own(x: Any, w: Any) -> Any:
        return lax.psum(x @ w, "model")

    specs = (P("data", "model"), P("model", None))
    product = shard_map(own, mesh=mesh, in_specs=specs, out_specs=P("data", None))
    kept = shard_map(
        lambda x: x * 2, mesh=mesh, in_specs=P(("model", "data")), out_specs=P(("model", "data"))
    )

    def step(x: Any, w: Any) -> Any:
        y = kept(x.T)
        return product(x, w).T, y + 1, y.sum()

    x, w = numbers(6, 12), numbers(12, 5, seed=1)
    found = trn3.jax.compile(step)(x, w)
    for one, other in zip(found, ((x @ w).T, x.T * 2 + 1, (x.T * 2).sum()), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_ranks_meet_in_loops() -> None:
    """A scan whose body adds over ranks."""

    def own(x: Any) -> Any:
        def turn(carry: Any, row: Any) -> Any:
            carry = jnp.tanh(carry + lax.psum(row, "data"))
            return carry, carry.sum()

        return lax.scan(turn, jnp.zeros(5), x[0])

    x = numbers(3, 7, 5)
    carry, sums = trn3.jax.compile(on_ranks(own, 3, P("data"), (P(), P())))(x)
    expected = jax.vmap(lambda part: own(part[None]), axis_name="data")(x)
    np.testing.assert_allclose(carry, expected[0][0], rtol=1e-5)
    np.testing.assert_allclose(sums, expected[1][0], rtol=1e-5)


def test_ranks_that_do_not_meet_are_refused() -> None:
    """No run hangs: the line of the collective that waits is named."""

    def own(x: Any) -> Any:
        first = lax.axis_index("data") == 0
        return lax.cond(first, lambda x: lax.psum(x, "data"), lambda x: x, x)

    function = trn3.jax.compile(on_ranks(own, 2, P("data"), P("data")))
    with pytest.raises(GraphError, match=r"all_reduce: rank 0 waits in vain: rank 1 has ended"):
        function(numbers(2, 3))


def test_by_instructions_ranks_have_the_same_bits_and_collectives_their_time() -> None:
    """The account has the collective, its line, its bytes and the system's own time."""

    def own(w: Any, x: Any) -> Any:
        return lax.psum(x.T @ jnp.tanh(x @ w), "data"), x * 2

    mesh = trn3.jax.mesh({"data": 4})
    function = shard_map(own, mesh=mesh, in_specs=(P(), P("data")), out_specs=(P(), P("data")))
    w = jnp.asarray(numbers(64, 96)).astype(jnp.bfloat16)
    x = jnp.asarray(numbers(128, 64, seed=1)).astype(jnp.bfloat16)
    expected = trn3.jax.compile(function)(w, x)
    found, step = trn3.jax.profile(function, w, x, system="trn3")
    for one, other in zip(found, expected, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    (cost,) = [cost for cost in step.account() if cost.template == "collective"]
    assert Path(cost.line.rpartition(":")[0]).name == Path(__file__).name
    size = 64 * 96 * 2
    seconds = collectives.time("all_reduce", size, "trn3", range(4)).time
    assert cost.busy_us == pytest.approx(seconds * 1e6, rel=1e-3)
    assert cost.hbm_bytes == 2 * size
    assert step.latency_us > cost.busy_us


def test_large_meshes_are_timed_without_values() -> None:
    """A step of 64 ranks takes no arrays of them; with more ranks a sum takes longer."""

    def timed(ranks: int) -> Any:
        function = on_ranks(lambda x: lax.psum(jnp.tanh(x), "data"), ranks, P("data"), P())
        return trn3.jax.compile(function, system="trn3_gen2").time(
            ShapeDtype((128 * ranks, 1024), jnp.bfloat16)
        )

    costs = [step.account()[-1] for step in (timed(8), timed(64))]
    assert [cost.template for cost in costs] == ["collective"] * 2
    assert 0 < costs[0].busy_us < costs[1].busy_us


def test_shapes_alone_have_no_values() -> None:
    """They are refused where values are asked for."""
    with pytest.raises(TypeError, match=r"ShapeDtypeStruct, which has no values; allowed: time"):
        trn3.jax.compile(jnp.tanh)(ShapeDtype((3,), jnp.float32))


def test_constraints_are_computed_whole_and_have_no_time() -> None:
    """NamedSharding outside of shard_map: exact values, and no profile."""
    mesh = trn3.jax.mesh({"data": 4})

    def function(x: Any) -> Any:
        return lax.with_sharding_constraint(x * 2, NamedSharding(mesh, P("data"))).sum()

    x = numbers(8, 3)
    np.testing.assert_allclose(trn3.jax.compile(function)(x), (x * 2).sum(), rtol=1e-5)
    with pytest.raises(GraphError, match=r"test_ranks\.py:\d+: sharding_constraint: cuts what is"):
        trn3.jax.profile(function, x)


def test_wrong_meshes_are_refused() -> None:
    with pytest.raises(ValueError, match="axis 'data' has length 0"):
        trn3.jax.mesh({"data": 0})
