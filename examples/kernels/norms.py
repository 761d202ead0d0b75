"""RMSNorm and LayerNorm over rows of [tokens, features]: tokens on partitions, 128 at a time."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

P = nl.tile_size.pmax


def _broadcast_row(vector, features):
    """One row of HBM in all 128 partitions."""
    tile = nl.ndarray((P, features), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=vector.ap([[0, P], [1, features]]))
    return tile


@nki.jit
def rmsnorm(x, weight, eps=1e-6):
    """``x / sqrt(mean(x**2) + eps) * weight``, x [tokens, features], weight [1, features]."""
    tokens, features = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    gain = _broadcast_row(weight, features)
    for i in nl.affine_range((tokens + P - 1) // P):
        rows = min(P, tokens - i * P)
        tile = nl.ndarray((rows, features), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[nl.ds(i * P, rows), :])
        squares = nl.ndarray((rows, features), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation_reduce(squares, op=nl.square, data=tile, reduce_op=nl.add, reduce_res=total)
        mean = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(
            mean, total, op0=nl.multiply, operand0=1.0 / features, op1=nl.add, operand1=eps
        )
        scale = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(scale, op=nl.rsqrt, data=mean)
        result = nl.ndarray((rows, features), dtype=x.dtype, buffer=nl.sbuf)
        nisa.scalar_tensor_tensor(
            result, tile, op0=nl.multiply, operand0=scale, op1=nl.multiply, operand1=gain[0:rows, :]
        )
        nisa.dma_copy(dst=out[nl.ds(i * P, rows), :], src=result)
    return out


@nki.jit
def layernorm(x, weight, bias, eps=1e-5):
    """``(x - mean) / sqrt(var + eps) * weight + bias`` with the statistics of VectorE."""
    tokens, features = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    gain, shift = _broadcast_row(weight, features), _broadcast_row(bias, features)
    chunk = nl.tile_size.bn_stats_fmax
    chunks = (features + chunk - 1) // chunk
    for i in nl.affine_range((tokens + P - 1) // P):
        rows = min(P, tokens - i * P)
        tile = nl.ndarray((rows, features), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[nl.ds(i * P, rows), :])
        stats = nl.ndarray((rows, 6 * chunks), dtype=nl.float32, buffer=nl.sbuf)
        for c in nl.affine_range(chunks):
            width = min(chunk, features - c * chunk)
            nisa.bn_stats(stats[:, nl.ds(6 * c, 6)], tile[:, nl.ds(c * chunk, width)])
        moments = nl.ndarray((rows, 2), dtype=nl.float32, buffer=nl.sbuf)
        nisa.bn_aggr(moments, stats)
        spread = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(spread, moments[:, 1:2], op0=nl.add, operand0=eps)
        scale = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(scale, op=nl.rsqrt, data=spread)
        centred = nl.ndarray((rows, features), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(
            centred,
            tile,
            op0=nl.subtract,
            operand0=moments[:, 0:1],
            op1=nl.multiply,
            operand1=scale,
        )
        nisa.tensor_tensor(centred, centred, gain[0:rows, :], op=nl.multiply)
        result = nl.ndarray((rows, features), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_tensor(result, centred, shift[0:rows, :], op=nl.add)
        nisa.dma_copy(dst=out[nl.ds(i * P, rows), :], src=result)
    return out


def rmsnorm_inputs(tokens=256, features=512, dtype=nl.bfloat16, seed=0):
    """Arguments of :func:`rmsnorm`."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((tokens, features), dtype=np.float32).astype(dtype)
    return {"x": x, "weight": rng.standard_normal((1, features), dtype=np.float32)}


def layernorm_inputs(tokens=256, features=768, dtype=nl.bfloat16, seed=0):
    """Arguments of :func:`layernorm`."""
    bias = np.random.default_rng(seed + 1).standard_normal((1, features), dtype=np.float32)
    return {**rmsnorm_inputs(tokens, features, dtype, seed), "bias": bias}


def rmsnorm_golden(x, weight, eps=1e-6):
    """RMSNorm in float64."""
    x = x.astype(np.float64)
    return x / np.sqrt((x**2).mean(axis=1, keepdims=True) + eps) * weight


def layernorm_golden(x, weight, bias, eps=1e-5):
    """LayerNorm in float64."""
    x = x.astype(np.float64)
    return (x - x.mean(axis=1, keepdims=True)) / np.sqrt(
        x.var(axis=1, keepdims=True) + eps
    ) * weight + bias
