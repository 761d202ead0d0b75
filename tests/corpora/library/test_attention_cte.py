"""Prefill attention against softmax in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kernellib.attention.attention_cte import AttnConfig, attention_cte
from support.library_cases import assert_close, data, launched


def reference(
    q: NDArray[Any],
    k: NDArray[Any],
    v: NDArray[Any],
    *,
    causal: bool,
    window: int,
    sink: NDArray[Any] | None = None,
) -> NDArray[np.float64]:
    """q [b, s, d], k [bkv, t, d], v [bkv, t, d]."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    group = len(q) // len(k)
    k, v = np.repeat(k, group, axis=0), np.repeat(v, group, axis=0)
    scores = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
    row = np.arange(q.shape[1])[:, None]
    column = np.arange(k.shape[1])[None]
    if causal:
        scores = np.where(column <= row, scores, -np.inf)
    if window:
        scores = np.where((column > row - window) & (column <= row), scores, -np.inf)
    if sink is not None:
        extra = np.broadcast_to(sink[:, :, None].astype(np.float64), (*scores.shape[:2], 1))
        scores = np.concatenate([scores, extra], axis=-1)
    scores -= scores.max(-1, keepdims=True)
    weights = np.exp(scores)
    weights /= weights.sum(-1, keepdims=True)
    return np.asarray(weights[..., : k.shape[1]] @ v)


@pytest.mark.parametrize("lnc", [None, 1, 2])
@pytest.mark.parametrize(
    ("bs", "bs_kv", "seqlen", "d", "dtype", "causal", "window", "select"),
    [
        (2, 1, 128, 64, "bfloat16", True, 0, True),
        (2, 2, 256, 128, "bfloat16", True, 0, False),
        (1, 1, 200, 32, "float16", True, 0, True),
        (3, 1, 160, 64, "float32", True, 48, True),
        (1, 1, 384, 64, "float32", True, 100, False),
        (2, 1, 1152, 16, "float32", False, 0, True),
        (1, 1, 1152, 32, "bfloat16", True, 0, True),
    ],
)
def test_attention_cte(
    lnc: int | None,
    bs: int,
    bs_kv: int,
    seqlen: int,
    d: int,
    dtype: str,
    causal: bool,
    window: int,
    select: bool,
) -> None:
    q, k, v = (data(i, (n, seqlen, d), dtype) for i, n in enumerate((bs, bs_kv, bs_kv)))
    config = AttnConfig(causal_mask=causal, sliding_window=window, use_range_select=select)
    result = launched(attention_cte, lnc)(
        q, np.ascontiguousarray(k.transpose(0, 2, 1)), v, config=config
    )
    assert result.dtype == q.dtype
    assert_close(result, reference(q, k, v, causal=causal, window=window), dtype)


@pytest.mark.parametrize("tp_out", [False, True])
def test_attention_cte_layouts_statistics_and_sinks(tp_out: bool) -> None:
    bs, seqlen, d = 2, 256, 32
    q, k, v = (data(i, (bs, seqlen, d), "bfloat16") for i in range(3))
    sink = data(9, (bs, 1))
    config = AttnConfig(tp_q=False, tp_k=True, tp_out=tp_out, cache_softmax=True)
    out, neg_max, recip = attention_cte[2](
        q=np.ascontiguousarray(q.transpose(0, 2, 1)), k=k, v=v, config=config, sink=sink
    )
    expected = reference(q, k, v, causal=True, window=0, sink=sink)
    assert_close(out, expected.transpose(0, 2, 1) if tp_out else expected, "bfloat16")
    assert neg_max.shape == recip.shape == (bs, 128, seqlen // 128)
    scores = np.einsum("bsd,btd->bst", q.astype(np.float64), k.astype(np.float64)) / math.sqrt(d)
    scores[:, np.triu(np.ones((seqlen, seqlen), bool), 1)] = -np.inf
    flat = neg_max.transpose(0, 2, 1).reshape(bs, seqlen)
    np.testing.assert_allclose(-flat, scores.max(-1), rtol=1e-2, atol=1e-2)


def test_attention_cte_refuses_wide_heads() -> None:
    q = data(0, (1, 128, 256))
    with pytest.raises(AssertionError, match="NCC_INKI016"):
        attention_cte(q, q.transpose(0, 2, 1).copy(), q)
