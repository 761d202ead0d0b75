# mypy: ignore-errors
"""Recurrences over tokens by VectorE's scan."""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np

from plainlib.case import F32, case

P = 128


def selective_scan(delta, u, A, B, C):
    state, out = np.zeros(A.shape), np.empty(delta.shape)
    for t in range(delta.shape[1]):
        state = np.exp(delta[:, t, None] * A) * state + (delta[:, t] * u[:, t])[:, None] * B[:, t]
        out[:, t] = state @ C[:, t]
    return out


def scan_shapes(channels, tokens, states):
    return {
        "delta": ((channels, tokens), F32),
        "u": ((channels, tokens), F32),
        "A": ((channels, states), F32),
        "B": ((states, tokens), F32),
        "C": ((states, tokens), F32),
    }


def scan_fill(rng, channels, tokens, states):
    return {
        "delta": rng.uniform(0.001, 0.1, (channels, tokens)),
        "A": -rng.uniform(0.5, 8.0, (channels, states)),
    }


@case(
    small={"channels": 128, "tokens": 64, "states": 4},
    tight={"channels": 128, "tokens": 8192, "states": 2},
    real={"channels": 256, "tokens": 8192, "states": 16},
    shapes=scan_shapes,
    golden=selective_scan,
    tolerance=1e-4,
    fill=scan_fill,
    lacks=("sbuf", "sbuf"),
)
@nki.jit
def mamba_long(delta, u, A, B, C):
    """All tokens of a tile of channels at once."""
    channels, tokens = delta.shape
    states = A.shape[1]
    out = nl.ndarray(delta.shape, dtype=delta.dtype, buffer=nl.shared_hbm)
    for c in nl.affine_range(channels // P):
        acc = nl.zeros((nl.par_dim(P), tokens), dtype=delta.dtype, buffer=nl.sbuf)
        delta_i = nl.load(delta[c * P : (c + 1) * P, 0:tokens])
        u_i = nl.load(u[c * P : (c + 1) * P, 0:tokens])
        for s in nl.affine_range(states):
            A_i = nl.load(A[c * P : (c + 1) * P, s])
            decay = nisa.activation(op=nl.exp, data=delta_i, scale=A_i)
            B_i = nl.load(B[s : s + 1, 0:tokens])
            drive = nisa.tensor_tensor(delta_i, u_i, op=nl.multiply)
            entering = nisa.tensor_tensor(drive, B_i.broadcast_to((P, tokens)), op=nl.multiply)
            state = nisa.tensor_tensor_scan(decay, entering, initial=0, op0=np.multiply, op1=np.add)
            C_i = nl.load(C[s : s + 1, 0:tokens])
            part = nisa.tensor_tensor(state, C_i.broadcast_to((P, tokens)), op=nl.multiply)
            acc[0:P, 0:tokens] += part
        nl.store(out[c * P : (c + 1) * P, 0:tokens], acc[0:P, 0:tokens])
    return out


@case(
    small={"channels": 256, "tokens": 64, "states": 4},
    real={"channels": 1024, "tokens": 512, "states": 16},
    shapes=scan_shapes,
    golden=selective_scan,
    tolerance=1e-4,
    fill=scan_fill,
)
@nki.jit
def mamba_states_outside(delta, u, A, B, C):
    """Sums of all tiles of channels wait while the states pass."""
    channels, tokens = delta.shape
    states = A.shape[1]
    tiles = channels // P
    out = nl.ndarray(delta.shape, dtype=delta.dtype, buffer=nl.shared_hbm)
    acc = nl.zeros((tiles, nl.par_dim(P), tokens), dtype=delta.dtype, buffer=nl.sbuf)
    i_p, i_t = nl.mgrid[0:P, 0:tokens]
    for s in nl.affine_range(states):
        B_i = nl.load(B[s : s + 1, 0:tokens])
        C_i = nl.load(C[s : s + 1, 0:tokens])
        for c in nl.affine_range(tiles):
            delta_i = nl.load(delta[c * P + i_p, i_t])
            u_i = nl.load(u[c * P + i_p, i_t])
            A_i = nl.load(A[c * P : (c + 1) * P, s])
            decay = nl.exp(nl.multiply(delta_i, A_i))
            entering = nl.multiply(nl.multiply(delta_i, u_i), B_i.broadcast_to((P, tokens)))
            state = nisa.tensor_tensor_scan(
                decay, entering, initial=0.0, op0=np.multiply, op1=np.add
            )
            acc[c, i_p, i_t] += nl.multiply(state, C_i.broadcast_to((P, tokens)))
    for c in nl.affine_range(tiles):
        nl.store(out[c * P + i_p, i_t], value=acc[c])
    return out


@case(
    small={"rows": 128, "columns": 1024},
    real={"rows": 1024, "columns": 8192},
    shapes=lambda rows, columns: {"x": ((rows, columns), F32)},
    golden=lambda x: np.cumsum(x, axis=1),
    tolerance=1e-4,
)
@nki.jit
def cumulative_sum(x):
    """Chunks of 512 hand over their last value."""
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i_p, i_f = nl.mgrid[0:P, 0:512]
    for i in nl.affine_range(rows // P):
        ones = nl.ones((P, 512), dtype=nl.float32, buffer=nl.sbuf)
        last = nl.zeros((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        for c in nl.sequential_range(columns // 512):
            tile = nl.load(x[i * P + i_p, c * 512 + i_f])
            sums = nisa.tensor_tensor_scan(ones, tile, initial=last, op0=np.multiply, op1=np.add)
            nl.store(out[i * P + i_p, c * 512 + i_f], value=sums)
            last[...] = nl.copy(sums[:, 511:512])
    return out


def gated(a, b, z):
    state, out = np.zeros(a.shape[0]), np.empty(a.shape)
    for t in range(a.shape[1]):
        state = a[:, t] * state + b[:, t]
        out[:, t] = state * z[:, t] / (1 + np.exp(-z[:, t]))
    return out


@case(
    small={"rows": 128, "tokens": 256},
    tight={"rows": 256, "tokens": 8192},
    real={"rows": 2048, "tokens": 8192},
    shapes=lambda rows, tokens: {name: ((rows, tokens), F32) for name in "abz"},
    golden=gated,
    tolerance=1e-4,
    fill=lambda rng, rows, tokens: {"a": rng.uniform(0.5, 0.99, (rows, tokens))},
)
@nki.jit
def gated_recurrence(a, b, z):
    """A linear recurrence and its gate over rows of 32 KiB: as many as fit."""
    rows, tokens = a.shape
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(rows // P):
        a_tile = nl.load(a[i * P : (i + 1) * P, :])
        b_tile = nl.load(b[i * P : (i + 1) * P, :])
        z_tile = nl.load(z[i * P : (i + 1) * P, :])
        state = nisa.tensor_tensor_scan(a_tile, b_tile, initial=0, op0=np.multiply, op1=np.add)
        gate = nl.silu(z_tile)
        result = nl.multiply(state, gate)
        nl.store(out[i * P : (i + 1) * P, :], value=result)
    return out
