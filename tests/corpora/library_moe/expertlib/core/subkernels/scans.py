"""Running sums and maxima."""

import nki
import nki.isa as nisa
import nki.language as nl

from ..utils.kernel_assert import kernel_assert
from ..utils.kernel_helpers import div_ceil, get_verified_program_sharding_info
from ..utils.tiled_range import TiledRange


@nki.jit
def cumsum(x: nl.ndarray, axis: int = -1, f_tile=2048):
    """Running sum along the last axis."""
    rank = len(x.shape)
    kernel_assert(axis == -1 or axis == rank - 1, f"axis is {axis}")
    outer = 1
    for extent in x.shape[:-1]:
        outer *= extent
    n = x.shape[-1]
    flat = x.reshape((outer, n))
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    y_flat = y.reshape((outer, n))
    for p in TiledRange(outer, nl.tile_size.pmax):
        carry = nl.ndarray((p.size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(carry, value=0.0)
        for f in TiledRange(n, f_tile):
            data = nl.ndarray((p.size, f.size), dtype=x.dtype, buffer=nl.sbuf)
            ones = nl.ndarray((p.size, f.size), dtype=nl.float32, buffer=nl.sbuf)
            nisa.memset(ones, value=1.0)
            nisa.dma_copy(
                dst=data,
                src=flat[p.start_offset : p.end_offset, f.start_offset : f.end_offset],
            )
            result = nl.ndarray((p.size, f.size), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor_scan(
                dst=result, data0=ones, data1=data, initial=carry, op0=nl.multiply, op1=nl.add
            )
            nisa.tensor_copy(carry, result[:, f.size - 1 : f.size])
            rounded = nl.ndarray((p.size, f.size), dtype=x.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(rounded, result)
            nisa.dma_copy(
                dst=y_flat[p.start_offset : p.end_offset, f.start_offset : f.end_offset],
                src=rounded,
            )
    return y


@nki.jit
def cascaded_max(logits: nl.ndarray, stage_width=512):
    """Largest of each row of [B, V], and the first place where it is, in two stages.

    Stages lie on partitions: a row is V / stage_width partitions.
    """
    grid, n_prgs, prg_id = get_verified_program_sharding_info("cascaded_max", (0, 1), 2)
    B, V = logits.shape
    stages = div_ceil(V, stage_width)
    kernel_assert(8 <= stages <= 128, f"{stages} stages")
    values = nl.ndarray((B, 1), dtype=logits.dtype, buffer=nl.shared_hbm)
    places = nl.ndarray((B, 1), dtype=nl.uint32, buffer=nl.shared_hbm)
    rest = V - (stages - 1) * stage_width
    for b in range(prg_id, B, n_prgs):
        tile = nl.ndarray((stages, stage_width), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=tile, value=nl.fp32.min)
        nisa.dma_copy(
            dst=tile[0 : stages - 1, :],
            src=logits[b, 0 : (stages - 1) * stage_width].reshape((stages - 1, stage_width)),
        )
        nisa.dma_copy(
            dst=tile[stages - 1 : stages, 0:rest],
            src=logits[b, (stages - 1) * stage_width :],
        )
        best = nl.ndarray((stages, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.max8(dst=best, src=tile)
        where = nl.ndarray((stages, 8), dtype=nl.uint32, buffer=nl.sbuf)
        nisa.nc_find_index8(dst=where, data=tile, vals=best)
        # The first column of both, on one partition.
        column = nl.ndarray((stages, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(column, best[:, 0:1], engine=nisa.scalar_engine)
        position = nl.ndarray((stages, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(position, nl.copy, where[:, 0:1])
        base = nl.ndarray((stages, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.iota(dst=base, pattern=[[0, 1]], offset=0, channel_multiplier=stage_width)
        nisa.tensor_tensor(dst=position, data1=position, data2=base, op=nl.add)
        line_psum = nl.ndarray((1, stages), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_transpose(line_psum, column)
        line = nl.ndarray((1, stages), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(line, line_psum)
        at_psum = nl.ndarray((1, stages), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_transpose(dst=at_psum, data=position, engine=nisa.engine.tensor)
        at = nl.ndarray((1, stages), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(at, at_psum)
        top = nl.ndarray((1, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.max8(top, line)
        stage = nl.ndarray((1, 8), dtype=nl.uint32, buffer=nl.sbuf)
        nisa.nc_find_index8(stage, line, top)
        stage_f = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(stage_f, stage[:, 0:1])
        number = nl.ndarray((1, stages), dtype=nl.float32, buffer=nl.sbuf)
        nisa.iota(number, [[1, stages]], offset=0)
        hot = nl.ndarray((1, stages), dtype=nl.float32, buffer=nl.sbuf)
        picked = nl.ndarray((1, stages), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(hot, number, nl.equal, stage_f)
        nisa.tensor_tensor(picked, hot, at, nl.multiply)
        place = nl.ndarray((1, 1), dtype=nl.uint32, buffer=nl.sbuf)
        nisa.tensor_reduce(place, nl.add, picked, axis=1)
        out_value = nl.ndarray((1, 1), dtype=logits.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(out_value, top[:, 0:1])
        nisa.dma_copy(dst=values[b], src=out_value)
        nisa.dma_copy(dst=places[b, :], src=place)
    return values, places
