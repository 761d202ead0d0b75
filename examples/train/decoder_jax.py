"""A decoder in plain JAX, and a step of its training by a recipe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from training_recipes import DecoderSize, TrainingRecipe
from trn3.jax import mx_dot, stochastic_convert

Weights = dict[str, jax.Array]
State = dict[str, Any]

FIRST, SECOND, SMALL = 0.9, 0.95, 1e-8
# Draws of the update are others than those of products.
_UPDATE_STREAM = 1 << 20


def new_weights(size: DecoderSize, words: int, seed: int) -> Weights:
    """Return weights of float32, drawn from JAX's own generator."""
    shapes = size.shapes(words)
    keys = jax.random.split(jax.random.key(seed), len(shapes))
    drawn = zip(keys, shapes.items(), strict=True)
    return {name: _new(key, name, shape, size.layers) for key, (name, shape) in drawn}


def _new(key: jax.Array, name: str, shape: tuple[int, ...], layers: int) -> jax.Array:
    if len(shape) == 1:
        return jnp.ones(shape)
    # What adds to the residual stream starts small.
    share = (2 * layers) ** -0.5 if name.endswith(("out", "down")) else 1.0
    spread = 0.1 if name in {"table", "places"} else share * shape[0] ** -0.5
    return jax.random.normal(key, shape) * spread


def norm(x: jax.Array, gain: jax.Array) -> jax.Array:
    """Return rows divided by the root of the mean of their squares, times a gain."""
    wide = x.astype(jnp.float32)
    scaled = wide * jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-6)
    return scaled.astype(x.dtype) * gain


def loss(
    weights: Weights,
    probes: Weights,
    tokens: jax.Array,
    seed: jax.Array,
    recipe: TrainingRecipe,
    size: DecoderSize,
) -> jax.Array:
    """Return the mean surprise at each next token of ``[batch, context + 1]``, in nats."""
    given, wanted = tokens[:, :-1], tokens[:, 1:]
    batch, length = given.shape
    streams = {name: place for place, name in enumerate(size.linear_layers())}

    def linear(name: str, x: jax.Array) -> jax.Array:
        config = recipe.config(name)
        if config is None:
            return x @ weights[name]
        return mx_dot(x, weights[name], config, seed=seed, stream=streams[name], probe=probes[name])

    x = weights["table"][given.reshape(-1)]
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
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), wanted.reshape(-1, 1), axis=1)
    return -picked.mean()


def new_state(recipe: TrainingRecipe, size: DecoderSize, words: int, seed: int) -> State:
    """Return weights as they are kept, and the two moments of their gradients."""
    weights = new_weights(size, words, seed)
    kept = jnp.float32 if recipe.masters else recipe.dtype
    return {
        "weights": {name: weight.astype(kept) for name, weight in weights.items()},
        "first": {name: jnp.zeros_like(weight) for name, weight in weights.items()},
        "second": {name: jnp.zeros_like(weight) for name, weight in weights.items()},
    }


def gradients_of(
    recipe: TrainingRecipe, size: DecoderSize
) -> Callable[[Weights, jax.Array, jax.Array], tuple[jax.Array, Weights, jax.Array]]:
    """Return what gives the loss, its gradients in float32, and the shares clipped.

    The shares are ``[3, 2]``, means over the layers: of the forward product, of the gradients of
    input and weights, and in each of the moving and the stationary operand.
    """

    def gradients(
        weights: Weights, tokens: jax.Array, seed: jax.Array
    ) -> tuple[jax.Array, Weights, jax.Array]:
        cast = {name: weight.astype(recipe.dtype) for name, weight in weights.items()}
        probes = {name: jnp.zeros((3, 2)) for name in size.linear_layers()}
        value, (found, clipped) = jax.value_and_grad(loss, (0, 1))(
            cast, probes, tokens, seed, recipe, size
        )
        wide = {name: gradient.astype(jnp.float32) for name, gradient in found.items()}
        return value, wide, jnp.stack(list(clipped.values())).mean(0)

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


def step_of(recipe: TrainingRecipe, size: DecoderSize) -> Callable[..., Any]:
    """Return a whole step: state, loss, norm of the gradients, shares clipped."""
    gradients, update = gradients_of(recipe, size), update_of(recipe)

    def step(
        state: State, tokens: jax.Array, count: jax.Array, rate: jax.Array, seed: jax.Array
    ) -> tuple[State, jax.Array, jax.Array, jax.Array]:
        value, found, clipped = gradients(state["weights"], tokens, seed)
        state, size_of_all = update(state, found, count, rate, seed)
        return state, value, size_of_all, clipped

    return step
