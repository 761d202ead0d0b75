"""Fused projection against NumPy in float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from kernellib.core.utils.common_types import NormType, OutputLayout, QuantizationType
from kernellib.projection.qkv_cte import QkvQuant, qkv_cte
from support.library_cases import assert_close, clipped, data, launched, normed


@pytest.mark.parametrize("lnc", [None, 1, 2])
@pytest.mark.parametrize(
    ("batch", "seqlen", "hidden", "heads", "d", "dtype", "norm", "extra"),
    [
        (1, 128, 128, (1, 1), 64, "bfloat16", NormType.NO_NORM, False),
        (2, 150, 384, (4, 1), 64, "bfloat16", NormType.RMS_NORM, True),
        (1, 37, 640, (2, 2), 128, "float16", NormType.LAYER_NORM, True),
        (1, 257, 256, (8, 1), 32, "float32", NormType.RMS_NORM, False),
    ],
)
def test_qkv_cte(
    lnc: int | None,
    batch: int,
    seqlen: int,
    hidden: int,
    heads: tuple[int, int],
    d: int,
    dtype: str,
    norm: NormType,
    extra: bool,
) -> None:
    width = (heads[0] + 2 * heads[1]) * d
    x = data(0, (batch, seqlen, hidden), dtype)
    w = data(1, (hidden, width), dtype, hidden**-0.5)
    gamma = None if norm == NormType.NO_NORM else data(2, (1, hidden))
    beta = data(3, (1, hidden)) if norm == NormType.LAYER_NORM else None
    bias, residual = (data(4, (1, width)), data(5, x.shape, dtype)) if extra else (None, None)
    layout = OutputLayout.NBSd if extra else OutputLayout.BSD
    result = launched(qkv_cte, lnc)(
        x, w, layout, bias=bias, residual=residual, norm_type=norm, gamma_norm_weights=gamma,
        layer_norm_bias=beta, d_head=d, num_q_heads=heads[0], num_kv_heads=heads[1],
    )  # fmt: skip
    wide = x.astype(np.float64)
    if residual is not None:
        result, summed = result
        wide = (wide + residual.astype(np.float64)).astype(x.dtype).astype(np.float64)
        np.testing.assert_array_equal(summed, wide.astype(x.dtype))
    if norm != NormType.NO_NORM:
        wide = normed(wide, gamma, beta, norm, 1e-6)
    expected = wide @ w.astype(np.float64)
    if bias is not None:
        expected = expected + bias
        expected = expected.reshape(batch, seqlen, -1, d).transpose(2, 0, 1, 3)
    assert_close(result, expected, dtype)


@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize("kind", ["float8_e4m3", "float8_e4m3fn", "float8_e5m2"])
def test_qkv_cte_with_two_rows_of_8_bits_a_cell(lnc: int, kind: str) -> None:
    x, dtype = data(0, (1, 100, 512), "bfloat16"), getattr(ml_dtypes, kind)
    w = data(1, (512, 192), scale=0.05)
    w_scale = np.float32(np.abs(w).max() / 200)
    quantised = (w / w_scale).astype(dtype)
    in_scale = np.full((1, 1), 0.02, np.float32)
    quant = QkvQuant(QuantizationType.STATIC, np.full((1, 1), w_scale), in_scale)
    bias = data(3, (192,), "bfloat16")
    result = qkv_cte[lnc](x, quantised, quant=quant, bias=bias)
    small = clipped(x.astype(np.float32) / 0.02, dtype)
    expected = small.astype(np.float64) @ quantised.astype(np.float64) * (w_scale * 0.02)
    assert_close(result, expected + bias.astype(np.float64), "bfloat16")


def test_qkv_cte_refuses_what_it_checks() -> None:
    x: Any = data(0, (1, 16, 100))
    with pytest.raises(AssertionError, match="hidden 100 is no multiple"):
        qkv_cte[2](x, data(1, (100, 64)))
