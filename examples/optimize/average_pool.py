"""Average pooling of pictures, one picture after the other through the same two tiles."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

P = nl.tile_size.pmax


@nki.jit
def average_pool(x, pool=2):
    """Average over pool x pool windows of x [pictures, channels, height, width]; channels are a
    multiple of 128.
    """
    pictures, channels, height, width = x.shape
    down, across = height // pool, width // pool
    out = nl.ndarray((pictures, channels, down, across), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((P, height, width), dtype=x.dtype, buffer=nl.sbuf)
    sums = nl.ndarray((P, down, across), dtype=nl.float32, buffer=nl.sbuf)
    result = nl.ndarray((P, down, across), dtype=x.dtype, buffer=nl.sbuf)
    for n in nl.affine_range(pictures):
        for c in nl.affine_range(channels // P):
            nisa.dma_copy(dst=tile, src=x[n, c * P : (c + 1) * P])
            windows = tile.ap(
                [
                    [height * width, P],
                    [pool * width, down],
                    [pool, across],
                    [width, pool],
                    [1, pool],
                ]
            )
            nisa.tensor_reduce(sums, op=nl.add, data=windows, axis=[3, 4])
            nisa.tensor_scalar(sums, sums, op0=nl.multiply, operand0=1.0 / pool**2)
            nisa.tensor_copy(result, sums)
            nisa.dma_copy(dst=out[n, c * P : (c + 1) * P], src=result)
    return out


def inputs(pictures=8, channels=256, height=56, width=56, dtype=nl.bfloat16, seed=0):
    """Pictures."""
    rng = np.random.default_rng(seed)
    shape = (pictures, channels, height, width)
    return {"x": rng.standard_normal(shape, dtype=np.float32).astype(dtype)}


def golden(x, pool=2):
    """The averages in float64."""
    pictures, channels, height, width = x.shape
    shape = (pictures, channels, height // pool, pool, width // pool, pool)
    return x.astype(np.float64).reshape(shape).mean(axis=(3, 5))
