"""Gradients of attention against torch's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from kernellib.attention.attention_bwd import attention_bwd
from library_cases import data, launched


def gradients(
    q: Any, k: Any, v: Any, dy: Any, sinks: Any, causal: bool, window: int
) -> tuple[dict[str, Any], Any, Any]:
    """Return gradients, output and log-sum-exp in float64; tensors are [bs, heads, d, S]."""
    leaves = {
        name: torch.from_numpy(x.astype(np.float64)).requires_grad_(True)
        for name, x in {"q": q, "k": k, "v": v, "s": sinks}.items()
    }
    group = q.shape[1] // k.shape[1]
    keys, values = (leaves[name].repeat_interleave(group, dim=1) for name in "kv")
    scores = torch.einsum("bhdi,bhdj->bhij", leaves["q"], keys) / q.shape[2] ** 0.5
    size = q.shape[3]
    i, j = torch.arange(size)[:, None], torch.arange(size)[None]
    hidden = torch.zeros(size, size, dtype=torch.bool)
    hidden |= (j > i) if causal else hidden
    hidden |= (j <= i - window) if window > 0 else hidden
    scores = scores.masked_fill(hidden, -torch.inf)
    sink = leaves["s"][None, :, None, None].expand(*scores.shape[:3], 1)
    lse = torch.logsumexp(torch.cat([scores, sink], -1), -1)
    weights = torch.exp(scores - lse[..., None])
    out = torch.einsum("bhij,bhdj->bhdi", weights, values)
    found = torch.autograd.grad(out, [*leaves.values()], torch.from_numpy(dy.astype(np.float64)))
    return {name: x.numpy() for name, x in zip(leaves, found, strict=True)}, out, lse


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
    lse = lse.detach().numpy().astype(np.float32).reshape(bs, heads, -1, 128).swapaxes(2, 3)
    results = launched(attention_bwd, lnc)(
        q, k, v, out.detach().numpy().astype(q.dtype), dy, np.ascontiguousarray(lse),
        sinks_ref=sink, use_causal_mask=causal, sliding_window=window,
    )  # fmt: skip
    tolerance = 5e-2 if dtype == "bfloat16" else 2e-4
    for result, name in zip(results, "qkv", strict=False):
        error = np.abs(result.astype(np.float64) - expected[name]).max()
        assert error <= tolerance * np.abs(expected[name]).max(), name
    if sinks:
        np.testing.assert_allclose(results[3].sum(0)[:, 0], expected["s"], rtol=1e-3, atol=1e-3)
