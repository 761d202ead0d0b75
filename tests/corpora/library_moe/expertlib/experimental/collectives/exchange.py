"""Reducing, exchanging and dispatching between ranks."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
from nki.collectives import ReplicaGroup

from ...core.utils.kernel_helpers import get_verified_program_sharding_info


class Exchange(nl.NKIObject):
    """Who works together, and how."""

    replica_group: ReplicaGroup
    op: object = nl.add
    priority: int = None


@nki.jit
def all_reduce_rmsnorm(x: nl.ndarray, gamma: nl.ndarray, exchange: Exchange, eps: float = 1e-6):
    """Sum of x over ranks, normalised: the end of a tensor-parallel layer. Cores divide rows."""
    T, H = x.shape
    _, n_prgs, prg_id = get_verified_program_sharding_info("all_reduce_rmsnorm", (0, 1))
    scratch = nl.ndarray((T, H), dtype=x.dtype, buffer=nl.shared_hbm, name="ar_src")
    summed = nl.ndarray((T, H), dtype=x.dtype, buffer=nl.shared_hbm, name="ar_dst")
    out = nl.ndarray((T, H), dtype=x.dtype, buffer=nl.shared_hbm, name="out")
    rows = T // n_prgs
    mine = nl.ds(prg_id * rows, rows)
    nisa.dma_copy(dst=scratch[mine], src=x[mine])
    ncc.all_reduce(
        srcs=[scratch],
        dsts=[summed],
        replica_group=exchange.replica_group,
        op=exchange.op,
        priority=exchange.priority,
        name="tp_all_reduce",
    )
    tile = nl.ndarray((rows, H), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(tile, summed[mine])
    square = nl.ndarray((rows, H), dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(square, nl.square, tile, reduce_op=nl.add, reduce_res=total)
    nisa.tensor_scalar(total, total, nl.multiply, 1.0 / H, op1=nl.add, operand1=eps)
    nisa.activation(dst=total, op=nl.rsqrt, data=total)
    weight = nl.ndarray((rows, H), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=weight, src=gamma.reshape((1, H)).ap([[0, rows], [1, H]]))
    nisa.scalar_tensor_tensor(tile, tile, nl.multiply, total, nl.multiply, weight)
    nisa.dma_copy(dst=out[mine], src=tile)
    return out


@nki.jit
def reduce_scatter_gather(x: nl.ndarray, replica_group: ReplicaGroup):
    """An all-reduce of its two halves; coalesced with the same of -x."""
    n = len(replica_group.groups[0])
    srcs, parts, wholes = [], [], []
    for sign, name in ((1.0, "plus"), (-1.0, "minus")):
        tile = nl.load(x)
        nisa.tensor_scalar(tile, tile, nl.multiply, sign)
        src = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name=f"{name}_src")
        nisa.dma_copy(src, tile)
        srcs.append(src)
        shape = (x.shape[0] // n, x.shape[1])
        parts.append(nl.ndarray(shape, x.dtype, buffer=nl.shared_hbm, name=f"{name}_part"))
        wholes.append(nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, name=f"{name}_whole"))
    ncc.reduce_scatter(srcs, parts, replica_group, 0, nl.add)
    ncc.all_gather(parts, wholes, replica_group, 0)
    return {"plus": wholes[0], "minus": wholes[1], "part": (parts[0],)}


@nki.jit
def expert_dispatch(tokens: nl.ndarray, counts: nl.ndarray, replica_group: ReplicaGroup):
    """Send counts[j] rows to the rank of index j, and what they became back where it was.

    Rows for a rank follow those for the one before; each has room for T of them. Between the two
    exchanges a rank adds its number.
    """
    T, H = tokens.shape
    n = len(replica_group.groups[0])
    sent = nl.ndarray((T * H,), dtype=tokens.dtype, buffer=nl.shared_hbm, name="sent")
    there = nl.ndarray((n * T * H,), dtype=tokens.dtype, buffer=nl.shared_hbm, name="there")
    back = nl.ndarray((T * H,), dtype=tokens.dtype, buffer=nl.shared_hbm, name="back")
    nisa.dma_copy(dst=sent.reshape((T, H)), src=tokens)
    line = nl.ndarray((1, 4, n), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.memset(line, value=0)
    elements = nl.ndarray((1, n), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=elements, src=counts.reshape((1, n)))
    nisa.tensor_scalar(elements, elements, nl.multiply, float(H))
    nisa.tensor_copy(line[:, 0, :], elements)
    # Starts are sums of the counts before.
    ones = nl.ndarray((1, n), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(ones, value=1.0)
    ends = nl.ndarray((1, n), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor_scan(ends, ones, elements, 0.0, nl.multiply, nl.add)
    nisa.tensor_tensor(line[:, 1], ends, elements, nl.subtract)
    starts = nl.ndarray((n,), dtype=nl.uint32, buffer=nl.shared_hbm)
    nisa.dma_copy(starts, line[:, 1])
    metadata = nl.ndarray((3, n), dtype=nl.uint32, buffer=nl.shared_hbm, name="metadata")
    nisa.dma_copy(dst=metadata, src=line[:, 0:3])
    ncc.all_to_all_v([sent], [there], replica_group, metadata)
    own = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.register_store(own, ncc.rank_id())
    number = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(number[0:1], own)
    for q in range(4):
        nisa.nc_stream_shuffle(number[q * 32 : q * 32 + 32], number[0:1], [0] * 32)
    received = nl.ndarray((1, n), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.dma_copy(received, metadata[2])
    for r in range(n):
        rows_there = there.reshape((n * T, H))
        limit = nisa.register_alloc(received[:, r : r + 1])
        rows = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.memset(rows, 0)
        whole = nl.ndarray((1, H), dtype=tokens.dtype, buffer=nl.sbuf)
        for i in nl.dynamic_range(0, limit, H):
            nisa.dma_copy(
                whole, rows_there.ap([[H, 1], [1, H]], offset=r * T * H, scalar_offset=rows)
            )
            nisa.tensor_scalar(whole, whole, nl.add, number[0:1])
            nisa.dma_copy(
                rows_there.ap([[H, 1], [1, H]], offset=r * T * H, scalar_offset=rows), whole
            )
            nisa.tensor_scalar(rows, rows, nl.add, 1)
    # Back: what came from r starts at r * T * H, and goes where it was.
    again = nl.ndarray((1, 4, n), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.memset(again, value=0)
    nisa.tensor_copy(again[:, 0], received)
    for r in range(n):
        nisa.memset(again[:, 1, r : r + 1], value=r * T * H)
    # recv_displs: where each one's rows began here.
    nisa.dma_copy(again[:, 3], starts)
    ncc.all_to_all_v(
        srcs=[there],
        dsts=[back],
        replica_group=replica_group,
        metadata_tensor=again,
        recv_counts_known=False,
        has_rdispls=True,
    )
    out = nl.ndarray((T, H), dtype=tokens.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=back.reshape((T, H)))
    return out, metadata
