"""Models of Flax with optimisers of Optax, as they come."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import trn3.jax
from support.jax_values import FLOAT32, GRADIENT, assert_close, assert_types

nnx: Any = pytest.importorskip("flax.nnx")
linen: Any = pytest.importorskip("flax.linen")
optax: Any = pytest.importorskip("optax")

TOKENS = np.random.default_rng(3).integers(0, 11, (2, 6)).astype(np.int32)
IMAGES = np.random.default_rng(4).standard_normal((4, 6, 6, 2)).astype(np.float32)
LABELS = np.array([0, 2, 1, 2], np.int32)


class Block(nnx.Module):  # type: ignore[misc] - untyped library
    """Attention and a wide layer, each behind a norm, with dropout."""

    def __init__(self, rngs: Any) -> None:
        self.before = nnx.LayerNorm(8, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(2, 8, use_bias=False, decode=False, rngs=rngs)
        self.between = nnx.RMSNorm(8, rngs=rngs)
        self.up = nnx.Linear(8, 16, rngs=rngs)
        self.down = nnx.Linear(16, 8, rngs=rngs)
        self.dropout = nnx.Dropout(0.2, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        x = x + self.attention(self.before(x))
        return x + self.dropout(self.down(nnx.gelu(self.up(self.between(x)))))


class Decoder(nnx.Module):  # type: ignore[misc] - untyped library
    """An embedding, a block, and logits."""

    def __init__(self, rngs: Any) -> None:
        self.embedding = nnx.Embed(11, 8, rngs=rngs)
        self.block = Block(rngs)
        self.out = nnx.Linear(8, 11, rngs=rngs)

    def __call__(self, tokens: Any) -> Any:
        return self.out(self.block(self.embedding(tokens)))


class Convolutions(linen.Module):  # type: ignore[misc] - untyped library
    """Convolution, batch norm, pooling and dropout."""

    @linen.compact
    def __call__(self, x: Any) -> Any:
        x = linen.Conv(4, (3, 3), use_bias=False)(x)
        x = linen.relu(linen.BatchNorm(use_running_average=False)(x))
        x = linen.max_pool(x, (2, 2), (2, 2)).reshape(x.shape[0], -1)
        return linen.Dense(3)(linen.Dropout(0.3, deterministic=False)(x))


def plain(tree: Any) -> Any:
    """Return a tree with keys as their words."""
    is_key = jax.dtypes.prng_key
    return jax.tree.map(
        lambda x: jax.random.key_data(x) if jnp.issubdtype(x.dtype, is_key) else x, tree
    )


def test_a_transformer_of_nnx_with_adamw() -> None:
    """Parameters, moments and random states go in and come out; both ways, bit for bit.

    Some gradients are zero but for rounding, which a small `eps` would blow up.
    """
    model = Decoder(nnx.Rngs(0))
    optimiser = nnx.Optimizer(model, optax.adamw(1e-2, eps=1e-3), wrt=nnx.Param)
    (graph, state), (rules, moments) = nnx.split(model), nnx.split(optimiser)

    def step(state: Any, moments: Any, tokens: Any) -> Any:
        model, optimiser = nnx.merge(graph, state), nnx.merge(rules, moments)

        def loss(model: Any) -> Any:
            logits = model(tokens[:, :-1])
            losses = optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:])
            return losses.mean()

        value, gradient = nnx.value_and_grad(loss)(model)
        optimiser.update(model, gradient)
        return nnx.state(model), nnx.state(optimiser), value

    found = trn3.jax.compile(step)(state, moments, TOKENS)
    expected = jax.jit(step)(state, moments, TOKENS)
    assert_types(found, expected)
    assert_close(plain(found), plain(expected), GRADIENT)
    assert_close(found[2], expected[2], FLOAT32)
    other = trn3.jax.compile(step, mode="instructions")(state, moments, TOKENS)
    for x, y in zip(jax.tree.leaves(plain(other)), jax.tree.leaves(plain(found)), strict=True):
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes()


def test_a_classifier_of_linen() -> None:
    """Running statistics come out, and dropout draws JAX's own bits."""
    model, key = Convolutions(), jax.random.key(5)
    weights = model.init({"params": key, "dropout": key}, IMAGES)
    optimiser = optax.sgd(0.1, momentum=0.9)

    def step(weights: Any, moments: Any, key: Any) -> Any:
        def loss(params: Any) -> Any:
            variables = {**weights, "params": params}
            logits, kept = model.apply(
                variables, IMAGES, rngs={"dropout": key}, mutable=["batch_stats"]
            )
            losses = optax.softmax_cross_entropy_with_integer_labels(logits, LABELS)
            return losses.mean(), kept

        (value, kept), gradient = jax.value_and_grad(loss, has_aux=True)(weights["params"])
        updates, moments = optimiser.update(gradient, moments)
        return {**kept, "params": optax.apply_updates(weights["params"], updates)}, moments, value

    moments = optimiser.init(weights["params"])
    found = trn3.jax.compile(step)(weights, moments, key)
    expected = jax.jit(step)(weights, moments, key)
    assert_types(found, expected)
    assert_close(found, expected, GRADIENT)
    assert_close(found[2], expected[2], FLOAT32)
