"""Whole kernels of the legacy dialect that move and combine tensors, as samples spell them."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import trn3.nki.dialects.legacy as nki
import trn3.nki.dialects.legacy.isa as nisa
import trn3.nki.dialects.legacy.language as nl
import trn3.nki.dialects.legacy.typing as nt

TYPES = [np.float32, np.float16, ml_dtypes.bfloat16]


def _random(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@nki.jit
def add_tiles(a_input: nt.tensor, b_input: nt.tensor) -> Any:
    c_output = nl.ndarray(a_input.shape, dtype=a_input.dtype, buffer=nl.shared_hbm)
    offset_x = nl.program_id(0) * 128
    offset_y = nl.program_id(1) * 512
    ix = offset_x + nl.arange(128)[:, None]
    iy = offset_y + nl.arange(512)[None, :]
    a_tile = nl.load(a_input[ix, iy])
    b_tile = nl.load(b_input[ix, iy])
    c_tile = a_tile + b_tile
    nl.store(c_output[ix, iy], value=c_tile)
    return c_output


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    "grid",
    [
        (4, 2), (nl.nc(2) * 2, 2), (nl.spmd_dim(2, nl.nc(2)), 2), (nl.spmd_dim(nl.nc(2), 2), 2),
        (2 * nl.nc(2), 2), (4, nl.nc(2)),
    ],
)  # fmt: skip
def test_addition_on_grids_equals_numpy(grid: Any, dtype: Any) -> None:
    a, b = _random(512, 1024, dtype=dtype), _random(512, 1024, dtype=dtype, seed=1)
    wanted = (a.astype(np.float32) + b.astype(np.float32)).astype(dtype)
    assert np.array_equal(add_tiles[grid](a, b), wanted)


@pytest.mark.parametrize("grid", [(4, 2), (nl.nc(2) * 2, 2)])
def test_addition_on_grids_takes_torch(grid: Any) -> None:
    torch = pytest.importorskip("torch")
    a = torch.from_numpy(_random(512, 1024)).bfloat16()
    b = torch.from_numpy(_random(512, 1024, seed=1)).bfloat16()
    got = add_tiles[grid](a, b)
    assert torch.equal(got, a + b)


@nki.jit(mode="simulation")
def add_where_inside(a: Any, b: Any) -> Any:
    c = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    rows, columns = a.shape
    i = nl.program_id(axis=0)
    j = nl.program_id(axis=1)
    i_p, i_f = nl.mgrid[0:128, 0:512]
    row, column = i * 128 + i_p, j * 512 + i_f
    mask = (row < rows) & (column < columns)
    c_tile = nl.load(a[row, column], mask=mask) + nl.load(b[row, column], mask=mask)
    nl.store(c[row, column], value=c_tile, mask=mask)
    return c


@pytest.mark.parametrize("shape", [(128, 512), (129, 513), (1, 1), (300, 1000), (37, 600)])
@pytest.mark.parametrize("lnc", [1, 2])
def test_addition_with_edges_equals_numpy(shape: tuple[int, int], lnc: int) -> None:
    a, b = _random(*shape), _random(*shape, seed=1)
    over = math.ceil(shape[0] / 128), math.ceil(shape[1] / 512)
    grid = over if lnc == 1 else (nl.nc(2) * math.ceil(over[0] / 2), over[1])
    assert np.array_equal(add_where_inside[grid](a, b), a + b)


@nki.jit
def pool(in_tensor: Any, size: int, kind: str = "average") -> Any:
    channels, height, width = in_tensor.shape
    out_h, out_w = height // size, width // size
    out = nl.ndarray((channels, out_h, out_w), dtype=in_tensor.dtype, buffer=nl.shared_hbm)
    i0, i1, i2, i3, i4 = nl.mgrid[0:channels, 0:out_h, 0:out_w, 0:size, 0:size]
    in_tile = nl.load(in_tensor)
    windows = in_tile[i0, size * i1 + i3, size * i2 + i4]
    if kind == "average":
        out_tile = nl.sum(windows, axis=[3, 4]) / (size * size)
    else:
        out_tile = nl.max(windows, axis=[3, 4])
    nl.store(out, value=out_tile)
    return out


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", ["average", "max"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_pool_equals_numpy(size: int, kind: str, dtype: Any) -> None:
    x = _random(32, 6, 12, dtype=dtype)
    windows = x.astype(np.float32).reshape(32, 6 // size, size, 12 // size, size)
    wanted = windows.mean((2, 4)) if kind == "average" else windows.max((2, 4))
    got = pool(x, size, kind)
    np.testing.assert_allclose(got.astype(np.float32), wanted, rtol=2e-2, atol=2e-2)


@nki.jit
def max_pool_strided(in_tensor: Any, kernel: int, stride: int) -> Any:
    height, width = in_tensor.shape
    out_h, out_w = (height - kernel) // stride + 1, (width - kernel) // stride + 1
    out = nl.ndarray((out_h, out_w), dtype=in_tensor.dtype, buffer=nl.shared_hbm)
    i_0 = nl.arange(out_h)[:, None, None, None]
    i_1 = nl.arange(kernel)[None, :, None, None]
    i_2 = nl.arange(out_w)[None, None, :, None]
    i_3 = nl.arange(kernel)[None, None, None, :]
    windows = nl.load(in_tensor[i_0 * stride + i_1, i_2 * stride + i_3])
    rows = nl.ndarray((out_h, out_w, kernel, kernel), dtype=in_tensor.dtype)
    i_r, i_a, i_w, i_b = nl.mgrid[0:out_h, 0:kernel, 0:out_w, 0:kernel]
    rows[i_r, i_w, i_a, i_b] = windows[i_r, i_a, i_w, i_b]
    nl.store(out, value=nl.max(rows, axis=[2, 3]))
    return out


@pytest.mark.parametrize(("kernel", "stride"), [(3, 2), (3, 1), (2, 2)])
def test_overlapping_windows_equal_numpy(kernel: int, stride: int) -> None:
    x = _random(65, 33)
    wanted = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel))[::stride, ::stride]
    assert np.array_equal(max_pool_strided(x, kernel, stride), wanted.max((2, 3)))


@nki.jit
def transpose2d(in_tensor: Any, shape2d: tuple[int, int]) -> Any:
    out_tensor = nl.ndarray(in_tensor.shape, dtype=in_tensor.dtype, buffer=nl.shared_hbm)
    size_p = in_tensor.shape[0]
    f1, f2 = shape2d
    i_p = nl.arange(size_p)[:, None, None]
    i_f1 = nl.arange(f1)[None, :, None]
    i_f2 = nl.arange(f2)[None, None, :]
    in_tile = nl.load(in_tensor)
    out_tile = nl.ndarray(in_tensor.shape, dtype=out_tensor.dtype, buffer=nl.sbuf)
    out_tile[i_p, i_f2 * f1 + i_f1] = nl.copy(in_tile[i_p, i_f1 * f2 + i_f2])
    nl.store(out_tensor, value=out_tile)
    return out_tensor


@pytest.mark.parametrize("dtype", [*TYPES, np.int8, np.int32])
@pytest.mark.parametrize("shape", [(1, 7), (5, 4), (20, 3)])
def test_transpose_within_partitions_equals_numpy(shape: tuple[int, int], dtype: Any) -> None:
    x = (_random(70, shape[0] * shape[1]) * 50).astype(dtype)
    wanted = x.reshape(70, *shape).swapaxes(1, 2).reshape(x.shape)
    assert np.array_equal(transpose2d(x, shape), wanted)


@nki.jit
def embedding(table: Any, ids: Any) -> Any:
    count = ids.shape[0]
    width = table.shape[1]
    out = nl.ndarray((count, width), dtype=table.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(math.ceil(count / 128)):
        i_p = nl.arange(128)[:, None]
        i_f = nl.arange(width)[None, :]
        mask = i * 128 + i_p < count
        idx = nl.load(ids[i * 128 + i_p, 0], mask=mask)
        rows = nl.load(table[idx[i_p, 0], i_f], mask=mask)
        nl.store(out[i * 128 + i_p, i_f], value=rows, mask=mask)
    return out


@pytest.mark.parametrize("count", [1, 100, 128, 200])
@pytest.mark.parametrize("dtype", TYPES)
def test_embedding_equals_numpy(count: int, dtype: Any) -> None:
    table = _random(1000, 64, dtype=dtype)
    ids = np.random.default_rng(3).integers(0, 1000, (count, 1), dtype=np.int32)
    assert np.array_equal(embedding(table, ids), table[ids[:, 0]])


@nki.jit
def scatter_rows(values: Any, ids: Any, rows: int) -> Any:
    count, width = values.shape
    out = nl.zeros((rows, width), dtype=values.dtype, buffer=nl.shared_hbm)
    i_p, i_f = nl.mgrid[0:count, 0:width]
    idx = nl.load(ids)
    tile = nl.load(values)
    nl.store(out[idx[i_p, 0], i_f], value=tile[i_p, i_f])
    return out


def test_scattered_rows_equal_numpy() -> None:
    values = _random(60, 32)
    ids = np.random.default_rng(5).permutation(200)[:60].astype(np.int32)[:, None]
    wanted = np.zeros((200, 32), np.float32)
    wanted[ids[:, 0]] = values
    assert np.array_equal(scatter_rows(values, ids, 200), wanted)


@nki.jit
def dynamic_expert(weights: Any, expert: Any) -> Any:
    _, rows, columns = weights.shape
    out = nl.ndarray((rows, columns), dtype=weights.dtype, buffer=nl.shared_hbm)
    which = nl.load(expert)
    i_p, i_f = nl.mgrid[0:rows, 0:columns]
    tile = nl.load(weights[which[0, 0], i_p, i_f])
    nl.store(out[i_p, i_f], value=tile)
    return out


@pytest.mark.parametrize("expert", [0, 3])
def test_dynamic_select_equals_numpy(expert: int) -> None:
    weights = _random(4, 50, 40)
    got = dynamic_expert(weights, np.array([[expert]], np.int32))
    assert np.array_equal(got, weights[expert])


@nki.jit
def bilinear(src: Any, chunk: int = 8) -> Any:
    """Upsample (C, H, W) twice, borders as they are: rows, then columns."""
    channels, height, width = src.shape
    out = nl.ndarray((channels, 2 * height, 2 * width), dtype=src.dtype, buffer=nl.shared_hbm)
    i_c = nl.arange(channels)[:, None, None]
    i_h = nl.arange(height)[None, :, None]
    i_w = nl.arange(width)[None, None, :]
    tile = nl.load(src)
    rows = nl.ndarray((channels, 2 * height, width), dtype=src.dtype)
    near, far = 0.75, 0.25
    i_in = nl.arange(height - 1)[None, :, None]
    low, high = tile[i_c, i_in, i_w], tile[i_c, i_in + 1, i_w]
    rows[i_c, 2 * i_in + 1, i_w] = nl.add(low * near, high * far)
    rows[i_c, 2 * i_in + 2, i_w] = nl.add(low * far, high * near)
    rows[:, 0, :] = tile[:, 0, :]
    rows[:, 2 * height - 1, :] = tile[:, height - 1, :]
    done = nl.ndarray((channels, 2 * height, 2 * width), dtype=src.dtype)
    i_r = nl.arange(2 * height)[None, :, None]
    i_in = nl.arange(width - 1)[None, None, :]
    left, right = rows[i_c, i_r, i_in], rows[i_c, i_r, i_in + 1]
    done[i_c, i_r, 2 * i_in + 1] = left * near + right * far
    done[i_c, i_r, 2 * i_in + 2] = left * far + right * near
    i_0 = nl.arange(1)[None, None, :]
    done[i_c, i_r, i_0] = nl.copy(rows[i_c, i_r, i_0])
    done[i_c, i_r, 2 * width - 1 + i_0] = nl.copy(rows[i_c, i_r, width - 1 + i_0])
    del i_h, chunk
    nl.store(out, done)
    return out


def _upsampled(x: Any, axis: int) -> Any:
    x = np.moveaxis(x, axis, 0)
    out = np.empty((2 * len(x), *x.shape[1:]), x.dtype)
    out[0], out[-1] = x[0], x[-1]
    out[1:-1:2] = 0.75 * x[:-1] + 0.25 * x[1:]
    out[2:-1:2] = 0.25 * x[:-1] + 0.75 * x[1:]
    return np.moveaxis(out, 0, axis)


def test_bilinear_equals_numpy() -> None:
    x = _random(40, 5, 7)
    wanted = _upsampled(_upsampled(x, 1), 2)
    np.testing.assert_allclose(bilinear(x), wanted, rtol=1e-5, atol=1e-5)


@nki.jit
def trilinear(src: Any) -> Any:
    """Upsample (C, D, H, W) twice along depth; each depth is a tile of its own."""
    channels, depth, height, width = src.shape
    out = nl.ndarray((channels, 2 * depth, height, width), dtype=src.dtype, buffer=nl.shared_hbm)
    i_c, i_h, i_w = nl.mgrid[0:channels, 0:height, 0:width]
    for d in nl.affine_range(depth):
        here = nl.load(src[i_c, d, i_h, i_w])
        i_d = nl.arange(1)[None, :, None, None]
        j_c = nl.arange(channels)[:, None, None, None]
        j_h = nl.arange(height)[None, None, :, None]
        j_w = nl.arange(width)[None, None, None, :]
        before = nl.load(src[j_c, d - 1 + i_d, j_h, j_w], mask=(d - 1 + i_d >= 0))
        after = nl.load(src[j_c, d + 1 + i_d, j_h, j_w], mask=(d + 1 + i_d < depth))
        if d == 0:
            nl.store(out[i_c, 0, i_h, i_w], value=here)
        else:
            blend = nl.multiply(before[:, 0], 0.25) + nl.multiply(here, 0.75)
            nl.store(out[i_c, 2 * d, i_h, i_w], value=blend)
        if d == depth - 1:
            nl.store(out[i_c, 2 * d + 1, i_h, i_w], value=here)
        else:
            blend = here * 0.75 + after[:, 0] * 0.25
            nl.store(out[i_c, 2 * d + 1, i_h, i_w], value=blend)
    return out


def test_trilinear_equals_numpy() -> None:
    x = _random(30, 4, 3, 5)
    np.testing.assert_allclose(trilinear(x), _upsampled(x, 1), rtol=1e-5, atol=1e-5)


@nki.jit
def prefix_sum(x: Any, chunk: int = 64) -> Any:
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(math.ceil(rows / 128)):
        i_p, i_f = nl.mgrid[0:128, 0:chunk]
        ones = nl.ones((nl.par_dim(128), chunk), dtype=nl.float32)
        carry = nl.zeros((nl.par_dim(128), 1), dtype=nl.float32)
        for j in nl.sequential_range(math.ceil(columns / chunk)):
            mask = (i * 128 + i_p < rows) & (j * chunk + i_f < columns)
            tile = nl.load(x[i * 128 + i_p, j * chunk + i_f], mask=mask)
            scanned = nisa.tensor_tensor_scan(
                ones, tile, initial=carry, op0=np.multiply, op1=np.add, dtype=nl.float32, mask=mask
            )
            nl.store(out[i * 128 + i_p, j * chunk + i_f], value=scanned, mask=mask)
            carry[...] = nl.copy(scanned[i_p[:, 0:1], chunk - 1])
    return out


@pytest.mark.parametrize("shape", [(128, 128), (130, 100), (5, 64)])
def test_prefix_sums_equal_numpy(shape: tuple[int, int]) -> None:
    x = _random(*shape)
    np.testing.assert_allclose(prefix_sum(x), np.cumsum(x, axis=1), rtol=1e-4, atol=1e-4)
