"""Searching, flattening and counting kernels against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from expertlib.core.subkernels.dynamic_elementwise import (
    dynamic_elementwise_add,
    dynamic_elementwise_add_register,
    dynamic_elementwise_add_while,
)
from expertlib.core.subkernels.find_nonzero import (
    find_nonzero_indices,
    find_nonzero_indices_with_count,
)
from expertlib.core.subkernels.flatten import indexed_flatten
from expertlib.core.subkernels.rotational_topk import rotational_topk
from expertlib.core.subkernels.scans import cascaded_max, cumsum
from expertlib.core.subkernels.topk_reduce import topk_reduce

BF16 = ml_dtypes.bfloat16


def _padded(row: np.ndarray, length: int) -> np.ndarray:
    found = np.flatnonzero(row)
    return np.concatenate([found, np.full(length - found.size, -1)]).astype(np.int32)


@pytest.mark.parametrize(("rows", "length"), [(1, 128), (8, 65), (3, 1000)])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_find_nonzero_with_count_matches_numpy(rows: int, length: int, dtype: Any) -> None:
    x = (np.random.default_rng(0).random((rows, length)) < 0.3).astype(dtype)
    got = find_nonzero_indices_with_count(x, index_offset=5)
    for row, found in zip(x, got, strict=True):
        wanted = _padded(row, length)
        wanted[wanted >= 0] += 5
        np.testing.assert_array_equal(found, [*wanted, np.count_nonzero(row)])


@pytest.mark.parametrize("lnc", [None, 1, 2])
@pytest.mark.parametrize("chunk", [None, 64])
@pytest.mark.parametrize("start", [None, 3])
def test_find_nonzero_matches_numpy(lnc: int | None, chunk: int | None, start: int | None) -> None:
    x = (np.random.default_rng(1).random((256, 16)) < 0.2).astype(np.float32)
    kernel = find_nonzero_indices if lnc is None else find_nonzero_indices[lnc]
    first = None if start is None else np.array([start], np.int32)
    rows = 16 if start is None else 11
    indices, counts = kernel(x, row_start_id=first, n_rows=rows, chunk_size=chunk)
    for k in range(rows):
        np.testing.assert_array_equal(indices[k], _padded(x[:, (start or 0) + k], 256))
    np.testing.assert_array_equal(counts, np.count_nonzero(x, axis=0)[(start or 0) :][:rows])


@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
@pytest.mark.parametrize("start", [None, 2])
def test_indexed_flatten_matches_numpy(lnc: int, dtype: Any, start: int | None) -> None:
    rng = np.random.default_rng(2)
    rows, length, tile = 6, 64, 16
    x = np.full((rows, length), -1, dtype)
    offsets, total = [], 0
    for e in range(rows):
        count = int(rng.integers(1, length))
        x[e, :count] = np.arange(count) + 100 * e
        offsets.append(total)
        total += -(-count // tile)
    wanted = np.full(512, -1, dtype)
    for e in range(rows):
        real = x[e][x[e] >= 0]
        wanted[offsets[e] * tile : offsets[e] * tile + real.size] = real
    table = np.array([7] * (start or 0) + offsets, np.int32)
    first = None if start is None else np.array([[start]], np.int32)
    got = indexed_flatten[lnc](x, tile, 512, table, first)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("shape", [(4, 100), (2, 3, 70), (200, 33), (5000,)])
@pytest.mark.parametrize("dtype", [np.float32, BF16])
def test_cumsum_matches_numpy(shape: tuple[int, ...], dtype: Any) -> None:
    x = np.random.default_rng(3).normal(size=shape).astype(dtype)
    got = cumsum(x, f_tile=64)
    wanted = np.cumsum(x.astype(np.float64), axis=-1)
    tolerance = 1e-4 if dtype is np.float32 else 1e-1
    np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=1e-2, atol=tolerance)


@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize(("batch", "vocabulary"), [(3, 4096), (4, 5003), (1, 8192)])
def test_cascaded_max_matches_numpy(lnc: int, batch: int, vocabulary: int) -> None:
    x = np.random.default_rng(4).normal(size=(batch, vocabulary)).astype(np.float32)
    values, places = cascaded_max[lnc](x)
    np.testing.assert_array_equal(values[:, 0], x.max(axis=1))
    np.testing.assert_array_equal(places[:, 0], x.argmax(axis=1))


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("dtype", [np.float32, BF16])
def test_dynamic_adds_stop_where_the_tensor_says(count: int, dtype: Any) -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-8, 8, (384, 40)).astype(dtype) for _ in range(2))
    limit = np.array([[count]], np.int32)
    wanted = (a + b).astype(dtype)
    wanted[count * 128 :] = 0
    np.testing.assert_array_equal(dynamic_elementwise_add(a, b, limit), wanted)
    np.testing.assert_array_equal(dynamic_elementwise_add_register(a, b, limit), wanted)
    wanted[count * 128 :] = a[count * 128 :]
    given = a.copy()
    np.testing.assert_array_equal(dynamic_elementwise_add_while(given, b, limit), wanted)
    np.testing.assert_array_equal(given, wanted)


@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize(("tokens", "k"), [(32, 2), (200, 4)])
def test_topk_reduce_matches_numpy(lnc: int, tokens: int, k: int) -> None:
    rng = np.random.default_rng(6)
    hidden, rows = 64, tokens * k + 24
    order = np.concatenate([np.repeat(np.arange(tokens), k), np.full(24, tokens + 5)])
    rng.shuffle(order)
    x = np.zeros((rows, hidden + 2), BF16)
    x[:, :hidden] = rng.integers(-4, 5, (rows, hidden))
    x.view(np.int32)[:, hidden // 2] = order
    wanted = np.zeros((tokens, hidden), np.float32)
    for row, token in zip(x[:, :hidden].astype(np.float32), order, strict=True):
        if token < tokens:
            wanted[token] += row
    got = topk_reduce[lnc](x, T=tokens, K=k)
    np.testing.assert_array_equal(got.astype(np.float32), wanted)


@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize(("batch", "vocabulary", "k"), [(5, 1000, 8), (70, 512, 20), (2, 4001, 64)])
def test_rotational_topk_matches_numpy(lnc: int, batch: int, vocabulary: int, k: int) -> None:
    rng = np.random.default_rng(7)
    x = np.stack([rng.permutation(vocabulary) for _ in range(batch)]).astype(np.float32)
    values, places = rotational_topk[lnc](x, k)
    order = np.argsort(-x, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, axis=1))
    np.testing.assert_array_equal(places, order)
