"""A linear layer with bias: the left side of the product is loaded once a row of tiles, and that is
where tuning stopped.
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

TILE_K = 128
TILE_M = 128
TILE_N = 512


@nki.jit
def projection(xT, weight, bias):
    """``xT.T @ weight + bias``: xT [K, M], weight [K, N], bias [1, N]; K and M multiples of 128, N
    of 512.
    """
    K, M = xT.shape
    _, N = weight.shape
    out = nl.ndarray((M, N), dtype=xT.dtype, buffer=nl.shared_hbm)
    # The buffers of the inner loops, made once.
    weight_tile = nl.ndarray((TILE_K, TILE_N), dtype=weight.dtype, buffer=nl.sbuf)
    bias_tile = nl.ndarray((TILE_M, TILE_N), dtype=nl.float32, buffer=nl.sbuf)
    acc = nl.ndarray((TILE_M, TILE_N), dtype=nl.float32, buffer=nl.psum)
    result = nl.ndarray((TILE_M, TILE_N), dtype=nl.float32, buffer=nl.sbuf)
    rounded = nl.ndarray((TILE_M, TILE_N), dtype=out.dtype, buffer=nl.sbuf)
    for m in range(M // TILE_M):
        x_tiles = nl.ndarray((TILE_K, K // TILE_K, TILE_M), dtype=xT.dtype, buffer=nl.sbuf)
        for k in range(K // TILE_K):
            nisa.dma_copy(
                dst=x_tiles[:, k, :],
                src=xT[k * TILE_K : (k + 1) * TILE_K, m * TILE_M : (m + 1) * TILE_M],
            )
        for n in range(N // TILE_N):
            for k in range(K // TILE_K):
                nisa.dma_copy(
                    dst=weight_tile,
                    src=weight[k * TILE_K : (k + 1) * TILE_K, n * TILE_N : (n + 1) * TILE_N],
                )
                nisa.nc_matmul(acc, x_tiles[:, k, :], weight_tile, accumulate=k > 0)
            nisa.tensor_copy(result, acc)
            nisa.dma_copy(dst=bias_tile, src=bias.ap([[0, TILE_M], [1, TILE_N]], offset=n * TILE_N))
            nisa.tensor_tensor(result, result, bias_tile, op=nl.add)
            nisa.tensor_copy(rounded, result)
            nisa.dma_copy(
                dst=out[m * TILE_M : (m + 1) * TILE_M, n * TILE_N : (n + 1) * TILE_N], src=rounded
            )
    return out


def inputs(M=1024, K=1024, N=2048, dtype=nl.bfloat16, seed=0):
    """Arguments of a layer from K to N features for M tokens."""
    rng = np.random.default_rng(seed)
    return {
        "xT": rng.standard_normal((K, M), dtype=np.float32).astype(dtype),
        "weight": (rng.standard_normal((K, N), dtype=np.float32) / K**0.5).astype(dtype),
        "bias": rng.standard_normal((1, N), dtype=np.float32),
    }


def golden(xT, weight, bias):
    """The layer in float64."""
    return xT.astype(np.float64).T @ weight.astype(np.float64) + bias
