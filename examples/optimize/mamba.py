"""The selective scan of a Mamba layer, the first version of the tutorial: states outside, channels
inside, every operand loaded where it is used.
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

P = nl.tile_size.pmax


@nki.jit
def mamba(delta, u, A, B, C):
    """``h = exp(delta A) h + delta u B; y = sum over states of C h``: delta and u [channels,
    tokens], A [channels, states], B and C [states, tokens]; returns y [channels, tokens]. Channels
    are a multiple of 128.
    """
    channels, tokens = delta.shape
    _, states = A.shape
    tiles = channels // P
    out = nl.ndarray(delta.shape, dtype=delta.dtype, buffer=nl.shared_hbm)
    total = nl.ndarray((P, tiles, tokens), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(total, 0.0)
    for s in nl.affine_range(states):
        for c in nl.affine_range(tiles):
            first, last = c * P, (c + 1) * P
            step = nl.ndarray((P, tokens), dtype=nl.float32, buffer=nl.sbuf)
            rate = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=step, src=delta[first:last, :])
            nisa.dma_copy(dst=rate, src=A[first:last, s : s + 1])
            decay = nl.ndarray((P, tokens), dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation(decay, op=nl.exp, data=step, scale=rate)

            drive = nl.ndarray((P, tokens), dtype=nl.float32, buffer=nl.sbuf)
            into = nl.ndarray((P, tokens), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=drive, src=u[first:last, :])
            nisa.dma_copy(dst=into, src=B.ap([[0, P], [1, tokens]], offset=s * tokens))
            driven = nl.ndarray((P, tokens), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor(driven, step, drive, op=nl.multiply)
            entering = nl.ndarray((P, tokens), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor(entering, driven, into, op=nl.multiply)

            state = nl.ndarray((P, tokens), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor_scan(
                state, decay, entering, initial=0.0, op0=nl.multiply, op1=nl.add
            )

            outof = nl.ndarray((P, tokens), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=outof, src=C.ap([[0, P], [1, tokens]], offset=s * tokens))
            part = nl.ndarray((P, tokens), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor(part, state, outof, op=nl.multiply)
            nisa.tensor_tensor(total[:, c, :], total[:, c, :], part, op=nl.add)
    for c in nl.affine_range(tiles):
        nisa.dma_copy(dst=out[c * P : (c + 1) * P, :], src=total[:, c, :])
    return out


def inputs(channels=256, tokens=512, states=16, seed=0):
    """Arguments of :func:`mamba`."""
    rng = np.random.default_rng(seed)
    return {
        "delta": rng.uniform(0.001, 0.1, (channels, tokens)).astype(np.float32),
        "u": rng.standard_normal((channels, tokens), dtype=np.float32),
        "A": -rng.uniform(0.5, 8.0, (channels, states)).astype(np.float32),
        "B": rng.standard_normal((states, tokens), dtype=np.float32),
        "C": rng.standard_normal((states, tokens), dtype=np.float32),
    }


def golden(delta, u, A, B, C):
    """The recurrence step by step in float64."""
    delta, u, A, B, C = (x.astype(np.float64) for x in (delta, u, A, B, C))
    state, out = np.zeros(A.shape), np.empty(delta.shape)
    for t in range(delta.shape[1]):
        state = np.exp(delta[:, t, None] * A) * state + (delta[:, t] * u[:, t])[:, None] * B[:, t]
        out[:, t] = state @ C[:, t]
    return out
