"""Output projection: heads times weights, with bias; prompts by tiles, decoding by columns of the array."""

from dataclasses import dataclass
from typing import Any, Optional

import nki
import nki.isa as nisa
import nki.language as nl

from ..core.utils.allocator import SbufManager
from ..core.utils.common_types import QuantizationType, is_fp8
from ..core.utils.kernel_assert import kernel_assert
from ..core.utils.kernel_helpers import get_program_sharding_info, load_broadcast_row, shard_dim
from ..core.utils.tensor_view import TensorView
from ..core.utils.tiled_range import TiledRange


@nki.jit
def output_projection_cte(
    attention: nl.ndarray,
    weight: nl.ndarray,
    bias: Optional[nl.ndarray] = None,
    quantization_type: QuantizationType = QuantizationType.NONE,
    weight_scales: Optional[nl.ndarray] = None,
):
    """attention [B, N, d, S], weight [N*d, H], weight_scales [1, H] -> [B, S, H]; H is split over cores."""
    B, N, d, S = attention.shape
    H = weight.shape[1]
    P = nl.tile_size.pmax
    _, n_prgs, prg_id = get_program_sharding_info()
    mine = shard_dim(H, n_prgs, prg_id)
    out = nl.ndarray((B, S, H), dtype=attention.dtype, buffer=nl.shared_hbm)
    if mine.size == 0:
        return out
    w = [nl.ndarray((d, mine.size), weight.dtype, buffer=nl.sbuf, name=f"w{n}") for n in range(N)]
    for n, tile in enumerate(w):
        nisa.dma_copy(dst=tile, src=weight.reshape((N, d, H))[n, :, nl.ds(mine.start, mine.size)])
    scales = None
    if quantization_type != QuantizationType.NONE:
        kernel_assert(weight_scales is not None, "quantised weights have scales")
        scales = nl.ndarray((P, mine.size), nl.float32)
        nisa.dma_copy(scales, weight_scales.ap([[0, P], [1, mine.size]], mine.start))
    extra = None
    if bias is not None:
        extra = nl.ndarray((P, mine.size), bias.dtype)
        nisa.dma_copy(extra, bias.ap(pattern=((0, P), (1, mine.size)), offset=mine.start))
    for b in range(B):
        for rows in TiledRange(S, P):
            heads = nl.ndarray((d, N, rows.size), dtype=attention.dtype)
            nisa.dma_copy(
                dst=heads,
                src=TensorView(attention)
                .select(0, b)
                .permute((1, 0, 2))
                .slice(2, rows.start_offset, rows.end_offset)
                .get_view(),
            )
            result = nl.ndarray((P, mine.size), out.dtype)
            for columns in TiledRange(mine.size, nl.tile_size.psum_fmax):
                acc = nl.ndarray((P, columns.size), nl.float32, buffer=nl.psum)
                for n in range(N):
                    operand = w[n][:, columns.ds()]
                    if is_fp8(weight.dtype):
                        # TensorE mixes 8 and 16 bits.
                        kernel_assert(attention.dtype != nl.float32, "float32 mixes with nothing")
                    nisa.nc_matmul(
                        dst=acc[: rows.size],
                        stationary=heads[:, n],
                        moving=operand,
                        accumulate=None if n else False,
                    )
                target, source = result[: rows.size, columns.ds()], acc[: rows.size]
                if scales is not None:
                    nisa.tensor_tensor(
                        target, source, scales[: rows.size, columns.ds()], nl.multiply
                    )
                    source = target
                if extra is not None:
                    nisa.tensor_tensor(target, source, extra[: rows.size, columns.ds()], nl.add)
                elif scales is None:
                    nisa.tensor_copy(target, source)
            nisa.dma_copy(out[b, rows.ds(), nl.ds(mine.start, mine.size)], result[: rows.size])
    return out


@nki.jit
def output_projection_tkg(
    attention: nl.ndarray,
    weight: nl.ndarray,
    bias: Optional[nl.ndarray] = None,
    TRANSPOSE_OUT: bool = False,
    OUT_IN_SB: bool = False,
    sbm: Optional[SbufManager] = None,
):
    """attention [d, B, N, S], in HBM or SBUF, weight [N*d, H] -> [B*S, H] or [128, B*S, H/128]."""
    d, B, N, S = attention.shape
    H = weight.shape[1]
    P = nl.tile_size.pmax
    _, n_prgs, prg_id = get_program_sharding_info()
    tokens = B * S
    kernel_assert(tokens <= P and H % (P * n_prgs) == 0, f"{tokens} tokens, hidden {H}")
    mine = H // n_prgs
    first = prg_id * mine
    if nl.is_hbm(attention.buffer):
        x = nl.ndarray((d, B, N, S), attention.dtype)
        nisa.dma_copy(x, attention)
    else:
        x = attention
    w = nl.ndarray((d, N, mine), weight.dtype)
    nisa.dma_copy(
        dst=w,
        src=TensorView(weight)
        .reshape_dim(0, (N, d))
        .permute((1, 0, 2))
        .slice(2, first, first + mine)
        .get_view(),
    )
    by_head = nl.ndarray((d, N, tokens), x.dtype)
    nisa.tensor_copy(
        by_head.reshape((d, N, B, S)), x.permute((0, 2, 1, 3)), engine=nisa.vector_engine
    )
    if TRANSPOSE_OUT:
        result = nl.ndarray((P, tokens, mine // P), attention.dtype)
        for block in range(mine // P):
            acc = nl.ndarray((P, tokens), nl.float32, buffer=nl.psum)
            for n in range(N):
                nisa.nc_matmul(acc, w[:, n, nl.ds(block * P, P)], by_head[:, n])
            if bias is not None:
                column = nl.ndarray((P, 1), nl.float32)
                nisa.dma_copy(column, bias.ap([[1, P], [1, 1]], offset=first + block * P))
                nisa.tensor_scalar(result[:, :, block], acc, nl.add, column)
            else:
                nisa.activation(result[:, :, block], nl.copy, acc)
        out = nl.ndarray((P, tokens, H // P), attention.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out[:, :, nl.ds(first // P, mine // P)], result)
        return out
    result = nl.ndarray((tokens, mine), attention.dtype)
    if tokens <= 32 and mine % 512 == 0:
        # Four tiles of 32 columns of the array run side by side.
        acc = nl.ndarray((P, mine // 4), nl.float32, buffer=nl.psum)
        quarter = mine // 4
        for column in range(4):
            for n in range(N):
                nisa.nc_matmul(
                    acc[column * 32 : column * 32 + tokens],
                    by_head[:, n],
                    w[:, n, nl.ds(column * quarter, quarter)],
                    tile_position=(0, column * 32),
                    tile_size=(P, 32),
                )
            nisa.tensor_copy(
                result[:, nl.ds(column * quarter, quarter)],
                acc[column * 32 : column * 32 + tokens],
            )
    else:
        for part in TiledRange(mine, 512):
            acc = nl.ndarray((tokens, part.size), nl.float32, buffer=nl.psum)
            for n in range(N):
                nisa.nc_matmul(acc, by_head[:, n], w[:, n, part.ds()])
            nisa.tensor_copy(result[:, part.ds()], acc)
    if bias is not None:
        extra = nl.ndarray((tokens, mine), bias.dtype)
        nisa.dma_copy(extra, bias.ap([[0, tokens], [1, mine]], offset=first))
        nisa.tensor_tensor(result, result, extra, nl.add)
    if OUT_IN_SB:
        return result
    out = nl.ndarray((tokens, H), attention.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out[:, nl.ds(first, mine)], result)
    return out
