"""Convolutions against their sums in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kernellib.conv.conv1d import conv1d, depthwise_conv1d
from support.library_cases import assert_close, data, launched


def windows_of(x: NDArray[Any], length: int) -> NDArray[np.float64]:
    """Return every window of a length along the last axis, which becomes two."""
    return np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), length, axis=-1)


@pytest.mark.parametrize("lnc", [None, 1, 2])
@pytest.mark.parametrize(
    ("shape", "outs", "taps", "stride", "padding", "dilation", "dtype", "bias"),
    [
        ((1, 1, 8), 1, 3, 1, (0, 0), 1, "float32", False),
        ((2, 80, 300), 96, 3, 2, (1, 1), 1, "bfloat16", True),
        ((1, 200, 130), 130, 5, 1, (4, 0), 2, "float32", True),
        ((1, 16, 1200), 8, 4, 1, (0, 3), 1, "float16", False),
    ],
)
def test_conv1d(
    lnc: int | None,
    shape: tuple[int, int, int],
    outs: int,
    taps: int,
    stride: int,
    padding: tuple[int, int],
    dilation: int,
    dtype: str,
    bias: bool,
) -> None:
    x, w = data(0, shape, dtype), data(1, (outs, shape[1], taps), dtype, (shape[1] * taps) ** -0.5)
    b = data(2, (outs,)) if bias else None
    result = launched(conv1d, lnc)(x, w, b, stride=stride, padding=padding, dilation=dilation)
    windows = windows_of(np.pad(x, ((0, 0), (0, 0), padding)), (taps - 1) * dilation + 1)
    taken = windows[:, :, ::stride, ::dilation]
    expected = np.einsum("bclt,oct->bol", taken, w.astype(np.float64))
    assert_close(result, expected if b is None else expected + b[:, None], dtype)


@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize("state", [False, True])
def test_depthwise_conv1d_goes_on_from_its_state(lnc: int, state: bool) -> None:
    x, w = data(0, (2, 150, 64), "bfloat16"), data(1, (150, 4))
    before = data(2, (2, 150, 3), "bfloat16") if state else None
    out, after = depthwise_conv1d[lnc](x, w, init_state=before)
    start = np.zeros((2, 150, 3)) if before is None else before
    padded = np.concatenate([start.astype(np.float64), x.astype(np.float64)], -1)
    sums = np.einsum("bclt,ct->bcl", windows_of(padded, 4), w.astype(np.float64))
    assert_close(out, sums / (1 + np.exp(-sums)), "bfloat16")
    np.testing.assert_array_equal(after, padded[..., -3:].astype(x.dtype))
    # In two halves it is the same.
    first, middle = depthwise_conv1d(x[..., :32].copy(), w, init_state=before)
    second, _ = depthwise_conv1d(x[..., 32:].copy(), w, middle)
    np.testing.assert_array_equal(np.concatenate([first, second], -1), out)
