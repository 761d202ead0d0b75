"""LayerNorm from the definition of mean and variance, with buffers made once for all tiles."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

P = nl.tile_size.pmax


@nki.jit
def layernorm(x, weight, bias, eps=1e-5):
    """``(x - mean) / sqrt(var + eps) * weight + bias``: x [tokens, features], weight and bias [1,
    features]; tokens a multiple of 128.
    """
    tokens, features = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((P, features), dtype=nl.float32, buffer=nl.sbuf)
    work = nl.ndarray((P, features), dtype=nl.float32, buffer=nl.sbuf)
    result = nl.ndarray((P, features), dtype=x.dtype, buffer=nl.sbuf)
    mean = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
    var = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
    for i in range(tokens // P):
        gain = nl.ndarray((P, features), dtype=nl.float32, buffer=nl.sbuf)
        shift = nl.ndarray((P, features), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=gain, src=weight.ap([[0, P], [1, features]]))
        nisa.dma_copy(dst=shift, src=bias.ap([[0, P], [1, features]]))
        count = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(count, 1.0 / features)

        nisa.dma_copy(dst=tile, src=x[i * P : (i + 1) * P, :])
        nisa.tensor_reduce(mean, op=nl.add, data=tile, axis=1)
        nisa.tensor_tensor(mean, mean, count, op=nl.multiply)
        nisa.tensor_scalar(tile, tile, op0=nl.subtract, operand0=mean)
        nisa.tensor_tensor(work, tile, tile, op=nl.multiply)
        nisa.tensor_reduce(var, op=nl.add, data=work, axis=1)
        nisa.tensor_tensor(var, var, count, op=nl.multiply)
        nisa.tensor_scalar(var, var, op0=nl.add, operand0=eps)
        nisa.activation(var, op=nl.rsqrt, data=var)
        nisa.tensor_scalar(tile, tile, op0=nl.multiply, operand0=var)
        nisa.tensor_tensor(tile, tile, gain, op=nl.multiply)
        nisa.tensor_tensor(tile, tile, shift, op=nl.add)
        nisa.tensor_copy(result, tile)
        nisa.dma_copy(dst=out[i * P : (i + 1) * P, :], src=result)
    return out


def inputs(tokens=2048, features=1024, dtype=nl.bfloat16, seed=0):
    """Arguments of :func:`layernorm`."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((tokens, features), dtype=np.float32).astype(dtype)
    return {
        "x": x,
        "weight": rng.standard_normal((1, features), dtype=np.float32),
        "bias": rng.standard_normal((1, features), dtype=np.float32),
    }


def golden(x, weight, bias, eps=1e-5):
    """LayerNorm in float64."""
    x = x.astype(np.float64)
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt(x.var(axis=1, keepdims=True) + eps) * weight + bias
