"""Convolutions over sequences: dense by products of shifted windows, depthwise on the vector engine."""

from typing import Optional, Tuple

import nki
import nki.isa as nisa
import nki.language as nl

from ..core.utils.kernel_assert import kernel_assert
from ..core.utils.kernel_helpers import (
    div_ceil,
    get_program_sharding_info,
    psum_bank_address,
    shard_dim,
)
from ..core.utils.tiled_range import TiledRange


@nki.jit
def conv1d(
    img: nl.ndarray,
    weight: nl.ndarray,
    bias: Optional[nl.ndarray] = None,
    stride: int = 1,
    padding: Tuple[int, int] = (0, 0),
    dilation: int = 1,
) -> nl.ndarray:
    """img [N, C_in, W], weight [C_out, C_in, K], bias [C_out] -> [N, C_out, W_out]."""
    N, C_in, W = img.shape
    C_out, _, K = weight.shape
    P = nl.tile_size.pmax
    kernel_assert(weight.shape[1] == C_in, f"weight has shape {weight.shape}")
    left, right = padding
    padded = W + left + right
    W_out = (padded - dilation * (K - 1) - 1) // stride + 1
    out = nl.ndarray((N, C_out, W_out), img.dtype, buffer=nl.shared_hbm)
    _, n_prgs, prg_id = get_program_sharding_info()
    mine = shard_dim(C_out, n_prgs, prg_id)
    inputs = TiledRange(C_in, P)
    for n in range(N):
        rows = []
        for c in inputs:
            row = nl.ndarray((c.size, padded), img.dtype, buffer=nl.sbuf)
            nisa.memset(row, value=0.0)
            nisa.dma_copy(row[:, nl.ds(left, W)], img[n, c.ds(), :])
            rows.append(row)
        for o in TiledRange(mine.size, P, start=mine.start):
            w = []
            for c in inputs:
                taps = nl.ndarray((c.size, K, o.size), weight.dtype)
                nisa.dma_copy(
                    dst=taps,
                    src=weight.ap(
                        [[K, c.size], [1, K], [C_in * K, o.size]],
                        offset=o.start_offset * C_in * K + c.start_offset * K,
                    ),
                )
                w.append(taps)
            column = None
            if bias is not None:
                column = nl.ndarray((o.size, 1), nl.float32)
                nisa.dma_copy(column, bias.reshape((C_out, 1))[o.ds()])
            for part in TiledRange(W_out, nl.tile_size.psum_fmax):
                acc = nl.ndarray(
                    (o.size, part.size),
                    nl.float32,
                    buffer=nl.psum,
                    address=psum_bank_address(part.index),
                )
                for c in inputs:
                    for k in range(K):
                        first = part.start_offset * stride + k * dilation
                        nisa.nc_matmul(
                            acc,
                            w[c.index][:, k],
                            rows[c.index][:, first : first + (part.size - 1) * stride + 1 : stride],
                        )
                result = nl.ndarray((o.size, part.size), img.dtype)
                if column is not None:
                    nisa.activation(result, nl.copy, acc, bias=column)
                else:
                    nisa.tensor_copy(result, acc)
                nisa.dma_copy(out[n, o.ds(), part.ds()], result)
    return out


@nki.jit
def depthwise_conv1d(
    img: nl.ndarray, weight: nl.ndarray, init_state: Optional[nl.ndarray] = None
) -> Tuple[nl.ndarray, nl.ndarray]:
    """Causal: img [B, C, S], weight [C, K], init_state [B, C, K-1] -> outputs and the last inputs."""
    B, C, S = img.shape
    K = weight.shape[1]
    out = nl.ndarray(img.shape, img.dtype, buffer=nl.shared_hbm)
    state = nl.ndarray((B, C, K - 1), img.dtype, buffer=nl.shared_hbm)
    _, n_prgs, prg_id = get_program_sharding_info()
    mine = shard_dim(C, n_prgs, prg_id)
    for c in TiledRange(mine.size, nl.tile_size.pmax, start=mine.start):
        taps = nl.ndarray((c.size, K), nl.float32)
        nisa.dma_copy(taps, weight[c.ds()])
        for b in range(B):
            x = nl.ndarray((c.size, K - 1 + S), img.dtype)
            if init_state is None:
                nisa.memset(x[:, : K - 1], 0.0)
            else:
                nisa.dma_copy(x[:, : K - 1], init_state[b, c.ds()])
            nisa.dma_copy(x[:, K - 1 :], img[b, c.ds()])
            sums = [nl.ndarray((c.size, S), nl.float32) for _ in range(2)]
            nisa.tensor_scalar(sums[0], x[:, 0:S], nl.multiply, taps[:, 0:1])
            for k in range(1, K):
                nisa.scalar_tensor_tensor(
                    sums[k % 2],
                    x[:, nl.ds(k, S)],
                    nl.multiply,
                    taps[:, k],
                    nl.add,
                    sums[(k + 1) % 2],
                )
            result = nl.ndarray((c.size, S), img.dtype)
            nisa.activation(result, op=nl.silu, data=sums[(K - 1) % 2])
            nisa.dma_copy(out[b, c.ds()], result)
            nisa.dma_copy(state[b, c.ds()], x[:, S : S + K - 1])
    return out, state
