"""Matrix multiplication in five steps, each faster than the one before and for a reason the
timeline shows.

All five compute ``lhsT.T @ rhs`` for ``lhsT`` [K, M] and ``rhs`` [K, N] with K and M multiples of
128 and N of 512:

1. :func:`tiled`: every tile product loads both of its operands, in short rows; DMA binds.
2. :func:`hoisted`: a row of stationary tiles is loaded once and serves every column: half the
   transfers.
3. :func:`blocked_free`: blocks of both free dimensions share what they load; TensorE comes near
   DMA.
4. :func:`blocked`: larger blocks, possible since the contraction is blocked too; rows are long,
   TensorE binds.
5. :func:`balanced`: two buffers for each operand and an order of loops in which TensorE hardly
   waits.
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

TILE_K = 128
TILE_M = 128
TILE_N = 512


@nki.jit
def tiled(lhsT, rhs):
    """One product of tiles at a time, both operands loaded for it."""
    K, M = lhsT.shape
    _, N = rhs.shape
    out = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(M // TILE_M):
        for n in nl.affine_range(N // TILE_N):
            acc = nl.ndarray((TILE_M, TILE_N), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(K // TILE_K):
                stationary = nl.ndarray((TILE_K, TILE_M), dtype=lhsT.dtype, buffer=nl.sbuf)
                moving = nl.ndarray((TILE_K, TILE_N), dtype=rhs.dtype, buffer=nl.sbuf)
                rows = nl.ds(k * TILE_K, TILE_K)
                nisa.dma_copy(dst=stationary, src=lhsT[rows, nl.ds(m * TILE_M, TILE_M)])
                nisa.dma_copy(dst=moving, src=rhs[rows, nl.ds(n * TILE_N, TILE_N)])
                nisa.nc_matmul(acc, stationary, moving)
            result = nl.ndarray((TILE_M, TILE_N), dtype=out.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(result, acc)
            nisa.dma_copy(dst=out[nl.ds(m * TILE_M, TILE_M), nl.ds(n * TILE_N, TILE_N)], src=result)
    return out


@nki.jit
def hoisted(lhsT, rhs):
    """The stationary tiles of a row of results are loaded once."""
    K, M = lhsT.shape
    _, N = rhs.shape
    out = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(M // TILE_M):
        stationary = nl.ndarray((TILE_K, K // TILE_K, TILE_M), dtype=lhsT.dtype, buffer=nl.sbuf)
        for k in nl.affine_range(K // TILE_K):
            nisa.dma_copy(
                dst=stationary[:, k, :],
                src=lhsT[nl.ds(k * TILE_K, TILE_K), nl.ds(m * TILE_M, TILE_M)],
            )
        for n in nl.affine_range(N // TILE_N):
            acc = nl.ndarray((TILE_M, TILE_N), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(K // TILE_K):
                moving = nl.ndarray((TILE_K, TILE_N), dtype=rhs.dtype, buffer=nl.sbuf)
                nisa.dma_copy(
                    dst=moving, src=rhs[nl.ds(k * TILE_K, TILE_K), nl.ds(n * TILE_N, TILE_N)]
                )
                nisa.nc_matmul(acc, stationary[:, k, :], moving)
            result = nl.ndarray((TILE_M, TILE_N), dtype=out.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(result, acc)
            nisa.dma_copy(dst=out[nl.ds(m * TILE_M, TILE_M), nl.ds(n * TILE_N, TILE_N)], src=result)
    return out


@nki.jit
def blocked_free(lhsT, rhs, tiles_m=2, tiles_n=2):
    """Blocks of tiles_m x tiles_n results share the operands that are loaded for them."""
    K, M = lhsT.shape
    _, N = rhs.shape
    block_m, block_n = min(tiles_m, M // TILE_M) * TILE_M, min(tiles_n, N // TILE_N) * TILE_N
    out = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(M // block_m):
        stationary = nl.ndarray((TILE_K, K // TILE_K, block_m), dtype=lhsT.dtype, buffer=nl.sbuf)
        for k in nl.affine_range(K // TILE_K):
            nisa.dma_copy(
                dst=stationary[:, k, :],
                src=lhsT[nl.ds(k * TILE_K, TILE_K), nl.ds(m * block_m, block_m)],
            )
        for n in nl.affine_range(N // block_n):
            moving = nl.ndarray((TILE_K, K // TILE_K, block_n), dtype=rhs.dtype, buffer=nl.sbuf)
            for k in nl.affine_range(K // TILE_K):
                nisa.dma_copy(
                    dst=moving[:, k, :],
                    src=rhs[nl.ds(k * TILE_K, TILE_K), nl.ds(n * block_n, block_n)],
                )
            for tile_m in nl.affine_range(block_m // TILE_M):
                for tile_n in nl.affine_range(block_n // TILE_N):
                    acc = nl.ndarray((TILE_M, TILE_N), dtype=nl.float32, buffer=nl.psum)
                    for k in nl.affine_range(K // TILE_K):
                        nisa.nc_matmul(
                            acc,
                            stationary[:, k, nl.ds(tile_m * TILE_M, TILE_M)],
                            moving[:, k, nl.ds(tile_n * TILE_N, TILE_N)],
                        )
                    result = nl.ndarray((TILE_M, TILE_N), dtype=out.dtype, buffer=nl.sbuf)
                    nisa.tensor_copy(result, acc)
                    rows = nl.ds(m * block_m + tile_m * TILE_M, TILE_M)
                    nisa.dma_copy(
                        dst=out[rows, nl.ds(n * block_n + tile_n * TILE_N, TILE_N)], src=result
                    )
    return out


@nki.jit
def blocked(lhsT, rhs, tiles_m=8, tiles_n=2, tiles_k=8):
    """All three dimensions blocked; partial sums are kept in SBUF."""
    K, M = lhsT.shape
    _, N = rhs.shape
    block_m, block_n = min(tiles_m, M // TILE_M) * TILE_M, min(tiles_n, N // TILE_N) * TILE_N
    count_k = min(tiles_k, K // TILE_K)
    out = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    for n in nl.affine_range(N // block_n):
        for m in nl.affine_range(M // block_m):
            sums = nl.ndarray(
                (TILE_M, block_m // TILE_M, block_n), dtype=nl.float32, buffer=nl.sbuf
            )
            for k in nl.sequential_range(K // (count_k * TILE_K)):
                stationary = nl.ndarray(
                    (TILE_K, count_k, block_m), dtype=lhsT.dtype, buffer=nl.sbuf
                )
                moving = nl.ndarray((TILE_K, count_k, block_n), dtype=rhs.dtype, buffer=nl.sbuf)
                for tile_k in nl.affine_range(count_k):
                    rows = nl.ds((k * count_k + tile_k) * TILE_K, TILE_K)
                    nisa.dma_copy(
                        dst=stationary[:, tile_k, :], src=lhsT[rows, nl.ds(m * block_m, block_m)]
                    )
                    nisa.dma_copy(
                        dst=moving[:, tile_k, :], src=rhs[rows, nl.ds(n * block_n, block_n)]
                    )
                for tile_m in nl.affine_range(block_m // TILE_M):
                    for tile_n in nl.affine_range(block_n // TILE_N):
                        columns = nl.ds(tile_n * TILE_N, TILE_N)
                        acc = nl.ndarray((TILE_M, TILE_N), dtype=nl.float32, buffer=nl.psum)
                        for tile_k in nl.affine_range(count_k):
                            lhs_tile = stationary[:, tile_k, nl.ds(tile_m * TILE_M, TILE_M)]
                            nisa.nc_matmul(acc, lhs_tile, moving[:, tile_k, columns])
                        part = sums[:, tile_m, columns]
                        if k == 0:
                            nisa.tensor_copy(part, acc)
                        else:
                            nisa.tensor_tensor(part, part, acc, op=nl.add)
            for tile_m in nl.affine_range(block_m // TILE_M):
                for tile_n in nl.affine_range(block_n // TILE_N):
                    result = nl.ndarray((TILE_M, TILE_N), dtype=out.dtype, buffer=nl.sbuf)
                    nisa.tensor_copy(result, sums[:, tile_m, nl.ds(tile_n * TILE_N, TILE_N)])
                    rows = nl.ds(m * block_m + tile_m * TILE_M, TILE_M)
                    nisa.dma_copy(
                        dst=out[rows, nl.ds(n * block_n + tile_n * TILE_N, TILE_N)], src=result
                    )
    return out


@nki.jit
def balanced(lhsT, rhs, tiles_m=8, tiles_n=2, tiles_k=8):
    """Nobody waits long: operands have two buffers each, and k runs outside the tiles that share
    PSUM, half its banks at a time, so that the first matmuls need two transfers and not a whole
    block; the other half is drained meanwhile.

    tiles_n is 1, 2 or 4.
    """
    K, M = lhsT.shape
    _, N = rhs.shape
    count_m, count_n, count_k = (
        min(tiles_m, M // TILE_M),
        min(tiles_n, N // TILE_N),
        min(tiles_k, K // TILE_K),
    )
    block_m, block_n, blocks_k = count_m * TILE_M, count_n * TILE_N, K // (count_k * TILE_K)
    together = min(count_m, nl.tile_size.psum_num_banks // 2 // count_n)
    out = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    buffers = [
        (
            nl.ndarray((TILE_K, count_k, block_m), dtype=lhsT.dtype, buffer=nl.sbuf),
            nl.ndarray((TILE_K, count_k, block_n), dtype=rhs.dtype, buffer=nl.sbuf),
        )
        for _ in range(2)
    ]
    turn = 0
    for n in nl.affine_range(N // block_n):
        for m in nl.affine_range(M // block_m):
            sums = (
                nl.ndarray((TILE_M, count_m, block_n), dtype=nl.float32, buffer=nl.sbuf)
                if blocks_k > 1
                else None
            )
            for k in nl.sequential_range(blocks_k):
                stationary, moving = buffers[turn % 2]
                turn += 1
                for tile_k in nl.affine_range(count_k):
                    rows = nl.ds((k * count_k + tile_k) * TILE_K, TILE_K)
                    nisa.dma_copy(
                        dst=stationary[:, tile_k, :], src=lhsT[rows, nl.ds(m * block_m, block_m)]
                    )
                    nisa.dma_copy(
                        dst=moving[:, tile_k, :], src=rhs[rows, nl.ds(n * block_n, block_n)]
                    )
                for first in nl.affine_range(0, count_m, together):
                    tiles = range(first, min(first + together, count_m))
                    accs = [
                        nl.ndarray((TILE_M, count_n, TILE_N), dtype=nl.float32, buffer=nl.psum)
                        for _ in tiles
                    ]
                    for tile_k in nl.affine_range(count_k):
                        for tile_m, acc in zip(tiles, accs, strict=True):
                            lhs_tile = stationary[:, tile_k, nl.ds(tile_m * TILE_M, TILE_M)]
                            for tile_n in nl.affine_range(count_n):
                                columns = nl.ds(tile_n * TILE_N, TILE_N)
                                nisa.nc_matmul(
                                    acc[:, tile_n, :], lhs_tile, moving[:, tile_k, columns]
                                )
                    for tile_m, acc in zip(tiles, accs, strict=True):
                        drained = acc.reshape((TILE_M, block_n))
                        engine = nisa.scalar_engine if tile_m % 2 else nisa.vector_engine
                        if k < blocks_k - 1 and k == 0:
                            partial = sums[:, tile_m, :]  # type: ignore[index]
                            nisa.tensor_copy(partial, drained, engine=engine)
                            continue
                        if k < blocks_k - 1:
                            partial = sums[:, tile_m, :]  # type: ignore[index]
                            nisa.tensor_tensor(partial, partial, drained, op=nl.add)
                            continue
                        # The last block of k leaves as it is added: one pass less, and stores begin
                        # at once.
                        result = nl.ndarray((TILE_M, block_n), dtype=out.dtype, buffer=nl.sbuf)
                        if blocks_k == 1:
                            nisa.tensor_copy(result, drained, engine=engine)
                        else:
                            partial = sums[:, tile_m, :]  # type: ignore[index]
                            nisa.tensor_tensor(result, partial, drained, op=nl.add)
                        rows = nl.ds(m * block_m + tile_m * TILE_M, TILE_M)
                        nisa.dma_copy(dst=out[rows, nl.ds(n * block_n, block_n)], src=result)
    return out


STEPS = (tiled, hoisted, blocked_free, blocked, balanced)


def inputs(M=512, K=512, N=1024, dtype=nl.bfloat16, seed=0):
    """Arguments of every step for an [M, K] @ [K, N] product."""
    rng = np.random.default_rng(seed)
    return {
        "lhsT": rng.standard_normal((K, M), dtype=np.float32).astype(dtype),
        "rhs": rng.standard_normal((K, N), dtype=np.float32).astype(dtype),
    }


def golden(lhsT, rhs):
    """The product in float64, as float32."""
    return (lhsT.astype(np.float64).T @ rhs.astype(np.float64)).astype(np.float32)
