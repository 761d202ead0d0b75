"""What torch's own layers call as one operator when they are evaluated, as the steps that it is."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional

__all__ = ["FAST_PATHS"]


def _masked(scores: Any, mask: Any, mask_type: int | None) -> Any:
    """Hide scores: by pairs of places (0), by places of keys (1), or by all axes (2)."""
    if mask is None:
        return scores
    hidden = mask[:, None, None, :] if mask_type == 1 else mask
    if hidden.dtype != torch.bool:
        return scores + hidden
    return scores.masked_fill(hidden, -math.inf)


def _attention(
    query: Any,
    key: Any,
    value: Any,
    embed_dim: int,
    num_head: int,
    qkv_weight: Any,
    qkv_bias: Any,
    proj_weight: Any,
    proj_bias: Any,
    mask: Any = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Any, Any]:
    parts = zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)
    heads = []
    for x, weight, bias in parts:
        shape = (x.shape[0], x.shape[1], num_head, embed_dim // num_head)
        heads.append(functional.linear(x, weight, bias).view(shape).transpose(1, 2))
    q, k, v = heads
    scores = (q / math.sqrt(embed_dim // num_head)) @ k.transpose(-2, -1)
    chances = torch.softmax(_masked(scores, mask, mask_type), -1)
    mixed = (chances @ v).transpose(1, 2).reshape(query.shape)
    weights = chances.mean(1) if average_attn_weights else chances
    made = functional.linear(mixed, proj_weight, proj_bias)
    return made, weights if need_weights else query.new_empty(0)


def _layer(
    src: Any,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Any,
    qkv_bias: Any,
    proj_weight: Any,
    proj_bias: Any,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Any,
    norm_bias_1: Any,
    norm_weight_2: Any,
    norm_bias_2: Any,
    ffn_weight_1: Any,
    ffn_bias_1: Any,
    ffn_weight_2: Any,
    ffn_bias_2: Any,
    mask: Any = None,
    mask_type: int | None = None,
) -> Any:
    size = (src.shape[-1],)
    own = (embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask)

    def attended(x: Any) -> Any:
        return _attention(x, x, x, *own, need_weights=False, mask_type=mask_type)[0]

    def fed(x: Any) -> Any:
        inner = functional.linear(x, ffn_weight_1, ffn_bias_1)
        inner = functional.gelu(inner) if use_gelu else functional.relu(inner)
        return functional.linear(inner, ffn_weight_2, ffn_bias_2)

    def normed(x: Any, weight: Any, bias: Any) -> Any:
        return functional.layer_norm(x, size, weight, bias, eps)

    if norm_first:
        x = src + attended(normed(src, norm_weight_1, norm_bias_1))
        return x + fed(normed(x, norm_weight_2, norm_bias_2))
    x = normed(src + attended(src), norm_weight_1, norm_bias_1)
    return normed(x + fed(x), norm_weight_2, norm_bias_2)


# Decompositions, by operator.
FAST_PATHS: dict[Any, Any] = {
    torch.ops.aten._native_multi_head_attention.default: _attention,
    torch.ops.aten._transformer_encoder_layer_fwd.default: _layer,
}
