"""Router: logits, their k best experts and affinities."""

from enum import Enum
from typing import Optional, Tuple

import nki
import nki.isa as nisa
import nki.language as nl
from neuronxcc.nki.typing import mutable_tensor, tensor
from nki.isa.constants import matmul_perf_mode

from ..utils.kernel_assert import kernel_assert
from ..utils.kernel_helpers import (
    div_ceil,
    get_verified_program_sharding_info,
    stream_shuffle_broadcast,
)
from ..utils.tiled_range import TiledRange


class RouterActFnType(Enum):
    """Function of the logits."""

    SOFTMAX = "softmax"
    SIGMOID = "sigmoid"


class XHbmLayout(Enum):
    """Which way round the tokens lie."""

    H_T = 0
    T_H = 1


P = nl.tile_size.pmax


def _load_x(x, layout, H, t, sb_dtype):
    """Tokens as [128, H / 128, T]."""
    h_tiles = H // P
    xs = nl.ndarray((P, h_tiles, t.size), dtype=sb_dtype, buffer=nl.sbuf)
    if layout == XHbmLayout.H_T:
        T = x.shape[1]
        for h in nl.affine_range(h_tiles):
            nisa.dma_copy(
                dst=xs[:, h, :],
                src=x.ap([[T, P], [1, t.size]], offset=h * P * T + t.start_offset),
            )
        return xs
    rows = nl.ndarray((t.size, H), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=rows, src=x[nl.ds(t.start_offset, t.size), :])
    for h in nl.affine_range(h_tiles):
        turned = nl.ndarray((P, t.size), dtype=x.dtype, buffer=nl.psum)
        nisa.nc_transpose(turned, rows[:, nl.ds(h * P, P)])
        nisa.tensor_copy(xs[:, h, :], turned)
    return xs


