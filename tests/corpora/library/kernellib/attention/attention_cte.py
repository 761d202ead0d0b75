"""Prefill attention: flash sections over keys, causal and sliding-window masks, grouped queries."""

import math
from dataclasses import dataclass
from typing import Any, Optional, Tuple

import nki
import nki.isa as nisa
import nki.language as nl
from nki.isa import engine, reduce_cmd

from ..core.utils.allocator import ModularAllocator, sizeinbytes
from ..core.utils.kernel_assert import kernel_assert
from ..core.utils.kernel_helpers import (
    div_ceil,
    get_verified_program_sharding_info,
    is_hbm_buffer,
    psum_bank_address,
)
from ..core.utils.logger import get_logger
from ..core.utils.tiled_range import TiledRange

_FLOAT32_MIN = -3.4028235e38
_MAX_HEAD_DIM = 128
_SECTION = 1024
_K_TILE = 512
_V_TILE = 128


@dataclass
class AttnConfig(nl.NKIObject):
    """What the caller wants."""

    scale: Optional[float] = None
    causal_mask: bool = True
    sliding_window: int = 0
    tp_q: bool = True
    tp_k: bool = False
    tp_out: bool = False
    use_range_select: bool = True
    softmax_dtype: Any = nl.float32
    cache_softmax: bool = False


class AttnShapes(nl.NKIObject):
    """Sizes of one call; no constructor of its own."""

    bs: int
    bs_kv: int
    seqlen_q: int
    seqlen_k: int
    d: int
    group: int
    q_tiles: int


class AttnBuffers(nl.NKIObject):
    """Tiles by name; what was not allocated is None."""

    k_sb: Any
    v_sb: Any
    q_sb: Any
    mm1_running_max: Any
    exp_running_sum: Any
    mm2_sb: Any
    iota: Any


def _shapes(q, k, v, ac: AttnConfig) -> AttnShapes:
    if ac.tp_q:
        bs, seqlen_q, d = q.shape
    else:
        bs, d, seqlen_q = q.shape
    bs_kv = v.shape[0]
    seqlen_k = v.shape[1]
    kernel_assert(d <= _MAX_HEAD_DIM, f"head dimension {d} is above {_MAX_HEAD_DIM}")
    kernel_assert(bs % bs_kv == 0, f"{bs} query heads are no multiple of {bs_kv} key heads")
    expected_k = (bs_kv, seqlen_k, d) if ac.tp_k else (bs_kv, d, seqlen_k)
    kernel_assert(k.shape == expected_k, f"k has shape {k.shape}, expected {expected_k}")
    kernel_assert(v.shape == (bs_kv, seqlen_k, d), f"v has shape {v.shape}")
    return AttnShapes(
        bs=bs,
        bs_kv=bs_kv,
        seqlen_q=seqlen_q,
        seqlen_k=seqlen_k,
        d=d,
        group=bs // bs_kv,
        q_tiles=div_ceil(seqlen_q, nl.tile_size.pmax),
    )


@nki.jit(mode="trace", debug_kernel=False, show_compiler_tb=True)
def attention_cte(
    q: nl.ndarray,
    k: nl.ndarray,
    v: nl.ndarray,
    config: Optional[AttnConfig] = None,
    sink: Optional[nl.ndarray] = None,
):
    """Attention of whole prompts.

    q [bs, seqlen_q, d] (tp_q) or [bs, d, seqlen_q]; k [bs_kv, d, seqlen_k], or [bs_kv, seqlen_k, d]
    (tp_k); v [bs_kv, seqlen_k, d]; sink [bs, 1]. Returns [bs, seqlen_q, d] or, with tp_out,
    [bs, d, seqlen_q]; with cache_softmax also negated maxima and reciprocal sums.
    """
    ac = config if config is not None else AttnConfig()
    logger = get_logger("attention_cte")
    shapes = _shapes(q, k, v, ac)
    kernel_assert(is_hbm_buffer(q) and is_hbm_buffer(k), "inputs are in HBM")
    logger.info(f"{shapes.bs=} {shapes.seqlen_q=} {str(q.dtype)=}")
    _, n_prgs, prg_id = get_verified_program_sharding_info("attention_cte", (0, 1), 2)

    out_shape = (
        (shapes.bs, shapes.d, shapes.seqlen_q)
        if ac.tp_out
        else (shapes.bs, shapes.seqlen_q, shapes.d)
    )
    o = nl.ndarray(out_shape, dtype=q.dtype, buffer=nl.shared_hbm, name="o_hbm")
    neg_max, recip = None, None
    if ac.cache_softmax:
        stats = (shapes.bs, nl.tile_size.pmax, shapes.q_tiles)
        neg_max = nl.ndarray(stats, dtype=nl.float32, buffer=nl.shared_hbm, name="out_neg_max")
        recip = nl.ndarray(stats, dtype=nl.float32, buffer=nl.shared_hbm, name="out_sum_recip")

    # Heads are dealt to the cores; if their number is odd, query tiles are.
    by_batch = shapes.bs % n_prgs == 0
    per_core = shapes.bs // n_prgs if by_batch else shapes.bs
    for i in nl.affine_range(per_core):
        batch = i + prg_id * per_core if by_batch else i
        _attend(
            q,
            k,
            v,
            sink,
            o,
            neg_max,
            recip,
            batch,
            ac,
            shapes,
            1 if by_batch else n_prgs,
            0 if by_batch else prg_id,
        )
    if ac.cache_softmax:
        return o, neg_max, recip
    return o


