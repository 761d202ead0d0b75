"""Decode: few tokens, each with the weights of its own experts."""

from typing import Any, Optional

import nki
import nki.isa as nisa
import nki.language as nl

from ..utils.allocator import SbufManager, psum_tile
from ..utils.common_types import ActFnType, ExpertAffinityScaleMode, activation_of
from ..utils.kernel_assert import kernel_assert
from ..utils.kernel_helpers import (
    get_max_positive_value_for_dtype,
    get_verified_program_sharding_info,
    shard_of,
    stream_shuffle_broadcast,
)
from ..utils.tensor_view import TensorView
from ..utils.tiled_range import TiledRange

P = nl.tile_size.pmax


class QuantizationParameters(nl.NKIObject):
    """Scales of weights, and the bound of what is cast to eight bits."""

    gate_up_scale: Optional[nl.ndarray]
    down_scale: Optional[nl.ndarray]
    clip: Any = None


def _expert_register(index_sb, t, k):
    """Expert of token t, its k-th: a register, loaded from a slice of the tile."""
    reg = nisa.register_alloc()
    nisa.register_load(dst=reg, src=index_sb[0:1, nl.ds(t * index_sb.shape[2] + k, 1)])
    return reg


@nki.jit
def moe_tkg(
    hidden_input: nl.ndarray,
    expert_gate_up_weights: nl.ndarray,
    expert_down_weights: nl.ndarray,
    expert_affinities: nl.ndarray,
    expert_index: nl.ndarray,
    quant_params: QuantizationParameters = None,
    activation_fn: ActFnType = ActFnType.SiLU,
    scale_mode: ExpertAffinityScaleMode = ExpertAffinityScaleMode.POST_SCALE,
    output_in_sbuf: bool = False,
    dtype: nki.dtype = None,
):
    """Selective experts of [T, H]: weights [E, H, 2, I] and [E, I, H], index [T, K].

    Cores divide the hidden units; what they have is added by exchange.
    """
    _, n_prgs, prg_id = get_verified_program_sharding_info("moe_tkg", (0, 1), 2)
    T, H = hidden_input.shape
    E, _, _, width = expert_gate_up_weights.shape
    K = expert_index.shape[1]
    kernel_assert(T <= 32, f"at most 32 tokens, got {T}")
    shard = shard_of(width, n_prgs, prg_id, multiple=1)
    h_tiles = H // P
    compute = hidden_input.dtype if dtype is None else dtype
    sbm = SbufManager(0, nl.tile_size.total_available_sbuf_size, prefix="tkg_")
    # Tokens as [128, H / 128, T] by a transposing transfer where the type allows it.
    sbm.open_scope()
    xt = sbm.alloc_stack((P, h_tiles, T), compute, name="xt")
    for h in nl.affine_range(h_tiles):
        if str(hidden_input.dtype) == str(nl.bfloat16) and T == 16:
            nisa.dma_transpose(dst=xt[:, h, :], src=hidden_input[:, nl.ds(h * P, P)], axes=(1, 0))
        else:
            nisa.dma_copy(
                dst=xt[:, h, :],
                src=hidden_input.ap([[1, P], [H, T]], offset=h * P),
            )
    index_sb = sbm.alloc_stack((1, T, K), nl.uint32, name="index")
    nisa.dma_copy(dst=index_sb, src=expert_index.reshape((1, T, K)))
    index_flat = index_sb.reshape((1, T * K))
    affinity_sb = sbm.alloc_stack((1, T, E), nl.float32, name="affinities")
    nisa.dma_copy(dst=affinity_sb, src=expert_affinities.reshape((1, T, E)))
    out_sb = sbm.alloc_heap((P, h_tiles, T), nl.float32, name="acc")
    nisa.memset(dst=out_sb, value=0.0)
    for t in range(T):
        for k in range(K):
            sbm.open_scope()
            reg = nisa.register_alloc()
            nisa.register_load(src=index_flat[:, t * K + k : t * K + k + 1], dst=reg)
            weights = sbm.alloc_stack(
                (P, h_tiles, 2, shard.size), expert_gate_up_weights.dtype, name="gate_up", align=32
            )
            for h in range(h_tiles):
                view = (
                    TensorView(expert_gate_up_weights)
                    .select(0, index_flat[0, t * K + k])
                    .slice(0, h * P, (h + 1) * P)
                    .slice(2, shard.offset, shard.end)
                )
                nisa.dma_copy(dst=weights[:, h], src=view.get_view(), dge_mode=nisa.dge_mode.swdge)
            down = sbm.alloc_stack((P, 4, H), expert_down_weights.dtype, name="down", align=32)
            for i in TiledRange(shard.size, P):
                first = shard.offset + i.start_offset
                nisa.dma_copy(
                    dst=down[: i.size, i.index, :],
                    src=expert_down_weights.select(0, reg)[first : first + i.size, :],
                )
            hidden = sbm.alloc_stack((P, 4, 1), compute, name="hidden")
            for i in TiledRange(shard.size, P):
                parts = []
                for g in range(2):
                    psum = psum_tile((P, 1), nl.float32, bank=2 * (i.index % 2) + g)
                    for h in nl.sequential_range(h_tiles):
                        nisa.nc_matmul(
                            psum[: i.size],
                            weights[:, h, g, i.start_offset : i.end_offset],
                            xt[:, h, t : t + 1],
                        )
                    value = sbm.alloc_stack((P, 1), nl.float32, name=f"part{g}")
                    if quant_params is not None and quant_params.gate_up_scale is not None:
                        scale = sbm.alloc_stack((P, 1), nl.float32, name=f"scale{g}")
                        nisa.dma_copy(
                            dst=scale[: i.size],
                            src=quant_params.gate_up_scale.ap(
                                [[1, i.size], [1, 1]],
                                offset=g * width + shard.offset + i.start_offset,
                                scalar_offset=reg,
                                indirect_dim=0,
                            ),
                        )
                        nisa.tensor_scalar(
                            value[: i.size], psum[: i.size], nl.multiply, scale[: i.size]
                        )
                    else:
                        nisa.tensor_copy(value[: i.size], psum[: i.size])
                    parts.append(value)
                nisa.activation(
                    dst=parts[0][: i.size],
                    op=activation_of(activation_fn),
                    data=parts[0][: i.size],
                )
                nisa.tensor_tensor(
                    parts[0][: i.size], parts[0][: i.size], parts[1][: i.size], op=nl.multiply
                )
                if quant_params is not None and quant_params.clip != None:  # noqa: E711
                    bound = get_max_positive_value_for_dtype(quant_params.clip)
                    nisa.tensor_scalar(
                        dst=parts[0][: i.size],
                        data=parts[0][: i.size],
                        op0=nl.minimum,
                        operand0=bound,
                        op1=nl.maximum,
                        operand1=-bound,
                    )
                nisa.tensor_copy(hidden[: i.size, i.index, :], parts[0][: i.size])
            affinity = sbm.alloc_stack((P, 1), nl.float32, name="affinity")
            source = sbm.alloc_stack((1, 1), nl.float32, name="one")
            nisa.dma_copy(
                dst=source,
                src=expert_affinities.reshape((T * E, 1)).ap(
                    [[1, 1], [1, 1]], offset=t * E, scalar_offset=reg
                ),
            )
            stream_shuffle_broadcast(source, affinity)
            for h in nl.affine_range(h_tiles):
                psum = psum_tile((P, 1), nl.float32, bank=4 + h % 4, name=f"down_{t}_{k}_{h}")
                count = len(TiledRange(shard.size, P))
                for i in TiledRange(shard.size, P):
                    nisa.nc_matmul(
                        dst=psum,
                        stationary=down[: i.size, i.index, nl.ds(h * P, P)],
                        moving=hidden[: i.size, i.index, :],
                        accumulate=None if count == 1 else i.index > 0,
                    )
                place = out_sb[:, h, t : t + 1]
                factor = affinity if scale_mode != ExpertAffinityScaleMode.NO_SCALE else 1.0
                nisa.scalar_tensor_tensor(place, psum, nl.multiply, factor, nl.add, place)
            sbm.close_scope()
    if quant_params is not None and quant_params.down_scale is not None:
        scale = sbm.alloc_stack((P, h_tiles, 1), nl.float32, name="down_scale")
        nisa.dma_copy(dst=scale, src=quant_params.down_scale.reshape((h_tiles, P)).permute((1, 0)))
        for h in range(h_tiles):
            nisa.tensor_scalar(out_sb[:, h], out_sb[:, h], nl.multiply, scale[:, h])
    if n_prgs > 1:
        theirs = sbm.alloc_stack((P, h_tiles, T), nl.float32, name="theirs")
        nisa.sendrecv(
            send_to_rank=1 - prg_id,
            recv_from_rank=1 - prg_id,
            src=out_sb,
            dst=theirs,
            pipe_id=0,
            dma_engine=nisa.dma_engine.gpsimd_dma,
        )
        nisa.tensor_tensor(out_sb, out_sb, theirs, nl.add, engine=nisa.gpsimd_engine)
    result = sbm.alloc_stack((P, h_tiles, T), hidden_input.dtype, name="result")
    nisa.tensor_copy(result, out_sb)
    output = nl.ndarray((T, H), dtype=hidden_input.dtype, buffer=nl.shared_hbm)
    # Each core writes its half of H.
    mine = shard_of(h_tiles, n_prgs, prg_id)
    for h in range(mine.offset, mine.end):
        nisa.dma_copy(dst=output.ap([[1, P], [H, T]], offset=h * P), src=result[:, h, :])
    sbm.close_scope()
    return output


