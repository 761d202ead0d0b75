"""What the tests of the library share: data, precision of types, calls as a suite makes them."""

from __future__ import annotations

from enum import Enum
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

DTYPES = {
    "bfloat16": ml_dtypes.bfloat16,
    "float16": np.float16,
    "float32": np.float32,
    "float8_e4m3": ml_dtypes.float8_e4m3,
}
#: Relative and absolute differences of results from float64 references.
CLOSE = {"bfloat16": (3e-2, 3e-2), "float16": (5e-3, 5e-3), "float32": (2e-5, 2e-5)}


def data(
    seed: int, shape: tuple[int, ...], dtype: str = "float32", scale: float = 1.0
) -> NDArray[Any]:
    """Return normal values, rounded to an element type."""
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32) * scale
    return values.astype(DTYPES[dtype])


def assert_close(actual: Any, expected: NDArray[Any], dtype: str = "float32") -> None:
    """Compare with what the element type can hold."""
    rtol, atol = CLOSE[dtype]
    np.testing.assert_allclose(
        np.asarray(actual).astype(np.float64), expected.astype(np.float64), rtol=rtol, atol=atol
    )


def launched(kernel: Any, lnc: int | None) -> Any:
    """Return a kernel with brackets, or without."""
    return kernel if lnc is None else kernel[lnc]


def normed(x: NDArray[Any], gamma: Any, beta: Any, kind: Enum, eps: float) -> NDArray[Any]:
    """Normalise the last axis in float64."""
    x = x.astype(np.float64)
    h = x.shape[-1]
    if kind.name == "LAYER_NORM":
        x = x - x.sum(-1, keepdims=True) / h
    x = x / np.sqrt((x**2).sum(-1, keepdims=True) / h + eps)
    x = x if gamma is None else x * gamma.astype(np.float64)
    return x if beta is None else x + beta.astype(np.float64)


def clipped(x: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """Return values in an 8-bit type, those beyond its largest finite one as that."""
    largest = float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]
    return np.clip(x.astype(ml_dtypes.bfloat16).astype(np.float32), -largest, largest).astype(dtype)
