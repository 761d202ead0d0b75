"""Small kernels that several tests of launches run."""

from __future__ import annotations

from typing import Any

import numpy as np

import trn3.nki.language as nl
from trn3.nki.ranks.context import core

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def identity(x: Any) -> Any:
    return x


def overwrite(x: Any, value: float = 9.0) -> Any:
    """Write to an HBM tensor without DMA."""
    dtype = x.dtype.dtype
    core().write_bytes(x, np.full(x.shape, value, dtype).reshape(-1).view(np.uint8))
    return x


def output(value: float, shape: tuple[int, ...] = (2, 2), dtype: Any = nl.float32) -> Any:
    out = nl.ndarray(shape, dtype, buffer=nl.shared_hbm)
    return overwrite(out, value)
