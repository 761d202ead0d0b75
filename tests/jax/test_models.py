"""Steps of models: values and gradients within the format's bounds of JAX in float64."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import trn3.jax
from support.jax_values import (
    BFLOAT16,
    FLOAT32,
    GRADIENT,
    assert_close,
    assert_types,
    in_float64,
)

HEADS, WIDTH, VOCABULARY, LENGTH = 2, 16, 11, 6


def normal(*shape: int) -> Any:
    seed = sum(shape)
    return (np.random.default_rng(seed).standard_normal(shape) / 4).astype(np.float32)


def decoder_weights() -> dict[str, Any]:
    blocks = {
        "norm": np.ones((2, WIDTH), np.float32),
        "qkv": normal(2, WIDTH, 3 * WIDTH),
        "out": normal(2, WIDTH, WIDTH),
        "up": normal(2, WIDTH, 2 * WIDTH),
        "down": normal(2, 2 * WIDTH, WIDTH),
    }
    return {"embedding": normal(VOCABULARY, WIDTH), "blocks": blocks}


def norm(x: Any, scale: Any) -> Any:
    return x * lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-5) * scale


def block(x: Any, w: dict[str, Any]) -> Any:
    q, k, v = jnp.split((norm(x, w["norm"]) @ w["qkv"]).reshape(*x.shape[:2], HEADS, -1), 3, -1)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1]).astype(q.dtype)
    causal = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    weights = jax.nn.softmax(jnp.where(causal, scores, -1e9), axis=-1)
    x = x + jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape) @ w["out"]
    return x + jax.nn.gelu(norm(x, w["norm"]) @ w["up"]) @ w["down"]


def loss(weights: dict[str, Any], tokens: Any) -> Any:
    x = weights["embedding"][tokens[:, :-1]]
    x, _ = lax.scan(lambda x, w: (block(x, w), None), x, weights["blocks"])
    chances = jax.nn.log_softmax(x @ weights["embedding"].T)
    return -jnp.take_along_axis(chances, tokens[:, 1:, None], -1).mean()


TOKENS = np.random.default_rng(5).integers(0, VOCABULARY, (2, LENGTH + 1)).astype(np.int32)


def test_a_decoder_and_its_gradients() -> None:
    """Embedding, scanned blocks, attention, loss; gathers and scatters go back through."""
    weights = decoder_weights()
    step = jax.value_and_grad(loss)
    found = trn3.jax.compile(step)(weights, TOKENS)
    assert_types(found, jax.jit(step)(weights, TOKENS))
    expected = in_float64(step, weights, TOKENS)
    assert_close(found[0], expected[0], FLOAT32)
    assert_close(found[1], expected[1], GRADIENT)


def test_a_gradient_is_the_slope() -> None:
    """Central differences along one direction, of the loss in float64."""
    weights = decoder_weights()
    direction = jax.tree_util.tree_map(lambda w: normal(*w.shape[::-1]).T, weights)
    gradient = trn3.jax.compile(jax.grad(loss))(weights, TOKENS)
    products = jax.tree_util.tree_map(lambda g, d: float((g * d).sum()), gradient, direction)
    slope = sum(jax.tree_util.tree_leaves(products))

    def at(step: float) -> float:
        moved = jax.tree_util.tree_map(lambda w, d: w + np.float64(step) * d, weights, direction)
        return float(in_float64(loss, moved, TOKENS))

    assert slope == pytest.approx((at(1e-4) - at(-1e-4)) / 2e-4, rel=GRADIENT)


def test_a_decoder_in_bfloat16() -> None:
    weights = jax.tree_util.tree_map(lambda w: jnp.asarray(w, jnp.bfloat16), decoder_weights())
    found = trn3.jax.compile(loss)(weights, TOKENS)
    assert_types(found, jax.jit(loss)(weights, TOKENS))
    assert_close(found, in_float64(loss, weights, TOKENS), BFLOAT16)


def test_steps_of_a_classifier_with_an_optimiser() -> None:
    """Adam by hand, on what the step itself gave before: the loss falls as in float64."""
    x = normal(32, 8)
    y = (x.sum(1) > 0).astype(np.int32)
    weights = [{"w": normal(8, 12), "b": np.zeros(12, np.float32)}, {"w": normal(12, 2)}]

    def cost(weights: Any, x: Any, y: Any) -> Any:
        hidden = jax.nn.relu(x @ weights[0]["w"] + weights[0]["b"])
        return -(jax.nn.one_hot(y, 2) * jax.nn.log_softmax(hidden @ weights[1]["w"])).sum(-1).mean()

    def step(state: Any, x: Any, y: Any) -> Any:
        weights, mean, square, count = state
        value, gradient = jax.value_and_grad(cost)(weights, x, y)
        count = count + 1
        of = jax.tree_util.tree_map
        mean = of(lambda m, g: 0.9 * m + 0.1 * g, mean, gradient)
        square = of(lambda s, g: 0.99 * s + 0.01 * g * g, square, gradient)

        def moved(w: Any, m: Any, s: Any) -> Any:
            return w - 0.05 * (m / (1 - 0.9**count)) / (jnp.sqrt(s / (1 - 0.99**count)) + 1e-5)

        return (of(moved, weights, mean, square), mean, square, count), value

    zeros = jax.tree_util.tree_map(np.zeros_like, weights)
    compiled, state = trn3.jax.compile(step), (weights, zeros, zeros, np.int32(0))
    exact, losses, expected = state, [], []
    for _ in range(5):
        state, value = compiled(state, x, y)
        exact, truth = in_float64(step, exact, x, y)
        losses.append(float(value))
        expected.append(float(truth))
    assert losses == pytest.approx(expected, rel=FLOAT32)
    assert losses[-1] < 0.8 * losses[0]
