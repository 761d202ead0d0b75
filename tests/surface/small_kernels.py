"""Kernels whose profiles, programs and findings are looked at."""

from __future__ import annotations

from typing import Any

import numpy as np

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from trn3 import nki


def inputs(rows: int = 128, columns: int = 64, seed: int = 0) -> dict[str, Any]:
    """Make an array."""
    generator = np.random.default_rng(seed)
    return {"x": generator.standard_normal((rows, columns)).astype(np.float32)}


@nki.jit
def softmax(x: Any) -> Any:
    """Softmax of rows."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    powers = nl.exp(nl.subtract(tile, nl.max(tile, axis=1, keepdims=True)))
    total = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(total, op=nl.add, data=powers, axis=1)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(powers, powers, op0=nl.multiply, operand0=total)
    nl.store(out, powers)
    return out


@nki.jit
def squared(x: Any) -> Any:
    """``x.T @ x`` on TensorE, on each core that runs it."""
    out = nl.ndarray((x.shape[1], x.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(x)
    sums = nl.ndarray((x.shape[1], x.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(sums, stationary=tile, moving=tile)
    result = nl.ndarray((x.shape[1], x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(result, sums)
    if nl.program_id(0) == 0:
        nisa.dma_copy(dst=out, src=result)
    return out


@nki.jit
def unportable(x: Any) -> Any:
    """Copy, with what the hardware's compiler refuses."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    if x is not None:
        nl.store(out, nl.load(x))
    return out
