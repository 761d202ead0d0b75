"""RMSNorm or LayerNorm by rows, and quantisation to 8 bits with a scale a row."""

from dataclasses import dataclass
from typing import Any, Optional

import nki
import nki.dtype
import nki.isa as nisa
import nki.language as nl

from ..core.utils.common_types import NormType
from ..core.utils.kernel_assert import kernel_assert
from ..core.utils.kernel_helpers import (
    get_max_positive_value_for_dtype,
    get_program_sharding_info,
    load_broadcast_row,
    shard_dim,
)
from ..core.utils.tiled_range import TiledRange

_MIN_SCALE = 1e-5


@dataclass
class RmsNormQuantConfig(nl.NKIObject):
    """Options of one call."""

    lower_bound: float = 0.0
    norm_type: NormType = NormType.RMS_NORM
    quant_dtype: nki.dtype = nki.dtype.float8_e4m3
    eps: float = 1e-6
    use_bn_stats: bool = False


@nki.jit(experimental_flags="enable-mutable-parameter", platform_target=None)
def rmsnorm_quant_kernel(
    hidden: nl.ndarray,
    ln_w: nl.ndarray,
    kargs: RmsNormQuantConfig,
    ln_b: Optional[nl.ndarray] = None,
):
    """hidden [..., H] -> [..., H + 4] of one byte each: quantised values, then a float32 scale."""
    h = hidden.shape[-1]
    rows = 1
    for n in hidden.shape[:-1]:
        rows *= n
    _, n_prgs, prg_id = get_program_sharding_info()
    out = nl.ndarray(
        shape=tuple(list(hidden.shape[:-1]) + [h + 4]),
        dtype=kargs.quant_dtype,
        buffer=nl.shared_hbm,
        name="quantised",
    )
    flat_in = hidden.reshape((rows, h))
    flat_out = out.reshape((rows, h + 4))
    weights = nl.ndarray((nl.tile_size.pmax, h), dtype=ln_w.dtype, buffer=nl.sbuf)
    load_broadcast_row(ln_w.reshape((1, h)), weights, nl.tile_size.pmax)
    mine = shard_dim(rows, n_prgs, prg_id)
    for tile in TiledRange(mine.size, nl.tile_size.pmax, start=mine.start):
        _tile(flat_in, flat_out, weights, ln_b, tile, h, kargs)
    return out


def _tile(flat_in, flat_out, weights, ln_b, tile, h, kargs):
    P, n = nl.tile_size.pmax, tile.size
    x = nl.ndarray((P, h), dtype=flat_in.dtype)
    nisa.dma_copy(x[:n], flat_in[tile.ds(), :])
    normed = nl.ndarray((P, h), nl.float32)
    stat = nl.ndarray((P, 4), dtype=nl.float32)
    if kargs.norm_type == NormType.LAYER_NORM or kargs.use_bn_stats:
        _moments(stat, x, n, h)
        if kargs.norm_type == NormType.RMS_NORM:
            # mean of squares = variance + mean^2
            nisa.scalar_tensor_tensor(
                dst=stat[:n, 1:2],
                data=stat[:n, 0:1],
                op0=nl.multiply,
                operand0=stat[:n, 0:1],
                op1=nl.add,
                operand1=stat[:n, 1:2],
            )
            nisa.memset(stat[:n, 0:1], value=0.0)
    else:
        squares = nl.ndarray((P, h), dtype=nl.bfloat16)
        nisa.activation_reduce(
            dst=squares[:n], op=nl.square, data=x[:n], reduce_op=nl.add, reduce_res=stat[:n, 1]
        )
        nisa.tensor_scalar(stat[:n, 1], stat[:n, 1], nl.multiply, 1.0 / h)
        nisa.memset(stat[:n, 0], 0.0)
    rstd = stat[:n, 2:3]
    nisa.tensor_scalar(
        dst=rstd,
        data=stat[:n, 1:2],
        op0=nl.add,
        operand0=kargs.eps,
        op1=nl.rsqrt,
        operand1=None,
        engine=nisa.gpsimd_engine,
    )
    nisa.tensor_scalar(
        normed[:n], x[:n], op0=nl.subtract, operand0=stat[:n, 0:1], op1=nl.multiply, operand1=rstd
    )
    nisa.tensor_tensor(normed[:n], normed[:n], weights[:n], nl.multiply)
    if ln_b is not None:
        bias = nl.ndarray((P, h), dtype=ln_b.dtype)
        load_broadcast_row(ln_b.reshape((1, h)), bias, P)
        nisa.tensor_tensor(dst=normed[:n], data1=normed[:n], data2=bias[:n], op=nl.add)
    if kargs.lower_bound > 0:
        nisa.tensor_scalar(
            normed[:n],
            normed[:n],
            nl.minimum,
            kargs.lower_bound,
            op1=nl.maximum,
            operand1=-kargs.lower_bound,
        )
    largest = get_max_positive_value_for_dtype(kargs.quant_dtype)
    magnitude = nl.ndarray((P, h), nl.float32)
    amax = stat[:n, 3:4]
    nisa.activation(magnitude[:n], nl.abs, normed[:n])
    nisa.tensor_reduce(amax, nl.maximum, magnitude[:n], axis=1)
    scale = nl.ndarray((P, 1), nl.float32)
    nisa.tensor_scalar(
        scale[:n], amax, nl.multiply, 1.0 / largest, op1=nl.maximum, operand1=_MIN_SCALE
    )
    inverse = nl.ndarray((P, 1), nl.float32)
    nisa.reciprocal(inverse[:n], scale[:n])
    both = nl.ndarray((P, h + 4), dtype=kargs.quant_dtype)
    nisa.tensor_scalar(
        dst=normed[:n],
        data=normed[:n],
        op0=nl.multiply,
        operand0=inverse[:n],
        op1=nl.minimum,
        operand1=largest,
    )
    nisa.tensor_scalar(both[:n, 0:h], normed[:n], nl.maximum, -largest)
    if h % 4 == 0:
        # The scale's bytes follow the values, written as what they are.
        nisa.tensor_copy(
            dst=both.ap([[(h + 4) // 4, n], [1, 1]], offset=h // 4, dtype=nl.float32), src=scale[:n]
        )
    else:
        nisa.tensor_copy(both[:n, h : h + 4], scale.view(kargs.quant_dtype)[:n])
    nisa.dma_copy(flat_out[tile.ds()], both[:n])


def _moments(stat, x, n, h):
    """Mean and variance into columns 0 and 1, by chunks that the engine takes."""
    FMAX = nl.tile_size.bn_stats_fmax
    chunks = TiledRange(h, FMAX)
    stats = nl.ndarray((nl.tile_size.pmax, 6 * len(chunks)), dtype=nl.float32)
    for c in chunks:
        nisa.bn_stats(dst=stats[:n, nl.ds(6 * c.index, 6)], data=x[:n, c.ds()])
    nisa.bn_aggr(dst=stat[:n, 0:2], data=stats[:n])
