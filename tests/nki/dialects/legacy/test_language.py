"""Operators, functions and instructions of the legacy dialect against NumPy."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import trn3.nki
import trn3.nki.dialects.legacy as nki
import trn3.nki.dialects.legacy.isa as nisa
import trn3.nki.dialects.legacy.language as nl
import trn3.nki.language as modern
from support.legacy import run, values

X, Y = values(8, 12), values(8, 12, seed=1)
WHOLE = np.arange(96, dtype=np.int32).reshape(8, 12)
T = (np.arange(4)[:, None] * 100 + np.arange(12)).astype(np.float32)


@pytest.mark.parametrize("name", ["sum", "max", "min", "prod"])
def test_masked_elements_are_not_reduced(name: str) -> None:
    function = {"sum": np.sum, "max": np.max, "min": np.min, "prod": np.prod}[name]
    got = run(lambda x: getattr(nl, name)(x, axis=[1], mask=nl.arange(12)[None, :] < 7), X)
    np.testing.assert_allclose(got[:, 0], function(X[:, :7], axis=1), rtol=1e-5)
    triangle = np.arange(12)[None, :] <= np.arange(8)[:, None]

    def body(x: Any) -> Any:
        p, f = nl.mgrid[0:8, 0:12]
        return getattr(nl, name)(x, axis=1, mask=f <= p)

    wanted = [function(row[truth]) for row, truth in zip(X, triangle, strict=True)]
    np.testing.assert_allclose(run(body, X)[:, 0], wanted, rtol=1e-5)


@pytest.mark.parametrize(
    "function",
    [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.mod],
)
def test_operators_are_those_of_numpy(function: Callable[[Any, Any], Any]) -> None:
    for body in (
        function,
        lambda a, b: function(a, 2.0),
        lambda a, b: function(2.0, a),
    ):
        np.testing.assert_allclose(run(body, X, Y), body(X, Y), rtol=1e-5)


@pytest.mark.parametrize(
    "function", [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]
)
def test_comparisons_are_truths(function: Callable[[Any, Any], Any]) -> None:
    got = run(function, X, Y)
    assert got.dtype == np.bool_
    assert np.array_equal(got, function(X, Y))
    assert np.array_equal(run(lambda a: function(a, 1.5), X), function(X, 1.5))


@pytest.mark.parametrize("function", [operator.and_, operator.or_, operator.xor, operator.lshift])
def test_bit_operators_are_those_of_numpy(function: Callable[[Any, Any], Any]) -> None:
    assert np.array_equal(run(lambda a: function(a, 3), WHOLE), function(WHOLE, 3))
    assert np.array_equal(run(lambda a: ~a, WHOLE), ~WHOLE)
    assert np.array_equal(run(lambda a: -a, WHOLE), -WHOLE)


def test_updates_write_in_place() -> None:
    def body(x: Any, y: Any) -> Any:
        same = x
        x += y
        x *= 2.0
        x[:, 0:3] -= y[:, 0:3]
        x[:, 3] /= 2.0
        assert same is x
        return nl.copy(x)

    wanted = (X + Y) * 2
    wanted[:, :3] -= Y[:, :3]
    wanted[:, 3] /= 2
    np.testing.assert_allclose(run(body, X, Y), wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("dtype", "value", "wanted"),
    [
        (np.int8, 2, np.int32), (np.float16, 1.5, np.float32), (np.float32, 2, np.float32),
        (ml_dtypes.bfloat16, 2, ml_dtypes.bfloat16), (ml_dtypes.bfloat16, 2.0, np.float32),
        (np.int16, np.int32(3), np.int32), (np.uint8, True, np.uint8),
    ],
)  # fmt: skip
def test_numbers_have_wide_types(dtype: Any, value: Any, wanted: Any) -> None:
    x = np.ones((2, 2), dtype)
    assert run(lambda a: a + value, x).dtype == wanted


UNARY = {
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "abs": np.abs, "sign": np.sign,
    "square": np.square, "tanh": np.tanh, "negative": np.negative, "sin": np.sin, "cos": np.cos,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "reciprocal": np.reciprocal,
    "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "relu": lambda x: np.maximum(x, 0), "copy": lambda x: x, "arctan": np.arctan,
    "silu": lambda x: x / (1 + np.exp(-x)), "softplus": lambda x: np.log1p(np.exp(x)),
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_tile_equal_numpy(name: str) -> None:
    x = (X - 1.4).astype(np.float32) if name not in ("log", "sqrt", "rsqrt", "reciprocal") else X
    got = run(getattr(nl, name), x)
    np.testing.assert_allclose(got, UNARY[name](x.astype(np.float64)), rtol=2e-5, atol=2e-6)
    half = run(lambda a: getattr(nl, name)(a, dtype=nl.bfloat16), x)
    assert half.dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize("name", ["maximum", "minimum", "divide", "power", "fmod"])
def test_functions_of_two_tiles_equal_numpy(name: str) -> None:
    got = run(getattr(nl, name), X, Y)
    np.testing.assert_allclose(got, getattr(np, name)(X, Y), rtol=1e-5)
    half = run(lambda a, b: getattr(nl, name)(a, b, mask=nl.arange(12)[None, :] < 12), X, Y)
    assert np.array_equal(got, half)


def test_functions_are_operator_tokens() -> None:
    got = run(lambda a, b: nisa.tensor_tensor(a, b, op=nl.multiply), X, Y)
    assert np.array_equal(got, X * Y)
    got = run(lambda a, b: nisa.tensor_tensor(a, b, op=modern.add), X, Y)
    assert np.array_equal(got, X + Y)
    got = run(lambda a: nisa.tensor_reduce(nl.max, a, axis=1), X)
    assert np.array_equal(got[:, 0], X.max(1))


def test_composed_functions_equal_numpy() -> None:
    power = np.exp(X - X.max(1, keepdims=True))
    np.testing.assert_allclose(
        run(lambda a: nl.softmax(a, axis=1), X), power / power.sum(1, keepdims=True), rtol=1e-5
    )
    np.testing.assert_allclose(run(lambda a: nl.mean(a, axis=1), X)[:, 0], X.mean(1), rtol=1e-5)
    np.testing.assert_allclose(run(lambda a: nl.var(a, axis=1), X)[:, 0], X.var(1), rtol=1e-4)
    weights = values(1, 12, seed=4)
    wanted = X / np.sqrt((X**2).mean(1, keepdims=True) + 1e-6) * weights
    np.testing.assert_allclose(
        run(lambda a, w: nl.rms_norm(a, w, axis=1, n=12), X, weights), wanted, rtol=1e-5
    )
    masked = run(lambda a: nl.mean(a, axis=1, mask=nl.arange(12)[None, :] < 5), X)
    np.testing.assert_allclose(masked[:, 0], X[:, :5].mean(1), rtol=1e-5)


def test_where_chooses() -> None:
    got = run(lambda a, b: nl.where(a > b, a, 0.0), X, Y)
    assert np.array_equal(got, np.where(X > Y, X, 0))


def test_matmul_operator_and_transpose() -> None:
    np.testing.assert_allclose(
        run(lambda a, b: nl.copy(nl.matmul(a, nl.copy(nl.transpose(b)))), X, Y), X @ Y.T, rtol=1e-5
    )
    assert np.array_equal(run(lambda a: nl.copy(nisa.nc_transpose(a)), X), X.T)
    assert np.array_equal(run(lambda a: nisa.nc_transpose(a, engine=nisa.vector_engine), X), X.T)


def test_product_accumulates_in_fresh_psum() -> None:
    def body(x: Any, y: Any) -> Any:
        total = nl.ndarray((nl.par_dim(12), 12), nl.float32, buffer=nl.psum)
        for _ in nl.affine_range(3):
            total[...] += nisa.nc_matmul(x, y)
        return nl.copy(total)

    np.testing.assert_allclose(run(body, X, Y), 3 * (X.T @ Y), rtol=1e-5)


def test_broadcast_repeats_partitions_and_free_axes() -> None:
    row = values(1, 12)
    assert np.array_equal(
        run(lambda a: nl.copy(a.broadcast_to((8, 12))), row), np.repeat(row, 8, 0)
    )
    assert np.array_equal(run(lambda a, b: a * b, X, row), X * row)
    assert np.array_equal(run(lambda a, b: a[:, 0:1] + b, X, Y), X[:, :1] + Y)


def test_block_axes_are_tiles() -> None:
    def body(x: Any) -> Any:
        tiles = nl.zeros((2, 3, nl.par_dim(8), 4), nl.float32)
        assert tiles.shape == (2, 3, 8, 4)
        for j in nl.static_range(3):
            tiles[1, j] = x[:, nl.ds(4 * j, 4)]
            tiles[0][j] = tiles[1, j] * 2.0
        p, f = nl.mgrid[0:8, 0:4]
        result = nl.ndarray((8, 24), nl.float32)
        for i in nl.static_range(2):
            for j in nl.static_range(3):
                result[p, 12 * i + 4 * j + f] = tiles[i, j, p, f]
        return result

    assert np.array_equal(run(body, X), np.concatenate([X * 2, X], 1))


def test_index_tiles_gather_rows_and_select() -> None:
    @nki.jit
    def kernel(table: Any, rows: Any, one: Any) -> Any:
        out = nl.ndarray((5, 12), table.dtype, buffer=nl.shared_hbm)
        places = nl.load(rows)
        p, f = nl.mgrid[0:5, 0:12]
        single = nl.load(one)
        tile = nl.load(table[places[p, 0], f]) + nl.load(table[single, f]).broadcast_to((5, 12))
        nl.store(out[p, f], tile)
        return out

    rows = np.array([[3], [0], [7], [3], [1]], np.int32)
    got = kernel(X, rows, np.array([[2]], np.int32))
    assert np.array_equal(got, X[rows[:, 0]] + X[2])


def test_affine_select_evaluates_comparisons() -> None:
    p, f = np.arange(8)[:, None], np.arange(12)[None, :]
    for predicate, wanted in (
        (lambda i, j: i >= j, p >= f),
        (lambda i, j: (2 * i >= j) & (j > 2), (2 * p >= f) & (f > 2)),
        (lambda i, j: (j // 2) != i, (f // 2) != p),
    ):

        def body(x: Any, predicate: Any = predicate) -> Any:
            i, j = nl.mgrid[0:8, 0:12]
            return nisa.affine_select(predicate(i, j), on_true_tile=x, on_false_value=-5.0)

        assert np.array_equal(run(body, X), np.where(wanted, X, -5))


def test_iota_holds_index_expressions() -> None:
    def body(_: Any) -> Any:
        p, f = nl.mgrid[0:8, 0:12]
        return nisa.iota(3 * p + f + 2, dtype=nl.int32) + nisa.iota(f % 5, dtype=nl.int32)

    wanted = 3 * np.arange(8)[:, None] + np.arange(12) + 2 + np.arange(12) % 5
    assert np.array_equal(run(body, X), wanted)


def test_instructions_return_tiles() -> None:
    column = nl.float32
    assert np.array_equal(
        run(lambda a: nisa.memset((2, 3), 1.5, column) + a[0:2, 0:3], X), X[:2, :3] + 1.5
    )
    got = run(
        lambda a, b: nisa.scalar_tensor_tensor(
            data=a, op0=nl.multiply, operand0=2.0, op1=nl.add, operand1=b
        ),
        X,
        Y,
    )
    np.testing.assert_allclose(got, X * 2 + Y, rtol=1e-6)
    got = run(
        lambda a, b: nisa.tensor_tensor_scan(a, b, initial=0.0, op0=np.multiply, op1=np.add), X, Y
    )
    state, wanted = np.zeros(8), []
    for i in range(12):
        state = X[:, i] * state + Y[:, i]
        wanted.append(state)
    np.testing.assert_allclose(got, np.stack(wanted, 1), rtol=1e-4)
    got = run(lambda a, b: nisa.activation(nl.exp, a, bias=b[:, 0:1], scale=0.5), X, Y)
    np.testing.assert_allclose(got, np.exp(X * 0.5 + Y[:, :1]), rtol=1e-5)
    got = run(
        lambda a, b: nisa.tensor_scalar(a, np.subtract, b[:, 1:2], op1=np.multiply, operand1=3.0),
        X,
        Y,
    )
    np.testing.assert_allclose(got, (X - Y[:, 1:2]) * 3, rtol=1e-5)
    assert np.array_equal(run(lambda a: nisa.max8(src=a), X), -np.sort(-X, 1)[:, :8])
    got = run(lambda a: nisa.nc_find_index8(data=a, vals=nisa.max8(src=a)), X)
    assert np.array_equal(got, np.argsort(-X, 1)[:, :8])
    got = run(lambda a: nisa.tensor_partition_reduce(np.add, a), X)
    np.testing.assert_allclose(got[0], X.sum(0), rtol=1e-5)


def test_dma_copy_moves_masked_and_adds() -> None:
    @nki.jit
    def kernel(x: Any, y: Any) -> Any:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=x)
        p, f = nl.mgrid[0:8, 0:12]
        nisa.dma_copy(dst=out[p, f], src=y[p, f], mask=f < 3)
        nisa.dma_copy(dst=out[0:8, 6:12], src=y[0:8, 6:12], dst_rmw_op=np.add)
        return out

    wanted = X.copy()
    wanted[:, :3] = Y[:, :3]
    wanted[:, 6:] += Y[:, 6:]
    assert np.array_equal(kernel(X, Y), wanted)


def test_load_transpose_and_dma_transpose() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray((12, 8), x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load_transpose2d(x) + nisa.dma_transpose(x))
        return out

    assert np.array_equal(kernel(X), 2 * X.T)


def test_inputs_are_written_in_place() -> None:
    @nki.jit
    def kernel(x: Any, out: Any) -> None:
        nl.store(out, nl.load(x) * 2.0)

    out = np.zeros_like(X)
    assert kernel(X, out) is None
    assert np.array_equal(out, X * 2)


def test_errors_are_of_the_line_that_made_the_instruction() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        tile = nl.load(x)
        wrong = nisa.tensor_tensor(tile, tile, op=nl.left_shift)
        nl.store(x, wrong)
        return x

    with pytest.raises(Exception, match=r"test_language.py:") as caught:
        kernel(X)
    first = kernel.__wrapped__.__wrapped__.__code__.co_firstlineno
    assert f"test_language.py:{first + 3}" in str(caught.value)


def _refused(body: Callable[[Any], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=rf"test_language.py:\d+.*{text}"):
        run(body, X)


def test_refusals_name_the_line_and_what_is_allowed() -> None:
    _refused(lambda x: nl.sum(x, axis=0), ValueError, "allowed: free axes, from 1 to 1, each once")
    _refused(lambda x: x or x, TypeError, "mask=, nl.where")
    _refused(lambda x: nl.add(1.0, 2.0), TypeError, "at least one tile")
    _refused(lambda x: nl.add(x, x[:, 0:5]), ValueError, "of equal length")
    _refused(
        lambda x: nl.copy(x, mask=nl.arange(3)[:, None] < 2), ValueError, "broadcasts to the grid"
    )
    _refused(lambda x: nl.copy(x, mask=x), TypeError, "comparisons of nl.arange")
    _refused(lambda x: x[0, 0, 0], IndexError, "has 2 axes")
    _refused(lambda x: x["a"], TypeError, "index is of type str")
    _refused(
        lambda x: nl.copy(x[nl.arange(8)[:, None] // 2, nl.arange(4)[None]]),
        IndexError,
        "partition index",
    )
    _refused(lambda x: nl.zeros((200, 4), nl.float32), ValueError, "200 partitions")
    _refused(lambda x: nl.zeros((4, 4), nl.float32, buffer="l2"), TypeError, "nl.psum")
    _refused(
        lambda x: nl.zeros((nl.par_dim(4), nl.par_dim(4)), nl.float32), ValueError, "allowed: one"
    )
    _refused(lambda x: nl.loop_reduce(x, np.add, [0]), TypeError, "variables of nl.affine_range")
    _refused(
        lambda x: nl.matmul(x, x[0:4, :], transpose_x=True), ValueError, "contraction dimension"
    )
    _refused(lambda x: nl.invert(x, dtype=None), TypeError, "integers")
    _refused(lambda x: nl.load(x, dtype=None), ValueError, "allowed: HBM")
    _refused(lambda x: nisa.iota(3, nl.int32), TypeError, "nl.arange")


def test_names_that_are_not_there_are_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'quantum'"):
        _ = nl.quantum


def test_modern_kernels_are_untouched() -> None:
    assert modern.add is not nl.add
    assert modern.bfloat16 is nl.bfloat16
    assert not hasattr(modern, "mgrid")


def test_assigned_product_overwrites_and_update_adds() -> None:
    def body(x: Any, y: Any) -> Any:
        total = nl.ndarray((nl.par_dim(12), 12), nl.float32, buffer=nl.psum)
        filled = nl.full((12, 12), 2.0, nl.float32, buffer=nl.psum)
        for _ in nl.affine_range(2):
            total[...] = nisa.nc_matmul(x, y)
        total[...] += nisa.nc_matmul(x, y)
        filled[...] += nisa.nc_matmul(x, y)
        filled[...] += nisa.nc_matmul(x, y)
        return total + nl.copy(filled)

    np.testing.assert_allclose(run(body, X, Y), 4 * (X.T @ Y) + 2, rtol=1e-5)


def test_overlapping_update_reads_before_it_writes() -> None:
    def body(x: Any) -> Any:
        x[:, 1:] = nl.add(x[:, 1:], x[:, :-1])
        return nl.copy(x)

    wanted = X.copy()
    wanted[:, 1:] += X[:, :-1]
    assert np.array_equal(run(body, X), wanted)


def test_padded_pool_masks_indexes_below_zero() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        channels, height, width = x.shape
        out = nl.ndarray((channels, height // 2, width // 2), x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        grid = nl.mgrid[0:channels, 0 : height // 2, 0 : width // 2, 0:3, 0:3]
        row, column = 2 * grid.x + grid.z - 1, 2 * grid.y + grid.w - 1
        inside = (row >= 0) & (column >= 0) & (row < height) & (column < width)
        nl.store(out, nl.max(tile[grid.p, row, column], axis=[3, 4], mask=inside))
        return out

    x = values(6, 8, 4)
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    assert np.array_equal(kernel(x), windows[:, ::2, ::2].max((3, 4)))


def test_tiles_are_freed_with_their_last_name() -> None:
    def body(x: Any, y: Any) -> Any:
        total = nl.zeros((12, 12), nl.float32)
        for _ in nl.affine_range(40):
            total += nl.matmul(x, y, transpose_x=True)
            nl.copy(nisa.nc_transpose(x))
        return total

    np.testing.assert_allclose(run(body, X, Y), 40 * (X.T @ Y), rtol=1e-4)


def test_named_results_stay_what_they_were() -> None:
    def body(x: Any, y: Any) -> Any:
        power = nl.exp(x)
        x[...] = power
        x[...] = nl.add(x, 1.0)
        product = nl.matmul(y, y, transpose_x=True)
        total = nl.ndarray((12, 12), nl.float32, buffer=nl.psum)
        total[...] += product
        total[...] += nl.matmul(y, y, transpose_x=True)
        return (power * x) @ nl.copy(nl.transpose(y)) @ (y @ nl.copy(product))

    power = np.exp(X)
    wanted = (power * (power + 1)) @ Y.T @ (Y @ (Y.T @ Y))
    np.testing.assert_allclose(run(body, X, Y), wanted, rtol=1e-4)


def test_a_false_mask_reads_nothing() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        empty = nl.ndarray((8, 12), nl.float32)
        p, f = nl.mgrid[0:8, 0:12]
        nisa.affine_select(p > f, on_true_tile=empty, on_false_value=0.0, mask=False)
        nl.copy(empty, mask=False)
        nl.sum(empty, axis=1, mask=False)
        nl.matmul(empty, empty, transpose_x=True, mask=False)
        return x

    _, profile = trn3.nki.profile(kernel, X, strict=True)
    assert len(profile.data.instructions) == 0


def test_rows_and_columns_are_stored() -> None:
    @nki.jit
    def kernel(x: Any, rows: Any, columns: Any) -> None:
        tile = nl.load(x)
        for i in nl.affine_range(8):
            nl.store(rows[i, :], value=nl.load(x[i, :]) * 2.0)
        for j in nl.affine_range(12):
            nl.store(columns[:, j], value=tile[:, j])
        nl.store(columns[0:8, 0], value=1.0 / tile[:, 0])
        p, f = nl.mgrid[0:8, 0:3]
        nl.store(rows[p, f], value=nl.max(tile, axis=1))
        nl.store(rows[0:8, 11:12], value=0.0)

    rows, columns = np.zeros_like(X), np.zeros_like(X)
    kernel(X, rows, columns)
    wanted = X * 2
    wanted[:, :3] = X.max(1, keepdims=True)
    wanted[:, 11] = 0
    assert np.array_equal(rows, wanted)
    assert np.array_equal(columns[:, 1:], X[:, 1:])
    np.testing.assert_allclose(columns[:, 0], 1 / X[:, 0], rtol=1e-6)


def test_steps_and_constants() -> None:
    constant = np.arange(12, dtype=np.float32).reshape(1, 12)

    def body(x: Any) -> Any:
        spread = nl.load(nl.shared_constant(constant)).broadcast_to((8, 12))
        wide = nl.ndarray((nl.par_dim(8), 2, 12), nl.float32)
        wide[:, 0, 0::2] = x[:, 0:6]
        wide[:, 0, 1::2] = x[:, 6:12]
        wide[:, 1, :] = spread
        return wide[:, 0, :] + wide[:, 1]

    wanted = np.empty_like(X)
    wanted[:, 0::2], wanted[:, 1::2] = X[:, :6], X[:, 6:]
    assert np.array_equal(run(body, X), wanted + constant)


@pytest.mark.parametrize("axis", [1, (1, 3), (3, 1), (2,), (1, 2), (1, 2, 3)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions_over_any_free_axes(axis: Any, keepdims: bool) -> None:
    values = np.random.default_rng(3).integers(-5, 6, (4, 3, 2, 5)).astype(np.float32)
    wanted = values.max(axis=axis, keepdims=keepdims).reshape((4, -1))

    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray(wanted.shape, x.dtype, buffer=nl.shared_hbm)
        got = nl.max(nl.load(x), axis=axis, keepdims=keepdims)
        assert got.shape[0] == 4
        nl.store(out, got.reshape(wanted.shape))
        return out

    np.testing.assert_array_equal(kernel(values), wanted)
