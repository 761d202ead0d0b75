"""Gradients of blocks of experts."""

import nki
import nki.isa as nisa
import nki.language as nl

from ..utils.kernel_assert import kernel_assert
from ..utils.kernel_helpers import get_verified_program_sharding_info

P = nl.tile_size.pmax


def _transposed(src, rows, columns, dtype, dst=None):
    """[rows, columns] tile as [columns, rows], by the array."""
    psum = nl.ndarray((columns, rows), dtype=src.dtype, buffer=nl.psum)
    nisa.nc_transpose(psum, src)
    out = nl.ndarray((columns, rows), dtype=dtype, buffer=nl.sbuf) if dst is None else dst
    nisa.tensor_copy(out, psum)
    return out


@nki.jit
def blockwise_mm_bwd(
    hidden_states: nl.ndarray,
    expert_affinities_masked: nl.ndarray,
    gate_up_proj_weight: nl.ndarray,
    down_proj_weight: nl.ndarray,
    token_position_to_id: nl.ndarray,
    block_to_expert: nl.ndarray,
    output_hidden_states_grad: nl.ndarray,
    block_size: int = 128,
):
    """Gradients of hidden states, affinities, and both weights; H and I are 128.

    Weights' gradients are added up in HBM, block by block.
    """
    T, H = hidden_states.shape
    E, _, _, width = gate_up_proj_weight.shape
    kernel_assert(H == P and width == P and block_size == P, "128 of each")
    N = token_position_to_id.shape[0] // block_size
    _, n_prgs, prg_id = get_verified_program_sharding_info("bwd", (0, 1), 2)
    f32 = nl.float32
    dx = nl.ndarray((n_prgs * T, H), dtype=f32, buffer=nl.shared_hbm)
    dx_out = nl.ndarray((T, H), dtype=f32, buffer=nl.shared_hbm)
    da = nl.ndarray((T * E, 1), dtype=f32, buffer=nl.shared_hbm)
    dgu = nl.ndarray((n_prgs, E, H, 2, width), dtype=f32, buffer=nl.shared_hbm)
    ddn = nl.ndarray((n_prgs, E, width, H), dtype=f32, buffer=nl.shared_hbm)
    dgu_out = nl.ndarray((E, H, 2, width), dtype=f32, buffer=nl.shared_hbm)
    ddn_out = nl.ndarray((E, width, H), dtype=f32, buffer=nl.shared_hbm)
    zero = nl.ndarray((P, 512), dtype=f32, buffer=nl.sbuf)
    nisa.memset(zero, 0.0)
    for t in range(0, T, P):
        n = min(P, T - t)
        nisa.dma_copy(dx[prg_id * T + t : prg_id * T + t + n, :], zero[:n, :H])
    for e in range(E):
        nisa.dma_copy(dgu[prg_id, e], zero[:, : 2 * width].reshape((P, 2, width)))
        nisa.dma_copy(ddn[prg_id, e], zero[:, :H])
    if prg_id == 0:
        for t in range(0, T * E, P):
            n = min(P, T * E - t)
            nisa.dma_copy(da[t : t + n], zero[:n, 0:1])
    if n_prgs > 1:
        nisa.core_barrier(da, (0, 1))
    for block in range(prg_id, N, n_prgs):
        tokens = nl.ndarray((P, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.dma_copy(tokens, token_position_to_id[nl.ds(block * P, P)])
        expert = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.dma_copy(expert, block_to_expert[block])
        x = nl.ndarray((P, H), dtype=f32, buffer=nl.sbuf)
        dy = nl.ndarray((P, H), dtype=f32, buffer=nl.sbuf)
        affinity = nl.ndarray((P, 1), dtype=f32, buffer=nl.sbuf)
        for tile, source in ((x, hidden_states), (dy, output_hidden_states_grad)):
            nisa.memset(tile, 0.0)
            nisa.dma_copy(
                tile,
                source.ap([[1, P], [1, H]], vector_offset=tokens),
                oob_mode=nisa.oob_mode.skip,
            )
        # Row of [T * E, 1], out of range for padding.
        rows = nl.ndarray((P, 1), dtype=nl.int32, buffer=nl.sbuf)
        spread = nl.ndarray((P, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.dma_copy(spread, block_to_expert.ap([[0, P], [1, 1]], offset=block))
        padded = nl.ndarray((P, 1), dtype=f32, buffer=nl.sbuf)
        nisa.tensor_scalar(
            padded, tokens, nl.less, 0.0, op1=nl.multiply, operand1=float(-T * E * 4)
        )
        nisa.tensor_scalar(rows, tokens, nl.multiply, float(E))
        nisa.tensor_tensor(rows, rows, spread, nl.add)
        nisa.tensor_tensor(rows, rows, padded, nl.add)
        nisa.memset(affinity, 0.0)
        nisa.dma_copy(
            affinity,
            expert_affinities_masked.ap([[1, P], [1, 1]], vector_offset=rows),
            oob_mode=nisa.oob_mode.skip,
        )
        gu = nl.ndarray((P, 2, width), dtype=f32, buffer=nl.sbuf)
        nisa.dma_copy(gu, gate_up_proj_weight.select(0, expert))
        dn = nl.ndarray((P, H), dtype=f32, buffer=nl.sbuf)
        nisa.dma_copy(dn, down_proj_weight.select(0, expert))
        xt = _transposed(x, P, P, f32)
        gate = nl.ndarray((P, width), dtype=f32, buffer=nl.psum)
        up = nl.ndarray((P, width), dtype=f32, buffer=nl.psum)
        nisa.nc_matmul(gate, xt, gu[:, 0])
        nisa.nc_matmul(up, xt, gu[:, 1])
        act = nl.ndarray((P, width), dtype=f32, buffer=nl.sbuf)
        slope = nl.ndarray((P, width), dtype=f32, buffer=nl.sbuf)
        nisa.activation(act, nl.silu, gate)
        nisa.activation(slope, nl.silu_dx, gate)
        up_sb = nl.ndarray((P, width), dtype=f32, buffer=nl.sbuf)
        nisa.tensor_copy(up_sb, up)
        middle = nl.ndarray((P, width), dtype=f32, buffer=nl.sbuf)
        nisa.tensor_tensor(middle, act, up_sb, nl.multiply)
        # Affinities: the row's output times dy.
        mt = _transposed(middle, P, P, f32)
        y = nl.ndarray((P, H), dtype=f32, buffer=nl.psum)
        nisa.nc_matmul(y, mt, dn)
        product = nl.ndarray((P, H), dtype=f32, buffer=nl.sbuf)
        nisa.tensor_tensor(product, y, dy, nl.multiply)
        dot = nl.ndarray((P, 1), dtype=f32, buffer=nl.sbuf)
        nisa.tensor_reduce(dot, nl.add, product, axis=[1])
        nisa.dma_copy(da.ap([[1, P], [1, 1]], vector_offset=rows), dot, oob_mode=nisa.oob_mode.skip)
        scaled = nl.ndarray((P, H), dtype=f32, buffer=nl.sbuf)
        nisa.tensor_scalar(scaled, dy, nl.multiply, affinity)
        gradient = nl.ndarray((P, H), dtype=f32, buffer=nl.psum)
        nisa.nc_matmul(gradient, middle, scaled)
        _add(ddn[prg_id], expert, gradient, (P, H))
        st = _transposed(scaled, P, P, f32)
        dnt = _transposed(dn, P, P, f32)
        dmiddle = nl.ndarray((P, width), dtype=f32, buffer=nl.psum)
        nisa.nc_matmul(dmiddle, st, dnt)
        both = nl.ndarray((P, 2, width), dtype=f32, buffer=nl.sbuf)
        nisa.tensor_tensor(both[:, 1], dmiddle, act, nl.multiply)
        nisa.tensor_tensor(both[:, 0], dmiddle, up_sb, nl.multiply)
        nisa.tensor_tensor(both[:, 0], both[:, 0], slope, nl.multiply)
        gradient = nl.ndarray((P, 2, width), dtype=f32, buffer=nl.psum)
        nisa.nc_matmul(gradient, x, both)
        _add(dgu[prg_id], expert, gradient, (P, 2, width))
        dhidden = nl.ndarray((P, H), dtype=f32, buffer=nl.psum)
        for g in range(2):
            gt = _transposed(both[:, g], P, P, f32)
            wt = _transposed(gu[:, g], P, P, f32)
            nisa.nc_matmul(dhidden, gt, wt, accumulate=g == 1)
        grad = nl.ndarray((P, H), dtype=f32, buffer=nl.sbuf)
        nisa.tensor_copy(grad, dhidden)
        place = dx.ap([[H, P], [1, H]], offset=prg_id * T * H, vector_offset=tokens)
        nisa.dma_compute(place, [place, grad], nl.add, oob_mode=nisa.oob_mode.skip)
    if n_prgs > 1:
        for tensor in (dx, dgu, ddn, da):
            nisa.core_barrier(tensor, [0, 1])
        if prg_id == 0:
            nisa.dma_compute(dx_out, [dx[0:T], dx[T : 2 * T]], nl.add)
            nisa.dma_compute(dgu_out, [dgu[0], dgu[1]], nl.add)
        else:
            nisa.dma_compute(ddn_out, [ddn[0], ddn[1]], nl.add)
    else:
        nisa.dma_copy(dx_out, dx)
        nisa.dma_copy(dgu_out, dgu[0])
        nisa.dma_copy(ddn_out, ddn[0])
    return dx_out, da, dgu_out, ddn_out


def _add(table, expert, psum, shape):
    """table[expert] += psum, through SBUF."""
    old = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    place = table.select(0, expert)
    nisa.dma_copy(old, place)
    nisa.tensor_tensor(old, old, psum, nl.add)
    nisa.dma_copy(place, old)
