"""Kernels of ranks that several files of tests make, and sums as the hardware forms them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

import trn3.nki.collectives as ncc
import trn3.nki.isa as nisa
import trn3.nki.language as nl

SIZES = [2, 4, 8]
DTYPES = [np.float32, np.int32, np.uint8, ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e4m3fn]


def whole(n: int) -> ncc.ReplicaGroup:
    return ncc.ReplicaGroup([list(range(n))])


def values(n: int, shape: tuple[int, ...], dtype: Any) -> list[np.ndarray]:
    rng = np.random.default_rng(n)
    if np.dtype(dtype).kind in "iu":
        low = 0 if np.dtype(dtype).kind == "u" else -1000
        return [rng.integers(low, 200, shape).astype(dtype) for _ in range(n)]
    return [rng.standard_normal(shape).astype(np.float32).astype(dtype) for _ in range(n)]


def summed(arrays: list[np.ndarray], op: Any = np.add) -> np.ndarray:
    """Ascending index, in float32 (whole numbers wrap), cast once."""
    dtype = arrays[0].dtype
    exact = dtype.kind in "iu"
    total = arrays[0] if exact else arrays[0].astype(np.float32)
    for array in arrays[1:]:
        total = op(total, array if exact else array.astype(np.float32))
    return total.astype(dtype)


def same(got: Any, wanted: Any) -> None:
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    assert got.tobytes() == np.ascontiguousarray(wanted).tobytes()


def scratch(x: Any, shape: Any = None, buffer: Any = nl.shared_hbm) -> Any:
    return nl.ndarray(tuple(shape or x.shape), x.dtype, buffer=buffer)


def copied(x: Any, buffer: Any = nl.shared_hbm) -> Any:
    mine = scratch(x, buffer=buffer)
    nisa.dma_copy(mine, x)
    return mine


def on_hbm(run: Callable[..., Any], times: float = 1) -> Callable[..., Any]:
    def kernel(x: Any, group: Any) -> Any:
        out = scratch(x, (int(x.shape[0] * times), *x.shape[1:]))
        run([copied(x)], [out], group)
        return out

    return kernel
