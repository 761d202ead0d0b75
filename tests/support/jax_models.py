"""Whole models written plainly in JAX, with the shapes of their weights, which nobody makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

__all__ = ["LLAMA_70B", "DecoderShape", "decoder", "resnet50", "vision_transformer"]

# A function, and what it is called with: trees of shapes.
Step = tuple[Callable[..., Any], tuple[Any, ...]]


def shaped(*shape: int, dtype: Any = jnp.bfloat16) -> jax.ShapeDtypeStruct:
    """Return the shape and type of an array that nobody makes."""
    return jax.ShapeDtypeStruct(shape, dtype)


@dataclass(frozen=True)
class DecoderShape:
    """Lengths of a decoder with grouped queries and gated feed-forward networks."""

    layers: int
    width: int
    heads: int
    key_heads: int
    inner: int
    words: int
    tokens: int
    batch: int = 1

    @property
    def head(self) -> int:
        """Elements of a head."""
        return self.width // self.heads


LLAMA_70B = DecoderShape(80, 8192, 64, 8, 28_672, 32_000, 2048)


def _rms_norm(x: Any, scale: Any) -> Any:
    wide = x.astype(jnp.float32)
    unit = wide * lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + 1e-5)
    return unit.astype(x.dtype) * scale


def _rotated(x: Any) -> Any:
    """Turn pairs of a head's elements by an angle that grows with the position."""
    half = x.shape[-1] // 2
    rates = jnp.exp(jnp.arange(half, dtype=jnp.float32) * (-9.21 / half))
    angles = jnp.arange(x.shape[1], dtype=jnp.float32)[:, None] * rates
    cosine, sine = (part[:, None, :].astype(x.dtype) for part in (jnp.cos(angles), jnp.sin(angles)))
    low, high = x[..., :half], x[..., half:]
    return jnp.concatenate([low * cosine - high * sine, high * cosine + low * sine], axis=-1)


def _decoder_layer(x: Any, w: dict[str, Any], shape: DecoderShape) -> Any:
    batch, tokens = x.shape[:2]
    given = _rms_norm(x, w["attention_norm"])
    queries = _rotated((given @ w["query"]).reshape(batch, tokens, shape.heads, shape.head))
    keys = _rotated((given @ w["key"]).reshape(batch, tokens, shape.key_heads, shape.head))
    values = (given @ w["value"]).reshape(batch, tokens, shape.key_heads, shape.head)
    groups = queries.reshape(batch, tokens, shape.key_heads, -1, shape.head)
    scores = jnp.einsum("bqkgh,btkh->bkgqt", groups, keys).astype(jnp.float32)
    scores = scores * shape.head**-0.5
    is_past = jnp.tril(jnp.ones((tokens, tokens), bool))
    weights = jax.nn.softmax(jnp.where(is_past, scores, -jnp.inf), axis=-1).astype(x.dtype)
    mixed = jnp.einsum("bkgqt,btkh->bqkgh", weights, values).reshape(x.shape)
    x = x + mixed @ w["out"]
    given = _rms_norm(x, w["feed_forward_norm"])
    return x + (jax.nn.silu(given @ w["gate"]) * (given @ w["up"])) @ w["down"]


def decoder(shape: DecoderShape = LLAMA_70B, *, has_gradients: bool = False) -> Step:
    """Return the mean surprise of a decoder, layers written out, or that and its slope."""
    width, keys, inner = shape.width, shape.key_heads * shape.head, shape.inner
    layer = {
        "attention_norm": shaped(width),
        "query": shaped(width, width),
        "key": shaped(width, keys),
        "value": shaped(width, keys),
        "out": shaped(width, width),
        "feed_forward_norm": shaped(width),
        "gate": shaped(width, inner),
        "up": shaped(width, inner),
        "down": shaped(inner, width),
    }
    weights = {
        "table": shaped(shape.words, width),
        "norm": shaped(width),
        "layers": [layer] * shape.layers,
    }

    def loss(weights: dict[str, Any], tokens: Any) -> Any:
        x = weights["table"][tokens[:, :-1]]
        for w in weights["layers"]:
            x = _decoder_layer(x, w, shape)
        logits = (_rms_norm(x, weights["norm"]) @ weights["table"].T).astype(jnp.float32)
        chances = jax.nn.log_softmax(logits)
        return -jnp.take_along_axis(chances, tokens[:, 1:, None], axis=-1).mean()

    tokens = shaped(shape.batch, shape.tokens + 1, dtype=jnp.int32)
    return (jax.value_and_grad(loss) if has_gradients else loss), (weights, tokens)


def _layer_norm(x: Any, w: dict[str, Any]) -> Any:
    wide = x.astype(jnp.float32)
    mean = wide.mean(axis=-1, keepdims=True)
    centred = wide - mean
    unit = centred * lax.rsqrt(jnp.mean(centred * centred, axis=-1, keepdims=True) + 1e-6)
    return unit.astype(x.dtype) * w["scale"] + w["bias"]


