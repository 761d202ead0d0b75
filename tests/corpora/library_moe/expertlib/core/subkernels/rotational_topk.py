"""The k largest of long rows, in passes of eight."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

from ..utils.kernel_helpers import div_ceil, get_verified_program_sharding_info


class TopkConfig(nl.NKIObject):
    """How many, and in which order."""

    k: int
    fold: int = 4
    sorted: bool
    inf_value: float


def _topk_tile(data, k, config):
    """Values and positions in [P, ceil8(k)] of tile [P, F]; data is destroyed."""
    P, F = data.shape
    k8 = div_ceil(k, 8) * 8
    values = nl.ndarray((P, k8), dtype=data.dtype, buffer=nl.sbuf)
    places = nl.ndarray((P, k8), dtype=nl.uint32, buffer=nl.sbuf)
    for i in nl.static_range(k8 // 8):
        now = values[:, nl.ds(i * 8, 8)]
        nisa.max8(dst=now, src=data)
        nisa.nc_match_replace8(
            dst=data,
            data=data,
            vals=now,
            imm=config.inf_value,
            dst_idx=places[:, i * 8 : i * 8 + 8],
        )
    return values, places


@nki.jit
def rotational_topk(x: nl.ndarray, k: int, fold: int = 4):
    """Values and positions, [B, k] each, of the k largest of each row of [B, V].

    A row is folded over `fold` partitions first; what they find is joined and searched again.
    """
    _, n_prgs, prg_id = get_verified_program_sharding_info("rotational_topk", (0, 1))
    config = TopkConfig(k=k, fold=fold, inf_value=-3.0e38)
    assert config.sorted is None
    B, V = x.shape
    width = div_ceil(V, config.fold)
    k8 = div_ceil(k, 8) * 8
    values = nl.ndarray((B, k), dtype=x.dtype, buffer=nl.shared_hbm)
    places = nl.ndarray((B, k), dtype=nl.uint32, buffer=nl.shared_hbm)
    bases = nl.shared_constant(
        np.repeat(np.arange(config.fold, dtype=np.float32) * width, k8)[None, :]
    )
    b_shard = div_ceil(B, n_prgs)
    per_tile = nl.tile_size.pmax // config.fold
    for start in range(prg_id * b_shard, min(B, (prg_id + 1) * b_shard), per_tile):
        count = min(per_tile, min(B, (prg_id + 1) * b_shard) - start)
        tile = nl.ndarray((count * config.fold, width), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(tile, value=config.inf_value)
        for f in range(config.fold):
            here = min(width, V - f * width)
            # Partition f * count + b holds part f of row b.
            nisa.dma_copy(
                dst=tile[nl.ds(f * count, count), 0:here],
                src=x[nl.ds(start, count), nl.ds(f * width, here)],
            )
        part_values, part_places = _topk_tile(tile, k, config)
        joined = nl.ndarray((count, config.fold, k8), dtype=nl.float32, buffer=nl.sbuf)
        joined_at = nl.ndarray((count, config.fold, k8), dtype=nl.uint32, buffer=nl.sbuf)
        for f in range(config.fold):
            rows = slice(f * count, (f + 1) * count)
            nisa.dma_copy(dst=joined[:, f, :], src=part_values[rows, :])
            nisa.dma_copy(dst=joined_at[:, f], src=part_places[rows])
        base = nl.ndarray((count, config.fold * k8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(base, bases.broadcast(0, count))
        at = nl.ndarray((count, config.fold * k8), dtype=nl.uint32, buffer=nl.sbuf)
        nisa.tensor_tensor(at, joined_at, base, nl.add)
        flat = joined.reshape((count, config.fold * k8))
        best, where = _topk_tile(flat, k, config)
        final = nl.ndarray((count, k8), dtype=nl.uint32, buffer=nl.sbuf)
        nisa.nc_n_gather(dst=final, data=at, indices=where)
        cast = nl.ndarray((count, k8), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=cast, src=best)
        nisa.dma_copy(dst=values[nl.ds(start, count), :], src=cast[:, :k])
        nisa.dma_copy(dst=places[nl.ds(start, count), :], src=final[:, :k])
    return values, places
