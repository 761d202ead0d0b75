"""Gradients of attention: probabilities again from the log-sum-exp, tile by tile."""

import math
from typing import Optional

import nki
import nki.isa as nisa
import nki.language as nl

from ..core.utils.kernel_assert import kernel_assert
from ..core.utils.kernel_helpers import get_program_sharding_info
from ..core.utils.tensor_view import TensorView


@nki.jit
def attention_bwd(
    q_ref: nl.ndarray,
    k_ref: nl.ndarray,
    v_ref: nl.ndarray,
    o_ref: nl.ndarray,
    dy_ref: nl.ndarray,
    lse_ref: nl.ndarray,
    sinks_ref: Optional[nl.ndarray] = None,
    use_causal_mask: bool = True,
    mixed_precision: bool = True,
    softmax_scale: Optional[float] = None,
    sliding_window: int = -1,
):
    """All [bs, heads, d, S] but lse_ref [bs, heads, 128, S/128]; kv heads may be fewer.

    Returns dq, dk, dv, and with sinks_ref [heads, 1] also dsinks.
    """
    bs, heads, d, S = q_ref.shape
    kv_heads = k_ref.shape[1]
    P = nl.tile_size.pmax
    kernel_assert(S % P == 0 and d <= P, f"S {S}, d {d}")
    n = S // P
    group = heads // kv_heads
    scale = softmax_scale or 1.0 / float(math.sqrt(d))
    io = q_ref.dtype
    work = io if mixed_precision else nl.float32
    _, n_prgs, prg_id = get_program_sharding_info()
    kernel_assert((bs * kv_heads) % n_prgs == 0, "key heads are dealt to the cores")
    dq_ref = nl.ndarray((bs, heads, d, S), dtype=io, buffer=nl.shared_hbm)
    dk_ref = nl.ndarray((bs, kv_heads, d, S), dtype=io, buffer=nl.shared_hbm)
    dv_ref = nl.ndarray((bs, kv_heads, d, S), dtype=io, buffer=nl.shared_hbm)
    ds_ref = None
    if sinks_ref is not None:
        ds_ref = nl.ndarray((bs, heads, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    each = bs * kv_heads // n_prgs
    for flat in range(prg_id * each, (prg_id + 1) * each):
        b, kv = flat // kv_heads, flat % kv_heads
        # Key side: of one head, kept over its group of queries.
        kT, vT = _load(k_ref, b, kv, d, S), _load(v_ref, b, kv, d, S)
        dk = nl.zeros((d, S), dtype=nl.float32, buffer=nl.sbuf)
        dv = nl.zeros(shape=(d, S), dtype=nl.float32, buffer=nl.sbuf)
        for head in range(kv * group, (kv + 1) * group):
            qT, oT, dyT = [_load(x, b, head, d, S) for x in (q_ref, o_ref, dy_ref)]
            lse = nl.ndarray((P, n), nl.float32, nl.sbuf)
            nisa.dma_copy(dst=lse, src=lse_ref[b, head])
            neg_lse = nl.ndarray((P, n), nl.float32, nl.sbuf)
            nisa.tensor_scalar(neg_lse, lse, nl.multiply, -1.0)
            delta = _delta(oT, dyT, d, S, n)
            if sinks_ref is not None:
                _sink_gradient(sinks_ref, ds_ref, neg_lse, delta, b, head, n)
            dq = nl.zeros((d, S), nl.float32, nl.sbuf)
            for i in nl.affine_range(n):
                last = i + 1 if use_causal_mask else n
                for j in range(last):
                    if sliding_window > 0 and (i - j - 1) * P + 1 >= sliding_window:
                        continue
                    _tile(
                        qT,
                        kT,
                        vT,
                        dyT,
                        dq,
                        dk,
                        dv,
                        neg_lse,
                        delta,
                        i,
                        j,
                        d,
                        scale,
                        work,
                        use_causal_mask,
                        sliding_window,
                    )
            _store(dq_ref, dq, b, head, io)
        _store(dk_ref, dk, b, kv, io)
        _store(dv_ref, dv, b, kv, io)
    if ds_ref is not None:
        return dq_ref, dk_ref, dv_ref, ds_ref
    return dq_ref, dk_ref, dv_ref


def _load(ref, b, head, d, S):
    tile = nl.ndarray((d, S), dtype=ref.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=TensorView(ref).select(0, b).select(0, head).get_view())
    return tile


def _store(ref, tile, b, head, io):
    cast = nl.ndarray(tile.shape, dtype=io, buffer=nl.sbuf)
    nisa.tensor_copy(dst=cast, src=tile)
    nisa.dma_copy(dst=ref[b, head], src=cast)


def _delta(oT, dyT, d, S, n):
    """The sum of o * dy over the head's dimension, which lies on partitions; as [128, n]."""
    product = nl.ndarray((d, S), nl.float32, nl.sbuf)
    nisa.tensor_tensor(product, oT, dyT, nl.multiply)
    row = nl.ndarray((1, S), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_partition_reduce(row, nl.add, product)
    delta = nl.ndarray((nl.tile_size.pmax, n), nl.float32, nl.sbuf)
    # From one partition to all of them by a trip through memory.
    scratch = nl.ndarray((n, nl.tile_size.pmax), dtype=nl.float32, buffer=nl.private_hbm)
    nisa.dma_copy(scratch.reshape((1, S)), row)
    nisa.dma_transpose(dst=delta, src=scratch)
    return delta


def _sink_gradient(sinks_ref, ds_ref, neg_lse, delta, b, head, n):
    P = nl.tile_size.pmax
    sink = nl.ndarray((P, 1), nl.float32, nl.sbuf)
    nisa.dma_copy(sink, sinks_ref.ap(pattern=[[0, P], [1, 1]], offset=head))
    weight = nl.ndarray((P, n), nl.float32, nl.sbuf)
    nisa.activation(dst=weight, op=nl.exp, data=neg_lse, bias=sink)
    nisa.tensor_tensor(weight, weight, delta, nl.multiply)
    column = nl.ndarray((P, 1), nl.float32, nl.sbuf)
    nisa.tensor_reduce(column, nl.add, weight, axis=1, negate=True)
    total = nl.ndarray((1, 1), nl.float32, nl.sbuf)
    nisa.tensor_partition_reduce(dst=total, op=nl.add, data=column)
    nisa.dma_copy(ds_ref[b, head], total)


def _psum(shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.psum)


def _transposed(tile, work):
    P = tile.shape[0]
    flip = _psum((tile.shape[1], P), tile.dtype)
    nisa.nc_transpose(flip, tile)
    result = nl.ndarray((tile.shape[1], P), dtype=work, buffer=nl.sbuf)
    nisa.tensor_copy(result, flip)
    return result


def _tile(qT, kT, vT, dyT, dq, dk, dv, neg_lse, delta, i, j, d, scale, work, causal, window):
    P = nl.tile_size.pmax
    rows, columns = nl.ds(i * P, P), nl.ds(j * P, P)
    scores = _psum((P, P))
    nisa.nc_matmul(scores, qT[:, rows], kT[:, columns])
    probs = nl.ndarray((P, P), nl.float32, nl.sbuf)
    nisa.activation(probs, nl.exp, scores, bias=neg_lse[:, i : i + 1], scale=scale)
    if causal and i == j:
        nisa.affine_select(
            dst=probs,
            pattern=[[-1, P]],
            offset=0,
            channel_multiplier=1,
            on_true_tile=probs,
            on_false_value=0.0,
            cmp_op=nl.greater_equal,
        )
    if window > 0:
        nisa.affine_select(
            probs,
            pattern=[[1, P]],
            offset=(j - i) * P + window - 1,
            channel_multiplier=-1,
            on_true_tile=probs,
            on_false_value=0.0,
            cmp_op=nl.greater_equal,
        )
    low = nl.ndarray((P, P), dtype=work, buffer=nl.sbuf)
    nisa.tensor_copy(low, probs)
    # The values' gradient: of each query, its output's times what it gave the key.
    dy = _transposed(dyT[:, rows], work)
    add = _psum((d, P))
    nisa.nc_matmul(add, dy, low)
    nisa.tensor_tensor(dv[:, columns], dv[:, columns], add, nl.add)
    dp = _psum((P, P))
    nisa.nc_matmul(dp, dyT[:, rows], vT[:, columns])
    grad = nl.ndarray((P, P), work, nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=grad, data=dp, op0=nl.subtract, operand0=delta[:, i], op1=nl.multiply, operand1=probs
    )
    q = _transposed(qT[:, rows], work)
    nisa.tensor_scalar(grad, grad, nl.multiply, scale)
    add = _psum((d, P))
    nisa.nc_matmul(dst=add, stationary=q, moving=grad)
    nisa.tensor_tensor(dst=dk[:, columns], data1=dk[:, columns], data2=add, op=nl.add)
    k = _transposed(kT[:, columns], work)
    add = _psum((d, P))
    nisa.nc_matmul(add, k, _transposed(grad, work))
    nisa.tensor_tensor(dq[:, rows], dq[:, rows], add, nl.add)
