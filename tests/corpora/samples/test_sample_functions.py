"""Sample kernels of normalisations, activations, random numbers and searches, at odd sizes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from support.samples import FLOATS, every_way, near, normal, wide
from trn3 import nki

P = nl.tile_size.pmax


def _rows(x: Any) -> list[Any]:
    """Return the tiles' rows of a tensor that this core works on."""
    programs = nl.num_programs(0) if nl.program_ndim() else 1
    own = math.ceil(x.shape[0] / programs)
    first = nl.program_id(0) * own
    last = min(x.shape[0], first + own)
    return [nl.ds(start, min(P, last - start)) for start in range(first, last, P)]


def _softmax(x: Any) -> Any:
    powers = np.exp(wide(x) - wide(x).max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@nki.jit
def softmax_by_function(x: Any) -> Any:
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for rows in _rows(x):
        nl.store(out[rows], value=nl.softmax(nl.load(x[rows]), axis=-1))
    return out


@nki.jit
def softmax_by_parts(x: Any) -> Any:
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for rows in _rows(x):
        tile = nl.load(x[rows, :], dtype=nl.float32)
        largest = nl.max(tile, axis=1, keepdims=True)
        powers = nl.exp(nl.subtract(tile, largest))
        total = nl.sum(powers, axis=[1])
        nl.store(out[rows, :], nl.multiply(powers, nl.reciprocal(total), dtype=x.dtype))
    return out


@nki.jit
def softmax_by_instructions(x: Any) -> Any:
    columns = x.shape[1]
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for rows in _rows(x):
        tile = nl.ndarray((rows.size, columns), x.dtype)
        nisa.dma_copy(tile, x[rows])
        lowered = nl.ndarray((rows.size, 1), nl.float32)
        nisa.tensor_reduce(lowered, nl.maximum, tile, axis=1, negate=True)
        powers = nl.ndarray(tile.shape, nl.float32)
        total = nl.ndarray(lowered.shape, nl.float32)
        nisa.activation_reduce(
            powers, nl.exp, tile, reduce_op=nl.add, reduce_res=total, bias=lowered
        )
        nisa.reciprocal(total, total)
        nisa.activation(tile, nl.copy, powers, scale=total)
        nisa.dma_copy(out[rows], tile)
    return out


@nki.jit
def softmax_by_exponential(x: Any) -> Any:
    columns = x.shape[1]
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for rows in _rows(x):
        tile = nl.load(x[rows])
        largest = nl.max(tile, axis=1, dtype=nl.float32)
        powers = nl.ndarray((rows.size, columns), nl.float32)
        total = nl.ndarray((rows.size, 1), nl.float32)
        half = columns // 2
        if half:
            nisa.exponential(
                powers[:, :half],
                tile[:, :half],
                max_value=largest,
                reduce_res=total,
                reduce_cmd=nisa.reduce_cmd.reset_reduce,
            )
        nisa.exponential(
            powers[:, half:],
            tile[:, half:],
            max_value=largest,
            reduce_res=total,
            reduce_cmd=nisa.reduce_cmd.reduce if half else nisa.reduce_cmd.reset_reduce,
        )
        nl.store(out[rows], nl.multiply(powers, nl.reciprocal(total), dtype=x.dtype))
    return out


SOFTMAXES = [softmax_by_function, softmax_by_parts, softmax_by_instructions, softmax_by_exponential]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("shape", "lnc"), [((128, 512), None), ((259, 77), 2), ((2, 1), 2)])
@pytest.mark.parametrize("kernel", SOFTMAXES)
def test_softmax_equals_numpy(kernel: Any, shape: Any, lnc: int | None, dtype: Any) -> None:
    x = 3 * normal(*shape, dtype=dtype)
    near(every_way(kernel[lnc] if lnc else kernel, x), _softmax(x), dtype)


