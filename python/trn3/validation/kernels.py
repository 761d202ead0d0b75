"""Kernels rebuilt: what was published, with the work of a compiler of the time done by hand.

Products are hoisted, broadcasts go through TensorE and stay in PSUM, and what does not fit is
loaded again. The texts as their authors have them stand in ``authored``.
"""

from __future__ import annotations

from typing import Any

import trn3.nki.isa as nisa
import trn3.nki.language as nl

PARTITIONS = 128
TILE_N = 512


def _tile(shape: tuple[int, ...], dtype: Any, buffer: Any = None) -> Any:
    return nl.ndarray(shape, dtype, buffer=nl.sbuf if buffer is None else buffer)


def _drain(out: Any, total: Any, dtype: Any) -> None:
    result = _tile(tuple(total.shape), dtype)
    nisa.tensor_copy(result, total, engine=nisa.vector_engine)
    nisa.dma_copy(dst=out, src=result)


def matmul_blocked_free(
    size_m: int,
    size_k: int,
    size_n: int,
    dtype: Any,
    *,
    tiles_m: int = 2,
    tiles_n: int = 2,
    keep_moving: bool = True,
) -> None:
    """Multiply matrices; blocks of both free dimensions share what is loaded for them.

    Without `keep_moving` the moving tiles of a block, which in float32 are more than SBUF holds,
    are loaded again for each row of tiles.
    """
    lhs_t, rhs = _tile((size_k, size_m), dtype, nl.hbm), _tile((size_k, size_n), dtype, nl.hbm)
    out = _tile((size_m, size_n), dtype, nl.hbm)
    block_m, block_n = tiles_m * PARTITIONS, tiles_n * TILE_N
    steps = range(size_k // PARTITIONS)
    stationary: list[Any] = []
    moving: list[Any] = []
    for m in range(size_m // block_m):
        stationary.clear()
        for k in steps:
            stationary.append(_tile((PARTITIONS, block_m), dtype))
            rows = nl.ds(k * PARTITIONS, PARTITIONS)
            nisa.dma_copy(dst=stationary[k], src=lhs_t[rows, nl.ds(m * block_m, block_m)])
        for n in range(size_n // block_n):
            moving.clear()
            for k in steps if keep_moving else ():
                moving.append(_tile((PARTITIONS, block_n), dtype))
                rows = nl.ds(k * PARTITIONS, PARTITIONS)
                nisa.dma_copy(dst=moving[k], src=rhs[rows, nl.ds(n * block_n, block_n)])
            for i in range(tiles_m):
                for j in range(tiles_n):
                    columns = nl.ds(n * block_n + j * TILE_N, TILE_N)
                    total = _tile((PARTITIONS, TILE_N), nl.float32, nl.psum)
                    for k in steps:
                        if keep_moving:
                            right = moving[k][:, nl.ds(j * TILE_N, TILE_N)]
                        else:
                            right = _tile((PARTITIONS, TILE_N), dtype)
                            rows = nl.ds(k * PARTITIONS, PARTITIONS)
                            nisa.dma_copy(dst=right, src=rhs[rows, columns])
                        left = stationary[k][:, nl.ds(i * PARTITIONS, PARTITIONS)]
                        nisa.nc_matmul(total, left, right, accumulate=k > 0)
                    rows = nl.ds(m * block_m + i * PARTITIONS, PARTITIONS)
                    _drain(out[rows, columns], total, dtype)


def matmul_blocked(
    size_m: int,
    size_k: int,
    size_n: int,
    dtype: Any,
    *,
    tiles_m: int = 16,
    tiles_n: int = 2,
    tiles_k: int = 8,
) -> None:
    """Multiply matrices in blocks of all dimensions; sums of a block stay in SBUF."""
    lhs_t, rhs = _tile((size_k, size_m), dtype, nl.hbm), _tile((size_k, size_n), dtype, nl.hbm)
    out = _tile((size_m, size_n), dtype, nl.hbm)
    block_m, block_n = tiles_m * PARTITIONS, tiles_n * TILE_N
    sums: list[Any] = []
    moving: list[Any] = []
    stationary: list[Any] = []
    for n in range(size_n // block_n):
        columns = nl.ds(n * block_n, block_n)
        for m in range(size_m // block_m):
            sums.clear()
            sums.extend(_tile((PARTITIONS, block_n), nl.float32) for _ in range(tiles_m))
            for k in range(size_k // (tiles_k * PARTITIONS)):
                moving.clear()
                stationary.clear()
                for t in range(tiles_k):
                    moving.append(_tile((PARTITIONS, block_n), dtype))
                    stationary.append(_tile((PARTITIONS, block_m), dtype))
                    rows = nl.ds((k * tiles_k + t) * PARTITIONS, PARTITIONS)
                    nisa.dma_copy(dst=moving[t], src=rhs[rows, columns])
                    nisa.dma_copy(dst=stationary[t], src=lhs_t[rows, nl.ds(m * block_m, block_m)])
                for i in range(tiles_m):
                    for j in range(tiles_n):
                        total = _tile((PARTITIONS, TILE_N), nl.float32, nl.psum)
                        for t in range(tiles_k):
                            nisa.nc_matmul(
                                total,
                                stationary[t][:, nl.ds(i * PARTITIONS, PARTITIONS)],
                                moving[t][:, nl.ds(j * TILE_N, TILE_N)],
                                accumulate=t > 0,
                            )
                        part = sums[i][:, nl.ds(j * TILE_N, TILE_N)]
                        if k == 0:
                            nisa.tensor_copy(part, total, engine=nisa.vector_engine)
                        else:
                            nisa.tensor_tensor(part, part, total, op=nl.add)
            for i in range(tiles_m):
                result = sums[i]
                if dtype is not nl.float32:
                    result = _tile((PARTITIONS, block_n), dtype)
                    nisa.tensor_copy(result, sums[i], engine=nisa.vector_engine)
                rows = nl.ds(m * block_m + i * PARTITIONS, PARTITIONS)
                nisa.dma_copy(dst=out[rows, columns], src=result)


def _broadcast(ones: Any, row: Any) -> Any:
    """Return a row of SBUF in all partitions of PSUM: a product with a column of ones."""
    total = _tile((PARTITIONS, row.shape[1]), nl.float32, nl.psum)
    nisa.nc_matmul(total, ones, row)
    return total


def mamba_states_outside(channels: int, tokens: int, states: int = 16) -> None:
    """Scan with the loop over states outside that over channels.

    Both inputs of a channel tile are loaded, and multiplied, for every state.
    """
    dtype = nl.float32
    delta, u, out = (_tile((channels, tokens), dtype, nl.hbm) for _ in range(3))
    decay = _tile((channels, states), dtype, nl.hbm)
    into, outof = (_tile((states, tokens), dtype, nl.hbm) for _ in range(2))
    tiles = channels // PARTITIONS
    ones = _tile((1, PARTITIONS), dtype)
    nisa.memset(ones, 1.0, engine=nisa.vector_engine)
    sums = [_tile((PARTITIONS, tokens), dtype) for _ in range(tiles)]
    for total in sums:
        nisa.memset(total, 0.0, engine=nisa.vector_engine)
    for s in range(states):
        rows = [_tile((1, tokens), dtype) for _ in range(2)]
        nisa.dma_copy(dst=rows[0], src=into[s : s + 1, :])
        nisa.dma_copy(dst=rows[1], src=outof[s : s + 1, :])
        for c in range(tiles):
            here = nl.ds(c * PARTITIONS, PARTITIONS)
            step, drive = (_tile((PARTITIONS, tokens), dtype) for _ in range(2))
            rate = _tile((PARTITIONS, 1), dtype)
            nisa.dma_copy(dst=step, src=delta[here, :])
            nisa.dma_copy(dst=drive, src=u[here, :])
            nisa.dma_copy(dst=rate, src=decay[here, s : s + 1])
            driven = _tile((PARTITIONS, tokens), dtype)
            nisa.tensor_tensor(driven, step, drive, op=nl.multiply)
            _scan_state(sums[c], step, driven, rate, [_broadcast(ones, row) for row in rows], 0.0)
    for c, total in enumerate(sums):
        nisa.dma_copy(dst=out[nl.ds(c * PARTITIONS, PARTITIONS), :], src=total)


def _scan_state(
    total: Any, step: Any, driven: Any, rate: Any, rows: list[Any], initial: Any
) -> Any:
    """Add one state's part of the result, and return the state after the last token."""
    shape, dtype = tuple(step.shape), nl.float32
    factor, entering, state, part = (_tile(shape, dtype) for _ in range(4))
    nisa.activation(factor, op=nl.exp, data=step, scale=rate)
    nisa.tensor_tensor(entering, driven, rows[0], op=nl.multiply)
    nisa.tensor_tensor_scan(state, factor, entering, initial=initial, op0=nl.multiply, op1=nl.add)
    nisa.tensor_tensor(part, state, rows[1], op=nl.multiply)
    nisa.tensor_tensor(total, total, part, op=nl.add)
    return state[:, shape[1] - 1 : shape[1]]


def mamba_channels_outside(
    channels: int, tokens: int, states: int = 16, chunk: int = TILE_N
) -> None:
    """Scan with the loop over channels outside: their inputs are loaded once.

    The tokens come in chunks; each hands the last value of its scan to the next.
    """
    dtype = nl.float32
    delta, u, out = (_tile((channels, tokens), dtype, nl.hbm) for _ in range(3))
    decay = _tile((channels, states), dtype, nl.hbm)
    into, outof = (_tile((states, tokens), dtype, nl.hbm) for _ in range(2))
    ones = _tile((1, PARTITIONS), dtype)
    nisa.memset(ones, 1.0, engine=nisa.vector_engine)
    for c in range(channels // PARTITIONS):
        here = nl.ds(c * PARTITIONS, PARTITIONS)
        rates = _tile((PARTITIONS, states), dtype)
        nisa.dma_copy(dst=rates, src=decay[here, :])
        last: list[Any] = [0.0] * states
        for t in range(tokens // chunk):
            now = nl.ds(t * chunk, chunk)
            step, drive, driven, total = (_tile((PARTITIONS, chunk), dtype) for _ in range(4))
            nisa.dma_copy(dst=step, src=delta[here, now])
            nisa.dma_copy(dst=drive, src=u[here, now])
            nisa.tensor_tensor(driven, step, drive, op=nl.multiply)
            nisa.memset(total, 0.0, engine=nisa.vector_engine)
            for s in range(states):
                rows = [_tile((1, chunk), dtype) for _ in range(2)]
                nisa.dma_copy(dst=rows[0], src=into[s : s + 1, now])
                nisa.dma_copy(dst=rows[1], src=outof[s : s + 1, now])
                places = [_broadcast(ones, row) for row in rows]
                rate = rates[:, s : s + 1]
                final = _scan_state(total, step, driven, rate, places, last[s])
                if t + 1 < tokens // chunk:
                    last[s] = _tile((PARTITIONS, 1), dtype)
                    nisa.tensor_copy(last[s], final, engine=nisa.vector_engine)
            nisa.dma_copy(dst=out[here, now], src=total)
