"""Blocks of tokens times the weights of their expert."""

import nki
import nki.isa as nisa
import nki.language as nl

from ..utils.common_types import ActFnType, ExpertAffinityScaleMode, activation_of
from ..utils.kernel_assert import kernel_assert
from ..utils.kernel_helpers import get_verified_program_sharding_info
from .moe_parameters import Configs, DimensionSizes, InputTensors, OutputTensors, SkipMode

P = nl.tile_size.pmax


def load_token_indices(inps, block_idx, dims):
    """Tokens of a block: tile b holds those of rows b * 128 on, one a partition."""
    kinds = isinstance(block_idx, int)
    tiles = []
    for b in range(dims.b_tiles):
        tile = nl.ndarray((P, 1), dtype=inps.token_position_to_id.dtype, buffer=nl.sbuf)
        positions = inps.token_position_to_id.reshape((dims.N, dims.B))
        if kinds:
            nisa.dma_copy(
                dst=tile,
                src=positions.ap([[1, P], [1, 1]], offset=block_idx * dims.B + b * P),
            )
        else:
            nisa.dma_copy(
                dst=tile,
                src=positions.ap(
                    [[1, P], [1, 1]], offset=b * P, scalar_offset=block_idx, indirect_dim=0
                ),
            )
        tiles.append(tile)
    return tiles


def load_block_expert(inps, block_idx):
    """Expert of a block, in a tile of one element."""
    expert = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    source = inps.block_to_expert
    if isinstance(block_idx, int):
        nisa.dma_copy(dst=expert, src=source[block_idx])
    else:
        n = 1
        for extent in source.shape:
            n *= extent
        nisa.dma_copy(
            dst=expert,
            src=source.reshape((n, 1)).ap([[1, 1], [1, 1]], scalar_offset=block_idx),
        )
    return expert


def load_gate_up(inps, expert, dims, cfg):
    """Weights [128, H / 128, 2, I] of an expert."""
    w = inps.gate_up_proj_weight
    tile = nl.ndarray((P, dims.h_tiles, 2, dims.I), dtype=w.dtype, buffer=nl.sbuf)
    if cfg.skip_dma.skip_weight:
        nisa.memset(tile, value=0)
    step = 2 * dims.I
    for h in nl.affine_range(dims.h_tiles):
        nisa.dma_copy(
            dst=tile[:, h, :, :],
            src=w.ap(
                pattern=[[step, P], [dims.I, 2], [1, dims.I]],
                offset=h * P * step,
                scalar_offset=expert,
                indirect_dim=0,
            ),
            dge_mode=nisa.dge_mode.hwdge,
            oob_mode=nisa.oob_mode.skip if cfg.skip_dma.skip_weight else nisa.oob_mode.error,
        )
    return tile


def load_down(inps, expert, dims, cfg, h0, width):
    """Weights [128, I / 128, width] of an expert; the last rows may be missing."""
    w = inps.down_proj_weight
    tile = nl.ndarray((P, dims.i_tiles, width), dtype=w.dtype, buffer=nl.sbuf)
    if dims.I % P != 0 or cfg.skip_dma.skip_weight:
        nisa.memset(dst=tile, value=0)
    for i in range(dims.i_tiles):
        rows = min(P, dims.I - i * P)
        nisa.dma_copy(
            dst=tile[0:rows, i, :],
            src=w.ap(
                [[dims.H, rows], [1, width]],
                offset=i * P * dims.H + h0,
                scalar_offset=expert,
            ),
            oob_mode=nisa.oob_mode.skip if cfg.skip_dma.skip_weight else nisa.oob_mode.error,
        )
    return tile