@nki.jit
def rms_norm_by_function(x: Any, w: Any, epsilon: float = 1e-6) -> Any:
    columns = x.shape[1]
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    weights = nl.load(w.reshape((1, columns)))
    for rows in _rows(x):
        wide_weights = nl.broadcast_to(weights, (rows.size, columns))
        normed = nl.rms_norm(nl.load(x[rows]), wide_weights, axis=1, n=columns, epsilon=epsilon)
        nl.store(out[rows], normed)
    return out


@nki.jit
def rms_norm_by_parts(x: Any, w: Any, epsilon: float = 1e-6) -> Any:
    columns = x.shape[1]
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    weights = nl.load(w.reshape((1, columns)))
    for rows in _rows(x):
        tile = nl.load(x[rows], dtype=nl.float32)
        mean_square = nl.multiply(nl.sum(nl.square(tile), axis=1), 1 / columns)
        inverse = nl.rsqrt(nl.add(mean_square, epsilon))
        normed = nl.multiply(tile, inverse)
        nl.store(
            out[rows], nl.multiply(normed, nl.broadcast_to(weights, tile.shape), dtype=x.dtype)
        )
    return out


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("shape", "lnc"), [((128, 512), 1), ((131, 1023), 2)])
@pytest.mark.parametrize("kernel", [rms_norm_by_function, rms_norm_by_parts])
def test_rms_norm_equals_numpy(kernel: Any, shape: Any, lnc: int, dtype: Any) -> None:
    x, w = normal(*shape, dtype=dtype), normal(shape[1], dtype=dtype, seed=1)
    wanted = wide(x) / np.sqrt((wide(x) ** 2).mean(1, keepdims=True) + 1e-6) * wide(w)
    near(every_way(kernel[lnc], x, w), wanted, dtype, factor=2)


@nki.jit
def layer_norm(x: Any, gamma: Any, beta: Any, epsilon: float = 1e-5) -> Any:
    columns = x.shape[1]
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for rows in _rows(x):
        tile = nl.load(x[rows])
        scale, shift = (
            nl.broadcast_to(nl.load(v.reshape((1, columns))), tile.shape) for v in (gamma, beta)
        )
        centred = nl.subtract(tile, nl.mean(tile, axis=1, dtype=nl.float32), dtype=nl.float32)
        inverse = nl.rsqrt(nl.add(nl.var(tile, axis=1, dtype=nl.float32), epsilon))
        normed = nl.multiply(centred, inverse)
        nl.store(out[rows], nl.add(nl.multiply(normed, scale), shift, dtype=x.dtype))
    return out


@nki.jit
def layer_norm_by_statistics(x: Any, gamma: Any, beta: Any, epsilon: float = 1e-5) -> Any:
    columns, most = x.shape[1], nl.tile_size.bn_stats_fmax
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    pieces = math.ceil(columns / most)
    for rows in _rows(x):
        tile = nl.load(x[rows])
        scale, shift = (
            nl.broadcast_to(nl.load(v.reshape((1, columns))), tile.shape) for v in (gamma, beta)
        )
        parts = nl.ndarray((rows.size, 6 * pieces), nl.float32)
        for i in nl.static_range(pieces):
            stop = min(columns, (i + 1) * most)
            nisa.bn_stats(parts[:, nl.ds(6 * i, 6)], tile[:, i * most : stop])
        moments = nl.ndarray((rows.size, 2), nl.float32)
        nisa.bn_aggr(moments, parts)
        inverse = nl.ndarray((rows.size, 1), nl.float32)
        nisa.tensor_scalar(inverse, moments[:, 1:2], nl.add, epsilon, op1=nl.power, operand1=-0.5)
        normed = nl.ndarray(tile.shape, nl.float32)
        nisa.tensor_scalar(
            normed, tile, nl.subtract, moments[:, 0:1], op1=nl.multiply, operand1=inverse
        )
        nisa.tensor_tensor(normed, normed, scale, nl.multiply)
        result = nl.ndarray(tile.shape, x.dtype)
        nisa.tensor_tensor(result, normed, shift, nl.add)
        nl.store(out[rows], result)
    return out


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(128, 512), (130, 1025), (3, 5)])
@pytest.mark.parametrize("kernel", [layer_norm, layer_norm_by_statistics])
def test_layer_norm_equals_numpy(kernel: Any, shape: Any, dtype: Any) -> None:
    x = normal(*shape, dtype=dtype) + dtype(1)
    gamma, beta = (normal(shape[1], dtype=dtype, seed=seed) for seed in (1, 2))
    centred = wide(x) - wide(x).mean(1, keepdims=True)
    wanted = centred / np.sqrt(wide(x).var(1, keepdims=True) + 1e-5) * wide(gamma) + wide(beta)
    near(every_way(kernel[2] if shape[0] > 3 else kernel, x, gamma, beta), wanted, dtype, factor=2)