def _dense(x: Any, w: dict[str, Any]) -> Any:
    return x @ w["kernel"] + w["bias"]


def vision_transformer(batch: int = 1, *, layers: int = 12, dtype: Any = jnp.bfloat16) -> Step:
    """Return ViT-B/16 of images of 224 x 224: classes by image."""
    width, heads, inner, classes, patch, side = 768, 12, 3072, 1000, 16, 14

    def of(*shape: int) -> jax.ShapeDtypeStruct:
        return shaped(*shape, dtype=dtype)

    def dense(takes: int, gives: int) -> dict[str, Any]:
        return {"kernel": of(takes, gives), "bias": of(gives)}

    norm = {"scale": of(width), "bias": of(width)}
    layer = {
        "norm1": norm,
        "query": dense(width, width),
        "key": dense(width, width),
        "value": dense(width, width),
        "out": dense(width, width),
        "norm2": norm,
        "up": dense(width, inner),
        "down": dense(inner, width),
    }
    weights = {
        "patches": dense(patch * patch * 3, width),
        "token": of(width),
        "places": of(side * side + 1, width),
        "layers": [layer] * layers,
        "norm": norm,
        "head": dense(width, classes),
    }

    def attention(x: Any, w: dict[str, Any]) -> Any:
        queries, keys, values = (
            _dense(x, w[name]).reshape(batch, -1, heads, width // heads)
            for name in ("query", "key", "value")
        )
        scores = jnp.einsum("bqhd,bkhd->bhqk", queries, keys).astype(jnp.float32)
        chances = jax.nn.softmax(scores * (width // heads) ** -0.5, axis=-1).astype(x.dtype)
        return jnp.einsum("bhqk,bkhd->bqhd", chances, values).reshape(x.shape)

    def classify(weights: dict[str, Any], images: Any) -> Any:
        cut = images.reshape(batch, side, patch, side, patch, 3).transpose(0, 1, 3, 2, 4, 5)
        x = _dense(cut.reshape(batch, side * side, -1), weights["patches"])
        first = jnp.broadcast_to(weights["token"], (batch, 1, width))
        x = jnp.concatenate([first, x], axis=1) + weights["places"]
        for w in weights["layers"]:
            x = x + _dense(attention(_layer_norm(x, w["norm1"]), w), w["out"])
            x = x + _dense(jax.nn.gelu(_dense(_layer_norm(x, w["norm2"]), w["up"])), w["down"])
        return _dense(_layer_norm(x[:, 0], weights["norm"]), weights["head"])

    return classify, (weights, of(batch, side * patch, side * patch, 3))


def _convolved(x: Any, kernel: Any, stride: int = 1) -> Any:
    numbers = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", dimension_numbers=numbers)


# Blocks of each stage, and their channels before the last convolution.
_STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))


def resnet50(batch: int = 1, *, dtype: Any = jnp.bfloat16) -> Step:
    """Return ResNet-50 of images of 224 x 224, norms as scale and bias: classes by image."""

    def of(*shape: int) -> jax.ShapeDtypeStruct:
        return shaped(*shape, dtype=dtype)

    def unit(size: int, takes: int, gives: int) -> dict[str, Any]:
        return {"kernel": of(size, size, takes, gives), "scale": of(gives), "bias": of(gives)}

    blocks: list[dict[str, Any]] = []
    strides: list[int] = []
    takes = 64
    for stage, (count, channels) in enumerate(_STAGES):
        for place in range(count):
            block = {
                "first": unit(1, takes, channels),
                "middle": unit(3, channels, channels),
                "last": unit(1, channels, 4 * channels),
            }
            if place == 0:
                block["shortcut"] = unit(1, takes, 4 * channels)
            blocks.append(block)
            strides.append(2 if stage and place == 0 else 1)
            takes = 4 * channels
    weights = {
        "stem": unit(7, 3, 64),
        "blocks": blocks,
        "head": {"kernel": of(takes, 1000), "bias": of(1000)},
    }

    def normed(x: Any, w: dict[str, Any], stride: int = 1) -> Any:
        return _convolved(x, w["kernel"], stride) * w["scale"] + w["bias"]

    def classify(weights: dict[str, Any], images: Any) -> Any:
        x = jax.nn.relu(normed(images, weights["stem"], 2))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        for w, stride in zip(weights["blocks"], strides, strict=True):
            inner = jax.nn.relu(normed(x, w["first"]))
            inner = jax.nn.relu(normed(inner, w["middle"], stride))
            shortcut = normed(x, w["shortcut"], stride) if "shortcut" in w else x
            x = jax.nn.relu(normed(inner, w["last"]) + shortcut)
        return _dense(x.mean(axis=(1, 2)), weights["head"])

    return classify, (weights, of(batch, 224, 224, 3))
