"""A decoder in plain JAX, and a step of its training by a recipe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.sharding import PartitionSpec

import trn3.jax
from initial_weights import initial_weights
from training_recipes import FIRST, SECOND, SMALL, DecoderSize, TrainingRecipe
from trn3.jax import mx_dot, stochastic_convert

Weights = dict[str, jax.Array]
State = dict[str, Any]

# Draws of the update are others than those of products.
_UPDATE_STREAM = 1 << 20
# The axis of the mesh that batches are cut along.
RANKS = "ranks"
# JAX's own signatures are untyped in part.
P: Any = PartitionSpec
lax: Any = jax.lax


def norm(x: jax.Array, gain: jax.Array) -> jax.Array:
    """Return rows divided by the root of the mean of their squares, times a gain."""
    wide = x.astype(jnp.float32)
    scaled: jax.Array = wide * lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-6)
    return scaled.astype(x.dtype) * gain


def loss(
    weights: Weights,
    probes: Weights | None,
    tokens: jax.Array,
    seed: jax.Array,
    recipe: TrainingRecipe,
    size: DecoderSize,
) -> jax.Array:
    """Return the mean surprise at each next token of ``[batch, context + 1]``, in nats.

    With `probes`, zeros, what is clipped is counted: it is their gradient.
    """
    given, wanted = tokens[:, :-1], tokens[:, 1:]
    batch, length = given.shape
    streams = {name: place for place, name in enumerate(size.linear_layers())}

    def linear(name: str, x: jax.Array) -> jax.Array:
        config = recipe.config(name)
        if config is None:
            return x @ weights[name]
        probe = None if probes is None else probes[name]
        return mx_dot(x, weights[name], config, seed=seed, stream=streams[name], probe=probe)

    # Of products and comparisons: no address depends on data, so that time needs no values.
    table = weights["table"]
    x = (given.reshape(-1, 1) == jnp.arange(len(table))).astype(table.dtype) @ table
    x = x + jnp.tile(weights["places"][:length], (batch, 1))
    mask = jnp.tril(jnp.ones((length, length), bool))
    for layer in range(size.layers):
        rows = linear(f"{layer}.qkv", norm(x, weights[f"{layer}.norm_in"]))
        heads = rows.reshape(batch, length, size.heads, -1).transpose(0, 2, 1, 3)
        queries, keys, values = jnp.split(heads, 3, axis=-1)
        scores = jnp.einsum("bhqd,bhkd->bhqk", queries, keys).astype(jnp.float32)
        scores = jnp.where(mask, scores * queries.shape[-1] ** -0.5, -1e30)
        chances = jax.nn.softmax(scores, axis=-1).astype(x.dtype)
        mixed = jnp.einsum("bhqk,bhkd->bhqd", chances, values)
        mixed = mixed.transpose(0, 2, 1, 3).reshape(batch * length, size.width)
        x = x + linear(f"{layer}.out", mixed)
        wide = jax.nn.gelu(linear(f"{layer}.up", norm(x, weights[f"{layer}.norm_up"])))
        x = x + linear(f"{layer}.down", wide)
    logits = linear("head", norm(x, weights["norm"])).astype(jnp.float32)
    is_wanted = wanted.reshape(-1, 1) == jnp.arange(logits.shape[1])
    picked = jnp.where(is_wanted, jax.nn.log_softmax(logits), 0.0)
    return -picked.sum(1).mean()


def new_state(recipe: TrainingRecipe, size: DecoderSize, words: int, seed: int) -> State:
    """Return weights as they are kept, and the two moments of their gradients, in float32."""
    kept = jnp.float32 if recipe.masters else recipe.dtype
    drawn = initial_weights(size, words, seed)
    return {
        "weights": {name: jnp.asarray(weight).astype(kept) for name, weight in drawn.items()},
        "first": {name: jnp.zeros(weight.shape) for name, weight in drawn.items()},
        "second": {name: jnp.zeros(weight.shape) for name, weight in drawn.items()},
    }


def cast(weights: Weights, recipe: TrainingRecipe) -> Weights:
    """Return weights as products take them."""
    return {name: weight.astype(recipe.dtype) for name, weight in weights.items()}


def gradients_of(
    recipe: TrainingRecipe, size: DecoderSize, *, counts: bool = True
) -> Callable[[Weights, jax.Array, jax.Array], tuple[jax.Array, Weights, jax.Array]]:
    """Return what gives the loss, its gradients in float32, and the shares clipped.

    The shares are ``[3, 2]``, means over the layers: of the forward product, of the gradients of
    input and weights, and in each of the moving and the stationary operand. Zeros stand for them
    where nothing `counts`: the hardware has no instruction that does.
    """

    def gradients(
        weights: Weights, tokens: jax.Array, seed: jax.Array
    ) -> tuple[jax.Array, Weights, jax.Array]:
        probes = {name: jnp.zeros((3, 2)) for name in size.linear_layers()} if counts else None
        value, (found, clipped) = jax.value_and_grad(loss, (0, 1))(
            cast(weights, recipe), probes, tokens, seed, recipe, size
        )
        wide = {name: gradient.astype(jnp.float32) for name, gradient in found.items()}
        shares = jnp.stack(list(clipped.values())).mean(0) if counts else jnp.zeros((3, 2))
        return value, wide, shares

    return gradients


def update_of(
    recipe: TrainingRecipe,
) -> Callable[[State, Weights, jax.Array, jax.Array, jax.Array], tuple[State, jax.Array]]:
    """Return what makes a step of Adam, and gives the norm of the gradients."""

    def update(
        state: State, gradients: Weights, count: jax.Array, rate: jax.Array, seed: jax.Array
    ) -> tuple[State, jax.Array]:
        made: State = {"weights": {}, "first": {}, "second": {}}
        squares = jnp.zeros(())
        for place, (name, gradient) in enumerate(gradients.items()):
            first = FIRST * state["first"][name] + (1 - FIRST) * gradient
            second = SECOND * state["second"][name] + (1 - SECOND) * gradient * gradient
            scaled = first / (1 - FIRST**count)
            scaled = scaled / (jnp.sqrt(second / (1 - SECOND**count)) + SMALL)
            weight = state["weights"][name]
            moved = weight.astype(jnp.float32) - rate * scaled
            if recipe.rounding == "stochastic":
                moved = stochastic_convert(moved, weight.dtype, seed, _UPDATE_STREAM + place)
            made["weights"][name] = moved.astype(weight.dtype)
            made["first"][name], made["second"][name] = first, second
            squares = squares + (gradient * gradient).sum()
        return made, jnp.sqrt(squares)

    return update


def step_of(
    recipe: TrainingRecipe, size: DecoderSize, ranks: int = 1, *, counts: bool = True
) -> Callable[..., Any]:
    """Return a whole step: state, loss, norm of the gradients, shares clipped.

    Of several `ranks` each learns from its part of the tokens, with draws of its own; gradients are
    averaged, and every rank makes the same update.
    """
    gradients, update = gradients_of(recipe, size, counts=counts), update_of(recipe)

    def step(
        state: State, tokens: jax.Array, count: jax.Array, rate: jax.Array, seed: jax.Array
    ) -> tuple[State, jax.Array, jax.Array, jax.Array]:
        own = seed
        if ranks > 1:
            own = seed * ranks + lax.axis_index(RANKS).astype(seed.dtype)
        found = gradients(state["weights"], tokens, own)
        if ranks > 1:
            # In one piece: every collective has a start of its own.
            flat, whole = ravel_pytree(found)
            found = whole(lax.psum(flat, RANKS) / ranks)
        value, mean, clipped = found
        state, size_of_all = update(state, mean, count, rate, seed)
        return state, value, size_of_all, clipped

    return step if ranks == 1 else _on_ranks(step, ranks)


def _on_ranks(step: Callable[..., Any], ranks: int) -> Callable[..., Any]:
    """Let every rank take a step, all with the same state and each with its part of the tokens."""
    specs = {"in_specs": (P(), P(RANKS), P(), P(), P()), "out_specs": P()}
    mesh = trn3.jax.mesh({RANKS: ranks})
    newer: Any = getattr(jax, "shard_map", None)
    if newer is not None:
        made: Callable[..., Any] = newer(step, mesh=mesh, **specs, check_vma=False)
    else:
        from jax.experimental import shard_map as older

        module: Any = older
        made = module.shard_map(step, mesh=mesh, **specs, check_rep=False)
    return made
