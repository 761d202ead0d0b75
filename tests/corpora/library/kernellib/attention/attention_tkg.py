"""Decode attention: new keys and values go into a paged cache in place, the sequence is split over cores."""

import math
from dataclasses import dataclass
from typing import Dict, Optional, Tuple

import nki
import nki.isa as nisa
import nki.language as nl
from nki.isa import dge_mode, oob_mode

from ..core.utils.allocator import SbufManager, create_auto_alloc_manager
from ..core.utils.kernel_assert import kernel_assert
from ..core.utils.kernel_helpers import (
    get_program_sharding_info,
    psum_bank_address,
    stream_shuffle_broadcast,
)
from ..core.utils.tensor_view import TensorView

_LOWEST = -30000.0


@dataclass(frozen=True)
class AttnTkgConfig(nl.NKIObject):
    """Sizes known when the kernel is built."""

    bs: int
    q_heads: int
    d_head: int
    block_len: int
    max_blocks: int
    update_cache: bool = True

    @property
    def seqlen(self) -> int:
        return self.block_len * self.max_blocks


@dataclass
class KVCache(nl.NKIObject):
    """Pages of keys and values, and which of them a sequence has."""

    k: nl.ndarray
    v: nl.ndarray
    block_table: nl.ndarray
    slot_mapping: Optional[nl.ndarray] = None


@nki.jit(mode="trace")
def attention_tkg(
    q: nl.ndarray,
    k_new: nl.ndarray,
    v_new: nl.ndarray,
    cache: KVCache,
    position_ids: nl.ndarray,
    cfg: AttnTkgConfig,
    sbm: Optional[SbufManager] = None,
    out_in_sb: bool = False,
):
    """One token of each sequence.

    q [bs, q_heads, d]; k_new, v_new [bs, d]; cache.k, cache.v [blocks, block_len, d] updated in place;
    cache.block_table [bs, max_blocks] int32, of which unused entries are -1; cache.slot_mapping
    [bs, 1] int32, -1 for padding; position_ids [bs, 1] int32. Returns a dict of the output
    [bs, q_heads, d] and the caches.
    """
    kernel_assert(q.shape == (cfg.bs, cfg.q_heads, cfg.d_head), f"q has shape {q.shape}")
    kernel_assert(cfg.seqlen % 128 == 0 or cfg.seqlen <= 128, "whole tiles of keys")
    _, n_prgs, prg_id = get_program_sharding_info()
    own_sbm = sbm is None
    if own_sbm:
        sbm = SbufManager(0, nl.tile_size.total_available_sbuf_size)
    sbm.set_name_prefix(f"tkg{prg_id}_")
    sbm.open_scope("attention_tkg")
    if cfg.update_cache:
        _update_cache(k_new, v_new, cache, cfg, sbm, prg_id)
        if n_prgs > 1:
            nisa.core_barrier(cache.k, (0, 1))
            nisa.core_barrier(data=cache.v, cores=[0, 1], engine=nisa.gpsimd_engine)
    out = nl.ndarray(q.shape, dtype=q.dtype, buffer=nl.shared_hbm, name="attn_out")
    for batch in range(cfg.bs):
        sbm.open_scope()
        _one_sequence(q, cache, position_ids, out, batch, cfg, sbm, n_prgs, prg_id)
        sbm.close_scope()
    sbm.close_scope()
    return {"out": out, "k_cache": cache.k, "v_cache": cache.v}


def _update_cache(k_new, v_new, cache, cfg, sbm, prg_id):
    """Scatter rows to their slots; core 0 does keys and core 1, where there is one, values."""
    sbm.open_scope("update")
    slots = sbm.alloc_stack((cfg.bs, 1), dtype=nl.int32, name="slots")
    nisa.dma_copy(dst=slots, src=cache.slot_mapping)
    n_blocks = cache.k.shape[0]
    n_prgs = nl.num_programs(axes=0) if nl.program_ndim() != 0 else 1
    for which, (new, pages) in enumerate([(k_new, cache.k), (v_new, cache.v)]):
        if n_prgs > 1 and which != prg_id:
            continue
        rows = sbm.alloc_stack((cfg.bs, cfg.d_head), dtype=pages.dtype, name=f"new{which}")
        nisa.dma_copy(dst=rows, src=new)
        flat = pages.reshape((n_blocks * cfg.block_len, cfg.d_head))
        nisa.dma_copy(
            dst=flat.ap(
                pattern=[[cfg.d_head, cfg.bs], [1, cfg.d_head]],
                offset=0,
                vector_offset=slots.ap([[1, cfg.bs], [1, 1]]),
                indirect_dim=0,
            ),
            src=rows,
            oob_mode=oob_mode.skip,
            dge_mode=dge_mode.unknown,
        )
    sbm.close_scope()


