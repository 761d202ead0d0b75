"""Normalisation, scans and random numbers in the legacy dialect, at odd sizes and several types."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import trn3.nki.dialects.legacy as nki
import trn3.nki.dialects.legacy.isa as nisa
import trn3.nki.dialects.legacy.language as nl

TYPES = [np.float32, np.float16, ml_dtypes.bfloat16]


def _random(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def _check(got: Any, wanted: Any, dtype: Any = np.float32) -> None:
    tolerance = 2e-2 if np.dtype(dtype).itemsize == 2 else 2e-5
    assert got.dtype == dtype
    np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=tolerance, atol=tolerance)


@nki.jit
def rmsnorm(a_tensor: Any, g_tensor: Any) -> Any:
    out_tensor = nl.ndarray(a_tensor.shape, dtype=a_tensor.dtype, buffer=nl.shared_hbm)
    assert a_tensor.shape[1] == g_tensor.shape[0]
    ix = nl.arange(128)[:, None]
    iw = nl.arange(1)[:, None]
    iy = nl.arange(a_tensor.shape[1])[None, :]
    num_rows = a_tensor.shape[0]
    g_tile = nl.load(g_tensor.reshape((1, g_tensor.shape[0]))[iw, iy])
    for i in nl.affine_range(math.ceil(a_tensor.shape[0] / 128)):
        a_tile = nl.load(a_tensor[i * 128 + ix, iy], mask=(i * 128 + ix < num_rows))
        in_square = nl.square(a_tile)
        square_sum = nl.sum(in_square, axis=[1])
        mean = square_sum / a_tensor.shape[1]
        rms_reciprocal = nl.rsqrt(mean)
        out_tile = nl.multiply(a_tile, rms_reciprocal)
        g_bcast = g_tile.broadcast_to((128, g_tensor.shape[0]))
        out_tile[...] = nl.multiply(out_tile, g_bcast, mask=(i * 128 + ix < num_rows))
        nl.store(out_tensor[i * 128 + ix, iy], value=out_tile, mask=(i * 128 + ix < num_rows))
    return out_tensor


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(128, 512), (250, 511), (1, 3), (129, 64)])
def test_rmsnorm_equals_numpy(shape: tuple[int, int], dtype: Any) -> None:
    x, g = _random(*shape, dtype=dtype) + dtype(1), _random(shape[1], dtype=dtype, seed=1)
    a = x.astype(np.float64)
    wanted = a / np.sqrt((a * a).mean(1, keepdims=True)) * g.astype(np.float64)
    _check(rmsnorm(x, g), wanted, dtype)


@nki.jit
def layernorm(input_tensor: Any, epsilon: float, gamma_vector: Any, beta_vector: Any) -> Any:
    output = nl.ndarray(input_tensor.shape, dtype=input_tensor.dtype, buffer=nl.shared_hbm)
    i_p_io = nl.arange(nl.tile_size.pmax)[:, None]
    i_f_io = nl.arange(input_tensor.shape[1])[None, :]
    i_p_param = nl.arange(1)[:, None]
    gamma_sb = nl.load(gamma_vector.reshape((1, gamma_vector.shape[0]))[i_p_param, i_f_io])
    beta_sb = nl.load(beta_vector.reshape((1, beta_vector.shape[0]))[i_p_param, i_f_io])
    gamma_b = gamma_sb.broadcast_to((nl.tile_size.pmax, gamma_vector.shape[0]))
    beta_b = beta_sb.broadcast_to((nl.tile_size.pmax, beta_vector.shape[0]))
    width = input_tensor.shape[1]
    chunk = math.gcd(nl.tile_size.bn_stats_fmax, width)
    for i in nl.affine_range(math.ceil(input_tensor.shape[0] / nl.tile_size.pmax)):
        mask = i * nl.tile_size.pmax + i_p_io < input_tensor.shape[0]
        input_sb = nl.load(input_tensor[i * nl.tile_size.pmax + i_p_io, i_f_io], mask=mask)
        i_f_bn = nl.arange(chunk)[None, :]
        i_f_stats = nl.arange(6)[None, :]
        num_bn = width // chunk
        stats = nl.ndarray((nl.tile_size.pmax, 6 * num_bn), dtype=np.float32)
        for j in nl.affine_range(num_bn):
            stats[i_p_io, j * 6 + i_f_stats] = nisa.bn_stats(
                input_sb[i_p_io, j * chunk + i_f_bn], dtype=np.float32, mask=mask
            )
        i_f_aggr = nl.arange(6 * num_bn)[None, :]
        mean_var = nisa.bn_aggr(stats[i_p_io, i_f_aggr], mask=mask)
        scale_var = nl.add(mean_var[i_p_io, 1], epsilon)
        scale_var = nl.rsqrt(scale_var)
        shift_scale = nisa.tensor_scalar(
            data=input_sb, op0=np.subtract, operand0=mean_var[i_p_io, 0], op1=np.multiply,
            operand1=scale_var, mask=mask,
        )  # fmt: skip
        scaled = nl.multiply(shift_scale, gamma_b, mask=mask)
        output_sb = nl.add(scaled, beta_b, mask=mask)
        nl.store(output[i * nl.tile_size.pmax + i_p_io, i_f_io], value=output_sb, mask=mask)
    return output


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(128, 512), (200, 768), (5, 8)])
def test_layernorm_equals_numpy(shape: tuple[int, int], dtype: Any) -> None:
    x = _random(*shape, dtype=dtype)
    gamma, beta = (_random(shape[1], dtype=dtype, seed=i) for i in (1, 2))
    a = x.astype(np.float64)
    wanted = (a - a.mean(1, keepdims=True)) / np.sqrt(a.var(1, keepdims=True) + 1e-5)
    wanted = wanted * gamma.astype(np.float64) + beta.astype(np.float64)
    _check(layernorm(x, 1e-5, gamma, beta), wanted, dtype)


@nki.jit
def layernorm_by_functions(x: Any, epsilon: float) -> Any:
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows, columns = x.shape
    i_p, i_f = nl.mgrid[0:128, 0:512]
    for i in nl.affine_range(math.ceil(rows / 128)):
        mask = (i * 128 + i_p < rows) & (i_f < columns)
        tile = nl.load(x[i * 128 + i_p, i_f], mask=mask)
        mean = nl.sum(tile, axis=1, mask=mask, keepdims=True, dtype=nl.float32) / columns
        centred = nl.subtract(tile, mean, mask=mask, dtype=nl.float32)
        var = nl.sum(nl.square(centred, mask=mask), axis=1, mask=mask, keepdims=True) * (
            1 / columns
        )
        scale = nl.rsqrt(var + epsilon)
        nl.store(out[i * 128 + i_p, i_f], value=nl.multiply(centred, scale, mask=mask), mask=mask)
    return out


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(128, 512), (131, 37)])
def test_layernorm_of_masked_tiles_equals_numpy(shape: tuple[int, int], dtype: Any) -> None:
    x = _random(*shape, dtype=dtype)
    a = x.astype(np.float64)
    wanted = (a - a.mean(1, keepdims=True)) / np.sqrt(a.var(1, keepdims=True) + 1e-5)
    _check(layernorm_by_functions(x, 1e-5), wanted, dtype)


@nki.jit
def softmax_rows(x: Any) -> Any:
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows, columns = x.shape
    i_p, i_f = nl.mgrid[0:128, 0:columns]
    for i in nl.affine_range((rows + 127) // 128):
        mask = i * 128 + i_p < rows
        tile = nl.load(x[i * 128 + i_p, i_f], mask=mask, dtype=nl.float32)
        done = nl.softmax(tile, axis=1, mask=mask, dtype=x.dtype)
        nl.store(out[i * 128 + i_p, i_f], value=done, mask=mask)
    return out


@nki.jit
def softmax_by_operators(x: Any) -> Any:
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows, columns = x.shape
    i_p, i_f = nl.mgrid[0:128, 0:columns]
    for i in nl.affine_range((rows + 127) // 128):
        mask = i * 128 + i_p < rows
        tile = nl.load(x[i * 128 + i_p, i_f], mask=mask)
        power = nl.exp(tile - nl.max(tile, axis=1, keepdims=True), dtype=nl.float32)
        nl.store(out[i * 128 + i_p, i_f], power / nl.sum(power, axis=-1, keepdims=True), mask=mask)
    return out


@pytest.mark.parametrize("kernel", [softmax_rows, softmax_by_operators])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(128, 100), (131, 37), (3, 1)])
def test_softmax_equals_numpy(kernel: Any, shape: tuple[int, int], dtype: Any) -> None:
    x = _random(*shape, dtype=dtype)
    power = np.exp(x.astype(np.float64))
    _check(kernel(x), power / power.sum(1, keepdims=True), dtype)


def _mamba(delta: Any, u: Any, a: Any, b: Any, c: Any) -> Any:
    batch, channels, seq = delta.shape
    out = np.zeros((batch, channels, seq))
    for n in range(batch):
        state = np.zeros((channels, a.shape[1]))
        for t in range(seq):
            decay = np.exp(delta[n, :, t, None] * a)
            state = decay * state + delta[n, :, t, None] * u[n, :, t, None] * b[n, None, :, t]
            out[n, :, t] = (state * c[n, None, :, t]).sum(1)
    return out


@nki.jit
def mamba(delta: Any, u: Any, a: Any, b: Any, c: Any, chunk: int = 64) -> Any:
    output = nl.ndarray(delta.shape, dtype=delta.dtype, buffer=nl.shared_hbm)
    batch, channels, seq = delta.shape
    state = a.shape[1]
    blocks = channels // 128
    for n in nl.affine_range(batch):
        for block in nl.affine_range(blocks):
            start = block * 128
            total = nl.zeros((nl.par_dim(128), seq), dtype=delta.dtype)
            delta_i = nl.load(delta[n, start : start + 128, 0:seq])
            u_i = nl.load(u[n, start : start + 128, 0:seq])
            for s in nl.affine_range(state):
                a_i = nl.load(a[start : start + 128, s])
                b_i = nl.load(b[n, s : s + 1, 0:seq])
                c_i = nl.load(c[n, s : s + 1, 0:seq])
                carry = nl.zeros((128, 1), dtype=nl.float32)
                for j in nl.static_range(seq // chunk):
                    part = nl.ds(j * chunk, chunk)
                    delta_a = nisa.activation(op=nl.exp, data=delta_i[:, part], scale=a_i)
                    delta_u = nisa.tensor_tensor(delta_i[:, part], u_i[:, part], op=nl.multiply)
                    b_b = b_i[:, part].broadcast_to((128, chunk))
                    delta_bu = nisa.tensor_tensor(delta_u, b_b, op=nl.multiply)
                    scan = nisa.tensor_tensor_scan(
                        delta_a, delta_bu, initial=carry, op0=np.multiply, op1=np.add
                    )
                    carry[...] = scan[:, chunk - 1]
                    c_b = c_i[:, part].broadcast_to((128, chunk))
                    scan_c = nisa.tensor_tensor(scan, c_b, op=nl.multiply)
                    total[:, part] += scan_c
            nl.store(output[n, start : start + 128, 0:seq], total)
    return output


@nki.jit
def mamba_of_blocks(delta: Any, u: Any, a: Any, b: Any, c: Any) -> Any:
    output = nl.ndarray(delta.shape, dtype=delta.dtype, buffer=nl.shared_hbm)
    batch, channels, seq = delta.shape
    state = a.shape[1]
    blocks = channels // 128
    for n in nl.affine_range(batch):
        accumulated = nl.zeros((blocks, nl.par_dim(128), seq), dtype=delta.dtype)
        for s in nl.affine_range(state):
            b_i = nl.load(b[n, s : s + 1, 0:seq])
            c_i = nl.load(c[n, s : s + 1, 0:seq])
            for block in nl.affine_range(blocks):
                start = block * 128
                delta_i = nl.load(delta[n, start : start + 128, 0:seq])
                u_i = nl.load(u[n, start : start + 128, 0:seq])
                a_i = nl.load(a[start : start + 128, s])
                delta_a = nisa.activation(op=nl.exp, data=delta_i, scale=a_i)
                delta_bu = nl.multiply(delta_i, u_i) * b_i.broadcast_to((128, seq))
                scan = nisa.tensor_tensor_scan(
                    delta_a, delta_bu, initial=0, op0=np.multiply, op1=np.add
                )
                accumulated[block, 0:128, 0:seq] += scan * c_i.broadcast_to((128, seq))
        for block in nl.affine_range(blocks):
            nl.store(
                output[n, block * 128 : (block + 1) * 128, 0:seq],
                accumulated[block, 0:128, 0:seq],
            )
    return output


@pytest.mark.parametrize("kernel", [mamba, mamba_of_blocks])
def test_mamba_equals_numpy(kernel: Any) -> None:
    delta, u = np.abs(_random(2, 256, 128)) / 4, _random(2, 256, 128, seed=1)
    a = -np.abs(_random(256, 4, seed=2))
    b, c = _random(2, 4, 128, seed=3), _random(2, 4, 128, seed=4)
    _check(kernel(delta, u, a, b, c), _mamba(delta, u, a, b, c))


@nki.jit
def dropped(x: Any, rate: float, seed: int) -> Any:
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    other = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.random_seed(seed)
    tile = nl.load(x)
    nl.store(out, nl.dropout(tile, rate=rate))
    chance = nl.full((x.shape[0], 1), rate, dtype=nl.float32)
    nl.store(other, nisa.dropout(tile, prob=chance))
    return out, other


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_dropout_zeroes_a_share(rate: float, dtype: Any) -> None:
    x = np.ones((128, 500), dtype)
    for got in dropped(x, rate, 3):
        assert set(np.unique(got.astype(np.float32)).tolist()) <= {0.0, 1.0}
        assert abs((got == 0).mean() - rate) < 0.01
    for one, again in zip(dropped(x, rate, 3), dropped(x, rate, 3), strict=True):
        assert np.array_equal(one, again)


@nki.jit
def uniform(seed: Any) -> Any:
    out = nl.ndarray((128, 300), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.random_seed(nl.load(seed))
    i_p, i_f = nl.mgrid[0:128, 0:300]
    tile = nl.ndarray((128, 300), dtype=nl.float32)
    tile[i_p, i_f] = nl.rand((128, 300), dtype=nl.float32)
    nl.store(out[i_p, i_f], value=tile)
    return out


def test_random_numbers_are_of_their_seed() -> None:
    first, again, other = (uniform(np.array([[s]], np.int32)) for s in (5, 5, 6))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert first.min() >= 0
    assert first.max() < 1
    assert abs(first.mean() - 0.5) < 0.01
