"""Gate, up and down projections of tokens: bf16, fp8 by rows with scales, or MX blocks."""

from dataclasses import dataclass
from typing import Any, Callable, Optional

import nki
import nki.isa as nisa
import nki.language as nl

from ..core.utils.common_types import ACT_FN, ActFnType, QuantizationType
from ..core.utils.kernel_assert import kernel_assert
from ..core.utils.kernel_helpers import (
    div_ceil,
    get_program_sharding_info,
    psum_bank_address,
    shard_dim,
)
from ..core.utils.tiled_range import TiledRange


@dataclass
class MLPParameters(nl.NKIObject):
    """Weights and options; tensors among them."""

    gate_w: nl.ndarray
    up_w: nl.ndarray
    down_w: nl.ndarray
    gate_scale: Optional[nl.ndarray] = None
    up_scale: Optional[nl.ndarray] = None
    down_scale: Optional[nl.ndarray] = None
    act_fn: ActFnType = ActFnType.SiLU
    quantization: QuantizationType = QuantizationType.NONE

    def activation(self) -> Callable:
        return ACT_FN[self.act_fn]


@nki.jit
def mlp(hidden: nl.ndarray, params: MLPParameters, store_intermediate: bool = False) -> Any:
    """hidden [T, H]; gate_w, up_w [H, I]; down_w [I, H]; scales [1, I] or [1, H] -> [T, H].

    I is split over the cores; core 1 sends its part of the sum to core 0.
    """
    T, H = hidden.shape
    I = params.gate_w.shape[1]
    P = nl.tile_size.pmax
    kernel_assert(H % P == 0 and T <= P, f"T {T}, H {H}")
    kernel_assert(params.down_w.shape == (I, H), f"down_w has shape {params.down_w.shape}")
    _, n_prgs, prg_id = get_program_sharding_info()
    mine = shard_dim(I, n_prgs, prg_id, multiple=P)
    cols = H // P
    x_sb = nl.ndarray((P, cols, T), hidden.dtype, buffer=nl.sbuf)
    # Element h on partition h % P, so that weights come in rows.
    nisa.dma_copy(dst=x_sb, src=hidden.reshape((T, cols, P)).permute((2, 1, 0)))
    saved = None
    if store_intermediate:
        saved = nl.ndarray((I, T), hidden.dtype, buffer=nl.shared_hbm)
    acc = [
        nl.ndarray(
            (T, min(512, H - i * 512)), nl.float32, buffer=nl.psum, address=psum_bank_address(4 + i)
        )
        for i in range(div_ceil(H, 512))
    ]
    kernel_assert(len(acc) <= 4, f"H {H} does not fit PSUM")
    for tile in TiledRange(mine.size, P, start=mine.start):
        parts = []
        for index, (w, scale) in enumerate(
            [(params.gate_w, params.gate_scale), (params.up_w, params.up_scale)]
        ):
            w_sb = nl.ndarray((P, cols, tile.size), w.dtype)
            nisa.dma_copy(w_sb, w.reshape((cols, P, I)).permute((1, 0, 2))[:, :, tile.ds()])
            product = nl.ndarray(
                (tile.size, T), nl.float32, buffer=nl.psum, address=psum_bank_address(index)
            )
            for c in nl.sequential_range(cols):
                nisa.nc_matmul(product, w_sb[:, c], x_sb[:, c])
            part = nl.ndarray((tile.size, T), nl.float32)
            factor = 1.0
            if scale is not None:
                factor = nl.ndarray((tile.size, 1), nl.float32)
                nisa.dma_copy(factor, scale.ap([[1, tile.size], [1, 1]], offset=tile.start_offset))
            op = params.activation() if index == 0 else nl.copy
            nisa.activation(dst=part, op=op, data=product, scale=factor)
            parts.append(part)
        gated = nl.ndarray((tile.size, T), hidden.dtype)
        nisa.tensor_tensor(gated, *parts, op=nl.multiply)
        if saved is not None:
            nisa.dma_copy(saved[tile.ds()], gated)
        down = nl.ndarray((tile.size, H), params.down_w.dtype)
        nisa.dma_copy(down, params.down_w[tile.ds()])
        for i, bank in enumerate(acc):
            nisa.nc_matmul(
                dst=bank,
                stationary=gated,
                moving=down[:, nl.ds(i * 512, bank.shape[1])],
                accumulate=tile.index != 0,
            )
    total = nl.ndarray((T, H), nl.float32)
    for i, bank in enumerate(acc):
        target = total[:, nl.ds(i * 512, bank.shape[1])]
        if mine.size > 0:
            nisa.tensor_copy(target, bank)
        else:
            nisa.memset(target, 0.0)
    if n_prgs > 1:
        theirs = nl.ndarray((T, H), nl.float32)
        nisa.sendrecv(
            src=total, dst=theirs, send_to_rank=1 - prg_id, recv_from_rank=1 - prg_id, pipe_id=0
        )
        nisa.tensor_tensor(total, total, theirs, nl.add)
    if params.down_scale is not None:
        scale = nl.ndarray((T, H), nl.float32)
        nisa.dma_copy(scale, params.down_scale.ap([[0, T], [1, H]]))
        nisa.tensor_tensor(total, total, scale, nl.multiply)
    out = nl.ndarray((T, H), hidden.dtype, buffer=nl.shared_hbm, name="mlp_out")
    result = nl.ndarray((T, H), hidden.dtype)
    nisa.tensor_copy(result, total)
    half = shard_dim(H, n_prgs, prg_id)
    if half.size > 0:
        nisa.dma_copy(out[:, nl.ds(half.start, half.size)], result[:, nl.ds(half.start, half.size)])
    if saved is not None:
        return {"out": out, "intermediate": saved}
    return out


