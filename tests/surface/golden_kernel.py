"""The kernel whose program of version 0.1.0 is kept: one call or two of every instruction."""

from __future__ import annotations

from typing import Any

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from trn3 import nki

P, F = 32, 64


@nki.jit
def everything(x: Any, y: Any, words: Any) -> Any:
    """Do a little of everything."""
    outputs = []

    def tile(*shape: int, dtype: Any = nl.float32, buffer: Any = nl.sbuf) -> Any:
        return nl.ndarray(shape or (P, F), dtype=dtype, buffer=buffer)

    def keep(found: Any) -> None:
        out = nl.ndarray(tuple(found.shape), dtype=found.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=found)
        outputs.append(out)

    def loaded(source: Any, dtype: Any = nl.float32) -> Any:
        made = tile(dtype=dtype)
        nisa.dma_copy(dst=made, src=source)
        return made

    a, b, w = loaded(x), loaded(y), loaded(words, nl.uint32)
    short, column = tile(dtype=nl.bfloat16), tile(P, 1)
    nisa.tensor_copy(short, a)
    _vector(a, b, short, column, tile, keep)
    _scalar(a, column, tile, keep)
    _selected(a, b, w, tile, keep)
    _products(a, short, tile, keep)
    _gpsimd(a, short, tile, keep)
    _random(a, w, tile, keep)
    _moved(x, a, b, tile, keep)
    return tuple(outputs)


def _vector(a: Any, b: Any, short: Any, column: Any, tile: Any, keep: Any) -> None:
    out, sums = tile(), tile(P, 1)
    nisa.tensor_reduce(column, op=nl.maximum, data=a, axis=1)
    nisa.tensor_tensor(out, a, b, op=nl.add)
    nisa.tensor_scalar(out, out, op0=nl.multiply, operand0=0.3, op1=nl.subtract, operand1=column)
    nisa.scalar_tensor_tensor(out, out, nl.multiply, 1.7, nl.maximum, b)
    nisa.tensor_scalar_reduce(
        out, out, nl.add, 0.1, nl.add, sums, reduce_cmd=nisa.reduce_cmd.reset_reduce
    )
    nisa.reciprocal(sums, sums)
    keep(out)
    keep(sums)
    scan = tile(dtype=nl.bfloat16)
    nisa.tensor_tensor_scan(scan, a, b, 0.5, nl.multiply, nl.add)
    keep(scan)
    nisa.tensor_scalar_cumulative(scan, short, nl.multiply, nl.add, 0.25)
    keep(scan)
    halves, both = tile(P, 6), tile(P, 2)
    nisa.bn_stats(halves, a)
    nisa.bn_aggr(both, halves)
    keep(both)


def _scalar(a: Any, column: Any, tile: Any, keep: Any) -> None:
    out, sums = tile(dtype=nl.float16), tile(P, 1)
    nisa.activation(out, op=nl.tanh, data=a, bias=column, scale=0.5)
    keep(out)
    nisa.activation_reduce(out, nl.gelu, a, nl.add, sums)
    keep(sums)
    nisa.activate2(out, nl.square, a, 2.0, 0.125, nl.multiply, nl.add)
    keep(out)
    nisa.exponential(
        out, a, max_value=column, reduce_res=sums, reduce_cmd=nisa.reduce_cmd.reset_reduce
    )
    keep(out)
    keep(sums)


def _selected(a: Any, b: Any, w: Any, tile: Any, keep: Any) -> None:
    out, mask, eight = tile(), tile(dtype=nl.uint8), tile(P, 8)
    places, low, high = tile(P, 8, dtype=nl.uint32), tile(P, 1), tile(P, 1)
    nisa.tensor_scalar(mask, a, op0=nl.greater, operand0=0.0)
    nisa.select_reduce(out, mask, a, -2.0)
    nisa.tensor_copy_predicated(out, b, mask, reverse_pred=True)
    keep(out)
    nisa.memset(low, 3.0)
    nisa.memset(high, 40.0)
    nisa.range_select(out, a, nl.greater_equal, nl.less, low, high)
    keep(out)
    nisa.max8(eight, a)
    nisa.nc_find_index8(places, a, eight)
    keep(places)
    nisa.nc_match_replace8(out, a, eight, 0.0)
    keep(out)
    nisa.affine_select(out, [[-1, F]], 1, a, 0.5, cmp_op=nl.greater_equal, offset=7)
    keep(out)
    small = tile(dtype=nl.uint32)
    nisa.tensor_scalar(small, w, op0=nl.bitwise_and, operand0=63)
    nisa.nc_n_gather(out, a, small)
    keep(out)


