"""Rows that experts gave back, added up token by token."""

import nki
import nki.isa as nisa
import nki.language as nl

from ..utils.kernel_assert import kernel_assert
from ..utils.kernel_helpers import div_ceil, get_verified_program_sharding_info


@nki.jit
def topk_reduce(input_tensor: nl.ndarray, T: int, K: int):
    """Sums by token: rows of [TK_padded, H + 2] end with their token, an int32 in two bf16.

    Rows of padding have a token that is T or more.
    """
    _, n_prgs, prg_id = get_verified_program_sharding_info("topk_reduce", (0, 1), 2)
    rows, wide = input_tensor.shape
    H = wide - 2
    kernel_assert(str(input_tensor.dtype) == str(nl.bfloat16), "bfloat16 rows")
    P = nl.tile_size.pmax
    out = nl.ndarray((T, H), dtype=input_tensor.dtype, buffer=nl.shared_hbm)
    h_shard = H // n_prgs
    h0 = prg_id * h_shard
    # rows_of[t, k]: which row is the k-th of token t.
    tokens = nl.ndarray((1, rows), dtype=nl.int32, buffer=nl.sbuf)
    # The index columns, reinterpreted: element H / 2 of rows of wide / 2 int32.
    nisa.dma_copy(
        dst=tokens,
        src=input_tensor.ap(
            pattern=[[wide // 2, 1], [wide // 2, rows]], offset=H // 2, dtype=nl.int32
        ),
    )
    tokens_f = nl.ndarray((P, rows), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tokens_f[0:1, :], src=tokens)
    for q in range(4):
        nisa.nc_stream_shuffle(
            dst=tokens_f[nl.ds(q * 32, 32), :], src=tokens_f[0:1, :], shuffle_mask=[0] * 32
        )
    for t0 in range(0, T, P):
        size = min(P, T - t0)
        own = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.iota(dst=own, pattern=[[0, 1]], offset=t0, channel_multiplier=1)
        hit = nl.ndarray((P, rows), dtype=nl.float32, buffer=nl.sbuf)
        # Column numbers counted from the end where the token fits, so that max8 gives the first.
        column = nl.ndarray((P, rows), dtype=nl.float32, buffer=nl.sbuf)
        nisa.iota(dst=column, pattern=[[-1, rows]], offset=rows, channel_multiplier=0)
        nisa.scalar_tensor_tensor(
            dst=hit, data=tokens_f, op0=nl.equal, operand0=own, op1=nl.multiply, operand1=column
        )
        top = nl.ndarray((P, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.max8(dst=top, src=hit)
        index = nl.ndarray((P, 8), dtype=nl.int32, buffer=nl.sbuf)
        nisa.tensor_scalar(
            dst=index,
            data=top,
            op0=nl.subtract,
            operand0=float(rows),
            reverse0=True,
            op1=None,
            operand1=None,
        )
        acc = nl.ndarray((P, h_shard), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(acc, 0.0)
        for k in nl.static_range(K):
            got = nl.ndarray((P, h_shard), dtype=input_tensor.dtype, buffer=nl.sbuf)
            nisa.memset(got, 0.0)
            # A token with fewer rows than K reads row `rows`, which is skipped.
            nisa.dma_copy(
                dst=got[:size],
                src=input_tensor.ap(
                    pattern=[[H, size], [1, h_shard]],
                    offset=h0,
                    vector_offset=index.ap([[8, size], [1, 1]], offset=k),
                    indirect_dim=0,
                ),
                oob_mode=nisa.oob_mode.skip,
            )
            nisa.tensor_tensor(dst=acc, data1=acc, data2=got, op=nl.add)
        result = nl.ndarray((P, h_shard), dtype=out.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(result, acc, engine=nisa.engine.scalar)
        nisa.dma_copy(dst=out[t0 : t0 + size, h0 : h0 + h_shard], src=result[:size, :])
    return out


__all__ = ["div_ceil", "topk_reduce"]
