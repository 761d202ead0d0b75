"""Whole kernels of the legacy dialect against NumPy."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import trn3.nki
import trn3.nki.dialects.legacy as nki
import trn3.nki.dialects.legacy.compiler as ncc
import trn3.nki.dialects.legacy.isa as nisa
import trn3.nki.dialects.legacy.language as nl

TYPES = [np.float32, ml_dtypes.bfloat16]


def _close(got: Any, wanted: Any, dtype: Any = np.float32) -> None:
    tolerance = 2e-2 if np.dtype(dtype) == ml_dtypes.bfloat16 else 1e-5
    np.testing.assert_allclose(
        np.asarray(got, np.float64), np.asarray(wanted, np.float64), rtol=tolerance, atol=tolerance
    )


def _random(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@nki.jit
def add_kernel(a: Any, b: Any) -> Any:
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    rows, columns = nl.arange(128)[:, None], nl.arange(512)[None, :]
    for i in nl.affine_range(math.ceil(a.shape[0] / 128)):
        for j in nl.affine_range(math.ceil(a.shape[1] / 512)):
            row, column = i * 128 + rows, j * 512 + columns
            inside = (row < a.shape[0]) & (column < a.shape[1])
            x = nl.load(a[row, column], mask=inside)
            y = nl.load(b[row, column], mask=inside)
            total = nl.add(x, y, mask=inside)
            nl.store(out[row, column], value=total, mask=inside)
    return out


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(128, 512), (1, 1), (130, 700), (200, 37)])
def test_add_equals_numpy_at_every_edge(shape: tuple[int, int], dtype: Any) -> None:
    a, b = _random(*shape, dtype=dtype), _random(*shape, dtype=dtype, seed=1)
    wanted = (a.astype(np.float32) + b.astype(np.float32)).astype(dtype)
    assert np.array_equal(add_kernel(a, b), wanted)


@nki.jit
def transpose_kernel(x: Any, rows: int) -> Any:
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    partitions, free = x.shape
    columns = free // rows
    i_p = nl.arange(partitions)[:, None, None]
    i_r = nl.arange(rows)[None, :, None]
    i_c = nl.arange(columns)[None, None, :]
    tile = nl.load(x)
    moved = nl.ndarray((partitions, free), dtype=x.dtype, buffer=nl.sbuf)
    moved[i_p, i_c * rows + i_r] = nl.copy(tile[i_p, i_r * columns + i_c])
    nl.store(out, value=moved)
    return out


@pytest.mark.parametrize("dtype", TYPES)
def test_transpose_of_free_axes_equals_numpy(dtype: Any) -> None:
    x = _random(96, 12, dtype=dtype)
    wanted = x.reshape(96, 3, 4).swapaxes(1, 2).reshape(96, 12)
    assert np.array_equal(transpose_kernel(x, 3), wanted)


@nki.jit
def tiled_matmul(lhs_t: Any, rhs: Any) -> Any:
    depth, rows = lhs_t.shape
    _, columns = rhs.shape
    out = nl.ndarray((rows, columns), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(rows // 128):
        for n in nl.affine_range(columns // 512):
            total = nl.zeros((nl.par_dim(128), 512), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(depth // 128):
                left = nl.ndarray((nl.par_dim(128), 128), dtype=lhs_t.dtype)
                right = nl.ndarray((nl.par_dim(128), 512), dtype=rhs.dtype)
                left[...] = nl.load(lhs_t[k * 128 : (k + 1) * 128, m * 128 : (m + 1) * 128])
                right[...] = nl.load(rhs[k * 128 : (k + 1) * 128, n * 512 : (n + 1) * 512])
                total[...] += nl.matmul(left[...], right[...], transpose_x=True)
            done = nl.copy(total, dtype=out.dtype)
            nl.store(out[m * 128 : (m + 1) * 128, n * 512 : (n + 1) * 512], value=done)
    return out


@nki.jit
def blocked_matmul(lhs_t: Any, rhs: Any) -> Any:
    depth, rows = lhs_t.shape
    _, columns = rhs.shape
    out = nl.ndarray((rows, columns), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    i_k, i_m = nl.mgrid[0:128, 0:128]
    grid = nl.mgrid[0:128, 0:512]
    deep, blocks = depth // 128, rows // 128
    left = nl.ndarray((deep, nl.par_dim(128), rows), dtype=lhs_t.dtype, buffer=nl.sbuf)
    for k in nl.affine_range(deep):
        i_rows = nl.arange(rows)[None, :]
        left[k, i_k, i_rows] = nl.load(lhs_t[k * 128 + i_k, i_rows])
    result = nl.zeros((blocks, nl.par_dim(128), columns), dtype=nl.float32, buffer=nl.sbuf)
    for n in nl.affine_range(columns // 512):
        right = nl.ndarray((deep, nl.par_dim(128), 512), dtype=rhs.dtype, buffer=nl.sbuf)
        for k in nl.affine_range(deep):
            right[k, grid.p, grid.x] = nl.load(rhs[k * 128 + grid.p, n * 512 + grid.x])
        for m in nl.affine_range(blocks):
            psum = nl.zeros((nl.par_dim(128), 512), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(deep):
                psum[...] += nisa.nc_matmul(left[k, i_k, m * 128 + i_m], right[k, grid.p, grid.x])
            result[m, grid.p, n * 512 + grid.x] += psum[grid.p, grid.x]
    for m in nl.affine_range(blocks):
        i_p, i_f = nl.mgrid[0:128, 0:columns]
        nl.store(out[m * 128 + i_p, i_f], value=result[m, i_p, i_f])
    return out


@pytest.mark.parametrize("kernel", [tiled_matmul, blocked_matmul])
@pytest.mark.parametrize("dtype", TYPES)
def test_matmul_equals_numpy(kernel: Any, dtype: Any) -> None:
    a, b = _random(256, 256, dtype=dtype) / 16, _random(256, 1024, dtype=dtype, seed=1)
    a = a.astype(dtype)
    _close(kernel(a, b), a.astype(np.float32).T @ b.astype(np.float32), dtype)


@nki.jit
def softmax_kernel(x: Any) -> Any:
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i_p, i_f = nl.arange(128)[:, None], nl.arange(512)[None, :]
    for i in nl.affine_range((x.shape[0] + 127) // 128):
        mask = (i * 128 + i_p < x.shape[0]) & (i_f < x.shape[1])
        rows = i * 128 + i_p < x.shape[0]
        tile = nl.load(x[i * 128 + i_p, i_f], mask=mask)
        top = nl.max(tile, axis=[1], mask=mask, keepdims=True)
        shifted = nl.subtract(tile, top, mask=mask)
        power = nl.exp(shifted, mask=mask, dtype=nl.float32)
        total = nl.sum(power, axis=[1], mask=mask, keepdims=True)
        inverse = nl.reciprocal(total, mask=rows)
        nl.store(out[i * 128 + i_p, i_f], value=nl.multiply(power, inverse, mask=mask), mask=mask)
    return out


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(128, 512), (150, 333), (5, 1)])
def test_softmax_with_edges_equals_numpy(shape: tuple[int, int], dtype: Any) -> None:
    x = _random(*shape, dtype=dtype)
    power = np.exp(x.astype(np.float64) - x.astype(np.float64).max(1, keepdims=True))
    _close(softmax_kernel(x), power / power.sum(1, keepdims=True), dtype)


@nki.jit
def rms_kernel(x: Any, weight: Any) -> Any:
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(128)[:, None]
    i_w = nl.arange(1)[:, None]
    i_f = nl.arange(x.shape[1])[None, :]
    weights = nl.load(weight.reshape((1, weight.shape[0]))[i_w, i_f])
    for i in nl.affine_range(math.ceil(x.shape[0] / 128)):
        inside = i * 128 + i_p < x.shape[0]
        tile = nl.load(x[i * 128 + i_p, i_f], mask=inside)
        squares = nl.square(tile)
        sums = nl.sum(squares, axis=[1])
        mean = sums / x.shape[1]
        root = nl.rsqrt(mean)
        scaled = nl.multiply(tile, root)
        spread = weights.broadcast_to((128, weight.shape[0]))
        result = nl.multiply(scaled, spread, mask=inside)
        nl.store(out[i * 128 + i_p, i_f], value=result, mask=inside)
    return out


def test_rms_norm_equals_numpy() -> None:
    x, weight = _random(250, 96), _random(96, seed=2)
    wanted = x / np.sqrt((x**2).mean(1, keepdims=True)) * weight
    _close(rms_kernel(x, weight), wanted)


@nki.jit
def layer_norm_kernel(x: Any, scale: Any, shift: Any) -> Any:
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows, columns = x.shape
    tile = nl.load(x)
    gain = nl.load(scale.reshape((1, columns))).broadcast_to((rows, columns))
    offset = nl.load(shift.reshape((1, columns))).broadcast_to((rows, columns))
    statistics = nisa.bn_aggr(nisa.bn_stats(tile, dtype=nl.float32))
    mean, variance = statistics[:, 0:1], statistics[:, 1:2]
    inverse = nl.rsqrt(variance + 1e-5)
    normal = nisa.tensor_scalar(
        tile, op0=np.subtract, operand0=mean, op1=np.multiply, operand1=inverse
    )
    nl.store(out, value=normal * gain + offset)
    return out


def test_layer_norm_equals_numpy() -> None:
    x, scale, shift = _random(64, 128), _random(128, seed=1), _random(128, seed=2)
    normal = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    _close(layer_norm_kernel(x, scale, shift), normal * scale + shift)


@nki.jit
def pool_kernel(x: Any, size: int) -> Any:
    channels, height, width = x.shape
    out = nl.ndarray((channels, height // size, width // size), x.dtype, buffer=nl.shared_hbm)
    i_0, i_1, i_2, i_3, i_4 = nl.mgrid[
        0:channels, 0 : height // size, 0 : width // size, 0:size, 0:size
    ]
    tile = nl.load(x)
    total = nl.sum(tile[i_0, size * i_1 + i_3, size * i_2 + i_4], axis=[3, 4])
    nl.store(out, value=total / (size * size))
    return out


@pytest.mark.parametrize("size", [1, 2, 3])
def test_average_pool_equals_numpy(size: int) -> None:
    x = _random(30, 6, 12)
    wanted = x.reshape(30, 6 // size, size, 12 // size, size).mean((2, 4))
    _close(pool_kernel(x, size), wanted)


@nki.jit
def attention_kernel(q: Any, k: Any, v: Any, causal: bool) -> Any:
    """q, k: (depth, length); v: (length, depth)."""
    depth, length = q.shape
    out = nl.ndarray((length, depth), dtype=q.dtype, buffer=nl.shared_hbm)
    blocks = length // 128
    keys = nl.load(k)
    values = nl.ndarray((blocks, nl.par_dim(128), depth), dtype=v.dtype)
    for j in nl.affine_range(blocks):
        values[j] = nl.load(v[nl.ds(j * 128, 128), :])
    i_q, i_k = nl.mgrid[0:128, 0:128]
    for i in nl.affine_range(blocks):
        query = nl.load(q[:, nl.ds(i * 128, 128)])
        scores = nl.ndarray((nl.par_dim(128), length), dtype=nl.float32)
        for j in nl.affine_range(blocks):
            needed = j <= i if causal else True
            product = nl.ndarray((nl.par_dim(128), 128), dtype=nl.float32, buffer=nl.psum)
            product[...] = nisa.nc_matmul(query, keys[:, nl.ds(j * 128, 128)], mask=needed)
            if causal:
                scores[:, nl.ds(j * 128, 128)] = nl.full((128, 128), -9984.0, dtype=nl.float32)
                scores[:, nl.ds(j * 128, 128)] = nisa.affine_select(
                    pred=(i * 128 + i_q >= j * 128 + i_k),
                    on_true_tile=nl.copy(product, mask=needed),
                    on_false_value=-9984.0,
                    mask=needed,
                )
            else:
                scores[:, nl.ds(j * 128, 128)] = nl.copy(product)
        top = nisa.tensor_reduce(np.max, scores, axis=(1,), negate=True)
        total = nl.ndarray((nl.par_dim(128), 1), dtype=nl.float32)
        power = nisa.activation_reduce(
            np.exp, scores, bias=top, scale=1.0, reduce_op=nl.add, reduce_res=total, dtype=q.dtype
        )
        mixed = nl.zeros((nl.par_dim(128), depth), dtype=nl.float32, buffer=nl.psum)
        for j in nl.affine_range(blocks):
            turned = nisa.nc_transpose(power[:, nl.ds(j * 128, 128)])
            mixed[...] += nl.matmul(nl.copy(turned), values[j], transpose_x=True)
        result = nl.multiply(mixed, nl.reciprocal(total), dtype=q.dtype)
        nl.store(out[nl.ds(i * 128, 128), :], result)
    return out


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
def test_attention_equals_numpy(dtype: Any, causal: bool) -> None:
    q, k, v = (
        _random(*s, seed=i).astype(dtype) for i, s in enumerate([(64, 256), (64, 256), (256, 64)])
    )
    q = (q.astype(np.float32) / 8).astype(dtype)
    scores = q.astype(np.float64).T @ k.astype(np.float64)
    if causal:
        scores = np.where(np.tri(256, dtype=bool), scores, -np.inf)
    power = np.exp(scores - scores.max(1, keepdims=True))
    wanted = power / power.sum(1, keepdims=True) @ v.astype(np.float64)
    _close(attention_kernel(q, k, v, causal), wanted, dtype)


@nki.jit
def block_mean_kernel(x: Any) -> Any:
    blocks, rows, columns = x.shape
    out = nl.ndarray((rows, columns), x.dtype, buffer=nl.shared_hbm)
    tiles = nl.ndarray((blocks, nl.par_dim(rows), columns), x.dtype, buffer=nl.sbuf)
    total = nl.ndarray((nl.par_dim(rows), columns), x.dtype, buffer=nl.sbuf)
    for i in nl.affine_range(blocks):
        tiles[i] = nl.load(x[i])
        total[...] = nl.loop_reduce(tiles[i], op=np.add, loop_indices=[i], dtype=x.dtype)
    nl.store(out, total * (1.0 / blocks))
    return out


def test_mean_over_blocks_equals_numpy() -> None:
    x = _random(5, 64, 33)
    _close(block_mean_kernel(x), x.mean(0))


@nki.jit
def grid_kernel(a: Any, b: Any) -> Any:
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    row = nl.program_id(0) * 128 + nl.arange(128)[:, None]
    column = nl.program_id(1) * 64 + nl.arange(64)[None, :]
    nl.store(out[row, column], value=nl.load(a[row, column]) + nl.load(b[row, column]))
    return out


@pytest.mark.parametrize("grid", [(4, 2), (nl.nc(2) * 2, 2), (nl.spmd_dim(2, nl.nc(2)), 2)])
def test_launch_grids_equal_numpy(grid: Any) -> None:
    a, b = _random(512, 128), _random(512, 128, seed=1)
    assert np.array_equal(grid_kernel[grid](a, b), a + b)


@nki.jit
def allocated_kernel(x: Any) -> Any:
    blocks, rows, columns = x.shape
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tiles = nl.ndarray(
        (blocks, nl.par_dim(rows), columns),
        x.dtype,
        buffer=ncc.sbuf.mod_alloc(base_addr=256, num_free_tiles=(2,)),
    )
    own = nl.ndarray(
        (blocks, nl.par_dim(rows), columns),
        nl.float32,
        buffer=ncc.psum.alloc(lambda block, partitions, size: (block[0] % 4, 0, 0)),
    )
    for i in nl.affine_range(blocks):
        tiles[i] = nl.load(x[i])
        own[i] = nl.copy(tiles[i])
        nl.store(out[i], nl.copy(own[i], dtype=x.dtype))
    return out


def test_allocators_place_blocks() -> None:
    x = _random(6, 128, 40)
    assert np.array_equal(allocated_kernel(x), x)


def test_benchmark_serves_the_simulated_latency() -> None:
    timed = nki.benchmark(warmup=5, iters=10)(grid_kernel.__wrapped__)
    a = _random(128, 64)
    assert np.array_equal(timed[1, 1](a, a), a + a)
    assert timed.benchmark_result is not None
    latency = timed.benchmark_result.nc_latency.get_latency_percentile(99)
    _, profile = trn3.nki.profile(grid_kernel[1, 1], a, a)
    assert latency == profile.latency_us + profile.overhead_us > profile.overhead_us > 0


def test_simulate_kernel_takes_kernels_and_functions() -> None:
    a = _random(128, 64)
    assert np.array_equal(nki.simulate_kernel(grid_kernel[1, 1], a, a), a + a)
    assert np.array_equal(nki.simulate_kernel(add_kernel.__wrapped__, a, a), a + a)
    assert np.array_equal(nki.baremetal(add_kernel)(a, a), a + a)


def test_assignment_of_an_instruction_is_one_instruction() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, x.dtype)
        tile[...] = nl.load(x)
        tile[...] = nl.exp(tile)
        tile[...] += 1.0
        nl.store(out, tile)
        return out

    x = _random(4, 4)
    result, profile = trn3.nki.profile(kernel, x, compile="as-written")
    _close(result, np.exp(x) + 1)
    assert len(profile.data.instructions) == 4


def test_assignment_to_a_block_made_by_it_is_one_instruction() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        i = nl.mgrid[0:4, 0:2]
        tiles = nl.ndarray((2, nl.par_dim(4), 2), x.dtype, buffer=nl.sbuf)
        for k in nl.affine_range(2):
            tiles[k, i.p, i.x] = nl.load(x[i.p, k * 2 + i.x])
            nl.store(out[i.p, k * 2 + i.x], tiles[k, i.p, i.x])
        return out

    x = _random(4, 4)
    result, profile = trn3.nki.profile(kernel, x, compile="as-written")
    assert np.array_equal(result, x)
    assert len(profile.data.instructions) == 4


def test_update_of_a_result_is_one_instruction() -> None:
    @nki.jit
    def kernel(x: Any, y: Any) -> Any:
        tile = nl.load(x)
        tile += nl.load(y)
        tile[0:2] = nl.exp(tile[0:2])
        nl.store(x, tile)
        return x

    x, y = _random(4, 4), _random(4, 4, seed=1)
    wanted = x + y
    wanted[0:2] = np.exp(wanted[0:2])
    result, profile = trn3.nki.profile(kernel, x, y, compile="as-written")
    _close(result, wanted)
    assert len(profile.data.instructions) == 5