def load_hidden_transposed(inps, tokens, dims, cfg):
    """Tokens of a block as [128, H / 128, B]."""
    x = inps.hidden_states
    out = nl.ndarray((P, dims.h_tiles, dims.B), dtype=cfg.compute_dtype, buffer=nl.sbuf)
    for b, index in enumerate(tokens):
        rows = nl.ndarray((P, dims.H), dtype=x.dtype, buffer=nl.sbuf)
        if cfg.skip_dma.skip_token:
            nisa.memset(rows, value=0.0)
        nisa.dma_copy(
            dst=rows,
            src=x.ap([[dims.H, P], [1, dims.H]], vector_offset=index, indirect_dim=0),
            oob_mode=nisa.oob_mode.skip if cfg.skip_dma.skip_token else nisa.oob_mode.error,
        )
        for h in nl.affine_range(dims.h_tiles):
            turned = nl.ndarray((P, P), dtype=x.dtype, buffer=nl.psum)
            nisa.nc_transpose(dst=turned, data=rows[:, nl.ds(h * P, P)])
            nisa.tensor_copy(
                dst=out[:, h, nl.ds(b * P, P)],
                src=turned,
                engine=nisa.vector_engine if h % 2 == 0 else nisa.scalar_engine,
            )
    return out


def load_affinities(inps, tokens, expert, dims, cfg):
    """Affinity of each token to the block's expert, float32, one a partition."""
    table = inps.expert_affinities_masked
    tiles = []
    spread = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
    number = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=number, src=expert)
    for q in range(4):
        nisa.nc_stream_shuffle(
            src=number, dst=spread[q * 32 : (q + 1) * 32, :], shuffle_mask=[0] * 32
        )
    for index in tokens:
        # Rows of [T * E, 1]: token * E + expert; padding stays padding.
        address = nl.ndarray((P, 1), dtype=nl.int32, buffer=nl.sbuf)
        scaled = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(
            dst=scaled,
            data=index,
            op0=nl.multiply,
            operand0=float(dims.E),
            op1=nl.add,
            operand1=spread,
        )
        nisa.tensor_copy(address, scaled)
        tile = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        if cfg.skip_dma.skip_token:
            nisa.memset(tile, value=0.0)
            # -1 of padding would be a neighbour's row.
            bad = nl.ndarray((P, 1), dtype=nl.uint8, buffer=nl.sbuf)
            nisa.tensor_scalar(dst=bad, data=index, op0=nl.less, operand0=0.0)
            minus = nl.ndarray((P, 1), dtype=nl.int32, buffer=nl.sbuf)
            nisa.memset(minus, value=-1)
            nisa.tensor_copy_predicated(address, minus, bad)
        nisa.dma_copy(
            dst=tile,
            src=table.ap([[1, P], [1, 1]], vector_offset=address),
            oob_mode=nisa.oob_mode.skip if cfg.skip_dma.skip_token else nisa.oob_mode.error,
        )
        tiles.append(tile)
    return tiles


