"""Exchange of the two free axes of [rows, height * width], row of a picture by row of it."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

P = nl.tile_size.pmax


@nki.jit
def transpose_2d(x, height=64):
    """x [rows, height * width] as [rows, width * height], rows a multiple of 128."""
    rows, size = x.shape
    width = size // height
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((P, height, width), dtype=x.dtype, buffer=nl.sbuf)
    turned = nl.ndarray((P, width, height), dtype=x.dtype, buffer=nl.sbuf)
    for i in range(rows // P):
        nisa.dma_copy(dst=tile, src=x[i * P : (i + 1) * P, :])
        for h in range(height):
            nisa.tensor_copy(turned[:, :, h : h + 1], tile[:, h : h + 1, :])
        nisa.dma_copy(dst=out[i * P : (i + 1) * P, :], src=turned)
    return out


def inputs(rows=1024, size=4096, dtype=nl.float32, seed=0):
    """Arguments of :func:`transpose_2d`."""
    rng = np.random.default_rng(seed)
    return {"x": rng.standard_normal((rows, size), dtype=np.float32).astype(dtype)}


def golden(x, height=64):
    """The same by NumPy."""
    rows, size = x.shape
    return x.reshape(rows, height, size // height).swapaxes(1, 2).reshape(rows, size)
