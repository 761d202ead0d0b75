"""Recurrences by VectorE's scan: cumulative sum, and a Mamba-style selective scan."""

from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

P = nl.tile_size.pmax


@nki.jit
def cumsum(x, chunk=2048):
    """Cumulative sum along the last axis of x [rows, columns], in float32; chunks hand over their
    last value.
    """
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range((rows + P - 1) // P):
        here = nl.ds(i * P, min(P, rows - i * P))
        ones = nl.ndarray((here.size, min(chunk, columns)), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(ones, 1.0)
        last: Any = 0.0  # then the last column of the chunk before
        for c in nl.sequential_range((columns + chunk - 1) // chunk):
            part = nl.ds(c * chunk, min(chunk, columns - c * chunk))
            tile = nl.ndarray((here.size, part.size), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x[here, part])
            sums = nl.ndarray((here.size, part.size), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor_scan(
                sums, ones[:, 0 : part.size], tile, initial=last, op0=nl.multiply, op1=nl.add
            )
            nisa.dma_copy(dst=out[here, part], src=sums)
            last = sums[:, part.size - 1 : part.size]
    return out


@nki.jit
def selective_scan(delta, u, A, B, C):
    """``h = exp(delta A) h + delta u B; y = sum over states of C h``: delta and u [channels,
    tokens], A [channels, states], B and C [states, tokens]; returns y [channels, tokens].
    """
    channels, tokens = delta.shape
    states = A.shape[1]
    out = nl.ndarray(delta.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(channels // P):
        rows = nl.ds(i * P, P)
        step = nl.ndarray((P, tokens), dtype=nl.float32, buffer=nl.sbuf)
        driven = nl.ndarray((P, tokens), dtype=nl.float32, buffer=nl.sbuf)
        decay = nl.ndarray((P, states), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=step, src=delta[rows, :])
        nisa.dma_copy(dst=driven, src=u[rows, :])
        nisa.dma_copy(dst=decay, src=A[rows, :])
        nisa.tensor_tensor(driven, step, driven, op=nl.multiply)
        result = nl.ndarray((P, tokens), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(result, 0.0)
        for s in nl.sequential_range(states):
            factor = nl.ndarray((P, tokens), dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation(factor, op=nl.exp, data=step, scale=decay[:, s : s + 1])
            row_b = nl.ndarray((P, tokens), dtype=nl.float32, buffer=nl.sbuf)
            row_c = nl.ndarray((P, tokens), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=row_b, src=B.ap([[0, P], [1, tokens]], offset=s * tokens))
            nisa.dma_copy(dst=row_c, src=C.ap([[0, P], [1, tokens]], offset=s * tokens))
            nisa.tensor_tensor(row_b, driven, row_b, op=nl.multiply)
            state = nl.ndarray((P, tokens), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor_scan(state, factor, row_b, initial=0.0, op0=nl.multiply, op1=nl.add)
            nisa.tensor_tensor(state, state, row_c, op=nl.multiply)
            nisa.tensor_tensor(result, result, state, op=nl.add)
        nisa.dma_copy(dst=out[rows, :], src=result)
    return out


def cumsum_inputs(rows=128, columns=4096, seed=0):
    """Arguments of :func:`cumsum`."""
    return {"x": np.random.default_rng(seed).standard_normal((rows, columns), dtype=np.float32)}


def cumsum_golden(x):
    """The sums in float64."""
    return np.cumsum(x.astype(np.float64), axis=1)


def selective_scan_inputs(channels=256, tokens=512, states=16, seed=0):
    """Arguments of :func:`selective_scan`."""
    rng = np.random.default_rng(seed)
    return {
        "delta": rng.uniform(0.001, 0.1, (channels, tokens)).astype(np.float32),
        "u": rng.standard_normal((channels, tokens), dtype=np.float32),
        "A": -rng.uniform(0.5, 8.0, (channels, states)).astype(np.float32),
        "B": rng.standard_normal((states, tokens), dtype=np.float32),
        "C": rng.standard_normal((states, tokens), dtype=np.float32),
    }


def selective_scan_golden(delta, u, A, B, C):
    """The recurrence step by step in float64."""
    delta, u, A, B, C = (x.astype(np.float64) for x in (delta, u, A, B, C))
    state, out = np.zeros(A.shape), np.empty(delta.shape)
    for t in range(delta.shape[1]):
        state = np.exp(delta[:, t, None] * A) * state + (delta[:, t] * u[:, t])[:, None] * B[:, t]
        out[:, t] = state @ C[:, t]
    return out