def gate_up_and_activate(hidden, weights, dims, cfg, checkpoint=None, block_idx=None):
    """act(x @ gate) * (x @ up), as [128, I / 128, B] of the compute type."""
    middle = nl.ndarray((P, dims.i_tiles, dims.B), dtype=cfg.compute_dtype, buffer=nl.sbuf)
    if dims.I % P != 0:
        nisa.memset(middle, value=0.0)
    width = min(dims.B, nl.tile_size.gemm_moving_fmax)
    for i in range(dims.i_tiles):
        rows = min(P, dims.I - i * P)
        for b0 in range(0, dims.B, width):
            sums = [
                nl.ndarray((P, width), dtype=nl.float32, buffer=nl.psum, name=f"gu_{i}_{g}")
                for g in range(2)
            ]
            for g in range(2):
                for h in nl.sequential_range(dims.h_tiles):
                    nisa.nc_matmul(
                        dst=sums[g][:rows, :],
                        stationary=weights[:, h, g, nl.ds(i * P, rows)],
                        moving=hidden[:, h, nl.ds(b0, width)],
                    )
            activated = nl.ndarray((P, width), dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation(
                dst=activated[:rows],
                op=activation_of(cfg.activation_function),
                data=sums[0][:rows],
            )
            nisa.tensor_tensor(
                middle[:rows, i, nl.ds(b0, width)], activated[:rows], sums[1][:rows], nl.multiply
            )
    return middle


def accumulate_rows(output, tokens_tile, result, dims, cfg, h0, width):
    """output[tokens] += result, for rows that are different."""
    rows = output.ap(
        pattern=[[dims.H, P], [1, width]], offset=h0, vector_offset=tokens_tile, indirect_dim=0
    )
    skip = nisa.oob_mode.skip if cfg.skip_dma.skip_token else nisa.oob_mode.error
    if cfg.is_tensor_update_accumulating:
        nisa.dma_compute(rows, [rows, result], nl.add, unique_indices=True, oob_mode=skip)
    else:
        nisa.dma_copy(dst=rows, src=result, oob_mode=skip)


def process_block(block_idx, inps, outs, dims, cfg):
    """One block, known now (an int) or at run time."""
    tokens = load_token_indices(inps, block_idx, dims)
    expert = load_block_expert(inps, block_idx)
    hidden = load_hidden_transposed(inps, tokens, dims, cfg)
    gate_up = load_gate_up(inps, expert, dims, cfg)
    affinities = None
    if cfg.scaling_mode != ExpertAffinityScaleMode.NO_SCALE:
        affinities = load_affinities(inps, tokens, expert, dims, cfg)
    middle = gate_up_and_activate(hidden, gate_up, dims, cfg)
    h_first = dims.shard_id * dims.H_shard
    down = load_down(inps, expert, dims, cfg, h_first, dims.H_shard)
    for b, index in enumerate(tokens):
        result = nl.ndarray((P, dims.H_shard), dtype=outs.output.dtype, buffer=nl.sbuf)
        for h in range(dims.h_outer):
            width = min(dims.psum_width, dims.H_shard - h * dims.psum_width)
            psum = nl.ndarray((P, width), dtype=nl.float32, buffer=nl.psum)
            for i in nl.sequential_range(dims.i_tiles):
                nisa.nc_matmul(
                    psum,
                    middle[:, i, nl.ds(b * P, P)],
                    down[:, i, nl.ds(h * dims.psum_width, width)],
                )
            place = result[:, nl.ds(h * dims.psum_width, width)]
            if affinities is not None:
                nisa.activation(dst=place, op=nl.copy, data=psum, scale=affinities[b])
            else:
                nisa.tensor_copy(place, psum)
        accumulate_rows(outs.output, index, result, dims, cfg, h_first, dims.H_shard)


def output_initialization(output, dims):
    """Zeros in this core's columns."""
    zeros = nl.ndarray((P, dims.H_shard), dtype=output.dtype, buffer=nl.sbuf)
    nisa.memset(zeros, value=0)
    for t in range(0, dims.T, P):
        rows = min(P, dims.T - t)
        nisa.dma_copy(
            dst=output.ap(
                [[dims.H, rows], [1, dims.H_shard]],
                offset=t * dims.H + dims.shard_id * dims.H_shard,
            ),
            src=zeros[:rows],
        )


def _prepare(hidden_states, gate_up_proj_weight, block_size, N, kernel):
    _, n_prgs, prg_id = get_verified_program_sharding_info(kernel, (0, 1), 2)
    T, H = hidden_states.shape
    E, _, two, width = gate_up_proj_weight.shape
    kernel_assert(two == 2, "gate and up")
    dims = DimensionSizes(
        T=T, H=H, B=block_size, E=E, N=N, I=width, num_shards=n_prgs, shard_id=prg_id
    )
    dims.derive_all_dims()
    return dims


@nki.jit
def blockwise_mm_baseline_shard_hidden(
    hidden_states: nl.ndarray,
    expert_affinities_masked: nl.ndarray,
    gate_up_proj_weight: nl.ndarray,
    down_proj_weight: nl.ndarray,
    block_size: int,
    token_position_to_id: nl.ndarray,
    block_to_expert: nl.ndarray,
    activation_function: ActFnType = ActFnType.SiLU,
    skip_dma: SkipMode = SkipMode(False, False),
    compute_dtype: nki.dtype = nl.bfloat16,
    is_tensor_update_accumulating: bool = True,
    expert_affinities_scaling_mode: ExpertAffinityScaleMode = ExpertAffinityScaleMode.POST_SCALE,
):
    """Mixture of experts of tokens [T, H] in blocks; cores divide the output's columns."""
    N = token_position_to_id.shape[0] // block_size
    dims = _prepare(hidden_states, gate_up_proj_weight, block_size, N, "shard_hidden")
    cfg = Configs(
        skip_dma=skip_dma,
        compute_dtype=compute_dtype,
        scaling_mode=expert_affinities_scaling_mode,
        activation_function=activation_function,
        is_tensor_update_accumulating=is_tensor_update_accumulating,
    )
    inps = InputTensors(
        hidden_states=hidden_states,
        gate_up_proj_weight=gate_up_proj_weight,
        down_proj_weight=down_proj_weight,
        token_position_to_id=token_position_to_id,
        block_to_expert=block_to_expert,
        expert_affinities_masked=expert_affinities_masked,
    )
    kernel_assert(inps.down_proj_scale is None and inps.conditions is None, "no scales")
    output = nl.ndarray((dims.T, dims.H), dtype=hidden_states.dtype, buffer=nl.shared_hbm)
    outs = OutputTensors(output=output)
    output_initialization(output, dims)
    for block in nl.sequential_range(dims.N):
        process_block(block, inps, outs, dims, cfg)
    return outs.output


@nki.jit
def blockwise_mm_dynamic(
    hidden_states,
    expert_affinities_masked,
    gate_up_proj_weight,
    down_proj_weight,
    block_size,
    token_position_to_id,
    block_to_expert,
    conditions,
    num_static_block=1,
    skip_dma=SkipMode(True, False),
    compute_dtype=nl.bfloat16,
    use_range=False,
):
    """Static blocks first, then as many as conditions [N + 1] (1 ... 1 0 ... 0) says."""
    N = token_position_to_id.shape[0] // block_size
    dims = _prepare(hidden_states, gate_up_proj_weight, block_size, N, "dynamic")
    cfg = Configs(skip_dma=skip_dma, compute_dtype=compute_dtype)
    inps = InputTensors(
        hidden_states,
        gate_up_proj_weight,
        down_proj_weight,
        token_position_to_id,
        block_to_expert,
        expert_affinities_masked,
        conditions=conditions,
    )
    output = nl.ndarray(
        (dims.T, dims.H), dtype=hidden_states.dtype, buffer=nl.shared_hbm, name="moe_output"
    )
    outs = OutputTensors(output)
    output_initialization(output, dims)
    if dims.num_shards > 1:
        nisa.core_barrier(output, [0, 1])
    for block in range(num_static_block):
        process_block(block, inps, outs, dims, cfg)
    counter = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf, name="block_counter")
    nisa.memset(dst=counter, value=num_static_block)
    if use_range:
        line = nl.ndarray((1, conditions.shape[0]), dtype=conditions.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=line, src=conditions.reshape((1, conditions.shape[0])))
        number = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=number, op=nl.add, data=line, axis=1)
        nisa.tensor_scalar(number, number, nl.subtract, num_static_block)
        blocks = nisa.register_alloc(number)
        for _ in nl.dynamic_range(0, blocks, 1):
            process_block(counter, inps, outs, dims, cfg)
            nisa.tensor_scalar(counter, counter, nl.add, 1)
        return output
    reg = nisa.register_alloc()
    condition = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)

    def advance(first):
        if not first:
            nisa.tensor_scalar(dst=counter, data=counter, op0=nl.add, operand0=1)
        nisa.dma_copy(
            dst=condition,
            src=conditions.ap([[1, 1], [1, 1]], scalar_offset=counter, indirect_dim=0),
        )
        if dims.num_shards > 1:
            nisa.core_barrier(condition, (0, 1))
        nisa.register_load(dst=reg, src=condition)

    advance(True)
    while reg:
        process_block(counter, inps, outs, dims, cfg)
        advance(False)
    return output