def _load_pages(pages, table_sb, dst, batch, first, count, cfg):
    """Gather whole blocks by the table, each a row of the result; absent ones are skipped."""
    width = cfg.block_len * cfg.d_head
    nisa.dma_copy(
        dst=dst[:count],
        src=pages.reshape((pages.shape[0], width)).ap(
            [[width, count], [1, width]], vector_offset=table_sb[:count, 0:1]
        ),
        oob_mode=nisa.oob_mode.skip,
        dge_mode=nisa.dge_mode.swdge,
    )


def _one_sequence(q, cache, position_ids, out, batch, cfg, sbm, n_prgs, prg_id):
    d, h = cfg.d_head, cfg.q_heads
    io = q.dtype
    mine = cfg.max_blocks // n_prgs
    first = mine * prg_id
    kernel_assert(cfg.max_blocks % n_prgs == 0, "blocks are dealt evenly")

    table = sbm.alloc_stack((mine, 1), nl.int32, name="table")
    nisa.dma_copy(
        dst=table,
        src=cache.block_table.ap([[1, mine], [1, 1]], offset=batch * cfg.max_blocks + first),
    )
    # Blocks on partitions; keys of a block follow one another.
    k_pages = sbm.alloc_stack((mine, cfg.block_len, d), cache.k.dtype, name="k_pages")
    v_pages = sbm.alloc_stack((mine, cfg.block_len, d), cache.v.dtype, name="v_pages")
    nisa.memset(k_pages, value=0.0)
    nisa.memset(v_pages, 0.0)
    _load_pages(cache.k, table, k_pages.reshape((mine, cfg.block_len * d)), batch, first, mine, cfg)
    _load_pages(cache.v, table, v_pages.reshape((mine, cfg.block_len * d)), batch, first, mine, cfg)

    q_sb = sbm.alloc_stack((d, h), io, name="q")
    nisa.dma_copy(dst=q_sb, src=TensorView(q).select(0, batch).permute((1, 0)).get_view())
    position = sbm.alloc_stack((1, 1), nl.int32, name="position")
    nisa.dma_copy(dst=position, src=position_ids[batch])
    limit = sbm.alloc_stack((128, 1), nl.float32, name="limit")
    nisa.tensor_copy(limit[0:1], position)
    if h % 32 == 0:
        stream_shuffle_broadcast(limit[0:1, :], limit)
    else:
        mask = [0] * h + [255] * (32 - h)
        nisa.nc_stream_shuffle(dst=limit[0:32], src=limit[0:1], shuffle_mask=mask)

    # scores[h, slot, block]: keys of one place in their block lie side by side.
    scores = sbm.alloc_stack((h, cfg.block_len, mine), nl.float32, name="scores")
    ident = nl.shared_identity_matrix(128, dtype=io)
    sbm.open_scope(name="keys", interleave_degree=2)
    for j in range(cfg.block_len):
        kT_psum = nl.ndarray((d, mine), dtype=io, buffer=nl.psum, address=psum_bank_address(j))
        nisa.nc_matmul(kT_psum, k_pages[:, j, :], ident[:mine, :mine], is_transpose=True)
        kT = sbm.alloc_stack((d, mine), io, name="kT")
        nisa.tensor_copy(dst=kT, src=kT_psum)
        s_psum = nl.ndarray((h, mine), nl.float32, nl.psum, address=psum_bank_address(4 + j))
        nisa.nc_matmul(dst=s_psum, stationary=q_sb, moving=kT)
        nisa.activation(
            scores[:, j], nl.copy, s_psum, scale=1.0 / math.sqrt(d), name=f"scale_{batch}_{j}"
        )
        sbm.increment_section()
    sbm.close_scope()
    index = sbm.alloc_stack((h, cfg.block_len, mine), nl.float32, name="index")
    nisa.iota(
        index,
        pattern=[[1, cfg.block_len], [cfg.block_len, mine]],
        offset=first * cfg.block_len,
        channel_multiplier=0,
    )
    # 1 where the key is at most the position.
    seen = sbm.alloc_stack((h, cfg.block_len, mine), nl.uint8, name="seen")
    nisa.tensor_scalar(seen, index, nl.less_equal, limit[:h])
    masked = sbm.alloc_stack((h, cfg.block_len, mine), nl.float32, name="masked")
    nisa.memset(masked, value=_LOWEST)
    nisa.tensor_copy_predicated(dst=masked, src=scores, predicate=seen)

    stats = sbm.alloc_stack((h, 2), nl.float32, name="stats")
    nisa.tensor_reduce(dst=stats[:, 0:1], op=nl.maximum, data=masked, axis=(1, 2))
    if n_prgs > 1:
        peer_max = sbm.alloc_stack((h, 1), nl.float32, name="peer_max")
        nisa.sendrecv(
            src=stats[:, 0:1],
            dst=peer_max,
            send_to_rank=1 - prg_id,
            recv_from_rank=1 - prg_id,
            pipe_id=0,
        )
        nisa.tensor_tensor(dst=stats[:, 0:1], data1=stats[:, 0:1], data2=peer_max, op=nl.maximum)
    nisa.tensor_scalar(stats[:, 0:1], stats[:, 0:1], nl.multiply, -1.0)
    probs = sbm.alloc_stack((h, cfg.block_len, mine), io, name="probs")
    nisa.activation(
        dst=probs,
        op=nl.exp,
        data=masked,
        bias=stats[:, 0:1],
        scale=1.0,
        reduce_op=nl.add,
        reduce_res=stats[:, 1:2],
        reduce_cmd=nisa.reduce_cmd.reset_reduce,
    )
    acc = nl.ndarray((h, d), nl.float32, buffer=nl.psum, address=psum_bank_address(0))
    sbm.open_scope(name="values", interleave_degree=2)
    for j in range(cfg.block_len):
        pT_psum = nl.ndarray((mine, h), io, buffer=nl.psum, address=psum_bank_address(1 + j % 4))
        nisa.nc_transpose(dst=pT_psum, data=probs[:, j, :])
        pT = sbm.alloc_stack((mine, h), io, name="pT")
        nisa.tensor_copy(pT, pT_psum)
        nisa.nc_matmul(acc, pT, v_pages[:, j, :])
        sbm.increment_section()
    sbm.close_scope()
    # Output and sum travel together.
    both = sbm.alloc_heap((h, d + 1), nl.float32, name="both")
    nisa.tensor_copy(both[:, 0:d], acc)
    nisa.tensor_copy(both[:, d : d + 1], stats[:, 1:2])
    if n_prgs > 1:
        theirs = sbm.alloc_heap((h, d + 1), nl.float32, name="theirs")
        nisa.sendrecv(
            src=both,
            dst=theirs,
            send_to_rank=1 - prg_id,
            recv_from_rank=1 - prg_id,
            pipe_id=0,
            dma_engine=nisa.dma_engine.gpsimd_dma if d < 256 else nisa.dma_engine.dma,
        )
        nisa.tensor_tensor(both, both, theirs, op=nl.add)
        sbm.pop_heap()
    nisa.reciprocal(dst=both[:, d : d + 1], data=both[:, d])
    final = sbm.alloc_stack((h, d), io, name="final")
    nisa.tensor_scalar(
        dst=final,
        data=both[:, 0:d],
        op0=nl.multiply,
        operand0=both[:, nl.ds(d, 1)],
        engine=nisa.vector_engine,
    )
    if prg_id == 0:
        nisa.dma_copy(dst=out[batch], src=final)
    sbm.pop_heap()


