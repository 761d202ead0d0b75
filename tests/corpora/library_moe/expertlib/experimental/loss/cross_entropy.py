"""Cross entropy of long rows, online, and its gradient."""

import nki
import nki.isa as nisa
import nki.language as nl

from ...core.utils.kernel_assert import kernel_assert
from ...core.utils.kernel_helpers import div_ceil, get_verified_program_sharding_info

P = nl.tile_size.pmax


@nki.jit
def cross_entropy_forward(
    logits_hbm: nl.ndarray,
    targets_hbm: nl.ndarray,
    positions_per_batch: int = 32,
    chunk_size: int = 512,
    dtype: nki.dtype = nl.bfloat16,
):
    """Loss and log-sum-exp of each row of [positions, V]."""
    positions, V = logits_hbm.shape
    grid, n_prgs, prg_id = get_verified_program_sharding_info("cross_entropy", (0, 1))
    loss = nl.ndarray((positions,), dtype=dtype, buffer=nl.shared_hbm)
    lse = nl.ndarray((positions,), dtype=dtype, buffer=nl.shared_hbm)
    batches = div_ceil(positions, positions_per_batch)
    for batch in range(prg_id, batches, n_prgs):
        first = batch * positions_per_batch
        rows = min(positions_per_batch, positions - first)
        top = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(top, value=nl.fp32.min)
        total = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(total, value=0.0)
        for chunk in range(div_ceil(V, chunk_size)):
            c0 = chunk * chunk_size
            width = min(chunk_size, V - c0)
            tile = nl.ndarray((rows, width), dtype=logits_hbm.dtype, buffer=nl.sbuf)
            nisa.dma_copy(
                dst=tile, src=logits_hbm.ap([[V, rows], [1, width]], offset=first * V + c0)
            )
            here = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_reduce(dst=here, op=nl.maximum, data=tile, axis=1)
            newer = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor(newer, top, here, op=nl.maximum)
            minus = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_scalar(minus, newer, op0=nl.multiply, operand0=-1.0)
            rescale = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation(rescale, nl.exp, top, bias=minus)
            part = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
            powers = nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation_reduce(
                dst=powers, op=nl.exp, data=tile, reduce_op=nl.add, reduce_res=part, bias=minus
            )
            nisa.scalar_tensor_tensor(
                dst=total, data=total, op0=nl.multiply, operand0=rescale, op1=nl.add, operand1=part
            )
            nisa.tensor_copy(top, newer)
        logs = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(logs, op=nl.log, data=total)
        nisa.tensor_tensor(logs, logs, top, nl.add)
        targets = nl.ndarray((rows, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.dma_copy(targets, targets_hbm[nl.ds(first, rows)])
        address = nl.ndarray((rows, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.iota(dst=address, pattern=[[0, 1]], offset=first * V, channel_multiplier=V)
        nisa.tensor_tensor(address, address, targets, nl.add)
        picked = nl.ndarray((rows, 1), dtype=logits_hbm.dtype, buffer=nl.sbuf)
        nisa.dma_copy(
            dst=picked,
            src=logits_hbm.reshape((positions * V, 1)).ap(
                [[1, rows], [1, 1]], vector_offset=address, indirect_dim=0
            ),
        )
        result = nl.ndarray((rows, 1), dtype=dtype, buffer=nl.sbuf)
        nisa.tensor_tensor(result, logs, picked, nl.subtract)
        rounded = nl.ndarray((rows, 1), dtype=dtype, buffer=nl.sbuf)
        nisa.tensor_copy(rounded, logs)
        nisa.dma_copy(dst=loss[nl.ds(first, rows)], src=result)
        nisa.dma_copy(dst=lse.ap([[1, rows]], offset=first), src=rounded)
    return loss, lse


@nki.jit
def cross_entropy_backward(
    logits_hbm: nl.ndarray,
    targets_hbm: nl.ndarray,
    lse_hbm: nl.ndarray,
    reduction: str = "mean",
    chunk_size: int = 512,
    inplace: bool = True,
):
    """(softmax - one hot) of each row, in place on the logits if wanted."""
    positions, V = logits_hbm.shape
    kernel_assert(reduction in ("mean", "sum"), f"reduction is {reduction}")
    factor = 1.0 / positions if reduction == "mean" else 1.0
    _, n_prgs, prg_id = get_verified_program_sharding_info("cross_entropy_bwd", (0, 1))
    out = logits_hbm
    if not inplace:
        out = nl.ndarray((positions, V), dtype=logits_hbm.dtype, buffer=nl.shared_hbm)
    for start in range(prg_id * P, positions, n_prgs * P):
        rows = min(P, positions - start)
        minus = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(minus, lse_hbm[start : start + rows])
        nisa.tensor_scalar(minus, minus, nl.multiply, -1.0)
        targets = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(targets, targets_hbm.reshape((positions, 1))[start : start + rows])
        for c0 in range(0, V, chunk_size):
            width = min(chunk_size, V - c0)
            tile = nl.ndarray((rows, width), dtype=logits_hbm.dtype, buffer=nl.sbuf)
            nisa.dma_copy(tile, logits_hbm[start : start + rows, c0 : c0 + width])
            powers = nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation(powers, nl.exp, tile, minus, 1.0)
            number = nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.sbuf)
            nisa.iota(number, [[1, width]], offset=c0)
            hot = nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_scalar(hot, number, op0=nl.equal, operand0=targets)
            gradient = nl.ndarray((rows, width), dtype=logits_hbm.dtype, buffer=nl.sbuf)
            nisa.tensor_tensor(powers, powers, hot, op=nl.subtract)
            nisa.tensor_scalar(gradient, powers, op0=nl.multiply, operand0=factor)
            nisa.dma_copy(out[start : start + rows, c0 : c0 + width], gradient)
    return out
