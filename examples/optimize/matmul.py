"""Matrix multiplication tile by tile, as the tutorial's first version: both operands of every
product of tiles are loaded for it.
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

TILE_K = 128
TILE_M = 128
TILE_N = 512


@nki.jit
def matmul(lhsT, rhs):
    """``lhsT.T @ rhs``: lhsT [K, M], rhs [K, N]; K and M multiples of 128, N of 512."""
    K, M = lhsT.shape
    _, N = rhs.shape
    out = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(M // TILE_M):
        for n in nl.affine_range(N // TILE_N):
            acc = nl.ndarray((TILE_M, TILE_N), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(K // TILE_K):
                lhs_tile = nl.ndarray((TILE_K, TILE_M), dtype=lhsT.dtype, buffer=nl.sbuf)
                rhs_tile = nl.ndarray((TILE_K, TILE_N), dtype=rhs.dtype, buffer=nl.sbuf)
                nisa.dma_copy(
                    dst=lhs_tile,
                    src=lhsT[k * TILE_K : (k + 1) * TILE_K, m * TILE_M : (m + 1) * TILE_M],
                )
                nisa.dma_copy(
                    dst=rhs_tile,
                    src=rhs[k * TILE_K : (k + 1) * TILE_K, n * TILE_N : (n + 1) * TILE_N],
                )
                nisa.nc_matmul(acc, lhs_tile, rhs_tile)
            result = nl.ndarray((TILE_M, TILE_N), dtype=out.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(result, acc)
            nisa.dma_copy(
                dst=out[m * TILE_M : (m + 1) * TILE_M, n * TILE_N : (n + 1) * TILE_N], src=result
            )
    return out


def inputs(M=1024, K=1024, N=2048, dtype=nl.bfloat16, seed=0):
    """Arguments of an [M, K] @ [K, N] product."""
    rng = np.random.default_rng(seed)
    return {
        "lhsT": rng.standard_normal((K, M), dtype=np.float32).astype(dtype),
        "rhs": rng.standard_normal((K, N), dtype=np.float32).astype(dtype),
    }


def golden(lhsT, rhs):
    """The product in float64, as float32."""
    return (lhsT.astype(np.float64).T @ rhs.astype(np.float64)).astype(np.float32)
