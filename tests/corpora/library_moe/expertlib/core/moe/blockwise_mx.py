"""Blocks of tokens times packed weights of their expert, the hidden units divided over cores."""

import nki
import nki.isa as nisa
import nki.language as nl
from nki.isa import constants as nisa_constants

from ..utils.common_types import ActFnType, activation_of
from ..utils.kernel_assert import kernel_assert
from ..utils.kernel_helpers import get_verified_program_sharding_info
from .blockwise_mm import load_affinities, load_block_expert, load_token_indices
from .moe_parameters import Configs, DimensionSizes, InputTensors, SkipMode
from .mx_utils import MXTile, as_x4, quantize_columns

P = nl.tile_size.pmax
DEEP = 512


def _load_expert(weights, scales, expert, dtype, inner, columns, at=0, scale_buffer=None):
    """Values [128, tiles, columns] of an expert from [E, 128, ...], scales from [E, 16, ...].

    inner: pattern of what follows the partition.
    """
    E, parts = weights.shape[0], weights.shape[1]
    each = 1
    for extent in weights.shape[2:]:
        each *= extent
    tiles = inner[0][1]
    data = nl.ndarray((P, tiles, columns), dtype=dtype, buffer=nl.sbuf)
    nisa.dma_copy(
        dst=data,
        src=weights.ap(
            pattern=[[each, parts]] + inner[:2],
            offset=inner[2],
            scalar_offset=expert,
            indirect_dim=0,
        ),
        dge_mode=nisa_constants.dge_mode.hwdge,
    )
    if scale_buffer is None:
        scale_buffer = nl.ndarray((P, tiles, columns), dtype=nl.uint8, buffer=nl.sbuf)
        nisa.memset(scale_buffer, value=0)
    for q in range(4):
        nisa.dma_copy(
            dst=scale_buffer[nl.ds(q * 32 + at, 4), :, :],
            src=scales.ap(
                pattern=[[each, 4]] + inner[:2],
                offset=q * 4 * each + inner[2],
                scalar_offset=expert,
            ),
        )
    kernel_assert(E == scales.shape[0], "experts of scales")
    return MXTile(data=data, scale=scale_buffer[at:], dtype=dtype)


def _hidden(inps, tokens, dims, cfg):
    """Tokens as [128, H / 512, B * 4]: unit tile * 512 + q * 128 + p at partition p, place q."""
    x = inps.hidden_states
    deep = dims.H // DEEP
    out = nl.ndarray((P, deep, dims.B, 4), dtype=nl.bfloat16, buffer=nl.sbuf)
    for b, index in enumerate(tokens):
        rows = nl.ndarray((P, dims.H), dtype=x.dtype, buffer=nl.sbuf)
        nisa.memset(rows, value=0.0)
        nisa.dma_copy(
            dst=rows, src=x.vector_select(0, index), oob_mode=nisa_constants.oob_mode.skip
        )
        for d in nl.affine_range(deep):
            for q in nl.affine_range(4):
                turned = nl.ndarray((P, P), dtype=x.dtype, buffer=nl.psum)
                nisa.nc_transpose(turned, rows[:, nl.ds(d * DEEP + q * P, P)])
                nisa.tensor_copy(out[:, d, nl.ds(b * P, P), q], turned)
    return out.reshape((P, deep, dims.B * 4))


