# mypy: ignore-errors
"""Pictures: windows, convolutions, statistics over batches."""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np

from plainlib.case import F32, case

P = 128


def normalised(x, gain, shift):
    mean, variance = (of(x, axis=(0, 2, 3), keepdims=True) for of in (np.mean, np.var))
    return (x - mean) / np.sqrt(variance + 1e-5) * gain[:, None, None] + shift[:, None, None]


@case(
    small={"pictures": 3, "channels": 128, "side": 6},
    real={"pictures": 16, "channels": 256, "side": 28},
    shapes=lambda pictures, channels, side: {
        "x": ((pictures, channels, side, side), F32),
        "gain": ((channels,), F32),
        "shift": ((channels,), F32),
    },
    golden=normalised,
)
@nki.jit
def batchnorm(x, gain, shift):
    """Sums and squares of a batch that stays on chip until both are known."""
    pictures, channels, height, width = x.shape
    pixels = height * width
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for c in nl.affine_range(channels // P):
        rows = nl.ds(c * P, P)
        g_tile, s_tile = nl.load(gain[rows]), nl.load(shift[rows])
        tiles = nl.ndarray((pictures, nl.par_dim(P), pixels), dtype=x.dtype, buffer=nl.sbuf)
        total, squares = nl.zeros((P, 1), nl.float32), nl.zeros((P, 1), nl.float32)
        for n in nl.affine_range(pictures):
            tiles[n] = nl.load(x[n, rows].reshape((P, pixels)))
            total += nl.sum(tiles[n], axis=1, keepdims=True)
            squares += nl.sum(nl.square(tiles[n]), axis=1, keepdims=True)
        mean = total / (pictures * pixels)
        variance = squares / (pictures * pixels) - mean * mean
        scale = g_tile * nl.rsqrt(variance + 1e-5)
        offset = s_tile - mean * scale
        for n in nl.affine_range(pictures):
            nl.store(out[n, rows].reshape((P, pixels)), tiles[n] * scale + offset)
    return out


def convolved(x, weight):
    rows, columns = x.shape[2] - 2, x.shape[3] - 2
    parts = [
        np.einsum("nchw,oc->nohw", x[:, :, r : r + rows, s : s + columns], weight[:, :, r, s])
        for r in range(3)
        for s in range(3)
    ]
    return sum(parts)


@case(
    small={"pictures": 1, "channels": 128, "side": 8},
    real={"pictures": 2, "channels": 256, "side": 38},
    shapes=lambda pictures, channels, side: {
        "x": ((pictures, channels, side, side), F32),
        "weight": ((channels, channels, 3, 3), F32),
    },
    golden=convolved,
    tolerance=1e-4,
)
@nki.jit
def conv2d(x, weight):
    """Nine products a tile of channels; weights are turned first, each into an array of tiles."""
    pictures, channels, side, _ = x.shape
    across, blocks = side - 2, channels // P
    high = 12 if across % 12 == 0 else 6
    out = nl.ndarray((pictures, channels, across, across), dtype=x.dtype, buffer=nl.shared_hbm)
    turned = nl.ndarray((blocks, blocks, 3, 3, nl.par_dim(P), P), dtype=x.dtype, buffer=nl.sbuf)
    for o in nl.affine_range(blocks):
        for c in nl.affine_range(blocks):
            tile = nl.load(weight[o * P : (o + 1) * P, c * P : (c + 1) * P])
            for r in nl.static_range(3):
                for s in nl.static_range(3):
                    turned[o, c, r, s] = nl.copy(nisa.nc_transpose(nl.copy(tile[:, :, r, s])))
    for n in nl.affine_range(pictures):
        picture = nl.ndarray((blocks, nl.par_dim(P), side, side), dtype=x.dtype, buffer=nl.sbuf)
        for c in nl.affine_range(blocks):
            picture[c] = nl.load(x[n, c * P : (c + 1) * P])
        for o in nl.affine_range(blocks):
            for y in nl.affine_range(across // high):
                acc = nl.zeros((P, high, across), nl.float32, buffer=nl.psum)
                for c in nl.affine_range(blocks):
                    for r in nl.static_range(3):
                        for s in nl.static_range(3):
                            window = picture[c, :, nl.ds(y * high + r, high), s : s + across]
                            acc += nisa.nc_matmul(turned[o, c, r, s], window)
                here = (n, slice(o * P, (o + 1) * P), nl.ds(y * high, high), slice(0, across))
                nl.store(out[here], nl.copy(acc))
    return out
