"""A step of training of a small decoder, written in JAX, on one simulated NeuronCore.

Loss and gradients are computed by instructions, with the bits that the same step has operation by
operation; the account says which line of the model costs what. The report is written beside the
demo's other files, into ``build/demo/step.html``. Needs JAX: ``pip install "trn3[jax]"``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console

import trn3.jax

OUTPUT = Path(__file__).resolve().parent.parent / "build" / "demo"
TOKENS, WIDTH, HEADS, WORDS = 128, 256, 4, 512
RATE = 0.1

Weights = dict[str, jax.Array]


def new_weights() -> Weights:
    """Return weights of bfloat16, drawn from JAX's own generator."""
    shapes = {
        "table": (WORDS, WIDTH),
        "qkv": (WIDTH, 3 * WIDTH),
        "out": (WIDTH, WIDTH),
        "up": (WIDTH, 4 * WIDTH),
        "down": (4 * WIDTH, WIDTH),
    }
    keys = jax.random.split(jax.random.key(0), len(shapes))
    return {
        name: (jax.random.normal(key, shape) / shape[0] ** 0.5).astype(jnp.bfloat16)
        for key, (name, shape) in zip(keys, shapes.items(), strict=True)
    }


def norm(x: jax.Array) -> jax.Array:
    """Return rows divided by the root of the mean of their squares."""
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-6)).astype(x.dtype)


def loss(weights: Weights, tokens: jax.Array) -> jax.Array:
    """Return the mean surprise at each next token."""
    x = weights["table"][tokens[:-1]]
    queries, keys, values = jnp.split(
        (norm(x) @ weights["qkv"]).reshape(-1, HEADS, 3 * WIDTH // HEADS), 3, axis=-1
    )
    scores = jnp.einsum("qhd,khd->hqk", queries, keys) / (WIDTH // HEADS) ** 0.5
    scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
    mixed = jnp.einsum("hqk,khd->qhd", jax.nn.softmax(scores, axis=-1), values)
    x = x + mixed.reshape(-1, WIDTH) @ weights["out"]
    x = x + jax.nn.gelu(norm(x) @ weights["up"]) @ weights["down"]
    logits = (norm(x) @ weights["table"].T).astype(jnp.float32)
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[1:, None], axis=1)
    return -picked.mean()


def step(weights: Weights, tokens: jax.Array) -> tuple[Weights, jax.Array]:
    """Return the weights after a step of gradient descent, and the loss before it."""
    value, gradients = jax.value_and_grad(loss)(weights, tokens)
    return jax.tree.map(lambda w, g: w - RATE * g, weights, gradients), value


def main() -> None:
    """Run the step both ways and print its account."""
    weights = new_weights()
    tokens = jax.random.randint(jax.random.key(1), (TOKENS + 1,), 0, WORDS)
    (by_instructions, value), cost = trn3.jax.profile(step, weights, tokens)
    by_operation, _ = trn3.jax.compile(step)(weights, tokens)
    same: Any = jax.tree.map(
        lambda one, other: np.asarray(one).tobytes() == np.asarray(other).tobytes(),
        by_instructions,
        by_operation,
    )
    console = Console()
    console.print(cost.table(most=12))
    fallbacks = [row for row in cost.account() if row.is_fallback]
    print(f"loss {float(value):.4f}; every bit as by operation: {all(jax.tree.leaves(same))}")
    print(f"{len(fallbacks)} of {len(cost.account())} operations are functions of GpSimdE")
    OUTPUT.mkdir(parents=True, exist_ok=True)
    cost.to_html(str(OUTPUT / "step.html"))
    print(f"wrote {(OUTPUT / 'step.html').relative_to(OUTPUT.parents[1])}")


if __name__ == "__main__":
    main()