@nki.jit(platform_target="trn3")
def mlp_down_mx(gated: nl.ndarray, weight: nl.ndarray, weight_scale: nl.ndarray) -> nl.ndarray:
    """gated [T, K] in bf16, quantised on the way; weight [128, H] x4-packed, given as uint32; scales uint8.

    K = 512: element k of a token lies on partition k // 4, lane k % 4. weight_scale [16, H], four rows
    a quadrant.
    """
    T, K = gated.shape
    P = nl.tile_size.pmax
    H = weight.shape[1]
    kernel_assert(K == 4 * P and nisa.get_nc_version() >= nisa.nc_version.gen4, "one MX tile")
    x = nl.ndarray((P, T, 4), nl.bfloat16)
    nisa.dma_copy(x, gated.reshape((T, P, 4)).permute((1, 0, 2)))
    x_mx = nl.ndarray((P, T), nl.float8_e4m3fn_x4)
    x_scale = nl.ndarray((P, T), nl.uint8)
    nisa.quantize_mx(dst=x_mx, src=x.reshape((P, T * 4)), dst_scale=x_scale)
    w = nl.ndarray((P, H), nl.float8_e4m3fn_x4)
    nisa.dma_copy(dst=w, src=weight.view(nl.float8_e4m3fn_x4))
    w_scale = nl.ndarray((P, H), nl.uint8)
    for quadrant in range(P // 32):
        nisa.dma_copy(
            dst=w_scale[quadrant * 32 : quadrant * 32 + 4],
            src=weight_scale[quadrant * 4 : quadrant * 4 + 4],
        )
    acc = nl.ndarray((T, H), nl.float32, buffer=nl.psum)
    nisa.nc_matmul_mx(
        dst=acc, stationary=x_mx, moving=w, stationary_scale=x_scale, moving_scale=w_scale
    )
    result = nl.ndarray((T, H), gated.dtype)
    nisa.tensor_copy(result, acc)
    out = nl.ndarray((T, H), gated.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, result)
    return out
