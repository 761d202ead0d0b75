"""Query, key and value projection of prompts: norm, residual, weights in bf16, fp8 or MX, bias."""

from dataclasses import dataclass
from typing import Any, List, Optional, Tuple

import nki
import nki.isa as nisa
import nki.language as nl
from nki.isa.constants import matmul_perf_mode

from ..core.utils.allocator import SbufManager
from ..core.utils.common_types import NormType, OutputLayout, QuantizationType, is_fp8
from ..core.utils.kernel_assert import kernel_assert
from ..core.utils.kernel_helpers import (
    div_ceil,
    get_program_sharding_info,
    get_max_positive_value_for_dtype,
    load_broadcast_row,
    psum_bank_address,
    shard_dim,
)
from ..core.utils.tiled_range import TiledRange


@dataclass
class QkvQuant(nl.NKIObject):
    """Weights' quantisation."""

    kind: QuantizationType = QuantizationType.NONE
    weight_scale: Optional[nl.ndarray] = None
    input_scale: Optional[nl.ndarray] = None


@nki.jit
def qkv_cte(
    input: nl.ndarray,
    fused_qkv_weights: nl.ndarray,
    output_layout: OutputLayout = OutputLayout.BSD,
    bias: Optional[nl.ndarray] = None,
    quant: Optional[QkvQuant] = None,
    residual: Optional[nl.ndarray] = None,
    norm_type: NormType = NormType.NO_NORM,
    gamma_norm_weights: Optional[nl.ndarray] = None,
    layer_norm_bias: Optional[nl.ndarray] = None,
    norm_eps: float = 1e-6,
    d_head: Optional[int] = None,
    num_q_heads: Optional[int] = None,
    num_kv_heads: Optional[int] = None,
):
    """input [B, S, H]; weights [H, I]; returns [B, S, I] or [heads, B, S, d], with the residual's sum."""
    B, S, H = input.shape
    I = fused_qkv_weights.shape[1]
    P = nl.tile_size.pmax
    kernel_assert(H % P == 0, f"hidden {H} is no multiple of {P}")
    quant = quant if quant is not None else QkvQuant()
    double_row = quant.kind == QuantizationType.STATIC
    kernel_assert(not double_row or is_fp8(fused_qkv_weights.dtype), "static means 8-bit weights")
    kernel_assert(not double_row or (H // P) % 2 == 0, "double row wants pairs of rows")
    _, n_prgs, prg_id = get_program_sharding_info()
    layout = output_layout
    if layout == OutputLayout.BSD:
        out_shape = (B, S, I)
    else:
        heads = I // d_head
        kernel_assert(heads == num_q_heads + 2 * num_kv_heads, f"{heads} heads")
        out_shape = (heads, B, S, d_head)
    out = nl.ndarray(out_shape, dtype=input.dtype, buffer=nl.shared_hbm, name="qkv")
    summed = None
    if residual is not None:
        summed = nl.ndarray(
            input.shape, dtype=input.dtype, buffer=nl.shared_hbm, name="residual_out"
        )
    sbm = SbufManager(0, nl.tile_size.total_available_sbuf_size)
    sbm.open_scope("qkv")
    weights = _load_weights(fused_qkv_weights, H, I, sbm, double_row)
    gamma = None
    if gamma_norm_weights is not None:
        gamma = sbm.alloc_heap((P, H), nl.float32, name="gamma")
        load_broadcast_row(gamma_norm_weights.reshape((1, H)), gamma, P)
    beta = None
    if layer_norm_bias is not None:
        beta = sbm.alloc_heap((P, H), nl.float32, name="beta")
        load_broadcast_row(layer_norm_bias.reshape((1, H)), beta, P)
    bias_sb = None
    if bias is not None:
        bias_sb = sbm.alloc_heap((P, I), dtype=bias.dtype, name="bias")
        load_broadcast_row(bias.reshape((1, I)), bias_sb, P)
    w_scale = None
    if quant.weight_scale is not None:
        w_scale = sbm.alloc_heap((P, 1), nl.float32, name="w_scale")
        nisa.dma_copy(dst=w_scale, src=quant.weight_scale.ap([[0, P], [1, 1]]))
        in_scale = sbm.alloc_heap((P, 1), nl.float32, name="in_scale")
        nisa.dma_copy(dst=in_scale, src=quant.input_scale.ap([[0, P], [1, 1]]))
        nisa.tensor_tensor(w_scale, w_scale, in_scale, nl.multiply)
        nisa.reciprocal(in_scale, in_scale)
    else:
        in_scale = None
    mine = shard_dim(S, n_prgs, prg_id)
    for b in range(B):
        for tile in TiledRange(mine.size, P, start=mine.start):
            sbm.open_scope()
            _tile(
                input,
                residual,
                summed,
                out,
                weights,
                gamma,
                beta,
                bias_sb,
                w_scale,
                in_scale,
                b,
                tile,
                H,
                I,
                norm_type,
                norm_eps,
                layout,
                d_head,
                sbm,
                double_row,
            )
            sbm.close_scope()
    sbm.close_scope()
    return (out, summed) if residual is not None else out


def _load_weights(w, H, I, sbm, double_row):
    P = nl.tile_size.pmax
    tiles = sbm.alloc_stack((P, H // P, I), dtype=w.dtype, name="weights", align=32)
    nisa.dma_copy(dst=tiles, src=w.reshape((H // P, P, I)).permute((1, 0, 2)))
    return tiles


def _moments(x, rows, H, sbm):
    P = nl.tile_size.pmax
    FMAX = 512
    n = div_ceil(H, FMAX)
    stats = sbm.alloc_stack((P, n, 6), nl.float32, name="stats")
    for i in range(n):
        width = min(FMAX, H - i * FMAX)
        nisa.bn_stats(dst=stats[:rows, i, :], data=x[:rows, nl.ds(i * FMAX, width)])
    both = sbm.alloc_stack((P, 2), nl.float32, name="mean_var")
    nisa.bn_aggr(both[:rows], stats[:rows])
    return both


def _tile(
    input,
    residual,
    summed,
    out,
    weights,
    gamma,
    beta,
    bias,
    w_scale,
    in_scale,
    b,
    tile,
    H,
    I,
    norm_type,
    eps,
    layout,
    d_head,
    sbm,
    double_row,
):
    P, rows = nl.tile_size.pmax, tile.size
    x = sbm.alloc_stack((P, H), dtype=input.dtype, name="x")
    if residual is not None:
        # Summed on the way by the DMA engines.
        nisa.dma_compute(
            x[:rows],
            [input[b, tile.ds(), :], residual[b, tile.ds(), :]],
            reduce_op=nl.add,
            scales=[1.0, 1.0],
        )
        nisa.dma_copy(summed[b, tile.ds(), :], x[:rows])
    else:
        nisa.dma_copy(dst=x[:rows], src=input[b, nl.ds(tile.start_offset, rows), :])
    if norm_type != NormType.NO_NORM:
        both = _moments(x, rows, H, sbm)
        mean, var = both[:rows, 0:1], both[:rows, 1:2]
        if norm_type == NormType.RMS_NORM:
            nisa.scalar_tensor_tensor(var, mean, nl.multiply, mean, nl.add, var)
        rstd = sbm.alloc_stack((P, 1), nl.float32, name="rstd")
        nisa.tensor_scalar(rstd[:rows], var, nl.add, eps, op1=nl.power, operand1=-0.5)
        y = sbm.alloc_stack((P, H), nl.float32, name="y")
        if norm_type == NormType.LAYER_NORM:
            nisa.tensor_scalar(
                y[:rows], x[:rows], nl.subtract, mean, False, nl.multiply, rstd[:rows]
            )
        else:
            nisa.activation(dst=y[:rows], op=nl.copy, data=x[:rows], scale=rstd[:rows, 0:1])
        if gamma is not None:
            nisa.tensor_tensor(y[:rows], y[:rows], gamma[:rows], nl.multiply)
        if beta is not None:
            nisa.tensor_tensor(y[:rows], y[:rows], beta[:rows], nl.add)
    else:
        y = x
    cols = H // P
    operand_type = weights.dtype if double_row else input.dtype
    scaled = sbm.alloc_stack(
        (P, H), dtype=nl.bfloat16 if double_row else input.dtype, name="scaled"
    )
    if double_row:
        largest = get_max_positive_value_for_dtype(weights.dtype)
        nisa.tensor_scalar(y[:rows], y[:rows], nl.multiply, in_scale[:rows])
        nisa.tensor_scalar(
            scaled[:rows],
            y[:rows],
            op0=nl.minimum,
            operand0=largest,
            op1=nl.maximum,
            operand1=-largest,
        )
    else:
        nisa.tensor_copy(scaled[:rows], y[:rows])
    lhsT = sbm.alloc_stack((P, cols, P), dtype=operand_type, name="lhsT", align=32)
    for c in range(cols):
        flip = nl.ndarray((P, P), scaled.dtype, buffer=nl.psum, address=psum_bank_address(c % 4))
        nisa.nc_transpose(dst=flip[:, :rows], data=scaled[:rows, nl.ds(c * P, P)])
        nisa.tensor_copy(dst=lhsT[:, c, :rows], src=flip[:, :rows], engine=nisa.engine.scalar)
    result = sbm.alloc_stack((P, I), dtype=out.dtype, name="result")
    for part in TiledRange(I, nl.tile_size.gemm_moving_fmax):
        acc = nl.ndarray(
            (P, part.size),
            nl.float32,
            buffer=nl.psum,
            address=psum_bank_address(4 + part.index % 4),
        )
        if double_row:
            for c in range(0, cols, 2):
                nisa.nc_matmul(
                    dst=acc[:rows],
                    stationary=lhsT[:, c : c + 2, :rows],
                    moving=weights[:, c : c + 2, part.ds()],
                    perf_mode=matmul_perf_mode.double_row,
                )
        else:
            for c in range(cols):
                nisa.nc_matmul(acc[:rows], lhsT[:, c, :rows], weights[:, c, part.ds()])
        target = result[:rows, part.ds()]
        if w_scale is not None and bias is not None:
            nisa.scalar_tensor_tensor(
                dst=target,
                data=acc[:rows],
                op0=nl.multiply,
                operand0=w_scale[:rows],
                op1=nl.add,
                operand1=bias[:rows, part.ds()],
                dtype=target.dtype,
            )
        elif w_scale is not None:
            nisa.activation(target, nl.copy, acc[:rows], scale=w_scale[:rows])
        elif bias is not None:
            nisa.tensor_tensor(target, acc[:rows], bias[:rows, part.ds()], nl.add)
        else:
            nisa.tensor_copy(target, acc[:rows])
    if layout == OutputLayout.BSD:
        nisa.dma_copy(out[b, tile.ds(), :], result[:rows])
    else:
        heads = I // d_head
        S = out.shape[2]
        nisa.dma_copy(
            dst=out.ap(
                [[d_head, rows], [out.shape[1] * S * d_head, heads], [1, d_head]],
                offset=(b * S + tile.start_offset) * d_head,
            ),
            src=result.reshape((P, heads, d_head))[:rows],
        )
