"""Gathering between ranks, in SBUF and step by step."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
from nki.collectives import ReplicaGroup

from ...core.utils.kernel_assert import kernel_assert
from ...core.utils.kernel_helpers import get_verified_program_sharding_info

P = nl.tile_size.pmax


@nki.jit
def allgather_sb2sb(inp: nl.ndarray, replica_group: ReplicaGroup, tp_degree: int):
    """[H, W] of all ranks side by side: [H, W * tp_degree]."""
    H, W = inp.shape
    K = W * tp_degree
    result = nl.ndarray((H, K), dtype=inp.dtype, buffer=nl.shared_hbm, name="output")
    input_sb = nl.ndarray((H, W), dtype=inp.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=input_sb, src=inp)
    gathered = nl.ndarray((H, K), dtype=inp.dtype, buffer=nl.sbuf)
    ncc.all_gather(dsts=[gathered], srcs=[input_sb], replica_group=replica_group, collective_dim=1)
    nisa.dma_copy(dst=result, src=gathered)
    return result


@nki.jit
def allgather_sb2sb_tiled(inp: nl.ndarray, replica_group: ReplicaGroup, tp_degree: int):
    """The same in tiles of rows, divided over cores."""
    H, W = inp.shape
    K = W * tp_degree
    _, n_prgs, prg_id = get_verified_program_sharding_info("allgather", (0, 1))
    result = nl.ndarray((H, K), dtype=inp.dtype, buffer=nl.shared_hbm, name="output")
    rows = min(P, H // n_prgs)
    kernel_assert(H % (rows * n_prgs) == 0, "whole tiles")
    for tile in range(H // (rows * n_prgs)):
        first = (tile * n_prgs + prg_id) * rows
        part = nl.ndarray((rows, W), dtype=inp.dtype, buffer=nl.sbuf, name=f"part_{tile}")
        nisa.dma_copy(dst=part, src=inp[nl.ds(first, rows), :])
        gathered = nl.ndarray((rows, K), dtype=inp.dtype, buffer=nl.sbuf)
        ncc.all_gather([part], [gathered], replica_group, 1)
        nisa.dma_copy(dst=result[nl.ds(first, rows), :], src=gathered)
    return result


def ring_steps(buffers, replica_group, channels, lnc_id, channel_ids):
    """Pass what step k holds on to step k + 1, on every channel of this core."""
    for step in range(len(buffers) - 1):
        ncc.collective_permute_implicit(
            srcs_by_channel=[[buffers[step][c]] for c in channels],
            dsts_by_channel=[[buffers[step + 1][c]] for c in channels],
            replica_group=replica_group,
            channel_ids=channel_ids,
        )


@nki.jit
def fine_grained_allgather(
    inp: nl.ndarray, tp_degree: int, num_groups: int, num_channels: int = 2, use_sbuf: bool = False
):
    """[H, W] of ranks 0 .. tp_degree - 1 of each of the groups, stacked: [tp_degree, H, W]."""
    H, W = inp.shape
    _, n_prgs, lnc_id = get_verified_program_sharding_info("fg_allgather", (0, 1))
    ranks = []
    for g in range(num_groups):
        ranks.append([g * tp_degree + i for i in range(tp_degree)])
    replica_group = ReplicaGroup(ranks)
    rows = H // n_prgs // num_channels
    result = nl.ndarray((tp_degree, H, W), dtype=inp.dtype, buffer=nl.shared_hbm, name="output")
    buffers = []
    for step in range(tp_degree):
        line = []
        for c in range(num_channels):
            line.append(
                nl.ndarray(
                    (rows, W),
                    dtype=inp.dtype,
                    buffer=nl.sbuf if use_sbuf else nl.shared_hbm,
                    name=f"recv_{lnc_id}_{step}_{c}",
                )
            )
        buffers.append(line)
    for c in range(num_channels):
        first = (lnc_id * num_channels + c) * rows
        nisa.dma_copy(dst=buffers[0][c], src=inp[first : first + rows, :])
    ids = list(range(num_channels))
    for step in range(tp_degree):
        if step < tp_degree - 1:
            ncc.collective_permute_implicit(
                [[buffers[step][c]] for c in ids],
                [[buffers[step + 1][c]] for c in ids],
                replica_group,
                ids,
            )
        for c in ids:
            source = ncc.collective_permute_implicit_current_processing_rank_id(
                iteration_id=step, replica_group=replica_group, channel_id=c
            )
            first = (lnc_id * num_channels + c) * rows
            # Groups of ranks may begin anywhere: the offset is by rank, the base by the first.
            base = _first_of(replica_group, tp_degree)
            nisa.dma_copy(
                dst=result.ap(
                    pattern=[[W, rows], [1, W]],
                    offset=first * W,
                    scalar_offset=_index_of(source, base),
                    indirect_dim=0,
                ),
                src=buffers[step][c],
            )
    return result


def _first_of(replica_group, tp_degree):
    """Register tile with the first rank of this rank's group."""
    own = ncc.rank_id()
    number = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.register_store(number, own)
    in_group = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    mask = tp_degree - 1
    nisa.tensor_scalar(dst=in_group, data=number, op0=nl.bitwise_and, operand0=0x7FFFFFFF & ~mask)
    return in_group


