"""Layers fused by kernels that call kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kernellib.attention.attention_tkg import KVCache
from kernellib.core.utils.common_types import ActFnType, NormType
from kernellib.mlp.mlp import MLPParameters
from kernellib.transformer.transformer_tkg import Layer, transformer_tkg
from support.library_cases import data, launched, normed
from test_attention_tkg import case, reference
from test_mlp import activated

BATCH, HEADS, SIZE, HIDDEN, INNER = 2, 4, 64, 256, 384


def layer(seed: int) -> tuple[Layer, dict[str, Any]]:
    cache = case(BATCH, HEADS, SIZE, 8, 16, "float32")
    cache = {name: cache[name] for name in ("k", "v", "table", "slots", "positions")}
    width = (HEADS + 2) * SIZE

    def weight(number: int, shape: tuple[int, int]) -> NDArray[Any]:
        return data(seed + number, shape, "float32", shape[0] ** -0.5)

    built = Layer(
        qkv_w=weight(1, (HIDDEN, width)),
        out_w=weight(2, (HEADS * SIZE, HIDDEN)),
        attn_gamma=data(seed + 3, (1, HIDDEN)),
        mlp_gamma=data(seed + 4, (1, HIDDEN)),
        mlp=MLPParameters(
            weight(5, (HIDDEN, INNER)), weight(6, (HIDDEN, INNER)), weight(7, (INNER, HIDDEN))
        ),
        cache=KVCache(cache["k"].copy(), cache["v"].copy(), cache["table"], cache["slots"]),
    )
    return built, cache


@pytest.mark.parametrize("lnc", [None, 1, 2])
def test_transformer_tkg(lnc: int | None) -> None:
    layers, caches = zip(*(layer(100 * index) for index in range(2)), strict=True)
    x = data(99, (BATCH, HIDDEN))
    result, written = launched(transformer_tkg, lnc)(
        x, list(layers), caches[0]["positions"], q_heads=HEADS, d_head=SIZE
    )
    expected = x.astype(np.float64)
    for own, cache, (k, v) in zip(layers, caches, written, strict=True):
        qkv = normed(expected, own.attn_gamma, None, NormType.RMS_NORM, 1e-6) @ own.qkv_w
        qkv = qkv.reshape(BATCH, HEADS + 2, SIZE)
        new = {"q": qkv[:, :HEADS], "k_new": qkv[:, HEADS], "v_new": qkv[:, HEADS + 1]}
        attention, k_expected, v_expected = reference(cache | new)
        np.testing.assert_allclose(k, k_expected, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(v, v_expected, rtol=1e-4, atol=1e-4)
        assert k is own.cache.k
        expected = expected + attention.reshape(BATCH, -1) @ own.out_w
        mlp = own.mlp
        rows = normed(expected, own.mlp_gamma, None, NormType.RMS_NORM, 1e-6)
        gated = activated(rows @ mlp.gate_w, ActFnType.SiLU) * (rows @ mlp.up_w)
        expected = expected + gated @ mlp.down_w
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-3)