@nki.jit
def router_topk(
    x: nl.ndarray,
    w: nl.ndarray,
    w_bias: Optional[nl.ndarray],
    router_logits: nl.ndarray,
    expert_affinities: tensor,
    expert_index: mutable_tensor,
    act_fn: RouterActFnType,
    k: int,
    x_hbm_layout: XHbmLayout,
    norm_topk_prob: bool = False,
    use_pe_column_tiling: bool = False,
    shard_on_tokens: bool = True,
) -> Tuple[nl.ndarray, nl.ndarray, nl.ndarray]:
    """Write logits [T, E], affinities [T, E] (zero but for the chosen) and experts [T, k]."""
    _, n_prgs, prg_id = get_verified_program_sharding_info("router_topk", (0, 1), 2)
    H, E = w.shape
    T = x.shape[1] if x_hbm_layout == XHbmLayout.H_T else x.shape[0]
    kernel_assert(k <= 8, f"k is {k}, at most 8")
    kernel_assert(E >= 8 and E <= nl.tile_size.gemm_moving_fmax, f"E is {E}")
    h_tiles = H // P
    ws = nl.ndarray((P, h_tiles, E), dtype=w.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=ws, src=w.reshape((h_tiles, P, E)).permute((1, 0, 2)))
    bias = None
    if w_bias is not None:
        line = nl.ndarray((1, E), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=line, src=w_bias.reshape((1, E)))
        bias = nl.ndarray((P, E), dtype=nl.float32, buffer=nl.sbuf)
        stream_shuffle_broadcast(line, bias)
    T_local = div_ceil(T, n_prgs) if shard_on_tokens else T
    t_first = prg_id * T_local if shard_on_tokens else 0
    span = min(T_local, T - t_first)
    tile = 32 if use_pe_column_tiling else P
    for t in TiledRange(span, tile):
        t.start_offset = t.start_offset + t_first
        xs = _load_x(x, x_hbm_layout, H, t, w.dtype)
        n = t.size
        if use_pe_column_tiling:
            # Parts of H in the four columns of the array at the same time; their sums are added.
            parts = nl.ndarray((P, E), dtype=nl.float32, buffer=nl.psum)
            per = div_ceil(h_tiles, 4)
            logits = nl.ndarray((n, E), dtype=nl.float32, buffer=nl.sbuf)
            nisa.memset(logits, value=0.0)
            for c in range(4):
                tiles = range(c * per, min(h_tiles, (c + 1) * per))
                for h in tiles:
                    nisa.nc_matmul(
                        dst=parts[nl.ds(c * 32, n), :],
                        stationary=xs[:, h, :],
                        moving=ws[:, h, :],
                        tile_position=(0, c * 32),
                        tile_size=(P, 32),
                        perf_mode=matmul_perf_mode.none,
                    )
                if len(tiles) > 0:
                    nisa.tensor_tensor(
                        dst=logits, data1=logits, data2=parts[nl.ds(c * 32, n), :], op=nl.add
                    )
        else:
            psum = nl.ndarray((n, E), dtype=nl.float32, buffer=nl.psum)
            for h in nl.sequential_range(h_tiles):
                nisa.nc_matmul(psum, xs[:, h, :], ws[:, h, :])
            logits = nl.ndarray((n, E), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=logits, src=psum, engine=nisa.engine.scalar)
        if bias is not None:
            nisa.tensor_tensor(logits, logits, bias[0:n], op=nl.add)
        nisa.dma_copy(
            dst=router_logits[nl.ds(t.start_offset, n), :],
            src=logits,
            dge_mode=nisa.dge_mode.swdge,
        )
        best = nl.ndarray((n, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.max8(dst=best, src=logits)
        index = nl.ndarray((n, 8), dtype=nl.uint32, buffer=nl.sbuf)
        nisa.nc_find_index8(dst=index, data=logits, vals=best)
        nisa.dma_copy(dst=expert_index[nl.ds(t.start_offset, n), 0:k], src=index[:, 0:k])
        scores = nl.ndarray((n, E), dtype=nl.float32, buffer=nl.sbuf)
        if act_fn == RouterActFnType.SIGMOID:
            nisa.activation(scores, nl.sigmoid, logits)
        else:
            minus = nl.ndarray((n, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_reduce(minus, nl.maximum, logits, axis=1, negate=True)
            total = nl.ndarray((n, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation(
                dst=scores,
                op=nl.exp,
                data=logits,
                bias=minus,
                scale=1.0,
                reduce_op=nl.add,
                reduce_res=total,
                reduce_cmd=nisa.reduce_cmd.reset_reduce,
            )
            inverse = nl.ndarray((n, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.reciprocal(inverse, total)
            nisa.tensor_scalar(dst=scores, data=scores, op0=nl.multiply, operand0=inverse)
        # One-hot masks of the chosen, added up.
        number = nl.ndarray((n, E), dtype=nl.float32, buffer=nl.sbuf)
        nisa.iota(dst=number, pattern=[[1, E]], offset=0, channel_multiplier=0)
        index_f = nl.ndarray((n, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(index_f, index)
        mask = nl.ndarray((n, E), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(mask, number, op0=nl.equal, operand0=index_f[:, 0:1])
        for i in nl.static_range(1, k):
            nisa.scalar_tensor_tensor(
                dst=mask,
                data=number,
                op0=nl.equal,
                operand0=index_f[:, i : i + 1],
                op1=nl.add,
                operand1=mask,
                dtype=nl.float32,
            )
        affinities = nl.ndarray((n, E), dtype=nl.float32, buffer=nl.sbuf)
        if norm_topk_prob:
            total = nl.ndarray((n, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor(affinities, scores, mask, nl.multiply)
            nisa.tensor_reduce(dst=total, op=nl.add, data=affinities, axis=(1,), keepdims=True)
            nisa.reciprocal(total, total)
            nisa.tensor_scalar(affinities, affinities, nl.multiply, total)
        else:
            nisa.tensor_tensor(dst=affinities, data1=scores, data2=mask, op=nl.multiply)
        out = nl.ndarray((n, E), dtype=expert_affinities.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=out, src=affinities, engine=nisa.gpsimd_engine)
        nisa.dma_copy(dst=expert_affinities[nl.ds(t.start_offset, n)], src=out)
    return [router_logits, expert_index, expert_affinities]
