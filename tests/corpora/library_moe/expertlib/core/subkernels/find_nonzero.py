"""Positions of what is not zero."""

import nki
import nki.isa as nisa
import nki.language as nl

from ..utils.kernel_assert import kernel_assert
from ..utils.kernel_helpers import div_ceil, get_verified_program_sharding_info

GROUP = 16


@nki.jit
def find_nonzero_indices_with_count(
    input_tensor: nl.ndarray, index_offset: int = 0, padding_val: int = -1
):
    """Indices of the nonzeros of each row of [C, T], and how many there are: [C, T + 1]."""
    C, T = input_tensor.shape
    kernel_assert(C <= nl.tile_size.pmax // GROUP, f"at most 8 rows, got {C}")
    out = nl.ndarray((C, T + 1), dtype=nl.int32, buffer=nl.shared_hbm)
    src = nl.ndarray((nl.tile_size.pmax, T), dtype=input_tensor.dtype, buffer=nl.sbuf)
    dst = nl.ndarray((nl.tile_size.pmax, T + 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(dst=src, value=0)
    for c in range(C):
        nisa.dma_copy(dst=src[c * GROUP, :], src=input_tensor[c, :])
    nisa.nonzero_with_count(dst=dst, src=src, index_offset=index_offset, padding_val=padding_val)
    for c in nl.affine_range(C):
        nisa.dma_copy(dst=out[c], src=dst[c * GROUP : c * GROUP + 1])
    return out


@nki.jit(mode="trace", debug_kernel=True, show_compiler_tb=False)
def find_nonzero_indices(
    input_tensor: nl.ndarray,
    row_start_id: nl.ndarray = None,
    n_rows: int = None,
    chunk_size: int = None,
    index_dtype: nki.dtype = nl.int32,
):
    """Rows of [T, C] that are not zero, for columns from a start known at run time.

    Returns indices [n_rows, T], padded with -1, and counts [n_rows].
    """
    _, n_prgs, prg_id = get_verified_program_sharding_info("find_nonzero_indices", (0, 1), 2)
    T, C = input_tensor.shape
    if n_rows is None:
        n_rows = C
    if chunk_size is None:
        chunk_size = T
    kernel_assert(T % chunk_size == 0, "chunks divide T")
    indices = nl.ndarray((n_rows, T), dtype=index_dtype, buffer=nl.shared_hbm, name="indices")
    counts = nl.ndarray((n_rows,), dtype=index_dtype, buffer=nl.shared_hbm, name="counts")
    per_core = div_ceil(n_rows, n_prgs)
    start_sb = None
    if row_start_id is not None:
        start_sb = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.dma_copy(dst=start_sb, src=row_start_id.reshape((1, 1)))
    first = prg_id * per_core
    last = min(n_rows, first + per_core)
    for base in range(first, last, 8):
        here = min(8, last - base)
        src = nl.ndarray((128, T), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=src, value=0.0)
        for k in range(here):
            if start_sb is not None:
                column = input_tensor.ap(
                    pattern=[[1, 1], [C, T]],
                    offset=base + k,
                    scalar_offset=start_sb,
                    indirect_dim=1,
                )
            else:
                column = input_tensor.ap(pattern=[[1, 1], [C, T]], offset=base + k)
            nisa.dma_copy(
                dst=src[nl.ds(k * GROUP, 1), :], src=column, dge_mode=nisa.dge_mode.unknown
            )
        all_indices = nl.ndarray((128, T), dtype=nl.int32, buffer=nl.sbuf)
        nisa.memset(dst=all_indices, value=-1)
        total = nl.ndarray((128, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.memset(dst=total, value=0)
        for chunk in nl.sequential_range(T // chunk_size):
            found = nl.ndarray((128, chunk_size + 1), dtype=nl.int32, buffer=nl.sbuf)
            nisa.nonzero_with_count(
                dst=found,
                src=src[:, nl.ds(chunk * chunk_size, chunk_size)],
                index_offset=chunk * chunk_size,
                padding_val=-1,
            )
            for k in range(here):
                # Later chunks overwrite the padding of earlier ones.
                place = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
                nisa.tensor_copy(dst=place, src=total[k * GROUP : k * GROUP + 1, :]) if (
                    k * GROUP % 32 == 0
                ) else nisa.dma_copy(dst=place, src=total[k * GROUP : k * GROUP + 1, :])
                room = T - chunk * chunk_size
                padded = nl.ndarray((1, room), dtype=nl.int32, buffer=nl.sbuf)
                nisa.memset(dst=padded, value=-1)
                nisa.dma_copy(
                    dst=padded[:, :chunk_size], src=found[k * GROUP : k * GROUP + 1, :chunk_size]
                )
                nisa.dma_copy(
                    dst=indices.ap(
                        pattern=[[T, 1], [1, chunk_size]],
                        offset=(base + k) * T,
                        scalar_offset=place,
                        indirect_dim=1,
                    ),
                    src=padded[:, :chunk_size],
                )
            nisa.tensor_tensor(total, total, found[:, chunk_size : chunk_size + 1], nl.add)
        # What the last chunk's padding did not reach.
        for k in range(here):
            if T // chunk_size > 1:
                row = nl.ndarray((1, T), dtype=nl.int32, buffer=nl.sbuf)
                nisa.dma_copy(dst=row, src=indices[base + k])
                position = nl.ndarray((1, T), dtype=nl.int32, buffer=nl.sbuf)
                nisa.iota(position, [[1, T]], offset=0)
                n_sb = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
                nisa.dma_copy(dst=n_sb, src=total[k * GROUP : k * GROUP + 1, :])
                n_f = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.sbuf)
                nisa.tensor_copy(dst=n_f, src=n_sb)
                beyond = nl.ndarray((1, T), dtype=nl.uint8, buffer=nl.sbuf)
                nisa.tensor_scalar(dst=beyond, data=position, op0=nl.greater_equal, operand0=n_f)
                minus = nl.ndarray((1, T), dtype=nl.int32, buffer=nl.sbuf)
                nisa.memset(minus, -1)
                nisa.tensor_copy_predicated(dst=row, src=minus, predicate=beyond)
                nisa.dma_copy(dst=indices[base + k], src=row)
            nisa.dma_copy(dst=counts[nl.ds(base + k, 1)], src=total[k * GROUP : k * GROUP + 1, :])
    return indices, counts