def _products(a: Any, short: Any, tile: Any, keep: Any) -> None:
    sums = tile(F, F, buffer=nl.psum)
    copied = tile(F, F)
    nisa.nc_matmul(sums, stationary=short, moving=short, accumulate=False)
    nisa.nc_matmul(sums, stationary=a, moving=a, accumulate=True)
    nisa.tensor_copy(copied, sums)
    keep(copied)
    turned, back = tile(F, P, buffer=nl.psum), tile(F, P)
    nisa.nc_transpose(turned, a)
    nisa.tensor_copy(back, turned)
    keep(back)
    packed, scales = tile(P, F // 4, dtype=nl.float8_e4m3fn_x4), tile(4, F // 4, dtype=nl.uint8)
    nisa.quantize_mx(packed, short, scales)
    keep(scales)
    scaled, shown = tile(F // 4, F // 4, buffer=nl.psum), tile(F // 4, F // 4)
    nisa.nc_matmul_mx(scaled, packed, packed, scales, scales)
    nisa.tensor_copy(shown, scaled)
    keep(shown)
    # Four of eight rows are kept; their positions are 0 to 3, by partition.
    tags, dense = tile(P, 4, dtype=nl.uint16), tile(P, 2, 16, dtype=nl.bfloat16)
    nisa.iota(tags, [[0, 4]], channel_multiplier=1)
    nisa.tensor_scalar(tags, tags, op0=nl.bitwise_and, operand0=3)
    nisa.tensor_scalar(tags, tags, op0=nl.multiply, operand0=0x1111)
    nisa.tensor_copy(dense, short[:, 0:32])
    thin, result = tile(16, 16, buffer=nl.psum), tile(16, 16)
    nisa.nc_matmul_sparse(thin, short[:, 0:16], dense, tags, "4:8")
    nisa.tensor_copy(result, thin)
    keep(result)


def _gpsimd(a: Any, short: Any, tile: Any, keep: Any) -> None:
    index, out = tile(P, 2, dtype=nl.uint16), tile(P, 64)
    nisa.iota(index, [[16, 2]], channel_multiplier=1)
    nisa.local_gather(out, a, index, num_elem_per_idx=2)
    keep(out)
    row = tile(1, F)
    nisa.tensor_partition_reduce(row, nl.add, a)
    keep(row)
    ids, bounds = tile(1, F), tile(1, 2, F)
    nisa.tensor_scalar(ids, row, op0=nl.greater, operand0=0.0)
    nisa.sequence_bounds(bounds, ids)
    keep(bounds)
    found = tile(P, F + 1, dtype=nl.int32)
    nisa.memset(found, 0)
    nisa.nonzero_with_count(found, a)
    keep(found)
    values, places = tile(P, 8, dtype=nl.bfloat16), tile(P, 8, dtype=nl.uint32)
    nisa.topk(values, places, short, 512)
    keep(values)
    keep(places)
    shuffled = tile()
    nisa.nc_stream_shuffle(shuffled, a, [(7 * lane) % 32 for lane in range(32)])
    keep(shuffled)


def _random(a: Any, w: Any, tile: Any, keep: Any) -> None:
    out, drawn, state = tile(), tile(dtype=nl.uint32), tile(P, 24, dtype=nl.uint32)
    nisa.set_rng_seed(w[0:1, 0:1])
    nisa.rng(drawn)
    keep(drawn)
    nisa.rand_set_state(w[:, 0:24], engine=nisa.engine.vector)
    nisa.rand2(out, -1.0, 2.0)
    keep(out)
    nisa.dropout(out, a, 0.4)
    keep(out)
    nisa.rand_get_state(state, engine=nisa.engine.vector)
    keep(state)


def _moved(x: Any, a: Any, b: Any, tile: Any, keep: Any) -> None:
    turned, total = tile(F, P), tile()
    nisa.dma_transpose(turned, x)
    keep(turned)
    nisa.dma_compute(total, [a, b], nl.add)
    keep(total)
    number, place = tile(1, 1, dtype=nl.int32), nisa.register_alloc()
    nisa.register_move(place, 5)
    nisa.register_store(number, place)
    nisa.register_load(place, number)
    keep(number)
    picked = tile(P, 1)
    nisa.tensor_copy(picked, a[:, nl.ds(place, 1)])
    keep(picked)
    looped = tile()
    for step in nl.dynamic_range(0, F, 32):
        nisa.tensor_scalar(
            looped[:, nl.ds(step, 32)], a[:, nl.ds(step, 32)], op0=nl.multiply, operand0=3.0
        )
    keep(looped)
