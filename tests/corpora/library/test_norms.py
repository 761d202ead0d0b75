"""Norms against NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trn3.nki.language as nl
from kernellib.core.utils.allocator import SbufManager
from kernellib.core.utils.common_types import NormType
from kernellib.norms.rmsnorm_quant import RmsNormQuantConfig, rmsnorm_quant_kernel
from kernellib.norms.rmsnorm_tkg import rmsnorm_tkg
from support.library_cases import assert_close, data, launched, normed


@pytest.mark.parametrize("lnc", [None, 1, 2])
@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize(
    ("shape", "dtype", "kind"),
    [
        ((1, 1, 128), "bfloat16", NormType.RMS_NORM),
        ((4, 1, 1024), "bfloat16", NormType.RMS_NORM),
        ((2, 4, 512), "float16", NormType.LAYER_NORM),
        ((3, 5, 640), "float32", NormType.LAYER_NORM),
        ((2, 2, 256), "float32", NormType.RMS_NORM_SKIP_GAMMA),
    ],
)
def test_rmsnorm_tkg(
    lnc: int | None, explicit: bool, shape: tuple[int, ...], dtype: str, kind: NormType
) -> None:
    x, gamma, beta = data(0, shape, dtype), data(1, (1, shape[2]), dtype), data(2, (1, shape[2]))
    weights = None if kind == NormType.RMS_NORM_SKIP_GAMMA else gamma
    bias = beta if kind == NormType.LAYER_NORM else None
    sbm = SbufManager(0, nl.tile_size.total_available_sbuf_size) if explicit else None
    result = launched(rmsnorm_tkg, lnc)(x, weights, bias, norm_type=kind, sbm=sbm)
    expected = normed(x, weights, bias, kind, 1e-6).reshape(-1, 128, shape[2] // 128)
    assert_close(result, expected.transpose(1, 2, 0), dtype)


@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize("quant", ["float8_e4m3", "float8_e5m2", "float8e4", nl.float8_e4m3fn])
@pytest.mark.parametrize(
    ("shape", "kind", "bn"),
    [
        ((2, 100, 64), NormType.RMS_NORM, False),
        ((300, 600), NormType.RMS_NORM, True),
        ((1, 130, 1024), NormType.LAYER_NORM, False),
        ((5, 33), NormType.RMS_NORM, False),
    ],
)
def test_rmsnorm_quant(
    lnc: int, quant: Any, shape: tuple[int, ...], kind: NormType, bn: bool
) -> None:
    x, gamma = data(0, shape, "bfloat16"), data(1, (shape[-1],), "bfloat16")
    beta = data(2, (shape[-1],)) if kind == NormType.LAYER_NORM else None
    config = RmsNormQuantConfig(norm_type=kind, quant_dtype=quant, use_bn_stats=bn, eps=1e-5)
    out = rmsnorm_quant_kernel[lnc](x, gamma, config, ln_b=beta)
    h = shape[-1]
    assert out.shape == (*shape[:-1], h + 4)
    scales = np.ascontiguousarray(out[..., h:]).view(np.uint8).view(np.float32)
    values = out[..., :h].astype(np.float64) * scales
    expected = normed(x, gamma, beta, kind, 1e-5)
    # Three bits of mantissa, or two; near zero the smallest step counts.
    step = 2**-2 if "e5m2" in str(quant) else 2**-3
    bound = np.abs(expected) * step * 0.6 + np.abs(expected).max(-1, keepdims=True) * 1e-3
    assert np.all(np.abs(values - expected) <= bound + 1e-2 * np.abs(expected))


def test_rmsnorm_tkg_of_torch() -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(2, 2, 256, dtype=torch.bfloat16, generator=torch.Generator().manual_seed(0))
    gamma = torch.ones(1, 256, dtype=torch.bfloat16)
    result = rmsnorm_tkg[2](x, gamma)
    assert result.dtype == torch.bfloat16
    expected = torch.nn.functional.rms_norm(x.float(), (256,), eps=1e-6).reshape(4, 128, 2)
    np.testing.assert_allclose(
        result.float().numpy(), expected.permute(1, 2, 0).numpy(), rtol=2e-2, atol=2e-2
    )
