"""Parts of models in the legacy dialect: products with edges, decoding, losses, optimisers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trn3.nki.dialects.legacy as nki
import trn3.nki.dialects.legacy.isa as nisa
import trn3.nki.dialects.legacy.language as nl


def _random(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _like(x: Any, shape: Any = None) -> Any:
    return nl.ndarray(x.shape if shape is None else shape, dtype=x.dtype, buffer=nl.shared_hbm)


@nki.jit
def product_with_edges(lhs_t: Any, rhs: Any) -> Any:
    (depth, rows), columns = lhs_t.shape, rhs.shape[1]
    out = _like(lhs_t, (rows, columns))
    i_p = nl.arange(128)[:, None]
    i_m, i_n = nl.arange(128)[None, :], nl.arange(512)[None, :]
    for m in nl.affine_range((rows + 127) // 128):
        for n in nl.affine_range((columns + 511) // 512):
            total = nl.zeros((128, 512), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range((depth + 127) // 128):
                inside = k * 128 + i_p < depth
                left = nl.zeros((128, 128), dtype=lhs_t.dtype)
                right = nl.zeros((128, 512), dtype=rhs.dtype)
                left[i_p, i_m] = nl.load(
                    lhs_t[k * 128 + i_p, m * 128 + i_m], mask=inside & (m * 128 + i_m < rows)
                )
                right[i_p, i_n] = nl.load(
                    rhs[k * 128 + i_p, n * 512 + i_n], mask=inside & (n * 512 + i_n < columns)
                )
                total += nl.matmul(left, right, transpose_x=True)
            held = (m * 128 + i_p < rows) & (n * 512 + i_n < columns)
            nl.store(out[m * 128 + i_p, n * 512 + i_n], value=total, mask=held)
    return out


@pytest.mark.parametrize("sizes", [(100, 100, 100), (200, 130, 600), (1, 1, 1)])
def test_products_with_edges_equal_numpy(sizes: tuple[int, int, int]) -> None:
    depth, rows, columns = sizes
    a, b = _random(depth, rows), _random(depth, columns, seed=1)
    np.testing.assert_allclose(product_with_edges(a, b), a.T @ b, rtol=1e-3, atol=1e-3)


@nki.jit
def decoded(q: Any, k: Any, v: Any, length: Any) -> Any:
    """Attention of one token's heads over a cache of which a part is filled."""
    heads, width = q.shape
    size = k.shape[0]
    out = _like(q)
    turned = nl.load_transpose2d(q)
    scores = nl.ndarray((nl.par_dim(heads), size), dtype=nl.float32)
    for i in nl.affine_range(size // 128):
        part = nl.ds(i * 128, 128)
        keys = nl.load_transpose2d(k[part, :])
        scores[:, part] = nl.matmul(turned, keys, transpose_x=True)
    scores *= width**-0.5
    filled = nl.load(length, dtype=nl.float32).broadcast_to((heads, 1))
    places = nisa.iota(nl.arange(size)[None, :] + 0 * nl.arange(heads)[:, None], dtype=nl.float32)
    keep = nl.less(places, filled, dtype=nl.float32)
    weights = nl.softmax(scores * keep + (keep - 1.0) * 30000.0, axis=-1)
    total = nl.zeros((nl.par_dim(heads), width), dtype=nl.float32, buffer=nl.psum)
    for i in nl.affine_range(size // 128):
        part = nl.ds(i * 128, 128)
        moved = nl.copy(nl.transpose(weights[:, part]))
        total += nl.matmul(moved, nl.load(v[part, :]), transpose_x=True)
    nl.store(out, total)
    return out


@pytest.mark.parametrize("length", [1, 150, 256])
def test_decoding_equals_numpy(length: int) -> None:
    q, k, v = _random(16, 64), _random(256, 64, seed=1), _random(256, 64, seed=2)
    power = np.exp(q @ k[:length].T / 8)
    wanted = power / power.sum(1, keepdims=True) @ v[:length]
    got = decoded(q, k, v, np.array([[length]], np.int32))
    np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-4)


@nki.jit
def largest(x: Any, rounds: int) -> Any:
    out = _like(x, (x.shape[0], 8 * rounds))
    rest = nl.load(x)
    for r in nl.static_range(rounds):
        top = nisa.max8(src=rest)
        nl.store(out[:, nl.ds(r * 8, 8)], top)
        rest[...] = nisa.nc_match_replace8(data=rest, vals=top, imm=-1e30)
    return out


def test_largest_by_rounds_equal_numpy() -> None:
    x = _random(64, 40)
    assert np.array_equal(largest(x, 3), -np.sort(-x, axis=1)[:, :24])


@nki.jit
def cross_entropy(x: Any, labels: Any) -> Any:
    rows, classes = x.shape
    out = _like(x, (rows, 1))
    tile, label = nl.load(x), nl.load(labels)
    places = nisa.iota(nl.arange(classes)[None, :] + 0 * nl.arange(rows)[:, None], dtype=nl.int32)
    hit = nl.equal(places, label, dtype=nl.float32)
    top = nl.max(tile, axis=1, keepdims=True)
    total = nl.log(nl.sum(nl.exp(tile - top), axis=1, keepdims=True)) + top
    nl.store(out, total - nl.sum(hit * tile, axis=1, keepdims=True))
    return out


def test_cross_entropy_equals_numpy() -> None:
    x = _random(64, 40)
    labels = np.random.default_rng(1).integers(0, 40, (64, 1)).astype(np.int32)
    wanted = np.log(np.exp(x).sum(1)) - x[np.arange(64), labels[:, 0]]
    np.testing.assert_allclose(cross_entropy(x, labels)[:, 0], wanted, rtol=1e-4, atol=1e-4)


@nki.jit
def adam(p: Any, g: Any, m: Any, v: Any) -> Any:
    outs = tuple(_like(x) for x in (p, m, v))
    weight, slope, first, second = (nl.load(x) for x in (p, g, m, v))
    first = 0.9 * first + 0.1 * slope
    second = 0.999 * second + 0.001 * (slope * slope)
    weight = weight - 0.01 * first / (nl.sqrt(second) + 1e-8)
    for out, tile in zip(outs, (weight, first, second), strict=True):
        nl.store(out, tile)
    return outs


def test_adam_equals_numpy() -> None:
    p, g, m = (_random(64, 32, seed=i) for i in range(3))
    v = np.abs(_random(64, 32, seed=3))
    first, second = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    wanted = p - 0.01 * first / (np.sqrt(second) + 1e-8), first, second
    for mine, other in zip(adam(p, g, m, v), wanted, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-5)


@nki.jit
def rotated(x: Any, cos: Any, sin: Any, interleaves: bool) -> Any:
    out = _like(x)
    rows, half = x.shape[0], x.shape[1] // 2
    tile, c, s = nl.load(x), nl.load(cos), nl.load(sin)
    turned = nl.ndarray((nl.par_dim(rows), 2 * half), dtype=x.dtype)
    i, j = nl.mgrid[0:rows, 0:half]
    a, b = (2 * j, 2 * j + 1) if interleaves else (j, j + half)
    turned[i, a] = tile[i, a] * c[i, j] - tile[i, b] * s[i, j]
    turned[i, b] = tile[i, b] * c[i, j] + tile[i, a] * s[i, j]
    nl.store(out, turned)
    return out


@pytest.mark.parametrize("interleaves", [False, True])
def test_rotations_equal_numpy(interleaves: bool) -> None:
    x, c, s = _random(64, 32), _random(64, 16, seed=1), _random(64, 16, seed=2)
    first = slice(0, None, 2) if interleaves else slice(0, 16)
    second = slice(1, None, 2) if interleaves else slice(16, None)
    wanted = np.empty_like(x)
    wanted[:, first] = x[:, first] * c - x[:, second] * s
    wanted[:, second] = x[:, second] * c + x[:, first] * s
    np.testing.assert_allclose(rotated(x, c, s, interleaves), wanted, rtol=1e-5, atol=1e-5)


@nki.jit
def pooled(x: Any) -> Any:
    """Average over windows of two by two; each core or instance has half of the channels."""
    out = _like(x, (64, 4, 8))
    first = nl.program_id(0) * 32
    i_c, i_h, i_w = nl.mgrid[0:32, 0:8, 0:16]
    tile = nl.load(x[first + i_c, i_h, i_w])
    i0, i1, i2, i3, i4 = nl.mgrid[0:32, 0:4, 0:8, 0:2, 0:2]
    means = nl.mean(tile[i0, 2 * i1 + i3, 2 * i2 + i4], axis=[3, 4])
    j0, j1, j2 = nl.mgrid[0:32, 0:4, 0:8]
    nl.store(out[first + j0, j1, j2], value=means)
    return out


@pytest.mark.parametrize("grid", [2, (nl.nc(2),)])
def test_pools_of_half_the_channels_equal_numpy(grid: Any) -> None:
    torch = pytest.importorskip("torch")
    x = _random(64, 8, 16)
    wanted = x.reshape(64, 4, 2, 8, 2).mean((2, 4))
    np.testing.assert_allclose(pooled[grid](x), wanted, rtol=1e-5, atol=1e-5)
    got = pooled[grid](torch.from_numpy(x).bfloat16())
    np.testing.assert_allclose(got.float().numpy(), wanted, rtol=2e-2, atol=2e-2)


@nki.jit
def batch_normalised(x: Any) -> Any:
    out = _like(x)
    tile = nl.load(x)
    share = nl.full((64, 64), 1 / 64, dtype=nl.float32)
    centred = tile - nl.copy(nl.matmul(share, tile, transpose_x=True))
    spread = nl.copy(nl.matmul(share, centred * centred, transpose_x=True))
    nl.store(out, centred * nl.rsqrt(spread + 1e-5))
    return out


def test_batch_norm_equals_numpy() -> None:
    x = _random(64, 32)
    wanted = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5)
    np.testing.assert_allclose(batch_normalised(x), wanted, rtol=1e-3, atol=1e-4)
