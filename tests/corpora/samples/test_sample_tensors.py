"""Sample kernels that add, index, transpose and pool tensors, at odd sizes and of every type."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from support.samples import FLOATS, every_way, near, normal, wide
from trn3 import nki

P = nl.tile_size.pmax
INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32]
FLOATS8 = [ml_dtypes.float8_e4m3, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]


@nki.jit
def add_tile(a_input: Any, b_input: Any) -> Any:
    """One tile, by functions of the language."""
    a_tile = nl.load(a_input)
    b_tile = nl.load(b_input)
    c_tile = nl.add(a_tile, b_tile, dtype=a_input.dtype)
    c_output = nl.ndarray(a_input.shape, dtype=a_input.dtype, buffer=nl.shared_hbm)
    nl.store(c_output, value=c_tile)
    return c_output


@nki.jit
def add_tile_by_instructions(a_input: Any, b_input: Any) -> Any:
    """Do the same without nl.load and nl.store."""
    assert a_input.shape == b_input.shape
    assert a_input.dtype == b_input.dtype
    a_tile = nl.ndarray(shape=a_input.shape, dtype=a_input.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=a_tile, src=a_input)
    b_tile = nl.ndarray(shape=b_input.shape, dtype=b_input.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=b_tile, src=b_input)
    c_tile = nl.ndarray(shape=a_input.shape, dtype=a_input.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=c_tile, data1=a_tile, data2=b_tile, op=nl.add)
    c_output = nl.ndarray(dtype=a_input.dtype, shape=a_input.shape, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=c_output, src=c_tile)
    return c_output


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, *FLOATS8], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("shape", [(128, 513), (1, 1), (77, 3)])
@pytest.mark.parametrize("kernel", [add_tile, add_tile_by_instructions])
def test_add_tile_equals_numpy(kernel: Any, shape: tuple[int, int], dtype: Any) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(0, 4, shape).astype(dtype) for _ in range(2))
    got = kernel(a, b)
    assert got.dtype == a.dtype
    assert (wide(got) == wide(a) + wide(b)).all()


@nki.jit
def add_grid(a_input: Any, b_input: Any) -> Any:
    """Add one tile in each instance of a launch grid."""
    c_output = nl.ndarray(a_input.shape, dtype=a_input.dtype, buffer=nl.shared_hbm)
    offset_i_x = nl.program_id(0) * 128
    offset_i_y = nl.program_id(1) * 256
    here = (nl.ds(offset_i_x, 128), nl.ds(offset_i_y, 256))
    a_tile = nl.load(a_input[here])
    b_tile = nl.load(b_input[offset_i_x : offset_i_x + 128, offset_i_y : offset_i_y + 256])
    nl.store(c_output[here], value=nl.add(a_tile, b_tile))
    return c_output


@nki.jit
def add_split(a_input: Any, b_input: Any) -> Any:
    """Any size, rows split over the cores of the launch; tiles at the edges are smaller."""
    rows, columns = a_input.shape
    c_output = nl.ndarray(a_input.shape, dtype=a_input.dtype, buffer=nl.shared_hbm)
    programs = nl.num_programs(axes=0) if nl.program_ndim() != 0 else 1
    own = math.ceil(rows / programs)
    first = nl.program_id(axis=0) * own
    last = min(rows, first + own)
    for start in nl.affine_range(first, last, P):
        height = min(P, last - start)
        for left in nl.sequential_range(0, columns, 512):
            width = min(512, columns - left)
            a_tile = nl.ndarray((P, 512), dtype=a_input.dtype, buffer=nl.sbuf)
            b_tile = nl.ndarray((P, 512), dtype=b_input.dtype, buffer=nl.sbuf)
            block = (slice(start, start + height), nl.ds(left, width))
            nisa.dma_copy(dst=a_tile[:height, :width], src=a_input[block])
            nisa.dma_copy(dst=b_tile[:height, :width], src=b_input[block])
            total = a_tile[:height, :width]
            nisa.tensor_tensor(total, total, b_tile[:height, :width], nl.add)
            nisa.dma_copy(dst=c_output[block], src=total)
    return c_output


@pytest.mark.parametrize("grid", [(2, 2), (2, 1)])
def test_add_grid_equals_numpy(grid: tuple[int, int]) -> None:
    a, b = (normal(128 * grid[0], 256 * grid[1], seed=seed) for seed in (0, 1))
    near(every_way(add_grid[grid], a, b), a + b)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(256, 1024), (301, 515), (2, 7), (129, 1)])
@pytest.mark.parametrize("lnc", [None, 1, 2])
def test_add_split_equals_numpy(lnc: int | None, shape: tuple[int, int], dtype: Any) -> None:
    a, b = (normal(*shape, dtype=dtype, seed=seed) for seed in (0, 1))
    kernel = add_split if lnc is None else add_split[lnc]
    near(every_way(kernel, a, b), (wide(a) + wide(b)).astype(dtype), dtype)


@nki.jit
def split_even_and_odd(in_tensor: Any) -> Any:
    """Columns with even numbers, and those with odd ones, by slices with steps."""
    rows, columns = in_tensor.shape
    even_out = nl.ndarray((rows, columns // 2), dtype=in_tensor.dtype, buffer=nl.shared_hbm)
    odd_out = nl.ndarray((rows, columns // 2), dtype=in_tensor.dtype, buffer=nl.shared_hbm)
    in_tile = nl.load(in_tensor)
    even = nl.copy(in_tile[:, 0:columns:2])
    odd = nl.ndarray((rows, columns // 2), dtype=in_tensor.dtype)
    nisa.tensor_copy(dst=odd, src=in_tile[:, 1::2])
    nl.store(even_out, even)
    nl.store(odd_out, odd)
    return even_out, odd_out


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("shape", [(128, 256), (3, 2), (65, 98)])
def test_split_even_and_odd_equals_numpy(shape: tuple[int, int], dtype: Any) -> None:
    x = np.random.default_rng(0).integers(0, 100, shape).astype(dtype)
    even, odd = split_even_and_odd(x)
    assert (even == x[:, ::2]).all()
    assert (odd == x[:, 1::2]).all()


@nki.jit
def split_halves_with_offsets(in_tensor: Any) -> Any:
    """Pick the same columns by patterns of three axes, and by a register."""
    rows, columns = in_tensor.shape
    out = nl.ndarray((2, rows, columns // 2), dtype=in_tensor.dtype, buffer=nl.shared_hbm)
    tile = nl.load(in_tensor)
    pairs = tile.ap([[columns, rows], [1, 2], [2, columns // 2]])
    for half in nl.dynamic_range(2):
        # The index is a register: on chip it picks columns while the instruction runs.
        picked = nl.ndarray((rows, columns // 2), dtype=in_tensor.dtype)
        nisa.tensor_copy(
            picked,
            tile.ap([[columns, rows], [2, columns // 2]], scalar_offset=half, indirect_dim=1),
        )
        nl.store(out[half], picked)
    swapped = nl.ndarray((2, rows, columns // 2), dtype=in_tensor.dtype, buffer=nl.shared_hbm)
    nl.store(swapped[0], nl.copy(pairs[:, 1]))
    nl.store(swapped[1], nl.copy(pairs[:, 0]))
    return out, swapped


@pytest.mark.parametrize("lnc", [1, 2])
def test_split_halves_with_offsets_equals_numpy(lnc: int) -> None:
    x = normal(37, 50)
    out, swapped = every_way(split_halves_with_offsets[lnc], x)
    near(out, np.stack([x[:, ::2], x[:, 1::2]]))
    near(swapped, out[::-1])


@nki.jit
def transpose2d(in_tensor: Any, shape2d: tuple[int, int]) -> Any:
    """Each partition holds a matrix of shape2d, row after row; its transpose."""
    _, size = in_tensor.shape
    height, width = shape2d
    assert size == height * width
    out_tensor = nl.ndarray(in_tensor.shape, dtype=in_tensor.dtype, buffer=nl.shared_hbm)
    in_tile = nl.load(in_tensor)
    out_tile = nl.ndarray(in_tensor.shape, dtype=in_tensor.dtype, buffer=nl.sbuf)
    for i in nl.affine_range(height):
        for j in nl.affine_range(width):
            nisa.tensor_copy(
                dst=out_tile[:, nl.ds(j * height + i, 1)],
                src=in_tile[:, nl.ds(i * width + j, 1)],
            )
    nl.store(out_tensor, value=out_tile)
    return out_tensor


@nki.jit
def transpose2d_by_views(in_tensor: Any, shape2d: tuple[int, int]) -> Any:
    """Do the same by one instruction, the order of axes changed in its access pattern."""
    rows, size = in_tensor.shape
    height, width = shape2d
    out_tensor = nl.ndarray(in_tensor.shape, dtype=in_tensor.dtype, buffer=nl.shared_hbm)
    in_tile = nl.load(in_tensor)
    out_tile = nl.ndarray((rows, width, height), dtype=in_tensor.dtype)
    nisa.tensor_copy(out_tile, in_tile.ap([[size, rows], [1, width], [width, height]]))
    nl.store(out_tensor, out_tile.reshape((rows, size)))
    return out_tensor


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int8, np.int32])
@pytest.mark.parametrize(("rows", "shape2d"), [(2, (3, 4)), (128, (5, 7)), (33, (1, 6))])
@pytest.mark.parametrize("kernel", [transpose2d, transpose2d_by_views])
def test_transpose2d_equals_numpy(
    kernel: Any, rows: int, shape2d: tuple[int, int], dtype: Any
) -> None:
    size = shape2d[0] * shape2d[1]
    x = np.arange(rows * size).reshape(rows, size).astype(dtype)
    wanted = x.reshape(rows, *shape2d).transpose(0, 2, 1).reshape(rows, size)
    assert (kernel(x, shape2d=shape2d) == wanted).all()


@nki.jit
def average_pool2d(in_tensor: Any, pool_size: int) -> Any:
    """Means of squares, by one access pattern of five axes over each channel's image."""
    channels, height, width = in_tensor.shape
    down, right = height // pool_size, width // pool_size
    out_tensor = nl.ndarray((channels, down, right), in_tensor.dtype, buffer=nl.shared_hbm)
    in_tile = nl.ndarray(in_tensor.shape, dtype=in_tensor.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=in_tile, src=in_tensor)
    pool_view = in_tile.ap(
        [
            [height * width, channels],
            [pool_size * width, down],
            [pool_size, right],
            [width, pool_size],
            [1, pool_size],
        ]
    )
    sum_tile = nl.sum(pool_view, axis=[3, 4], dtype=nl.float32)
    out_tile = nl.ndarray(sum_tile.shape, dtype=in_tensor.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(out_tile, sum_tile, nl.multiply, 1.0 / (pool_size * pool_size))
    nisa.dma_copy(dst=out_tensor, src=out_tile)
    return out_tensor


@nki.jit
def max_pool2d(in_tensor: Any, pool_size: int, stride: int) -> Any:
    """Largest of overlapping windows."""
    channels, height, width = in_tensor.shape
    down, right = ((length - pool_size) // stride + 1 for length in (height, width))
    out_tensor = nl.ndarray((channels, down, right), in_tensor.dtype, buffer=nl.shared_hbm)
    in_tile = nl.load(in_tensor)
    windows = in_tile.ap(
        [
            [height * width, channels],
            [stride * width, down],
            [stride, right],
            [width, pool_size],
            [1, pool_size],
        ]
    )
    out_tile = nl.ndarray((channels, down, right), in_tensor.dtype)
    nisa.tensor_reduce(out_tile, nl.maximum, windows, axis=(3, 4))
    nl.store(out_tensor, out_tile)
    return out_tensor


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("channels", "size", "pool"), [(2, 6, 2), (128, 9, 3), (17, 7, 2)])
def test_average_pool2d_equals_numpy(channels: int, size: int, pool: int, dtype: Any) -> None:
    x = normal(channels, size, size + 1, dtype=dtype)
    down, right = size // pool, (size + 1) // pool
    cut = wide(x)[:, : down * pool, : right * pool]
    wanted = cut.reshape(channels, down, pool, right, pool).mean((2, 4))
    near(every_way(average_pool2d, x, pool), wanted, dtype)


@pytest.mark.parametrize("dtype", [*FLOATS, np.int32])
@pytest.mark.parametrize(("size", "pool", "stride"), [(8, 3, 2), (9, 2, 2), (5, 3, 1)])
def test_max_pool2d_equals_numpy(size: int, pool: int, stride: int, dtype: Any) -> None:
    x = (100 * normal(19, size, size + 2)).astype(dtype)
    windows = np.lib.stride_tricks.sliding_window_view(x, (pool, pool), (1, 2))
    wanted = windows[:, ::stride, ::stride].max((3, 4))
    assert (wide(every_way(max_pool2d, x, pool, stride)) == wide(wanted)).all()


@nki.jit
def layouts(in_tensor: Any) -> Any:
    """Rows on partitions, columns on partitions by TensorE and by DMA, and one column."""
    rows, columns = in_tensor.shape
    flipped = nl.ndarray((columns, rows), in_tensor.dtype, buffer=nl.shared_hbm)
    by_dma = nl.ndarray((columns, rows), in_tensor.dtype, buffer=nl.shared_hbm)
    column = nl.ndarray((rows, 1), in_tensor.dtype, buffer=nl.shared_hbm)
    tile = nl.load(in_tensor)
    nl.store(flipped, nl.copy(nl.transpose(tile)))
    nl.store(by_dma, nl.load_transpose2d(in_tensor))
    nl.store(column, nl.load(in_tensor[:, columns - 1]))
    return flipped, by_dma, column


@pytest.mark.parametrize(
    "dtype", [*FLOATS, np.int16, np.uint16, np.int32], ids=lambda dtype: dtype.__name__
)
@pytest.mark.parametrize("shape", [(128, 128), (100, 31), (1, 2)])
def test_layouts_equal_numpy(shape: tuple[int, int], dtype: Any) -> None:
    x = np.random.default_rng(0).integers(-50, 50, shape).astype(dtype)
    flipped, by_dma, column = layouts(x)
    assert (flipped == x.T).all()
    assert (by_dma == x.T).all()
    assert (column == x[:, -1:]).all()


@nki.jit
def transpose_bytes(in_tensor: Any) -> Any:
    """Bytes through TensorE, by the function alone."""
    out = nl.ndarray(in_tensor.shape[::-1], in_tensor.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.copy(nl.transpose(nl.load(in_tensor))))
    return out


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, *FLOATS8], ids=lambda dtype: dtype.__name__)
def test_transpose_of_bytes_equals_numpy(dtype: Any) -> None:
    x = np.random.default_rng(0).integers(0, 100, (77, 30)).astype(dtype)
    got = transpose_bytes(x)
    assert got.dtype == x.dtype
    assert (wide(got) == wide(x).T).all()
