"""Rows put at offsets of their own in one line."""

from typing import Optional

import nki
import nki.isa as nisa
import nki.language as nl

from ..utils.kernel_assert import kernel_assert
from ..utils.kernel_helpers import get_verified_program_sharding_info


@nki.jit
def indexed_flatten(
    input_tensor: nl.ndarray,
    f_len: int,
    output_len: int,
    row_offsets: nl.ndarray,
    row_offsets_start: Optional[nl.ndarray] = None,
    padding_val: int = -1,
):
    """Row e of [E, T] at row_offsets[start + e] * f_len of an output of so many elements.

    Later rows overwrite the padding of earlier ones; both cores flatten every other tile and merge.
    """
    _, n_prgs, prg_id = get_verified_program_sharding_info("indexed_flatten", (0, 1))
    E, T = input_tensor.shape
    kernel_assert(output_len % f_len == 0 and T % f_len == 0, "whole tiles")
    tiles = output_len // f_len
    output = nl.ndarray((tiles, f_len), dtype=input_tensor.dtype, buffer=nl.shared_hbm)
    # More room, so that the padding of the last row has a place.
    scratch = nl.ndarray(
        ((output_len + T) // f_len, f_len), dtype=input_tensor.dtype, buffer=nl.private_hbm
    )
    pad = nl.ndarray((1, scratch.size), dtype=input_tensor.dtype, buffer=nl.sbuf)
    nisa.memset(dst=pad, value=padding_val)
    nisa.dma_copy(dst=scratch.reshape((1, scratch.size)), src=pad)
    offsets_sb = nl.ndarray((1, E), dtype=row_offsets.dtype, buffer=nl.sbuf)
    if row_offsets_start is not None:
        start = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.dma_copy(start, row_offsets_start)
        nisa.dma_copy(
            offsets_sb,
            row_offsets.ap([[1, 1], [1, E]], scalar_offset=start, indirect_dim=0),
        )
    else:
        nisa.dma_copy(offsets_sb, row_offsets.reshape((1, row_offsets.shape[0])))
    for e in nl.sequential_range(E):
        if e % n_prgs == prg_id:
            row = nl.ndarray((1, T), dtype=input_tensor.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=row, src=input_tensor[e : e + 1, :])
            nisa.dma_copy(
                dst=scratch.ap(
                    pattern=[[f_len, 1], [1, T]],
                    offset=0,
                    scalar_offset=offsets_sb[0, e],
                    indirect_dim=0,
                ),
                src=row,
            )
    flat = scratch.reshape((scratch.size,))
    merged = nl.ndarray((1, output_len), dtype=input_tensor.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=merged, src=flat[0:output_len])
    if n_prgs > 1:
        theirs = nl.ndarray((1, output_len), dtype=input_tensor.dtype, buffer=nl.sbuf)
        nisa.sendrecv(
            src=merged,
            dst=theirs,
            send_to_rank=1 - prg_id,
            recv_from_rank=1 - prg_id,
            pipe_id=0,
        )
        nisa.tensor_tensor(dst=merged, data1=merged, data2=theirs, op=nl.maximum)
    if prg_id == 0:
        nisa.dma_copy(dst=output.reshape((1, output_len)), src=merged)
    return output.reshape((output_len,))