def _block(block_idx, inps, dims, cfg, output, shard, x4):
    tokens = load_token_indices(inps, block_idx, dims)
    expert = load_block_expert(inps, block_idx)
    affinities = load_affinities(inps, tokens, expert, dims, cfg)
    x = quantize_columns(_hidden(inps, tokens, dims, cfg))
    deep_h, deep_i = dims.H // DEEP, shard // DEEP
    first = dims.shard_id * shard
    wide = inps.gate_up_proj_weight.shape[-1]
    # Gate at the first rows of each quadrant, up four rows on: one buffer of scales for both.
    packed_scales = nl.ndarray((P, deep_h, shard), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.memset(packed_scales, 0)
    parts = []
    for g in range(2):
        inner = [[wide, deep_h], [1, shard], g * deep_h * wide + first]
        parts.append(
            _load_expert(
                inps.gate_up_proj_weight,
                inps.gate_up_proj_scale,
                expert,
                x4,
                inner,
                shard,
                at=4 * g,
                scale_buffer=packed_scales,
            )
        )
    middle = nl.ndarray((P, deep_i, dims.B, 4), dtype=nl.bfloat16, buffer=nl.sbuf)
    for i in range(shard // P):
        sums = []
        for g, weight in enumerate(parts):
            psum = nl.ndarray((P, dims.B), dtype=nl.float32, buffer=nl.psum)
            for d in nl.sequential_range(deep_h):
                w = weight.slice(d, i * P, P)
                nisa.nc_matmul_mx(
                    psum,
                    w.data,
                    x.data[:, d, :],
                    w.scale,
                    x.scale[:, d, :],
                )
            sums.append(psum)
        activated = nl.ndarray((P, dims.B), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(activated, activation_of(cfg.activation_function), sums[0])
        nisa.tensor_tensor(middle[:, i // 4, :, i % 4], activated, sums[1], nl.multiply)
    y = quantize_columns(middle.reshape((P, deep_i, dims.B * 4)))
    down = _load_expert(
        inps.down_proj_weight,
        inps.down_proj_scale,
        expert,
        x4,
        [[dims.H, deep_i], [1, dims.H], dims.shard_id * deep_i * dims.H],
        dims.H,
    )
    for b, index in enumerate(tokens):
        result = nl.ndarray((P, dims.H), dtype=nl.bfloat16, buffer=nl.sbuf)
        for h in range(0, dims.H, 512):
            psum = nl.ndarray((P, 512), dtype=nl.float32, buffer=nl.psum)
            for d in nl.sequential_range(deep_i):
                s = y.slice(d, b * P, P)
                w = down.slice(d, h, 512)
                nisa.nc_matmul_mx(
                    dst=psum,
                    stationary=s.data,
                    moving=w.data,
                    stationary_scale=s.scale,
                    moving_scale=w.scale,
                    accumulate=d > 0,
                )
            nisa.tensor_scalar(
                result[:, h : h + 512], psum, op0=nl.multiply, operand0=affinities[b]
            )
        if dims.num_shards > 1:
            # Each core adds the other's half of H, and writes its own.
            half = dims.H // 2
            theirs = nl.ndarray((P, half), dtype=nl.bfloat16, buffer=nl.sbuf)
            peer = 1 - dims.shard_id
            nisa.sendrecv(
                src=result[:, nl.ds(peer * half, half)],
                dst=theirs,
                send_to_rank=peer,
                recv_from_rank=peer,
                pipe_id=0,
            )
            mine = result[:, nl.ds(dims.shard_id * half, half)]
            nisa.tensor_tensor(mine, mine, theirs, nl.add)
            place = output.ap(
                [[dims.H, P], [1, half]], offset=dims.shard_id * half, vector_offset=index
            )
            nisa.dma_compute(place, [place, mine], nl.add, oob_mode=nisa_constants.oob_mode.skip)
        else:
            place = output.vector_select(0, index)
            nisa.dma_compute(
                dst=place, srcs=(place, result), reduce_op=nl.add, oob_mode=nisa.oob_mode.skip
            )


@nki.jit(platform_target="trn3")
def blockwise_mm_shard_intermediate_mx(
    hidden_states,
    expert_affinities_masked,
    gate_up_proj_weight,
    down_proj_weight,
    gate_up_proj_scale,
    down_proj_scale,
    block_size,
    token_position_to_id,
    block_to_expert,
    x4_dtype: nki.dtype,
    conditions=None,
    n_static_blocks: int = -1,
    skip_dma: SkipMode = SkipMode(True, False),
    activation_function: ActFnType = ActFnType.SiLU,
):
    """The mixture with weights [E, 128, 2, H / 512, I] and [E, 128, I / 512, H] of packed elements.

    With conditions, blocks from n_static_blocks on run while theirs is not zero.
    """
    _, n_prgs, prg_id = get_verified_program_sharding_info("mx", (0, 1), 2)
    kernel_assert(nisa.get_nc_version() >= nisa.nc_version.gen4, "packed operands need gen4")
    T, H = hidden_states.shape
    E = gate_up_proj_weight.shape[0]
    gate_up, down = as_x4(gate_up_proj_weight, x4_dtype), as_x4(down_proj_weight, x4_dtype)
    width = gate_up.shape[-1]
    N = token_position_to_id.shape[0] // block_size
    dims = DimensionSizes(
        T=T, H=H, B=block_size, E=E, N=N, I=width, num_shards=n_prgs, shard_id=prg_id
    )
    cfg = Configs(skip_dma=skip_dma, activation_function=activation_function)
    inps = InputTensors(
        hidden_states=hidden_states,
        gate_up_proj_weight=gate_up,
        down_proj_weight=down,
        token_position_to_id=token_position_to_id,
        block_to_expert=block_to_expert,
        expert_affinities_masked=expert_affinities_masked,
        gate_up_proj_scale=gate_up_proj_scale,
        down_proj_scale=down_proj_scale,
        conditions=conditions,
    )
    output = nl.ndarray((T, H), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    zero = nl.ndarray((P, H), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.memset(zero, value=0.0)
    for t in range(prg_id * P, T, n_prgs * P):
        nisa.dma_copy(output[t : min(t + P, T), :], zero[: min(P, T - t), :])
    if n_prgs > 1:
        nisa.core_barrier(output, (0, 1))
    static = N if conditions is None else n_static_blocks
    for block in nl.static_range(static):
        _block(block, inps, dims, cfg, output, width // n_prgs, x4_dtype)
    if conditions is not None:
        counter = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.memset(counter, value=static)
        flag = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.dma_copy(flag, conditions[static])
        reg = nisa.register_alloc(flag)
        while reg:
            _block(counter, inps, dims, cfg, output, width // n_prgs, x4_dtype)
            nisa.tensor_scalar(dst=counter, data=counter, op0=nl.add, operand0=1)
            nisa.dma_copy(flag, conditions.ap([[1, 1], [1, 1]], scalar_offset=counter))
            if n_prgs == 2:
                nisa.core_barrier(data=flag, cores=(0, 1), engine=nisa.engine.gpsimd)
            nisa.register_load(src=flag, dst=reg)
    return output