def _index_of(register, base):
    tile = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.register_store(dst=tile, src=register)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=base, op=nl.subtract)
    return tile


@nki.jit
def allgather_compute_matmul(lhs: nl.ndarray, rhs: nl.ndarray, tp_degree: int, num_groups: int = 1):
    """lhs [K, M] of this rank gathered along M by the ring, times rhs [K, N]: [M * tp_degree, N].

    Each step multiplies what is in hand while the next part travels.
    """
    K, M = lhs.shape
    _, N = rhs.shape
    _, n_prgs, lnc_id = get_verified_program_sharding_info("ag_matmul", (0, 1))
    groups = ReplicaGroup(
        [[g * tp_degree + i for i in range(tp_degree)] for g in range(num_groups)]
    )
    n_shard = N // n_prgs
    out = nl.ndarray((tp_degree * M, N), dtype=lhs.dtype, buffer=nl.shared_hbm)
    weights = nl.ndarray((K, n_shard), dtype=rhs.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=weights, src=rhs[:, nl.ds(lnc_id * n_shard, n_shard)])
    # The same buffers on both cores: one transfer.
    hand = [
        nl.ndarray((K, M), dtype=lhs.dtype, buffer=nl.shared_hbm, name=f"hand_{i}")
        for i in range(tp_degree)
    ]
    if lnc_id == 0:
        nisa.dma_copy(dst=hand[0], src=lhs)
    for step in nl.static_range(tp_degree):
        if step + 1 < tp_degree:
            ncc.collective_permute_implicit(
                srcs_by_channel=[[hand[step]]],
                dsts_by_channel=[[hand[step + 1]]],
                replica_group=groups,
                channel_ids=[0],
                priority=0,
            )
        elif n_prgs > 1 and tp_degree == 1:
            nisa.core_barrier(hand[0], (0, 1))
        source = ncc.collective_permute_implicit_current_processing_rank_id(step, groups)
        part = nl.ndarray((K, M), dtype=lhs.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=part, src=hand[step])
        psum = nl.ndarray((M, n_shard), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(psum, part, weights)
        done = nl.ndarray((M, n_shard), dtype=lhs.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(done, psum)
        nisa.dma_copy(
            dst=out.reshape((tp_degree, M, N)).ap(
                pattern=[[N, M], [1, n_shard]],
                offset=lnc_id * n_shard,
                scalar_offset=_index_of(source, _first_of(groups, tp_degree)),
                indirect_dim=0,
            ),
            src=done,
        )
    return out