@nki.jit
def bwmm_shard_on_block(
    hidden_states,
    expert_affinities_masked,
    gate_up_proj_weight,
    down_proj_weight,
    block_size,
    token_position_to_id,
    block_to_expert,
    skip_dma=SkipMode(True, False),
    compute_dtype=nl.bfloat16,
    is_tensor_update_accumulating=True,
):
    """Blocks divided over cores; each has an output of its own, which they add and exchange."""
    N = token_position_to_id.shape[0] // block_size
    _, n_prgs, prg_id = get_verified_program_sharding_info("shard_on_block", (0, 1), 2)
    T, H = hidden_states.shape
    E, _, _, width = gate_up_proj_weight.shape
    dims = DimensionSizes(T, H, block_size, E, N, width)
    dims.derive_all_dims()
    cfg = Configs(
        skip_dma=skip_dma,
        compute_dtype=compute_dtype,
        is_tensor_update_accumulating=is_tensor_update_accumulating,
    )
    inps = InputTensors(
        hidden_states=hidden_states,
        gate_up_proj_weight=gate_up_proj_weight,
        down_proj_weight=down_proj_weight,
        token_position_to_id=token_position_to_id,
        block_to_expert=block_to_expert,
        expert_affinities_masked=expert_affinities_masked,
    )
    output = nl.ndarray((n_prgs, T, H), dtype=hidden_states.dtype, buffer=nl.shared_hbm)
    final = nl.ndarray((T, H), dtype=hidden_states.dtype, buffer=nl.shared_hbm)
    mine = output[prg_id] if n_prgs > 1 else output.reshape((T, H))
    zeros = nl.ndarray((P, H), dtype=output.dtype, buffer=nl.sbuf)
    nisa.memset(zeros, value=0.0, engine=nisa.engine.vector)
    for t in range(0, T, P):
        nisa.dma_copy(mine[t : min(T, t + P)], zeros[: min(P, T - t)])
    for block in range(prg_id, N, n_prgs):
        tokens = load_token_indices(inps, block, dims)
        expert = load_block_expert(inps, block)
        hidden = load_hidden_transposed(inps, tokens, dims, cfg)
        gate_up = load_gate_up(inps, expert, dims, cfg)
        affinities = load_affinities(inps, tokens, expert, dims, cfg)
        middle = gate_up_and_activate(hidden, gate_up, dims, cfg)
        down = load_down(inps, expert, dims, cfg, 0, H)
        for b, index in enumerate(tokens):
            old = nl.ndarray((P, H), dtype=output.dtype, buffer=nl.sbuf)
            nisa.memset(old, 0.0)
            # Rows of the core's own half: its offset is a multiple of whole rows.
            rows = output.reshape((n_prgs * T, H)).ap(
                [[H, P], [1, H]], offset=prg_id * T * H, vector_offset=index
            )
            nisa.dma_copy(dst=old, src=rows, oob_mode=nisa.oob_mode.skip)
            for h in range(dims.h_outer):
                psum = nl.ndarray((P, dims.psum_width), dtype=nl.float32, buffer=nl.psum)
                for i in nl.sequential_range(dims.i_tiles):
                    nisa.nc_matmul(
                        psum,
                        middle[:, i, nl.ds(b * P, P)],
                        down[:, i, nl.ds(h * 512, dims.psum_width)],
                    )
                place = old[:, nl.ds(h * 512, dims.psum_width)]
                nisa.scalar_tensor_tensor(
                    dst=place,
                    data=psum,
                    op0=nl.multiply,
                    operand0=affinities[b],
                    op1=nl.add,
                    operand1=place,
                )
            nisa.dma_copy(dst=rows, src=old, oob_mode=nisa.oob_mode.skip)
    if n_prgs > 1:
        nisa.core_barrier(data=output, cores=(0, 1))
    for t in range(prg_id * P, T, n_prgs * P):
        size = min(P, T - t)
        if n_prgs > 1:
            nisa.dma_compute(
                final[nl.ds(t, size), :],
                [output[0, nl.ds(t, size), :], output[1, nl.ds(t, size), :]],
                nl.add,
                scales=[1.0, 1.0],
            )
        else:
            nisa.dma_copy(dst=final[nl.ds(t, size), :], src=output[0, nl.ds(t, size), :])
    return final