def _attend(q, k, v, sink, o, neg_max, recip, batch, ac, s, tile_step, tile_first):
    P = nl.tile_size.pmax
    io = q.dtype
    scale = ac.scale if ac.scale is not None else 1.0 / math.sqrt(s.d)
    batch_kv = batch // s.group
    sbm = ModularAllocator(initial_address=0)
    bufs = AttnBuffers()
    n_sections = div_ceil(s.seqlen_k, _SECTION)

    bufs.iota = sbm.alloc_sbuf_tensor(shape=(P, 1), dtype=nl.float32)
    nisa.iota(bufs.iota, [[1, 1]], offset=0, channel_multiplier=1)
    # Stats of every query tile, side by side.
    bufs.mm1_running_max = sbm.alloc_sbuf_tensor(shape=(P, s.q_tiles), dtype=nl.float32)
    bufs.exp_running_sum = sbm.alloc_sbuf_tensor(shape=(P, s.q_tiles), dtype=nl.float32)
    bufs.mm2_sb = sbm.alloc_sbuf_tensor(
        shape=(P, s.d), dtype=nl.float32, block_dim=[s.q_tiles], align_to=32
    )
    bufs.q_sb = sbm.alloc_sbuf_tensor(
        shape=(s.d, P), dtype=io, block_dim=[s.q_tiles], num_free_tiles=[2]
    )
    bufs.k_sb = sbm.alloc_sbuf_tensor(
        shape=(s.d, _K_TILE),
        dtype=k.dtype,
        block_dim=[n_sections, _SECTION // _K_TILE],
        num_free_tiles=[1, _SECTION // _K_TILE],
    )
    bufs.v_sb = sbm.alloc_sbuf_tensor(
        shape=(P, s.d),
        dtype=v.dtype,
        block_dim=[n_sections, _SECTION // _V_TILE],
        num_free_tiles=[1, _SECTION // _V_TILE],
    )
    scratch = sbm.alloc_sbuf_tensor(
        shape=(P, _SECTION), dtype=nl.float32, block_dim=[s.q_tiles], num_free_tiles=[2]
    )
    probs = sbm.alloc_sbuf_tensor(
        shape=(P, _SECTION), dtype=v.dtype, block_dim=[s.q_tiles], num_free_tiles=[2]
    )
    transposed = sbm.alloc_sbuf_tensor(
        shape=(P, P), dtype=v.dtype, block_dim=[_SECTION // _V_TILE], num_free_tiles=[2]
    )
    small = sbm.alloc_sbuf_tensor(
        shape=(P, 1), dtype=nl.float32, block_dim=[s.q_tiles, 8], num_free_tiles=[1, 8]
    )
    kernel_assert(sbm.current <= nl.tile_size.total_available_sbuf_size, "out of SBUF")

    nisa.memset(bufs.mm1_running_max, value=_FLOAT32_MIN)
    nisa.memset(bufs.exp_running_sum, value=0.0)
    for t in range(s.q_tiles):
        nisa.memset(bufs.mm2_sb[t], 0.0)

    for section in range(n_sections):
        base = section * _SECTION
        length = min(_SECTION, s.seqlen_k - base)
        _load_section(k, v, bufs, batch_kv, section, base, length, ac, s)
        for tile in range(tile_first, s.q_tiles, tile_step):
            q_start = tile * P
            rows = min(P, s.seqlen_q - q_start)
            if ac.causal_mask and base > q_start + rows - 1:
                continue
            if ac.sliding_window > 0 and base + length - 1 < q_start - ac.sliding_window + 1:
                continue
            _load_q(q, bufs.q_sb[tile], batch, q_start, rows, ac, s)
            _one_tile(
                bufs,
                section,
                base,
                length,
                tile,
                q_start,
                rows,
                scale,
                ac,
                s,
                scratch[tile],
                probs[tile],
                transposed,
                small[tile],
            )

    for tile in range(tile_first, s.q_tiles, tile_step):
        q_start = tile * P
        rows = min(P, s.seqlen_q - q_start)
        _finish(o, sink, neg_max, recip, bufs, batch, tile, q_start, rows, ac, s, small[tile], io)


def _load_section(k, v, bufs, batch_kv, section, base, length, ac, s):
    for kt in TiledRange(length, _K_TILE, start=base):
        k_dst = bufs.k_sb[section][kt.index]
        if ac.tp_k:
            nisa.dma_transpose(
                dst=k_dst[: s.d, : kt.size],
                src=k[batch_kv, nl.ds(kt.start_offset, kt.size), :],
                axes=(1, 0),
            )
        else:
            nisa.dma_copy(dst=k_dst[: s.d, 0 : kt.size], src=k[batch_kv, :, kt.ds()])
    for vt in TiledRange(length, _V_TILE, start=base):
        nisa.dma_copy(
            dst=bufs.v_sb[section][vt.index][: vt.size, :],
            src=v.ap(
                pattern=[[s.d, vt.size], [1, s.d]],
                offset=batch_kv * s.seqlen_k * s.d + vt.start_offset * s.d,
            ),
            dge_mode=nisa.dge_mode.none,
        )


def _load_q(q, q_sb, batch, q_start, rows, ac, s):
    if ac.tp_q:
        staged = nl.ndarray((nl.tile_size.pmax, s.d), dtype=q.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=staged[:rows, :], src=q[batch, q_start : q_start + rows])
        q_psum = nl.ndarray(
            (s.d, rows), dtype=q.dtype, buffer=nl.psum, address=psum_bank_address(7)
        )
        nisa.nc_transpose(dst=q_psum, data=staged[:rows, :])
        nisa.tensor_copy(q_sb[:, :rows], q_psum, engine=nisa.scalar_engine)
    else:
        nisa.dma_copy(q_sb[:, :rows], q[batch, :, nl.ds(q_start, rows)])


def _mask(dst, src, bufs, q_start, rows, key_start, width, ac, bounds, row_max):
    """Keep keys of [q - window + 1, q]; the maximum of each row comes along."""
    lower, upper = bounds
    nisa.tensor_scalar(upper[:rows], bufs.iota[:rows], nl.add, float(q_start))
    if ac.sliding_window > 0:
        nisa.tensor_scalar(
            lower[:rows], upper[:rows], op0=nl.subtract, operand0=float(ac.sliding_window - 1)
        )
    else:
        nisa.memset(lower[:rows], value=0.0)
    if ac.use_range_select:
        nisa.range_select(
            dst=dst,
            on_true_tile=src,
            comp_op0=nl.greater_equal,
            comp_op1=nl.less_equal,
            bound0=lower[:rows],
            bound1=upper[:rows],
            reduce_cmd=reduce_cmd.reset_reduce,
            reduce_res=row_max,
            reduce_op=nl.maximum,
            range_start=key_start,
            on_false_value=_FLOAT32_MIN,
        )
        return
    nisa.affine_select(
        dst=dst,
        pattern=[[-1, width]],
        offset=q_start - key_start,
        channel_multiplier=1,
        on_true_tile=src,
        on_false_value=_FLOAT32_MIN,
        cmp_op=nl.greater_equal,
    )
    if ac.sliding_window > 0:
        nisa.affine_select(
            dst,
            [[1, width]],
            -1,
            dst,
            _FLOAT32_MIN,
            nl.greater_equal,
            key_start - q_start + ac.sliding_window - 1,
        )
    nisa.tensor_reduce(dst=row_max, op=nl.maximum, data=dst, axis=1)


def _one_tile(
    bufs, section, base, length, tile, q_start, rows, scale, ac, s, scores, probs, transposed, small
):
    P = nl.tile_size.pmax
    new_max, neg, correction, part_sum, lower, upper = small[0:6]
    tile_maxes = nl.ndarray((P, 2), dtype=nl.float32, buffer=nl.sbuf)
    masked = ac.causal_mask or ac.sliding_window > 0
    n_k = div_ceil(length, _K_TILE)
    for kt in TiledRange(length, _K_TILE):
        mm1 = nl.ndarray(
            (P, _K_TILE), dtype=nl.float32, buffer=nl.psum, address=psum_bank_address(kt.index)
        )
        nisa.nc_matmul(
            dst=mm1[:rows, : kt.size],
            stationary=bufs.q_sb[tile][:, :rows],
            moving=bufs.k_sb[section][kt.index][: s.d, : kt.size],
        )
        part = scores[:rows, nl.ds(kt.start_offset, kt.size)]
        row_max = tile_maxes[:rows, kt.index]
        if masked:
            # The GpSimd engine does not reach PSUM.
            source = mm1[:rows, : kt.size]
            if not ac.use_range_select:
                nisa.tensor_copy(part, source)
                source = part
            _mask(
                part,
                source,
                bufs,
                q_start,
                rows,
                base + kt.start_offset,
                kt.size,
                ac,
                (lower, upper),
                row_max,
            )
        else:
            nisa.tensor_copy(dst=part, src=mm1[:rows, : kt.size], engine=engine.vector)
            nisa.tensor_reduce(row_max, nl.maximum, part, axis=(1,))
    running = bufs.mm1_running_max[:rows, tile]
    nisa.tensor_reduce(dst=new_max[:rows], op=nl.maximum, data=tile_maxes[:rows, :n_k], axis=1)
    nisa.tensor_tensor(new_max[:rows], new_max[:rows], running, nl.maximum)
    nisa.tensor_scalar(neg[:rows], new_max[:rows], nl.multiply, -scale)
    # exp(scale * (old - new)) rescales what is there.
    nisa.activation(dst=correction[:rows], op=nl.exp, data=running, bias=neg[:rows], scale=scale)
    nisa.tensor_copy(running, new_max[:rows])
    nisa.activation_reduce(
        dst=probs[:rows, :length],
        op=nl.exp,
        data=scores[:rows, :length],
        reduce_op=nl.add,
        reduce_res=part_sum[:rows],
        bias=neg[:rows, 0:1],
        scale=scale,
    )
    total = bufs.exp_running_sum[:rows, tile : tile + 1]
    nisa.scalar_tensor_tensor(
        dst=total,
        data=total,
        op0=nl.multiply,
        operand0=correction[:rows],
        op1=nl.add,
        operand1=part_sum[:rows],
    )
    mm2 = nl.ndarray((P, s.d), dtype=nl.float32, buffer=nl.psum, address=psum_bank_address(4))
    for vt in TiledRange(length, _V_TILE):
        flip = nl.ndarray(
            (vt.size, rows),
            dtype=probs.dtype,
            buffer=nl.psum,
            address=psum_bank_address(2 + vt.index % 2),
        )
        nisa.nc_transpose(flip, probs[:rows, vt.ds()])
        nisa.tensor_copy(transposed[vt.index][: vt.size, :rows], flip)
        nisa.nc_matmul(
            mm2[:rows, :],
            transposed[vt.index][: vt.size, :rows],
            bufs.v_sb[section][vt.index][: vt.size, :],
            accumulate=vt.index > 0,
        )
    nisa.scalar_tensor_tensor(
        dst=bufs.mm2_sb[tile][:rows],
        data=bufs.mm2_sb[tile][:rows],
        op0=nl.multiply,
        operand0=correction[:rows],
        op1=nl.add,
        operand1=mm2[:rows],
    )


def _finish(o, sink, neg_max, recip, bufs, batch, tile, q_start, rows, ac, s, small, io):
    P = nl.tile_size.pmax
    total = bufs.exp_running_sum[:rows, tile]
    scale = ac.scale if ac.scale is not None else 1.0 / math.sqrt(s.d)
    if sink is not None:
        sink_sb = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=sink_sb[:rows], src=sink.ap([[0, rows], [1, 1]], offset=batch))
        weight = small[6]
        nisa.scalar_tensor_tensor(
            weight[:rows],
            bufs.mm1_running_max[:rows, tile],
            nl.multiply,
            -scale,
            nl.add,
            sink_sb[:rows],
        )
        nisa.activation(weight[:rows], nl.exp, weight[:rows])
        nisa.tensor_tensor(dst=total, data1=total, data2=weight[:rows], op=nl.add)
    inverse = small[7]
    nisa.reciprocal(inverse[:rows], total)
    final = nl.ndarray((P, s.d), dtype=io, buffer=nl.sbuf)
    nisa.tensor_scalar(final[:rows], bufs.mm2_sb[tile][:rows], nl.multiply, inverse[:rows])
    if ac.tp_out:
        flip = nl.ndarray((s.d, rows), dtype=io, buffer=nl.psum)
        nisa.nc_transpose(dst=flip, data=final[:rows])
        out_sb = nl.ndarray((s.d, rows), dtype=io, buffer=nl.sbuf)
        nisa.tensor_copy(dst=out_sb, src=flip)
        nisa.dma_copy(dst=o[batch, :, nl.ds(q_start, rows)], src=out_sb)
    else:
        nisa.dma_copy(o[batch, nl.ds(q_start, rows), :], final[:rows, :])
    if ac.cache_softmax:
        negated = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(negated[:rows], bufs.mm1_running_max[:rows, tile], nl.multiply, -scale)
        nisa.dma_copy(dst=neg_max[batch, :rows, tile], src=negated[:rows])
        nisa.dma_copy(dst=recip[batch, :rows, tile], src=inverse[:rows])
