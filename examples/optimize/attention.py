"""Attention of one head: all scores of 128 queries, their softmax, its product with the values;
keys and values are loaded where they are used.
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

P = nl.tile_size.pmax
KEYS = 512


@nki.jit
def attention(q, k, v):
    """``softmax(q.T @ k / sqrt(size)) @ v``: q and k [size, tokens], v [tokens, size]; returns
    [tokens, size]. Tokens are a multiple of 512, size is at most 128.
    """
    size, tokens = q.shape
    out = nl.ndarray((tokens, size), dtype=q.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(tokens // P):
        queries = nl.ndarray((size, P), dtype=q.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=queries, src=q[:, i * P : (i + 1) * P])

        scores = nl.ndarray((P, tokens), dtype=nl.float32, buffer=nl.sbuf)
        for j in nl.affine_range(tokens // KEYS):
            keys = nl.ndarray((size, KEYS), dtype=k.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=keys, src=k[:, j * KEYS : (j + 1) * KEYS])
            product = nl.ndarray((P, KEYS), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(product, queries, keys)
            here = scores[:, j * KEYS : (j + 1) * KEYS]
            nisa.tensor_copy(here, product)
            nisa.tensor_scalar(here, here, op0=nl.multiply, operand0=1.0 / size**0.5)

        largest = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(largest, op=nl.maximum, data=scores, axis=1)
        nisa.tensor_scalar(scores, scores, op0=nl.subtract, operand0=largest)
        nisa.activation(scores, op=nl.exp, data=scores)
        total = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(total, op=nl.add, data=scores, axis=1)
        inverse = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(inverse, total)
        weights = nl.ndarray((P, tokens), dtype=v.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(weights, scores, op0=nl.multiply, operand0=inverse)

        mixed = nl.ndarray((P, size), dtype=nl.float32, buffer=nl.psum)
        for j in nl.affine_range(tokens // P):
            turned = nl.ndarray((P, P), dtype=v.dtype, buffer=nl.psum)
            nisa.nc_transpose(turned, weights[:, j * P : (j + 1) * P])
            weights_t = nl.ndarray((P, P), dtype=v.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(weights_t, turned)
            values = nl.ndarray((P, size), dtype=v.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=values, src=v[j * P : (j + 1) * P, :])
            nisa.nc_matmul(mixed, weights_t, values)
        result = nl.ndarray((P, size), dtype=out.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(result, mixed)
        nisa.dma_copy(dst=out[i * P : (i + 1) * P, :], src=result)
    return out


def inputs(tokens=2048, size=64, dtype=nl.bfloat16, seed=0):
    """Arguments of :func:`attention`."""
    rng = np.random.default_rng(seed)
    shapes = {"q": (size, tokens), "k": (size, tokens), "v": (tokens, size)}
    return {
        name: rng.standard_normal(shape, dtype=np.float32).astype(dtype)
        for name, shape in shapes.items()
    }


def golden(q, k, v):
    """Attention in float64."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = q.T @ k / np.sqrt(q.shape[0])
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True) @ v