def _erf(x: Any) -> Any:
    return np.vectorize(math.erf)(x)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _normal_cdf(x: Any) -> Any:
    return (1 + _erf(x / math.sqrt(2))) / 2


def _gelu_dx(x: Any) -> Any:
    return _normal_cdf(x) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _gelu_tanh(x: Any) -> Any:
    return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _gelu_sigmoid_dx(x: Any) -> Any:
    part = _sigmoid(1.702 * x)
    return part + 1.702 * x * part * (1 - part)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "abs": np.abs,
    "arctan": np.arctan,
    "ceil": np.ceil,
    "cos": np.cos,
    "erf": _erf,
    "erf_dx": lambda x: 2 / math.sqrt(math.pi) * np.exp(-x * x),
    "exp": np.exp,
    "floor": np.floor,
    "gelu": lambda x: x * _normal_cdf(x),
    "gelu_apprx_sigmoid": lambda x: x * _sigmoid(1.702 * x),
    "gelu_apprx_sigmoid_dx": _gelu_sigmoid_dx,
    "gelu_apprx_tanh": _gelu_tanh,
    "gelu_dx": _gelu_dx,
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "negative": np.negative,
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": _sigmoid,
    "sign": np.sign,
    "silu": lambda x: x * _sigmoid(x),
    "silu_dx": lambda x: _sigmoid(x) * (1 + x * (1 - _sigmoid(x))),
    "sin": np.sin,
    "softplus": lambda x: np.log1p(np.exp(x)),
    "square": np.square,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
    "log": lambda x: np.log(np.abs(x) + 0.5),
    "reciprocal": lambda x: 1 / (np.abs(x) + 0.5),
    "rsqrt": lambda x: 1 / np.sqrt(np.abs(x) + 0.5),
    "sqrt": lambda x: np.sqrt(np.abs(x) + 0.5),
}


@nki.jit
def apply(x: Any, name: str) -> Any:
    """Apply a function of the language by its name, some of them to positive values alone."""
    tile = nl.load(x)
    if name in ("log", "reciprocal", "rsqrt", "sqrt"):
        tile = nl.add(nl.abs(tile), 0.5, dtype=nl.float32)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, getattr(nl, name)(tile, dtype=x.dtype))
    return out


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_equals_its_formula(name: str, dtype: Any) -> None:
    x = np.clip(normal(61, 19, dtype=dtype), -1.5, 1.5).astype(dtype)
    near(apply(x, name), FUNCTIONS[name](wide(x)), dtype, factor=3)


@nki.jit
def gated(x: Any, gate: Any) -> Any:
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    result = nl.ndarray(x.shape, nl.float32)
    # (x * 2 - 1) through silu, then summed along the row while it is written.
    total = nl.ndarray((x.shape[0], 1), nl.float32)
    nisa.activate2(
        result,
        nl.silu,
        nl.load(x),
        2.0,
        1.0,
        nl.multiply,
        nl.subtract,
        reduce_op=nl.add,
        reduce_res=total,
        reduce_cmd=nisa.reduce_cmd.reset_reduce,
    )
    mean = nl.multiply(total, 1 / x.shape[1])
    nl.store(out, nl.multiply(nl.subtract(result, mean), nl.load(gate), dtype=x.dtype))
    return out


