"""Five steps of a tiled product in the legacy dialect, as tutorials build them up."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import trn3.nki.dialects.legacy as nki
import trn3.nki.dialects.legacy.isa as nisa
import trn3.nki.dialects.legacy.language as nl

TYPES = [np.float32, np.float16, ml_dtypes.bfloat16]


@nki.jit
def one_tile(lhs_t: nki.tensor, rhs: nki.tensor) -> Any:
    out = nl.ndarray((64, 512), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    i_left = nl.mgrid[0:128, 0:64]
    i_right = nl.mgrid[0:128, 0:512]
    i_out = nl.mgrid[0:64, 0:512]
    left = nl.load(lhs_t[i_left.p, i_left.x])
    right = nl.load(rhs[i_right.p, i_right.x])
    product = nl.matmul(left, right, transpose_x=True)
    product_sb = nl.copy(product, dtype=out.dtype)
    nl.store(out[i_out.p, i_out.x], value=product_sb)
    return out


@nki.jit
def tiled(lhs_t: nki.tensor, rhs: nki.tensor) -> Any:
    depth, rows = lhs_t.shape
    depth_, columns = rhs.shape
    assert depth == depth_
    out = nl.ndarray((rows, columns), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    tile_m, tile_k = nl.tile_size.gemm_stationary_fmax, nl.tile_size.pmax
    tile_n = nl.tile_size.gemm_moving_fmax
    for m in nl.affine_range(rows // tile_m):
        for n in nl.affine_range(columns // tile_n):
            total = nl.zeros((tile_m, tile_n), nl.float32, buffer=nl.psum)
            for k in nl.affine_range(depth // tile_k):
                left = nl.ndarray((tile_k, tile_m), dtype=lhs_t.dtype, buffer=nl.sbuf)
                right = nl.ndarray((tile_k, tile_n), dtype=rhs.dtype, buffer=nl.sbuf)
                left[...] = nl.load(lhs_t[nl.ds(k * tile_k, tile_k), nl.ds(m * tile_m, tile_m)])
                right[...] = nl.load(rhs[nl.ds(k * tile_k, tile_k), nl.ds(n * tile_n, tile_n)])
                total += nl.matmul(left[...], right[...], transpose_x=True)
            total_sb = nl.copy(total, dtype=out.dtype)
            nl.store(out[nl.ds(m * tile_m, tile_m), nl.ds(n * tile_n, tile_n)], value=total_sb)
    return out


@nki.jit
def hoisted(lhs_t: nki.tensor, rhs: nki.tensor) -> Any:
    depth, rows = lhs_t.shape
    _, columns = rhs.shape
    out = nl.ndarray((rows, columns), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    tile_m, tile_k, tile_n = 128, 128, 512
    i_left = nl.mgrid[0:tile_k, 0:tile_m]
    i_right = nl.mgrid[0:tile_k, 0:tile_n]
    i_out = nl.mgrid[0:tile_m, 0:tile_n]
    for m in nl.affine_range(rows // tile_m):
        left = nl.ndarray((depth // tile_k, nl.par_dim(tile_k), tile_m), dtype=lhs_t.dtype)
        for k in nl.affine_range(depth // tile_k):
            left[k, i_left.p, i_left.x] = nl.load(
                lhs_t[k * tile_k + i_left.p, m * tile_m + i_left.x]
            )
        for n in nl.affine_range(columns // tile_n):
            right = nl.ndarray((depth // tile_k, nl.par_dim(tile_k), tile_n), dtype=rhs.dtype)
            for k in nl.affine_range(depth // tile_k):
                right[k, i_right.p, i_right.x] = nl.load(
                    rhs[k * tile_k + i_right.p, n * tile_n + i_right.x]
                )
            total = nl.zeros((tile_m, tile_n), nl.float32, buffer=nl.psum)
            for k in nl.affine_range(depth // tile_k):
                total[...] += nl.matmul(
                    left[k, i_left.p, i_left.x], right[k, i_right.p, i_right.x], transpose_x=True
                )
            nl.store(
                out[m * tile_m + i_out.p, n * tile_n + i_out.x],
                value=nl.copy(total, dtype=out.dtype),
            )
    return out


@nki.jit
def blocked_free(lhs_t: nki.tensor, rhs: nki.tensor, blocks: int = 2) -> Any:
    depth, rows = lhs_t.shape
    _, columns = rhs.shape
    out = nl.ndarray((rows, columns), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    tile_m, tile_k, tile_n = 128, 128, 512
    wide = blocks * tile_m
    for m in nl.affine_range(rows // wide):
        left = nl.ndarray((depth // tile_k, blocks, nl.par_dim(tile_k), tile_m), dtype=lhs_t.dtype)
        for block in nl.affine_range(blocks):
            for k in nl.affine_range(depth // tile_k):
                left[k, block] = nl.load(
                    lhs_t[
                        k * tile_k : (k + 1) * tile_k,
                        m * wide + block * tile_m : m * wide + (block + 1) * tile_m,
                    ]
                )
        for n in nl.affine_range(columns // tile_n):
            right = nl.ndarray((depth // tile_k, nl.par_dim(tile_k), tile_n), dtype=rhs.dtype)
            for k in nl.affine_range(depth // tile_k):
                right[k] = nl.load(rhs[nl.ds(k * tile_k, tile_k), nl.ds(n * tile_n, tile_n)])
            for block in nl.affine_range(blocks):
                total = nl.zeros((nl.par_dim(tile_m), tile_n), nl.float32, buffer=nl.psum)
                for k in nl.affine_range(depth // tile_k):
                    total += nisa.nc_matmul(left[k, block], right[k])
                total_sb = nl.copy(total, dtype=out.dtype)
                first = m * wide + block * tile_m
                nl.store(out[first : first + tile_m, n * tile_n : (n + 1) * tile_n], value=total_sb)
    return out


@nki.jit
def blocked(lhs_t: nki.tensor, rhs: nki.tensor, in_m: int = 2, in_n: int = 1, in_k: int = 2) -> Any:
    depth, rows = lhs_t.shape
    _, columns = rhs.shape
    out = nl.ndarray((rows, columns), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    tile_m, tile_k, tile_n = 128, nl.tile_size.pmax, nl.tile_size.gemm_moving_fmax
    wide_m, wide_n, wide_k = tile_m * in_m, tile_n * in_n, tile_k * in_k
    count_m, count_n, count_k = rows // wide_m, columns // wide_n, depth // wide_k
    for n in nl.affine_range(count_n):
        result = nl.zeros(
            (count_m, in_m, in_n, nl.par_dim(tile_m), tile_n), dtype=lhs_t.dtype, buffer=nl.sbuf
        )
        for k in nl.sequential_range(count_k):
            i_rhs = nl.mgrid[0:tile_k, 0:wide_n]
            right = nl.ndarray((in_k, nl.par_dim(tile_k), wide_n), dtype=rhs.dtype)
            for each in nl.affine_range(in_k):
                right[each, i_rhs.p, i_rhs.x] = nl.load(
                    rhs[(in_k * k + each) * tile_k + i_rhs.p, wide_n * n + i_rhs.x]
                )
            for m in nl.affine_range(count_m):
                i_lhs = nl.mgrid[0:tile_k, 0:wide_m]
                left = nl.ndarray((in_k, nl.par_dim(tile_k), wide_m), dtype=lhs_t.dtype)
                for each in nl.affine_range(in_k):
                    left[each, i_lhs.p, i_lhs.x] = nl.load(
                        lhs_t[(in_k * k + each) * tile_k + i_lhs.p, wide_m * m + i_lhs.x]
                    )
                i_left = nl.mgrid[0:tile_k, 0:tile_m]
                i_right = nl.mgrid[0:tile_k, 0:tile_n]
                i_out = nl.mgrid[0:tile_m, 0:tile_n]
                for bn in nl.affine_range(in_n):
                    for bm in nl.affine_range(in_m):
                        total = nl.zeros((tile_m, tile_n), dtype=nl.float32, buffer=nl.psum)
                        for each in nl.affine_range(in_k):
                            total[...] += nisa.nc_matmul(
                                left[each, i_left.p, bm * tile_m + i_left.x],
                                right[each, i_right.p, bn * tile_n + i_right.x],
                            )
                        result[m, bm, bn, i_out.p, i_out.x] += total[i_out.p, i_out.x]
        for m in nl.affine_range(count_m):
            for bm in nl.affine_range(in_m):
                packed = nl.ndarray((tile_m, wide_n), dtype=out.dtype, buffer=nl.sbuf)
                i_out = nl.mgrid[0:tile_m, 0:tile_n]
                for bn in nl.affine_range(in_n):
                    packed[i_out.p, bn * tile_n + i_out.x] = nl.copy(
                        result[m, bm, bn, i_out.p, i_out.x]
                    )
                i_wide = nl.mgrid[0:tile_m, 0:wide_n]
                nl.store(
                    out[(in_m * m + bm) * tile_m + i_wide.p, wide_n * n + i_wide.x],
                    value=packed[i_wide.p, i_wide.x],
                )
    return out


@nki.jit
def folded(lhs_t: nki.tensor, rhs: nki.tensor) -> Any:
    depth, rows = lhs_t.shape
    _, columns = rhs.shape
    out = nl.ndarray((rows, columns), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(rows // 128):
        for n in nl.affine_range(columns // 512):
            total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
            for outer in nl.affine_range(depth // 256):
                part = nl.zeros((128, 512), dtype=nl.float32, buffer=nl.psum)
                for inner in nl.affine_range(2):
                    first = outer * 256 + inner * 128
                    left = nl.load(lhs_t[first : first + 128, m * 128 : (m + 1) * 128])
                    right = nl.load(rhs[first : first + 128, n * 512 : (n + 1) * 512])
                    part[...] += nl.matmul(left, right, transpose_x=True)
                total[...] = nl.loop_reduce(part, op=np.add, loop_indices=[outer], dtype=nl.float32)
            nl.store(out[m * 128 : (m + 1) * 128, n * 512 : (n + 1) * 512], value=total)
    return out


def _operands(depth: int, rows: int, columns: int, dtype: Any) -> tuple[Any, Any, Any]:
    random = np.random.default_rng(7)
    left = (random.standard_normal((depth, rows)) / 8).astype(dtype)
    right = (random.standard_normal((depth, columns)) / 8).astype(dtype)
    return left, right, left.astype(np.float64).T @ right.astype(np.float64)


def _check(got: Any, wanted: Any, dtype: Any) -> None:
    tolerance = {2: 2e-2, 4: 2e-5}[np.dtype(dtype).itemsize]
    assert got.dtype == dtype
    np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", TYPES)
def test_product_of_one_tile_equals_numpy(dtype: Any) -> None:
    left, right, wanted = _operands(128, 64, 512, dtype)
    _check(one_tile(left, right), wanted, dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kernel", [tiled, hoisted, blocked_free, blocked, folded])
def test_each_step_equals_numpy(kernel: Any, dtype: Any) -> None:
    left, right, wanted = _operands(512, 256, 1024, dtype)
    _check(kernel(left, right), wanted, dtype)


@pytest.mark.parametrize("kernel", [tiled, hoisted, blocked_free, blocked, folded])
def test_each_step_takes_torch(kernel: Any) -> None:
    torch = pytest.importorskip("torch")
    left, right, wanted = _operands(256, 256, 512, np.float32)
    got = kernel(torch.from_numpy(left).bfloat16(), torch.from_numpy(right).bfloat16())
    assert got.dtype == torch.bfloat16
    np.testing.assert_allclose(got.double().numpy(), wanted, rtol=3e-2, atol=6e-2)


def test_simulate_kernel_of_jit_equals_its_call() -> None:
    left, right, _ = _operands(256, 256, 512, np.float32)
    assert np.array_equal(nki.simulate_kernel(blocked, left, right), blocked(left, right))
