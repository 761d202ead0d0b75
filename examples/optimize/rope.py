"""Rotary position embedding head by head: every head of a tile loads its angles."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

P = nl.tile_size.pmax


@nki.jit
def rope(x, cos, sin):
    """x [tokens, heads, size], cos and sin [tokens, size / 2]: ``(a cos - b sin, b cos + a sin)``
    of the halves; tokens a multiple of 128.
    """
    tokens, heads, size = x.shape
    half = size // 2
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(tokens // P):
        for h in nl.affine_range(heads):
            tile = nl.ndarray((P, size), dtype=x.dtype, buffer=nl.sbuf)
            cosine = nl.ndarray((P, half), dtype=nl.float32, buffer=nl.sbuf)
            sine = nl.ndarray((P, half), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x[i * P : (i + 1) * P, h, :])
            nisa.dma_copy(dst=cosine, src=cos[i * P : (i + 1) * P, :])
            nisa.dma_copy(dst=sine, src=sin[i * P : (i + 1) * P, :])
            first, second = tile[:, 0:half], tile[:, half:size]
            result = nl.ndarray((P, size), dtype=x.dtype, buffer=nl.sbuf)
            left = nl.ndarray((P, half), dtype=nl.float32, buffer=nl.sbuf)
            right = nl.ndarray((P, half), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor(left, first, cosine, op=nl.multiply)
            nisa.tensor_tensor(right, second, sine, op=nl.multiply)
            nisa.tensor_tensor(result[:, 0:half], left, right, op=nl.subtract)
            nisa.tensor_tensor(left, second, cosine, op=nl.multiply)
            nisa.tensor_tensor(right, first, sine, op=nl.multiply)
            nisa.tensor_tensor(result[:, half:size], left, right, op=nl.add)
            nisa.dma_copy(dst=out[i * P : (i + 1) * P, h, :], src=result)
    return out


def inputs(tokens=1024, heads=16, size=128, dtype=nl.bfloat16, seed=0):
    """Arguments of :func:`rope` with the usual frequencies."""
    rng = np.random.default_rng(seed)
    angles = np.outer(np.arange(tokens), 10000.0 ** (-2.0 * np.arange(size // 2) / size))
    return {
        "x": rng.standard_normal((tokens, heads, size), dtype=np.float32).astype(dtype),
        "cos": np.cos(angles).astype(np.float32),
        "sin": np.sin(angles).astype(np.float32),
    }


def golden(x, cos, sin):
    """The rotation in float64."""
    first, second = np.split(x.astype(np.float64), 2, axis=-1)
    cos, sin = cos[:, None, :].astype(np.float64), sin[:, None, :].astype(np.float64)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
