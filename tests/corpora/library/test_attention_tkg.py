"""Decode attention over a paged cache that is updated in place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kernellib.attention.attention_tkg as tkg
from support.library_cases import assert_close, data, launched


def case(bs: int, heads: int, d: int, block: int, blocks: int, dtype: str) -> dict[str, Any]:
    rng = np.random.default_rng(bs * 1000 + heads)
    pages = bs * blocks + 3
    order = rng.permutation(pages)[: bs * blocks].reshape(bs, blocks).astype(np.int32)
    positions = rng.integers(0, block * blocks, (bs, 1)).astype(np.int32)
    used = positions // block
    table = np.where(np.arange(blocks)[None] <= used, order, -1).astype(np.int32)
    slots = np.take_along_axis(order, used, 1) * block + positions % block
    slots = slots.astype(np.int32)
    slots[-1] = -1  # padding: nothing is written
    return {
        "q": data(1, (bs, heads, d), dtype),
        "k_new": data(2, (bs, d), dtype),
        "v_new": data(3, (bs, d), dtype),
        "k": data(4, (pages, block, d), dtype),
        "v": data(5, (pages, block, d), dtype),
        "table": table,
        "slots": slots,
        "positions": positions,
    }


def reference(c: dict[str, Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    k, v = c["k"].copy(), c["v"].copy()
    block, d = k.shape[1:]
    for i, (slot,) in enumerate(c["slots"]):
        if slot >= 0:
            k.reshape(-1, d)[slot] = c["k_new"][i]
            v.reshape(-1, d)[slot] = c["v_new"][i]
    out = np.zeros(c["q"].shape)
    for i, (position,) in enumerate(c["positions"]):
        ids = c["table"][i, : position // block + 1]
        keys = k[ids].reshape(-1, d)[: position + 1].astype(np.float64)
        values = v[ids].reshape(-1, d)[: position + 1].astype(np.float64)
        scores = c["q"][i].astype(np.float64) @ keys.T / math.sqrt(d)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        out[i] = weights / weights.sum(-1, keepdims=True) @ values
    return out, k, v


@pytest.mark.parametrize("lnc", [None, 1, 2])
@pytest.mark.parametrize(
    ("bs", "heads", "d", "block", "blocks", "dtype"),
    [
        (1, 1, 128, 16, 8, "bfloat16"),
        (4, 8, 64, 8, 32, "bfloat16"),
        (3, 5, 64, 16, 16, "float16"),
        (2, 32, 32, 4, 64, "float32"),
    ],
)
def test_attention_tkg(
    lnc: int | None, bs: int, heads: int, d: int, block: int, blocks: int, dtype: str
) -> None:
    c = case(bs, heads, d, block, blocks, dtype)
    expected, k, v = reference(c)
    cache = tkg.KVCache(c["k"], c["v"], c["table"], slot_mapping=c["slots"])
    config = tkg.AttnTkgConfig(bs, heads, d, block_len=block, max_blocks=blocks)
    result = launched(tkg.attention_tkg, lnc)(
        c["q"], c["k_new"], c["v_new"], cache=cache, position_ids=c["positions"], cfg=config
    )
    assert set(result) == {"out", "k_cache", "v_cache"}
    # The last sequence has no new key, whatever its position.
    assert_close(result["out"], expected, dtype)
    np.testing.assert_array_equal(c["k"], k)
    np.testing.assert_array_equal(c["v"], v)
    assert result["k_cache"] is c["k"]


def test_gather_rows_reads_index_tiles_when_it_copies() -> None:
    cache = data(0, (12, 20))
    rows = np.array([[7, 0, 3, 11]], np.uint32)
    np.testing.assert_array_equal(tkg.gather_rows_kernel(cache, rows, 4), cache[rows[0]])
