"""A decoder of 10 million parameters in JAX, with its step of training: nothing of trn3.

Float32 weights and moments (AdamW), and a type that everything between the weights and the loss is
computed in. Whoever runs the step says how products are computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from decoder_sizes import BETAS, DECAY, EPSILON, RATE, Sizes

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Weights = dict[str, NDArray[np.float32]]


def norm(x: Any, gain: Any) -> Any:
    wide = x.astype(jnp.float32)
    scale = jax.lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + EPSILON)
    return (wide * scale * gain).astype(x.dtype)


def block(sizes: Sizes, x: Any, w: dict[str, Any]) -> Any:
    batch, length, width = x.shape
    mixed = (norm(x, w["norm_a"]) @ w["qkv"]).reshape(batch, length, 3, sizes.heads, -1)
    q, k, v = (mixed[:, :, part].swapaxes(1, 2) for part in range(3))
    scores = (q @ k.swapaxes(2, 3)).astype(jnp.float32) / sizes.head**0.5
    causal = jnp.tril(jnp.ones((length, length), bool))
    chances = jax.nn.softmax(jnp.where(causal, scores, -1e9), axis=-1).astype(x.dtype)
    x = x + (chances @ v).swapaxes(1, 2).reshape(batch, length, width) @ w["out"]
    return x + jax.nn.gelu(norm(x, w["norm_b"]) @ w["up"]) @ w["down"]


def loss(sizes: Sizes, dtype: Any, weights: dict[str, Any], tokens: Any) -> Any:
    # Gains are of norms, which are of float32 throughout.
    cast = {name: w if "norm" in name else w.astype(dtype) for name, w in weights.items()}
    x = cast["embedding"][tokens[:, :-1]] + cast["positions"]
    for layer in range(sizes.layers):
        prefix = f"{layer}."
        own = {name.removeprefix(prefix): w for name, w in cast.items() if name.startswith(prefix)}
        x = block(sizes, x, own)
    logits = (norm(x, cast["norm"]) @ cast["embedding"].T).astype(jnp.float32)
    chances = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(chances, tokens[:, 1:, None], -1).mean()


def step(sizes: Sizes, dtype: Any) -> Callable[..., Any]:
    """Return (weights, means, squares, count, tokens) -> those four after AdamW, and the loss."""

    def run(weights: Any, means: Any, squares: Any, count: Any, tokens: Any) -> Any:
        value, slopes = jax.value_and_grad(lambda w: loss(sizes, dtype, w, tokens))(weights)
        count = count + 1
        of = jax.tree_util.tree_map
        means = of(lambda m, g: BETAS[0] * m + (1 - BETAS[0]) * g, means, slopes)
        squares = of(lambda s, g: BETAS[1] * s + (1 - BETAS[1]) * g * g, squares, slopes)
        of_mean, of_square = 1 - BETAS[0] ** count, 1 - BETAS[1] ** count

        def moved(w: Any, m: Any, s: Any) -> Any:
            return w - RATE * (m / of_mean / (jnp.sqrt(s / of_square) + EPSILON) + DECAY * w)

        return of(moved, weights, means, squares), means, squares, count, value

    return run


def state(weights: Weights) -> tuple[Any, Any, Any, Any]:
    """Return weights, moments and count before the first step, as arrays of JAX."""
    arrays = jax.tree_util.tree_map(jnp.asarray, weights)
    zeros = jax.tree_util.tree_map(jnp.zeros_like, arrays)
    return arrays, zeros, zeros, jnp.float32(0)
