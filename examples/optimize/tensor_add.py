"""Sum of two matrices, tile by tile through one set of buffers."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

P = nl.tile_size.pmax
F = 512


@nki.jit
def tensor_add(a, b):
    """``a + b`` of [rows, columns], rows a multiple of 128 and columns of 512."""
    rows, columns = a.shape
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    a_tile = nl.ndarray((P, F), dtype=a.dtype, buffer=nl.sbuf)
    b_tile = nl.ndarray((P, F), dtype=b.dtype, buffer=nl.sbuf)
    for i in nl.affine_range(rows // P):
        for j in nl.affine_range(columns // F):
            here = (slice(i * P, (i + 1) * P), slice(j * F, (j + 1) * F))
            nisa.dma_copy(dst=a_tile, src=a[here])
            nisa.dma_copy(dst=b_tile, src=b[here])
            nisa.tensor_tensor(a_tile, a_tile, b_tile, op=nl.add)
            nisa.dma_copy(dst=out[here], src=a_tile)
    return out


def inputs(rows=1024, columns=2048, dtype=nl.float32, seed=0):
    """Two matrices."""
    rng = np.random.default_rng(seed)
    return {
        name: rng.standard_normal((rows, columns), dtype=np.float32).astype(dtype) for name in "ab"
    }


def golden(a, b):
    """The sum in float64."""
    return a.astype(np.float64) + b.astype(np.float64)
