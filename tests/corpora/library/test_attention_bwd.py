"""Gradients of attention against their formulas in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernellib.attention.attention_bwd import attention_bwd
from support.library_cases import data, launched


def gradients(
    q: Any, k: Any, v: Any, dy: Any, sinks: Any, causal: bool, window: int
) -> tuple[dict[str, Any], Any, Any]:
    """Return gradients, output and log-sum-exp in float64; tensors are [bs, heads, d, S]."""
    q, k, v, dy = (x.astype(np.float64) for x in (q, k, v, dy))
    (batch, kv, _, size), group, scale = k.shape, q.shape[1] // k.shape[1], q.shape[2] ** -0.5
    keys, values = (x.repeat(group, axis=1) for x in (k, v))
    scores = np.einsum("bhdi,bhdj->bhij", q, keys) * scale
    i, j = np.arange(size)[:, None], np.arange(size)[None]
    hidden = (j > i) & causal | (j <= i - window) & (window > 0)
    scores[..., hidden] = -np.inf
    sink = np.asarray(sinks, np.float64)[None, :, None]
    lse = np.logaddexp(np.logaddexp.reduce(scores, axis=-1), sink)
    weights = np.exp(scores - lse[..., None])
    out = np.einsum("bhij,bhdj->bhdi", weights, values)
    d_weights = np.einsum("bhdi,bhdj->bhij", dy, values)
    moved = (d_weights * weights).sum(-1)
    d_scores = weights * (d_weights - moved[..., None]) * scale

    def of_group(gradient: Any) -> Any:
        return gradient.reshape(batch, kv, group, -1, size).sum(2)

    found = {
        "q": np.einsum("bhij,bhdj->bhdi", d_scores, keys),
        "k": of_group(np.einsum("bhij,bhdi->bhdj", d_scores, q)),
        "v": of_group(np.einsum("bhij,bhdi->bhdj", weights, dy)),
        "s": -(np.exp(sink - lse) * moved).sum((0, 2)),
    }
    return found, out, lse


@pytest.mark.parametrize("lnc", [None, 2])
@pytest.mark.parametrize(
    ("bs", "heads", "kv", "d", "size", "dtype", "causal", "window", "sinks"),
    [
        (2, 2, 1, 64, 256, "bfloat16", True, -1, False),
        (1, 2, 2, 128, 128, "float32", False, -1, True),
        (1, 4, 2, 32, 256, "float32", True, 100, False),
    ],
)
def test_attention_bwd(
    lnc: int | None,
    bs: int,
    heads: int,
    kv: int,
    d: int,
    size: int,
    dtype: str,
    causal: bool,
    window: int,
    sinks: bool,
) -> None:
    q, dy = (data(i, (bs, heads, d, size), dtype) for i in (0, 1))
    k, v = (data(i, (bs, kv, d, size), dtype) for i in (2, 3))
    sink = data(4, (heads, 1)) if sinks else None
    plain = np.full(heads, -1e9) if sink is None else sink[:, 0]
    expected, out, lse = gradients(q, k, v, dy, plain, causal, window)
    lse = lse.astype(np.float32).reshape(bs, heads, -1, 128).swapaxes(2, 3)
    results = launched(attention_bwd, lnc)(
        q, k, v, out.astype(q.dtype), dy, np.ascontiguousarray(lse),
        sinks_ref=sink, use_causal_mask=causal, sliding_window=window,
    )  # fmt: skip
    tolerance = 5e-2 if dtype == "bfloat16" else 2e-4
    for result, name in zip(results, "qkv", strict=False):
        error = np.abs(result.astype(np.float64) - expected[name]).max()
        assert error <= tolerance * np.abs(expected[name]).max(), name
    if sinks:
        np.testing.assert_allclose(results[3].sum(0)[:, 0], expected["s"], rtol=1e-3, atol=1e-3)
