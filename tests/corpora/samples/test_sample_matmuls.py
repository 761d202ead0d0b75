"""Sample kernels that multiply matrices: one tile, tiles, hoisted and blocked; fp8 and MX."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from support.samples import FLOATS, every_way, near, normal, wide
from trn3 import nki

TILE_K = nl.tile_size.pmax
TILE_M = nl.tile_size.gemm_stationary_fmax
TILE_N = nl.tile_size.gemm_moving_fmax


def _product(left_t: Any, right: Any) -> Any:
    return wide(left_t).T @ wide(right)


def _load(source: Any) -> Any:
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile


def _emit(result: Any, res_psum: Any) -> None:
    res_sb = nl.ndarray(res_psum.shape, dtype=result.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=res_sb, src=res_psum)
    nisa.dma_copy(dst=result, src=res_sb)


@nki.jit
def matmul_basic(lhs_t: Any, rhs: Any) -> Any:
    """64 x 128 by 128 x 512: one instruction."""
    k, m = lhs_t.shape
    k_, n = rhs.shape
    assert k == k_, "lhs_t and rhs must have the same contraction dimension"
    result = nl.ndarray((m, n), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    res_psum = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=res_psum, stationary=_load(lhs_t), moving=_load(rhs))
    _emit(result, res_psum)
    return result


@nki.jit
def matmul_tiled(lhs_t: Any, rhs: Any) -> Any:
    """Tiles of any size at the edges, loaded where they are used."""
    k, m = lhs_t.shape
    _, n = rhs.shape
    result = nl.ndarray((m, n), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    for row in nl.affine_range(0, m, TILE_M):
        rows = nl.ds(row, min(TILE_M, m - row))
        for column in nl.affine_range(0, n, TILE_N):
            columns = nl.ds(column, min(TILE_N, n - column))
            res_psum = nl.zeros((rows.size, columns.size), nl.float32, buffer=nl.psum)
            for inner in nl.affine_range(0, k, TILE_K):
                part = nl.ds(inner, min(TILE_K, k - inner))
                nisa.nc_matmul(
                    dst=res_psum,
                    stationary=_load(lhs_t[part, rows]),
                    moving=_load(rhs[part, columns]),
                )
            _emit(result[rows, columns], res_psum)
    return result


@nki.jit
def matmul_hoisted(lhs_t: Any, rhs: Any) -> Any:
    """Load the column of stationary tiles once for all columns of the result."""
    k, m = lhs_t.shape
    _, n = rhs.shape
    result = nl.ndarray((m, n), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(m // TILE_M):
        stationary = [
            _load(lhs_t[j * TILE_K : (j + 1) * TILE_K, i * TILE_M : (i + 1) * TILE_M])
            for j in nl.affine_range(k // TILE_K)
        ]
        for column in nl.affine_range(n // TILE_N):
            res_psum = nl.ndarray((TILE_M, TILE_N), nl.float32, buffer=nl.psum)
            for j in nl.affine_range(k // TILE_K):
                moving = _load(rhs[nl.ds(j * TILE_K, TILE_K), nl.ds(column * TILE_N, TILE_N)])
                nisa.nc_matmul(res_psum, stationary[j], moving)
            _emit(result[nl.ds(i * TILE_M, TILE_M), nl.ds(column * TILE_N, TILE_N)], res_psum)
    return result


@nki.jit
def matmul_blocked(
    lhs_t: Any, rhs: Any, tiles_in_block_m: int = 2, tiles_in_block_n: int = 1
) -> Any:
    """Blocks of both free axes in SBUF: each block is loaded once for a block of the result."""
    k, m = lhs_t.shape
    _, n = rhs.shape
    result = nl.ndarray((m, n), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    block_m, block_n = TILE_M * tiles_in_block_m, TILE_N * tiles_in_block_n
    assert m % block_m == 0
    assert n % block_n == 0
    deep = k // TILE_K
    for bm in nl.affine_range(m // block_m):
        left = nl.ndarray((TILE_K, deep, block_m), dtype=lhs_t.dtype, buffer=nl.sbuf)
        for j in nl.affine_range(deep):
            nisa.dma_copy(
                left[:, j], lhs_t[nl.ds(j * TILE_K, TILE_K), nl.ds(bm * block_m, block_m)]
            )
        for bn in nl.affine_range(n // block_n):
            right = nl.ndarray((TILE_K, deep, block_n), dtype=rhs.dtype, buffer=nl.sbuf)
            for j in nl.affine_range(deep):
                nisa.dma_copy(
                    right[:, j], rhs[nl.ds(j * TILE_K, TILE_K), nl.ds(bn * block_n, block_n)]
                )
            for tm in nl.affine_range(tiles_in_block_m):
                for tn in nl.affine_range(tiles_in_block_n):
                    res_psum = nl.ndarray((TILE_M, TILE_N), nl.float32, buffer=nl.psum)
                    for j in nl.affine_range(deep):
                        nisa.nc_matmul(
                            res_psum,
                            left[:, j, nl.ds(tm * TILE_M, TILE_M)],
                            right[:, j, nl.ds(tn * TILE_N, TILE_N)],
                        )
                    rows = nl.ds(bm * block_m + tm * TILE_M, TILE_M)
                    _emit(result[rows, nl.ds(bn * block_n + tn * TILE_N, TILE_N)], res_psum)
    return result


@nki.jit
def matmul_fully_blocked(lhs_t: Any, rhs: Any, tiles_in_block_k: int = 2) -> Any:
    """All three axes in blocks: sums of a block of the contraction are added up in SBUF."""
    k, m = lhs_t.shape
    _, n = rhs.shape
    block_k = TILE_K * tiles_in_block_k
    result = nl.ndarray((m, n), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    for column in nl.affine_range(n // TILE_N):
        columns = nl.ds(column * TILE_N, TILE_N)
        sums = nl.zeros((TILE_M, m // TILE_M, TILE_N), dtype=nl.float32, buffer=nl.sbuf)
        for bk in nl.sequential_range(k // block_k):
            right = nl.ndarray((TILE_K, tiles_in_block_k, TILE_N), dtype=rhs.dtype)
            left = nl.ndarray((TILE_K, tiles_in_block_k, m), dtype=lhs_t.dtype)
            for t in nl.affine_range(tiles_in_block_k):
                part = nl.ds(bk * block_k + t * TILE_K, TILE_K)
                nisa.dma_copy(dst=right[0:TILE_K, t, 0:TILE_N], src=rhs[part, columns])
                nisa.dma_copy(dst=left[:, t, :], src=lhs_t[part])
            for i in nl.affine_range(m // TILE_M):
                res_psum = nl.ndarray((TILE_M, TILE_N), nl.float32, buffer=nl.psum)
                for t in nl.affine_range(tiles_in_block_k):
                    rows = slice(i * TILE_M, (i + 1) * TILE_M)
                    nisa.nc_matmul(res_psum, left[:, t, rows], right[:, t])
                nisa.tensor_tensor(sums[:, i], sums[:, i], res_psum, op=nl.add)
        for i in nl.affine_range(m // TILE_M):
            res_sb = nl.copy(sums[:, i], dtype=result.dtype)
            nl.store(result[nl.ds(i * TILE_M, TILE_M), columns], value=res_sb)
    return result


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("sizes", [(128, 64, 512), (3, 1, 1), (77, 128, 33)])
def test_basic_matmul_equals_numpy(sizes: tuple[int, int, int], dtype: Any) -> None:
    k, m, n = sizes
    left, right = normal(k, m, dtype=dtype), normal(k, n, dtype=dtype, seed=1)
    near(every_way(matmul_basic, left, right), _product(left, right), dtype, factor=10)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("sizes", [(256, 128, 512), (130, 129, 513), (300, 5, 20)])
def test_tiled_matmul_equals_numpy(sizes: tuple[int, int, int], dtype: Any) -> None:
    k, m, n = sizes
    left, right = normal(k, m, dtype=dtype), normal(k, n, dtype=dtype, seed=1)
    near(every_way(matmul_tiled, left, right), _product(left, right), dtype, factor=10)


@pytest.mark.parametrize("kernel", [matmul_hoisted, matmul_blocked, matmul_fully_blocked])
def test_matmuls_of_whole_tiles_equal_numpy(kernel: Any) -> None:
    dtype = ml_dtypes.bfloat16
    left, right = normal(512, 256, dtype=dtype), normal(512, 1024, dtype=dtype, seed=1)
    near(every_way(kernel, left, right), _product(left, right), dtype, factor=10)


@nki.jit
def matmul_by_rows(lhs: Any, rhs: Any) -> Any:
    """By nl.matmul, rows of the result split over the cores."""
    m, k = lhs.shape
    _, n = rhs.shape
    result = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.shared_hbm)
    own = m // nl.num_programs(0)
    rows = nl.ds(nl.program_id(0) * own, own)
    first = nl.matmul(nl.load(lhs[rows, 0 : k // 2]), nl.load(rhs[: k // 2]))
    second = nl.matmul(
        nl.load_transpose2d(lhs[rows, k // 2 :]), nl.load(rhs[k // 2 :]), transpose_x=True
    )
    nl.store(result[rows], nl.add(nl.copy(first), second))
    return result


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("lnc", [1, 2])
def test_matmul_by_rows_equals_numpy(lnc: int, dtype: Any) -> None:
    left, right = normal(100, 128, dtype=dtype), normal(128, 77, dtype=dtype, seed=1)
    wanted = wide(left) @ wide(right)
    near(every_way(matmul_by_rows[lnc], left, right), wanted, np.float32, factor=10)


@nki.jit
def matmul_double_row(stationary: Any, moving: Any) -> Any:
    """Two fp8 rows in each cell."""
    _, _, m = stationary.shape
    _, _, n = moving.shape
    result = nl.ndarray((m, n), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    res_psum = nl.ndarray((m, n), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(
        res_psum,
        nl.load(stationary),
        nl.load(moving),
        perf_mode=nisa.matmul_perf_mode.double_row,
    )
    _emit(result, res_psum)
    return result


@pytest.mark.parametrize(
    "dtype", [ml_dtypes.float8_e4m3, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]
)
def test_double_row_matmul_equals_numpy(dtype: Any) -> None:
    left, right = normal(246, 128, dtype=dtype), normal(246, 99, dtype=dtype, seed=1)
    halves = [array.reshape(2, 123, -1).transpose(1, 0, 2).copy() for array in (left, right)]
    wanted = _product(left, right).astype(ml_dtypes.bfloat16)
    near(every_way(matmul_double_row, *halves), wanted, ml_dtypes.bfloat16)


@nki.jit
def matmul_mx(x: Any, y: Any, quantised: Any) -> Any:
    """Both operands to MX on the way; four values of the contraction lie side by side."""
    partitions, m4 = x.shape
    _, n4 = y.shape
    operands = []
    for source, width in ((x, m4 // 4), (y, n4 // 4)):
        data = nl.ndarray((partitions, width), dtype=quantised, buffer=nl.sbuf)
        rows = partitions // 8 if partitions <= 32 else partitions
        scale = nl.ndarray((rows, width), dtype=nl.uint8, buffer=nl.sbuf)
        nisa.quantize_mx(dst=data, src=_load(source), dst_scale=scale)
        operands.append((data, scale))
    (stationary, stationary_scale), (moving, moving_scale) = operands
    res_psum = nl.ndarray((m4 // 4, n4 // 4), dtype=nl.bfloat16, buffer=nl.psum)
    nisa.nc_matmul_mx(
        dst=res_psum,
        stationary=stationary,
        moving=moving,
        stationary_scale=stationary_scale,
        moving_scale=moving_scale,
    )
    result = nl.ndarray(res_psum.shape, dtype=nl.bfloat16, buffer=nl.shared_hbm)
    _emit(result, res_psum)
    return result


@pytest.mark.parametrize("quantised", [nl.float8_e4m3fn_x4, nl.float8_e5m2_x4], ids=str)
@pytest.mark.parametrize(("partitions", "m", "n"), [(128, 128, 512), (32, 2, 4), (64, 66, 100)])
def test_mx_matmul_is_near_numpy(partitions: int, m: int, n: int, quantised: Any) -> None:
    dtype = ml_dtypes.bfloat16
    x, y = normal(partitions, 4 * m, dtype=dtype), normal(partitions, 4 * n, dtype=dtype, seed=1)
    wanted = np.einsum("pmi,pni->mn", *(wide(a).reshape(partitions, -1, 4) for a in (x, y)))
    got = wide(every_way(matmul_mx, x, y, quantised))
    # Three or two bits of mantissa in each factor, 4 x partitions products that add up.
    relative = 2**-4 if quantised == nl.float8_e4m3fn_x4 else 2**-3
    assert np.abs(got - wanted).max() < 4 * relative * np.sqrt(4 * partitions)
