"""Rotary position embedding: halves of each head are rotated by an angle that grows with the
position.
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

P = nl.tile_size.pmax


@nki.jit
def rope(x, cos, sin):
    """x [tokens, heads, size], cos and sin [tokens, size / 2]: ``(a cos - b sin, b cos + a sin)``
    of the halves.
    """
    tokens, heads, size = x.shape
    half = size // 2
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range((tokens + P - 1) // P):
        rows = nl.ds(i * P, min(P, tokens - i * P))
        tile = nl.ndarray((rows.size, heads, size), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[rows])
        angles = nl.ndarray((rows.size, 2, half), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=angles[:, 0, :], src=cos[rows])
        nisa.dma_copy(dst=angles[:, 1, :], src=sin[rows])
        # One row of angles serves every head: a view with a stride of zero, no copy.
        cosine = angles[:, 0:1, :].broadcast(1, heads)
        sine = angles[:, 1:2, :].broadcast(1, heads)
        first, second = tile[:, :, 0:half], tile[:, :, half:size]
        result = nl.ndarray((rows.size, heads, size), dtype=x.dtype, buffer=nl.sbuf)
        left = nl.ndarray((rows.size, heads, half), dtype=nl.float32, buffer=nl.sbuf)
        right = nl.ndarray((rows.size, heads, half), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(left, first, cosine, op=nl.multiply)
        nisa.tensor_tensor(right, second, sine, op=nl.multiply)
        nisa.tensor_tensor(result[:, :, 0:half], left, right, op=nl.subtract)
        nisa.tensor_tensor(left, second, cosine, op=nl.multiply)
        nisa.tensor_tensor(right, first, sine, op=nl.multiply)
        nisa.tensor_tensor(result[:, :, half:size], left, right, op=nl.add)
        nisa.dma_copy(dst=out[rows], src=result)
    return out


def inputs(tokens=256, heads=4, size=64, dtype=nl.bfloat16, seed=0):
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