@nki.jit
def moe_all_experts_tkg(
    hidden_input: nl.ndarray,
    expert_gate_up_weights: nl.ndarray,
    expert_down_weights: nl.ndarray,
    expert_affinities: nl.ndarray,
    rank_id: nl.ndarray,
    experts_per_rank: int,
):
    """This rank's experts for all tokens; its number comes as a [1, 1] tensor."""
    T, H = hidden_input.shape
    _, _, _, width = expert_gate_up_weights.shape
    E = expert_affinities.shape[1]
    h_tiles = H // P
    out = nl.ndarray((T, H), dtype=hidden_input.dtype, buffer=nl.shared_hbm)
    rank_sb = nl.ndarray((1, 1), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.dma_copy(rank_sb, rank_id)
    xt = nl.ndarray((P, h_tiles, T), dtype=hidden_input.dtype, buffer=nl.sbuf)
    nisa.dma_copy(xt, hidden_input.reshape_dim(1, (h_tiles, P)).permute((2, 1, 0)))
    acc = nl.ndarray((T, H), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(acc, 0.0)
    affinities = nl.ndarray((T, experts_per_rank), dtype=nl.float32, buffer=nl.sbuf)
    # Columns of this rank: the offset is dynamic along dimension 1 of [T, ranks, experts].
    nisa.dma_copy(
        dst=affinities,
        src=expert_affinities.reshape((T, E // experts_per_rank, experts_per_rank)).ap(
            [[E, T], [1, experts_per_rank]], scalar_offset=rank_sb, indirect_dim=1
        ),
    )
    for e in nl.affine_range(experts_per_rank):
        middle = nl.ndarray((width, T), dtype=hidden_input.dtype, buffer=nl.sbuf)
        parts = []
        for g in range(2):
            w = nl.ndarray((P, h_tiles, width), dtype=hidden_input.dtype, buffer=nl.sbuf)
            nisa.dma_copy(
                w, expert_gate_up_weights[e, :, g].reshape_dim(0, (-1, P)).permute((1, 0, 2))
            )
            psum = nl.ndarray((width, T), dtype=nl.float32, buffer=nl.psum)
            for h in nl.sequential_range(h_tiles):
                nisa.nc_matmul(psum, w[:, h], xt[:, h])
            parts.append(psum)
        gate = nl.ndarray((width, T), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(gate, nl.silu, parts[0])
        nisa.tensor_tensor(middle, gate, parts[1], nl.multiply)
        down = nl.ndarray((width, H), dtype=hidden_input.dtype, buffer=nl.sbuf)
        nisa.dma_copy(down, expert_down_weights[e])
        psum = nl.ndarray((T, H), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(psum, middle, down)
        nisa.scalar_tensor_tensor(
            dst=acc,
            data=psum,
            op0=nl.multiply,
            operand0=affinities[:, e : e + 1],
            op1=nl.add,
            operand1=acc,
        )
    nisa.dma_copy(out, acc)
    return out
