"""MLPs against NumPy."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from kernellib.core.utils.common_types import ActFnType, QuantizationType
from kernellib.mlp.mlp import MLPParameters, mlp, mlp_down_mx
from support.library_cases import assert_close, data, launched
from trn3.nki.values import neuron_dtypes as dt


def activated(x: NDArray[Any], kind: ActFnType) -> NDArray[Any]:
    wide = np.asarray(x, np.float64)
    if kind in (ActFnType.Swish, ActFnType.SiLU):
        return wide / (1 + np.exp(-(1.702 if kind == ActFnType.Swish else 1.0) * wide))
    if kind == ActFnType.GELU:
        return wide * (1 + np.vectorize(math.erf)(wide * 0.5**0.5)) / 2
    return wide * (1 + np.tanh((2 / math.pi) ** 0.5 * (wide + 0.044715 * wide**3))) / 2


@pytest.mark.parametrize("lnc", [None, 1, 2])
@pytest.mark.parametrize("act", list(ActFnType))
@pytest.mark.parametrize(
    ("tokens", "hidden", "inner", "dtype", "quantised"),
    [
        (1, 128, 128, "bfloat16", None),
        (32, 640, 200, "bfloat16", ml_dtypes.float8_e4m3),
        (128, 256, 512, "float32", None),
        (7, 1024, 384, "float16", None),
    ],
)
def test_mlp(
    lnc: int | None,
    act: ActFnType,
    tokens: int,
    hidden: int,
    inner: int,
    dtype: str,
    quantised: Any,
) -> None:
    x = data(0, (tokens, hidden), dtype)
    shapes = {"gate": (hidden, inner), "up": (hidden, inner), "down": (inner, hidden)}
    given: dict[str, Any] = {}
    plain: dict[str, NDArray[Any]] = {}
    for seed, (name, shape) in enumerate(shapes.items(), 1):
        w = data(seed, shape, "float32", shape[0] ** -0.5)
        if quantised is None:
            given[f"{name}_w"] = w.astype(x.dtype)
            plain[name] = given[f"{name}_w"].astype(np.float64)
        else:
            scale = (np.abs(w).max(0, keepdims=True) / 240).astype(np.float32)
            given[f"{name}_w"], given[f"{name}_scale"] = (w / scale).astype(quantised), scale
            plain[name] = given[f"{name}_w"].astype(np.float64) * scale
    kind = QuantizationType.NONE if quantised is None else QuantizationType.ROW
    params = MLPParameters(**given, act_fn=act, quantization=kind)
    results = launched(mlp, lnc)(x, params, store_intermediate=True)
    wide = x.astype(np.float64)
    gated = activated(wide @ plain["gate"], act) * (wide @ plain["up"])
    assert_close(results["intermediate"], gated.T, dtype)
    assert_close(results["out"], gated @ plain["down"], dtype)
    assert params.gate_w is given["gate_w"]


def test_mlp_down_mx_of_packed_weights() -> None:
    x, w = data(0, (64, 512), "bfloat16"), data(1, (512, 256), scale=0.5)
    # Rows 4 p to 4 p + 3 are the lanes of partition p; 32 of them share a scale.
    blocks = np.abs(w).reshape(16, 32, 256).max(1)
    exponents = np.floor(np.log2(blocks)) - 7
    lanes = w.reshape(16, 32, 256) / 2 ** exponents[:, None]
    packed = dt.static_cast(
        lanes.reshape(128, 4, 256).transpose(0, 2, 1).reshape(128, 1024), dt.float8_e4m3fn_x4
    )
    scales = (exponents + 127).astype(np.uint8)
    result = mlp_down_mx(x, packed.view(np.uint32), scales)
    exact = dt.static_cast(packed, np.float32).reshape(128, 256, 4).transpose(0, 2, 1)
    weights = (exact.reshape(16, 32, 256) * 2 ** exponents[:, None]).reshape(512, 256)
    expected = x.astype(np.float64) @ weights
    assert np.abs(result.astype(np.float64) - expected).max() < 0.05 * np.abs(expected).max()