def gather_rows(cache: nl.ndarray, row_index: nl.ndarray, count: int):
    """Rows of a cache one by one, the row's number read from an index tile that moves on."""
    out = nl.ndarray((count, cache.shape[1]), dtype=cache.dtype, buffer=nl.shared_hbm, name="rows")
    index = nl.ndarray((1, count), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.dma_copy(index, row_index)
    place = nl.ndarray((1, 1), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.memset(place, value=0)
    line = nl.ndarray((1, cache.shape[1]), dtype=cache.dtype, buffer=nl.sbuf)
    moving = out.ap([[cache.shape[1], 1], [1, cache.shape[1]]], scalar_offset=place)
    for i in nl.dynamic_range(count):
        kernel_assert(not isinstance(i, int), "a register")
        nisa.dma_copy(
            dst=line,
            src=TensorView(cache)
            .select(0, index.ap([[count, 1], [1, 1]], offset=0))
            .expand_dim(0)
            .get_view(),
        )
        nisa.dma_copy(dst=moving, src=line)
        nisa.tensor_scalar(place, place, nl.add, 1.0)
        # What is next moves to the front.
        if count > 1:
            nisa.tensor_copy(index[:, 0 : count - 1], index[:, 1:count])
    return out


gather_rows_kernel = nki.jit(gather_rows)
