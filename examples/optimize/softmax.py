"""Softmax over rows, one step of the formula after the other in one tile."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

P = nl.tile_size.pmax


@nki.jit
def softmax(x):
    """``exp(x - max) / sum`` over the last axis of x [rows, columns], rows a multiple of 128."""
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((P, columns), dtype=nl.float32, buffer=nl.sbuf)
    result = nl.ndarray((P, columns), dtype=x.dtype, buffer=nl.sbuf)
    for i in nl.affine_range(rows // P):
        nisa.dma_copy(dst=tile, src=x[i * P : (i + 1) * P, :])
        largest = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(largest, op=nl.maximum, data=tile, axis=1)
        nisa.tensor_scalar(tile, tile, op0=nl.subtract, operand0=largest)
        nisa.activation(tile, op=nl.exp, data=tile)
        total = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(total, op=nl.add, data=tile, axis=1)
        inverse = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(inverse, total)
        nisa.tensor_scalar(tile, tile, op0=nl.multiply, operand0=inverse)
        nisa.tensor_copy(result, tile)
        nisa.dma_copy(dst=out[i * P : (i + 1) * P, :], src=result)
    return out


def inputs(rows=2048, columns=2048, dtype=nl.bfloat16, seed=0):
    """Arguments of :func:`softmax`."""
    rng = np.random.default_rng(seed)
    return {"x": (3 * rng.standard_normal((rows, columns), dtype=np.float32)).astype(dtype)}


def golden(x):
    """Softmax in float64."""
    x = x.astype(np.float64)
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
