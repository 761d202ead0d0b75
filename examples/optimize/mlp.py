"""Two linear layers with a GELU between them, weights loaded tile by tile where they are used."""

import math

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

P = nl.tile_size.pmax
N = 512


@nki.jit
def mlp(x, up, down):
    """``down.T @ gelu(up.T @ x)``: x [features, tokens], up [features, hidden], down [hidden,
    features]; features and hidden multiples of 128, tokens of 512.
    """
    features, tokens = x.shape
    _, hidden = up.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for t in nl.affine_range(tokens // N):
        middle = nl.ndarray((P, hidden // P, N), dtype=x.dtype, buffer=nl.sbuf)
        for h in nl.affine_range(hidden // P):
            acc = nl.ndarray((P, N), dtype=nl.float32, buffer=nl.psum)
            for f in nl.affine_range(features // P):
                weights = nl.ndarray((P, P), dtype=up.dtype, buffer=nl.sbuf)
                tokens_in = nl.ndarray((P, N), dtype=x.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=weights, src=up[f * P : (f + 1) * P, h * P : (h + 1) * P])
                nisa.dma_copy(dst=tokens_in, src=x[f * P : (f + 1) * P, t * N : (t + 1) * N])
                nisa.nc_matmul(acc, weights, tokens_in)
            wide = nl.ndarray((P, N), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(wide, acc)
            nisa.activation(middle[:, h, :], op=nl.gelu, data=wide)
        for f in nl.affine_range(features // P):
            acc = nl.ndarray((P, N), dtype=nl.float32, buffer=nl.psum)
            for h in nl.affine_range(hidden // P):
                weights = nl.ndarray((P, P), dtype=down.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=weights, src=down[h * P : (h + 1) * P, f * P : (f + 1) * P])
                nisa.nc_matmul(acc, weights, middle[:, h, :])
            result = nl.ndarray((P, N), dtype=x.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(result, acc)
            nisa.dma_copy(dst=out[f * P : (f + 1) * P, t * N : (t + 1) * N], src=result)
    return out


def inputs(tokens=1024, features=512, hidden=2048, dtype=nl.bfloat16, seed=0):
    """Arguments of :func:`mlp`."""
    rng = np.random.default_rng(seed)
    shapes = {"x": (features, tokens), "up": (features, hidden), "down": (hidden, features)}
    return {
        name: (
            rng.standard_normal(shape, dtype=np.float32) / (1.0 if name == "x" else shape[0] ** 0.5)
        ).astype(dtype)
        for name, shape in shapes.items()
    }


def golden(x, up, down):
    """The layers in float64."""
    x, up, down = (a.astype(np.float64) for a in (x, up, down))
    middle = up.T @ x
    return down.T @ (middle * (1 + np.vectorize(math.erf)(middle / np.sqrt(2))) / 2)
