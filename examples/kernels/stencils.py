"""Windows over the free axes without a copy: depthwise convolution and average pooling by access
patterns.
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

P = nl.tile_size.pmax


@nki.jit
def depthwise_conv(x, weight):
    """Depthwise convolution along tokens: x [channels, tokens], weight [channels, taps]; returns
    [channels, tokens - taps + 1]. Each tap is one multiply-add over a shifted view.
    """
    channels, tokens = x.shape
    taps = weight.shape[1]
    length = tokens - taps + 1
    out = nl.ndarray((channels, length), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range((channels + P - 1) // P):
        rows = nl.ds(i * P, min(P, channels - i * P))
        tile = nl.ndarray((rows.size, tokens), dtype=nl.float32, buffer=nl.sbuf)
        factors = nl.ndarray((rows.size, taps), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[rows, :])
        nisa.dma_copy(dst=factors, src=weight[rows, :])
        total = nl.ndarray((rows.size, length), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(total, tile[:, 0:length], op0=nl.multiply, operand0=factors[:, 0:1])
        for tap in nl.sequential_range(1, taps):
            nisa.scalar_tensor_tensor(
                total,
                tile[:, tap : tap + length],
                op0=nl.multiply,
                operand0=factors[:, tap : tap + 1],
                op1=nl.add,
                operand1=total,
            )
        result = nl.ndarray((rows.size, length), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(result, total)
        nisa.dma_copy(dst=out[rows, :], src=result)
    return out


@nki.jit
def average_pool(x, pool=2):
    """Average over pool x pool windows of x [channels, height, width]."""
    channels, height, width = x.shape
    out = nl.ndarray((channels, height // pool, width // pool), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range((channels + P - 1) // P):
        rows = nl.ds(i * P, min(P, channels - i * P))
        tile = nl.ndarray((rows.size, height, width), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[rows])
        windows = tile.ap(
            [
                [height * width, rows.size],
                [pool * width, height // pool],
                [pool, width // pool],
                [width, pool],
                [1, pool],
            ]
        )
        sums = nl.ndarray(
            (rows.size, height // pool, width // pool), dtype=nl.float32, buffer=nl.sbuf
        )
        nisa.tensor_reduce(sums, op=nl.add, data=windows, axis=[3, 4])
        result = nl.ndarray(
            (rows.size, height // pool, width // pool), dtype=x.dtype, buffer=nl.sbuf
        )
        nisa.tensor_scalar(result, sums, op0=nl.multiply, operand0=1.0 / pool**2)
        nisa.dma_copy(dst=out[rows], src=result)
    return out


def depthwise_conv_inputs(channels=256, tokens=1024, taps=4, dtype=nl.bfloat16, seed=0):
    """Arguments of :func:`depthwise_conv`."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((channels, tokens), dtype=np.float32).astype(dtype)
    return {"x": x, "weight": rng.standard_normal((channels, taps), dtype=np.float32)}


def depthwise_conv_golden(x, weight):
    """The convolution in float64."""
    x, length = x.astype(np.float64), x.shape[1] - weight.shape[1] + 1
    return sum(x[:, tap : tap + length] * weight[:, tap, None] for tap in range(weight.shape[1]))


def average_pool_inputs(channels=128, height=28, width=28, dtype=nl.bfloat16, seed=0):
    """Arguments of :func:`average_pool`."""
    return {
        "x": np.random.default_rng(seed)
        .standard_normal((channels, height, width), dtype=np.float32)
        .astype(dtype)
    }


def average_pool_golden(x, pool=2):
    """The averages in float64."""
    channels, height, width = x.shape
    windows = x.astype(np.float64).reshape(channels, height // pool, pool, width // pool, pool)
    return windows.mean(axis=(2, 4))
