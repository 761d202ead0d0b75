"""Feed-forward blocks on transposed activations: features on partitions throughout, so nothing is
transposed.
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

P = nl.tile_size.pmax
N = nl.tile_size.gemm_moving_fmax


def _weights(tensor, rows, columns):
    """[rows, columns] in HBM as [128, rows / 128, columns] in SBUF."""
    tile = nl.ndarray((P, rows // P, columns), dtype=tensor.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=tensor.reshape((rows // P, P, columns)).permute((1, 0, 2)))
    return tile


def _project(weights, column, x, width):
    """``weights[:, column block].T @ x`` in PSUM."""
    acc = nl.ndarray((P, width), dtype=nl.float32, buffer=nl.psum)
    for k in nl.affine_range(weights.shape[1]):
        nisa.nc_matmul(acc, weights[:, k, nl.ds(column * P, P)], x[:, k, :])
    return acc


@nki.jit
def swiglu(x, gate, up, down):
    """``down.T @ (silu(gate.T @ x) * (up.T @ x))``: x [features, tokens], gate and up [features,
    hidden], down [hidden, features]; returns [features, tokens].
    """
    features, tokens = x.shape
    hidden = gate.shape[1]
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    gate_tile, up_tile = _weights(gate, features, hidden), _weights(up, features, hidden)
    down_tile = _weights(down, hidden, features)
    for t in nl.affine_range((tokens + N - 1) // N):
        columns = nl.ds(t * N, min(N, tokens - t * N))
        width = columns.size
        inputs = nl.ndarray((P, features // P, width), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(
            dst=inputs, src=x[:, columns].reshape_dim(0, (features // P, P)).permute((1, 0, 2))
        )
        middle = nl.ndarray((P, hidden // P, width), dtype=x.dtype, buffer=nl.sbuf)
        for h in nl.affine_range(hidden // P):
            gated = nl.ndarray((P, width), dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation(gated, op=nl.silu, data=_project(gate_tile, h, inputs, width))
            nisa.tensor_tensor(
                middle[:, h, :], gated, _project(up_tile, h, inputs, width), op=nl.multiply
            )
        for f in nl.affine_range(features // P):
            result = nl.ndarray((P, width), dtype=x.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(result, _project(down_tile, f, middle, width))
            nisa.dma_copy(dst=out[nl.ds(f * P, P), columns], src=result)
    return out


def swiglu_inputs(tokens=256, features=256, hidden=512, dtype=nl.bfloat16, seed=0):
    """Arguments of :func:`swiglu`."""
    rng = np.random.default_rng(seed)
    shapes = {
        "x": (features, tokens),
        "gate": (features, hidden),
        "up": (features, hidden),
        "down": (hidden, features),
    }
    return {
        name: (
            rng.standard_normal(shape, dtype=np.float32) / (1.0 if name == "x" else shape[0] ** 0.5)
        ).astype(dtype)
        for name, shape in shapes.items()
    }


def swiglu_golden(x, gate, up, down):
    """The block in float64."""
    x, gate, up, down = (a.astype(np.float64) for a in (x, gate, up, down))
    gated = gate.T @ x
    return down.T @ (gated / (1 + np.exp(-gated)) * (up.T @ x))