@pytest.mark.parametrize("dtype", FLOATS)
def test_gated_equals_numpy(dtype: Any) -> None:
    x, gate = normal(45, 67, dtype=dtype), normal(45, 67, dtype=dtype, seed=1)
    y = FUNCTIONS["silu"](2 * wide(x) - 1)
    wanted = (y - y.mean(1, keepdims=True)) * wide(gate)
    near(every_way(gated, x, gate), wanted, dtype, factor=2)


@nki.jit
def dropped(x: Any, seed: Any, rate: float) -> Any:
    out = nl.ndarray((2, *x.shape), x.dtype, buffer=nl.shared_hbm)
    noise = nl.ndarray(x.shape, nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for i in nl.static_range(2):
        nl.random_seed(nl.load(seed))
        nl.store(out[i], nl.dropout(tile, rate=rate))
    nl.store(noise, nl.rand(x.shape, dtype=nl.float32))
    return out, noise


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("rate", [0.0, 0.25, 1.0])
def test_dropout_follows_its_rate_and_seed(rate: float, dtype: Any) -> None:
    x = normal(128, 200, dtype=dtype) + dtype(9)
    out, noise = every_way(dropped, x, np.array([[7]], np.int32), rate)
    assert (out[0] == out[1]).all()
    kept = wide(out[0]) != 0
    assert (wide(out[0])[kept] == wide(x)[kept]).all()
    assert abs(kept.mean() - (1 - rate)) < 0.02
    assert abs(noise.mean() - 0.5) < 0.02
    assert 0 <= noise.min() < noise.max() < 1


@nki.jit
def eight_largest(x: Any) -> Any:
    """Return the eight largest of each row, where they are, and the row without them."""
    rows = x.shape[0]
    tile = nl.load(x)
    values = nl.ndarray((rows, 8), x.dtype)
    nisa.max8(values, tile)
    places = nl.ndarray((rows, 8), nl.uint32)
    nisa.nc_find_index8(places, tile, values)
    rest = nl.ndarray(x.shape, x.dtype)
    nisa.nc_match_replace8(rest, tile, values, imm=-1.0)
    outs = [nl.ndarray(t.shape, t.dtype, buffer=nl.shared_hbm) for t in (values, places, rest)]
    for out, result in zip(outs, (values, places, rest), strict=True):
        nl.store(out, result)
    return tuple(outs)


@pytest.mark.parametrize("columns", [8, 100, 1001])
def test_eight_largest_equal_numpy(columns: int) -> None:
    rng = np.random.default_rng(0)
    x = np.stack([rng.permutation(columns) for _ in range(65)]).astype(np.float32)
    values, places, rest = every_way(eight_largest, x)
    order = np.argsort(-x, 1)[:, :8]
    assert (places == order).all()
    assert (values == np.take_along_axis(x, order, 1)).all()
    removed = x.copy()
    np.put_along_axis(removed, order, -1, 1)
    assert (rest == removed).all()


def test_range_of_a_function_is_a_finding_not_a_failure() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        tile = nl.load(x)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        result = nl.ndarray(x.shape, x.dtype)
        nisa.activation(result, nl.arctan, tile)
        nl.store(out, result)
        return out

    x = np.array([[4.0, -9.0]], np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        near(kernel(x), np.arctan(x))


def test_types_of_bfloat16_scalars_stay() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile = nl.add(nl.multiply(nl.load(x), 2), 1.0)
        assert tile.dtype == nl.bfloat16
        nl.store(out, tile)
        return out

    x = normal(3, 4, dtype=ml_dtypes.bfloat16)
    near(kernel(x), 2 * wide(x) + 1, ml_dtypes.bfloat16)
