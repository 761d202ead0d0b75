"""RMSNorm, a line of the formula at a time."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

P = nl.tile_size.pmax


@nki.jit
def rmsnorm(x, weight, eps=1e-6):
    """``x / sqrt(mean(x**2) + eps) * weight``: x [tokens, features], weight [1, features]; tokens a
    multiple of 128.
    """
    tokens, features = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(tokens // P):
        tile = nl.ndarray((P, features), dtype=nl.float32, buffer=nl.sbuf)
        gain = nl.ndarray((P, features), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * P : (i + 1) * P, :])
        # The weight is one row; every partition needs it.
        nisa.dma_copy(dst=gain, src=weight.ap([[0, P], [1, features]]))

        squares = nl.ndarray((P, features), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(squares, tile, tile, op=nl.multiply)
        total = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(total, op=nl.add, data=squares, axis=1)
        mean = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(mean, total, op0=nl.multiply, operand0=1.0 / features)
        nisa.tensor_scalar(mean, mean, op0=nl.add, operand0=eps)
        root = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(root, op=nl.sqrt, data=mean)
        scale = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(scale, root)

        normed = nl.ndarray((P, features), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(normed, tile, op0=nl.multiply, operand0=scale)
        nisa.tensor_tensor(normed, normed, gain, op=nl.multiply)
        result = nl.ndarray((P, features), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(result, normed)
        nisa.dma_copy(dst=out[i * P : (i + 1) * P, :], src=result)
    return out


def inputs(tokens=2048, features=2048, dtype=nl.bfloat16, seed=0):
    """Arguments of :func:`rmsnorm`."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((tokens, features), dtype=np.float32).astype(dtype)
    return {"x": x, "weight": rng.standard_normal((1, features), dtype=np.float32)}


def golden(x, weight, eps=1e-6):
    """RMSNorm in float64."""
    x = x.astype(np.float64)
    return x / np.sqrt((x**2).mean(axis=1, keepdims=True) + eps) * weight
