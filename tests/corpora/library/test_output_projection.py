"""Output projections against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kernellib.core.utils.common_types import QuantizationType
from kernellib.projection.output_projection import output_projection_cte, output_projection_tkg
from support.library_cases import assert_close, data, launched


@pytest.mark.parametrize("lnc", [None, 1, 2])
@pytest.mark.parametrize(
    ("batch", "heads", "d", "seqlen", "hidden", "dtype", "bias"),
    [
        (1, 1, 64, 128, 512, "bfloat16", False),
        (2, 4, 128, 77, 1000, "bfloat16", True),
        (1, 3, 96, 200, 130, "float16", True),
        (1, 2, 32, 1, 1, "float32", False),
    ],
)
def test_output_projection_cte(
    lnc: int | None,
    batch: int,
    heads: int,
    d: int,
    seqlen: int,
    hidden: int,
    dtype: str,
    bias: bool,
) -> None:
    x = data(0, (batch, heads, d, seqlen), dtype)
    w = data(1, (heads * d, hidden), dtype, (heads * d) ** -0.5)
    extra = data(2, (1, hidden), dtype) if bias else None
    result = launched(output_projection_cte, lnc)(x, w, bias=extra)
    rows = x.astype(np.float64).reshape(batch, heads * d, seqlen).transpose(0, 2, 1)
    expected = rows @ w.astype(np.float64) + (0 if extra is None else extra.astype(np.float64))
    assert_close(result, expected, dtype)


@pytest.mark.parametrize("lnc", [1, 2])
def test_output_projection_cte_of_quantised_weights(lnc: int) -> None:
    x, w = data(0, (1, 2, 64, 64), "bfloat16"), data(1, (128, 320))
    scales = (np.abs(w).max(0, keepdims=True) / 240).astype(np.float32)
    quantised = (w / scales).astype(ml_dtypes.float8_e4m3)
    result = output_projection_cte[lnc](
        x, quantised, quantization_type=QuantizationType.ROW, weight_scales=scales
    )
    rows = x.astype(np.float64).reshape(1, 128, 64).transpose(0, 2, 1)
    expected = rows @ (quantised.astype(np.float64) * scales)
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=2e-2, atol=0.1)


@pytest.mark.parametrize("lnc", [None, 1, 2])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize(
    ("d", "batch", "heads", "seqlen", "hidden", "dtype", "bias"),
    [
        (128, 4, 8, 1, 1024, "bfloat16", False),
        (64, 2, 5, 3, 2048, "bfloat16", True),
        (64, 16, 2, 4, 768, "float32", True),
    ],
)
def test_output_projection_tkg(
    lnc: int | None,
    transpose: bool,
    d: int,
    batch: int,
    heads: int,
    seqlen: int,
    hidden: int,
    dtype: str,
    bias: bool,
) -> None:
    x = data(0, (d, batch, heads, seqlen), dtype)
    w = data(1, (heads * d, hidden), dtype, (heads * d) ** -0.5)
    extra = data(2, (1, hidden), "float32") if bias else None
    result = launched(output_projection_tkg, lnc)(x, w, bias=extra, TRANSPOSE_OUT=transpose)
    rows = x.astype(np.float64).transpose(1, 3, 2, 0).reshape(batch * seqlen, heads * d)
    expected = rows @ w.astype(np.float64) + (0 if extra is None else extra)
    if transpose:
        expected = expected.T.reshape(hidden // 128, 128, -1).transpose(1, 2, 0)
    assert_close(result, expected, dtype)
