"""Functions of tiles against NumPy in float64."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from support.core import get, put, run
from trn3 import nki
from trn3.nki.language.promotion import promote

RNG = np.random.default_rng(3)
X = RNG.normal(size=(5, 12)).astype(np.float32)
Y = RNG.normal(size=(5, 12)).astype(np.float32)
I = RNG.integers(-100, 100, (5, 12)).astype(np.int32)  # noqa: E741
J = RNG.integers(1, 9, (5, 12)).astype(np.int32)


def apply(function: Any, *arrays: Any, **options: Any) -> NDArray[Any]:
    """Run a function on tiles of arrays; numbers pass as they are."""

    def kernel() -> Any:
        tiles = [put(a) if isinstance(a, np.ndarray) else a for a in arrays]
        result = function(*tiles, **options)
        assert nl.is_on_chip(result)
        return get(result)

    found: NDArray[Any] = run(kernel)
    return found


def close(result: NDArray[Any], expected: Any, ulps: float = 2) -> None:
    """Compare float32 results with exact ones."""
    expected = np.asarray(expected, np.float64)
    spacing = np.spacing(np.abs(expected).astype(np.float32)).astype(np.float64)
    assert result.shape == expected.shape
    assert result.dtype == np.float32
    assert (np.abs(result.astype(np.float64) - expected) <= ulps * spacing).all()


ARITHMETIC = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum,
    "minimum": np.minimum,
}  # fmt: skip
COMPARISONS = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]


@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_on_tiles_and_numbers(name: str) -> None:
    function, exact = getattr(nl, name), ARITHMETIC[name]
    np.testing.assert_array_equal(apply(function, X, Y), exact(X, Y))
    np.testing.assert_array_equal(apply(function, X, 1.5), exact(X, np.float32(1.5)))
    np.testing.assert_array_equal(apply(function, 1.5, X), exact(np.float32(1.5), X))
    np.testing.assert_array_equal(apply(function, X, np.float32(2)), exact(X, np.float32(2)))
    np.testing.assert_array_equal(apply(function, I, J), exact(I, J))


@pytest.mark.parametrize("name", [*ARITHMETIC, "logical_and", *COMPARISONS])
def test_free_axes_of_length_one_stretch(name: str) -> None:
    function = getattr(nl, name)
    column = np.ascontiguousarray(Y[:, :1])
    wide = np.repeat(column, 12, axis=1)
    np.testing.assert_array_equal(apply(function, X, column), apply(function, X, wide))
    np.testing.assert_array_equal(apply(function, column, X), apply(function, wide, X))


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"nl.add tiles have shapes \(5, 12\) and \(5, 6\)"):
        apply(nl.add, X, X[:, :6].copy())
    with pytest.raises(ValueError, match=r"nl.add tiles have shapes"):
        apply(nl.add, X, X[:1].copy())
    with pytest.raises(TypeError, match=r"nl.add got two numbers"):
        apply(nl.add, 1, 2)
    with pytest.raises(TypeError, match=r"nl.add y is of type str"):
        apply(nl.add, X, "x")
    with pytest.raises(ValueError, match=r"nl.exp x lies in MemoryRegion.shared_hbm"):
        run(lambda: nl.exp(put(X, nl.shared_hbm)))


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_have_the_tiles_type(name: str) -> None:
    function, exact = getattr(nl, name), getattr(np, name)
    other = np.where(RNG.random(X.shape) < 0.5, X, Y).astype(np.float32)
    result = apply(function, X, other)
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, exact(X, other))
    np.testing.assert_array_equal(apply(function, X, 0.25), exact(X, 0.25))
    np.testing.assert_array_equal(apply(function, 0.25, X), exact(0.25, X))
    mask = apply(function, X, other, dtype=nl.uint8)
    assert mask.dtype == np.uint8
    assert apply(function, I, J).dtype == np.int32


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_logic_is_of_nonzeros(name: str) -> None:
    a = RNG.integers(0, 2, X.shape).astype(np.float32)
    b = RNG.integers(0, 2, X.shape).astype(np.float32)
    np.testing.assert_array_equal(apply(getattr(nl, name), a, b), getattr(np, name)(a, b))


def test_logical_not_flips_bit_zero() -> None:
    values = np.array([[0, 1, 2, 3]], np.uint8)
    assert apply(nl.logical_not, values).tolist() == [[1, 0, 3, 2]]
    assert apply(nl.logical_not, values.astype(np.float32)).tolist() == [[1, 0, 0, 0]]
    assert apply(nl.logical_not, values, dtype=nl.float32).dtype == np.float32


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int16, np.uint8])
def test_bits(dtype: Any) -> None:
    limit = np.iinfo(dtype)
    a = RNG.integers(limit.min, limit.max, (3, 7), dtype, endpoint=True)
    b = RNG.integers(limit.min, limit.max, (3, 7), dtype, endpoint=True)
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        np.testing.assert_array_equal(apply(getattr(nl, name), a, b), getattr(np, name)(a, b))
    np.testing.assert_array_equal(apply(nl.invert, a), ~a)
    unsigned = a.view(f"u{a.itemsize}")
    np.testing.assert_array_equal(
        apply(nl.right_shift, a, 3).view(unsigned.dtype), unsigned >> np.asarray(3, unsigned.dtype)
    )
    np.testing.assert_array_equal(
        apply(nl.left_shift, a, 3).view(unsigned.dtype), unsigned << np.asarray(3, unsigned.dtype)
    )
    with pytest.raises(TypeError, match=r"nl.invert x has dtype float32"):
        apply(nl.invert, X)


def test_division_is_exact() -> None:
    np.testing.assert_array_equal(apply(nl.divide, X, Y), X / Y)
    np.testing.assert_array_equal(apply(nl.divide, X, 3.0), X / np.float32(3))
    np.testing.assert_array_equal(apply(nl.divide, 3.0, X), np.float32(3) / X)
    column = np.ascontiguousarray(Y[:, :1])
    np.testing.assert_array_equal(apply(nl.divide, X, column), X / column)
    assert apply(nl.divide, X, Y, dtype=nl.bfloat16).dtype == ml_dtypes.bfloat16


def test_remainders() -> None:
    np.testing.assert_array_equal(apply(nl.mod, X, Y), np.mod(X, Y))
    np.testing.assert_array_equal(apply(nl.fmod, X, Y), np.fmod(X, Y))
    np.testing.assert_array_equal(apply(nl.mod, X, 0.7), np.mod(X, np.float32(0.7)))


def test_powers() -> None:
    positive = np.abs(X)
    close(apply(nl.power, positive, Y), positive.astype(float) ** Y.astype(float))
    close(apply(nl.power, positive, 2.0), positive.astype(float) ** 2)
    close(apply(nl.power, 2.0, Y), 2.0 ** Y.astype(float))


def test_signed_magnitudes() -> None:
    a, b = np.array([[-5, 1, 3]], np.float32), np.array([[3, -1, -5]], np.float32)
    assert apply(nl.abs_max, a, b).tolist() == [[-5, -1, -5]]
    assert apply(nl.abs_min, a, b).tolist() == [[3, -1, 3]]


UNARY: dict[str, Any] = {
    "exp": np.exp, "tanh": np.tanh, "square": np.square, "abs": np.abs, "sign": np.sign,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)), "softplus": lambda x: np.log1p(np.exp(x)),
    "reciprocal": lambda x: 1 / x, "negative": np.negative,
    "gelu": np.vectorize(lambda x: x * 0.5 * math.erfc(-x / math.sqrt(2))),
    "erf": np.vectorize(math.erf),
    "erf_dx": lambda x: 2 / math.sqrt(math.pi) * np.exp(-x * x),
    "gelu_apprx_sigmoid": lambda x: x / (1 + np.exp(-1.702 * x)),
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_tile(name: str) -> None:
    close(apply(getattr(nl, name), X), UNARY[name](X.astype(np.float64)), ulps=4)
    narrow = apply(getattr(nl, name), X.astype(ml_dtypes.bfloat16))
    assert narrow.dtype == ml_dtypes.bfloat16
    assert apply(getattr(nl, name), X, dtype=nl.float16).dtype == np.float16


@pytest.mark.parametrize("name", ["log", "sqrt", "rsqrt"])
def test_functions_of_positive_tiles(name: str) -> None:
    positive = np.abs(X) + np.float32(0.1)
    functions: dict[str, Any] = {"log": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x)}
    exact = functions[name]
    close(apply(getattr(nl, name), positive), exact(positive.astype(np.float64)), ulps=4)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_of_any_size(name: str) -> None:
    angles = RNG.uniform(-500, 500, (4, 64)).astype(np.float32)
    angles[0, :4] = [9.0, 0.0, math.pi, -math.pi]
    exact = getattr(np, name)(angles.astype(np.float64))
    result = apply(getattr(nl, name), angles).astype(np.float64)
    scale = 1 if name != "tan" else 1 + exact**2
    assert (np.abs(result - exact) <= 1e-6 * scale).all()


def test_sine_as_an_operator_does_not_reduce() -> None:
    def kernel() -> Any:
        tile = nl.full((1, 1), 9.0, nl.float32)
        nisa.activation(tile, op=nl.sin, data=tile)
        return get(tile)

    assert abs(float(run(kernel)[0, 0]) - 27.65) < 0.01
    assert abs(float(apply(nl.sin, np.full((1, 1), 9.0, np.float32))[0, 0]) - math.sin(9)) < 1e-6


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc"])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16])
def test_whole_numbers(name: str, dtype: Any) -> None:
    values = np.array(
        [[-3.7, -2.5, -0.3, 0.0, 0.5, 1.5, 2.0, 3.99, 1e4, np.inf, -np.inf, np.nan, 65504.0]]
    ).astype(dtype)
    result = apply(getattr(nl, name), values)
    np.testing.assert_array_equal(
        result.astype(np.float32), getattr(np, name)(values.astype(np.float32))
    )
    large = np.array([[1e30, -(2.0**31), 2.0**23 + 1, 2.0**22 + 0.5, -0.75]], np.float32)
    np.testing.assert_array_equal(apply(getattr(nl, name), large), getattr(np, name)(large))
    np.testing.assert_array_equal(apply(getattr(nl, name), I), I)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8])
def test_copy_is_exact(dtype: Any) -> None:
    values = RNG.integers(0, 256, (4, 4 * np.dtype(dtype).itemsize), np.uint8).view(dtype)
    assert apply(nl.copy, values).tobytes() == values.tobytes()
    assert apply(nl.copy, I, dtype=nl.float32).dtype == np.float32


def test_where() -> None:
    condition = (X > 0).astype(np.float32)
    np.testing.assert_array_equal(apply(nl.where, condition, X, Y), np.where(X > 0, X, Y))
    np.testing.assert_array_equal(apply(nl.where, condition, X, -1.0), np.where(X > 0, X, -1))
    np.testing.assert_array_equal(apply(nl.where, condition, 2.0, Y), np.where(X > 0, 2, Y))
    half = condition * np.float32(0.25)
    np.testing.assert_array_equal(apply(nl.where, half, X, Y), np.where(X > 0, X, Y))
    column = np.ascontiguousarray(Y[:, :1])
    np.testing.assert_array_equal(
        apply(nl.where, condition.astype(np.uint8), X, column), np.where(X > 0, X, column)
    )


# --- reductions -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sum", "max", "min", "prod", "mean"])
def test_reductions(name: str) -> None:
    exact = getattr(np, name)(X.astype(np.float64), axis=1, keepdims=True)
    result = apply(getattr(nl, name), X, axis=1)
    assert result.shape == (5, 1)
    np.testing.assert_allclose(result, exact, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(result, apply(getattr(nl, name), X, axis=[-1], keepdims=True))


@pytest.mark.parametrize(
    ("axis", "keepdims", "shape"),
    [
        (2, False, (4, 3)),
        (-1, True, (4, 3, 1)),
        ((1, 2), False, (4, 1)),
        ([1, 2], True, (4, 1, 1)),
        ((2, 1), False, (4, 1)),
    ],
)
def test_reductions_of_higher_rank(axis: Any, keepdims: bool, shape: tuple[int, ...]) -> None:
    array = RNG.integers(-9, 9, (4, 3, 5)).astype(np.float32)
    for name in ("sum", "max", "mean"):
        result = apply(getattr(nl, name), array, axis, keepdims=keepdims)
        exact = getattr(np, name)(array, axis=tuple(np.atleast_1d(axis)))
        assert result.shape == shape
        np.testing.assert_allclose(result.reshape(exact.shape), exact, rtol=1e-6)
    assert apply(nl.var, array, axis, keepdims=keepdims).ndim == 3


@pytest.mark.parametrize("axis", [0, (0, 1), (), 3, (1, 1)])
def test_reductions_refuse_other_axes(axis: Any) -> None:
    with pytest.raises(ValueError, match="allowed: free axes, from 1 to 1, each once"):
        apply(nl.sum, X, axis)


def test_variance_keeps_its_axes() -> None:
    result = apply(nl.var, X, axis=1)
    assert result.shape == (5, 1)
    np.testing.assert_allclose(result[:, 0], X.astype(np.float64).var(axis=1), rtol=1e-5)


def test_all() -> None:
    bits = (RNG.random((6, 3)) < 0.8).astype(np.float32)
    np.testing.assert_array_equal(apply(nl.all, bits, axis=1)[:, 0], bits.all(axis=1))


@pytest.mark.parametrize(("shape", "axis"), [((5, 12), -1), ((4, 3, 8), 2), ((4, 3, 8), (1, 2))])
def test_softmax(shape: tuple[int, ...], axis: Any) -> None:
    x = RNG.normal(size=shape).astype(np.float32) * 5
    axes = tuple(np.atleast_1d(axis))
    powers = np.exp(x.astype(np.float64) - x.max(axis=axes, keepdims=True))
    np.testing.assert_allclose(
        apply(nl.softmax, x, axis), powers / powers.sum(axis=axes, keepdims=True), rtol=3e-6
    )
    assert apply(nl.softmax, x, axis, dtype=nl.bfloat16).dtype == ml_dtypes.bfloat16


def test_rms_norm() -> None:
    exact = X / np.sqrt((X.astype(np.float64) ** 2).mean(axis=1, keepdims=True) + 1e-6) * Y
    np.testing.assert_allclose(apply(nl.rms_norm, X, Y, axis=1, n=12), exact, rtol=2e-6)


# --- movement ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("array", "shape"),
    [(X, (5, 12)), (X[:, 3], (5, 1)), (np.arange(300, dtype=np.float32), (1, 300)),
     (np.arange(128, dtype=np.float32), (128, 1)), (np.ones((3, 4, 5), np.float32), (3, 4, 5))],
)  # fmt: skip
def test_load_gives_tiles(array: Any, shape: tuple[int, ...]) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        tile = nl.load(x)
        assert tile.shape == shape
        assert nl.is_sbuf(tile)
        out = nl.ndarray(x.shape, nl.bfloat16, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x, dtype=nl.bfloat16))
        return out

    np.testing.assert_array_equal(kernel(array), array.astype(ml_dtypes.bfloat16))


def test_store_stages_tiles_of_psum_and_says_so() -> None:
    @nki.jit
    def kernel() -> Any:
        out = nl.ndarray((2, 2), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.full((2, 2), 3, nl.float32, buffer=nl.psum))
        return out

    with pytest.warns(UserWarning, match="nl.store of a PSUM tile"):
        assert kernel().tolist() == [[3, 3], [3, 3]]
    with pytest.raises(ValueError, match=r"nl.store dst lies in MemoryRegion.sbuf"):
        run(lambda: nl.store(nl.zeros((2, 2), nl.float32), nl.zeros((2, 2), nl.float32)))
    with pytest.raises(TypeError, match=r"nl.store value is of type float"):
        run(lambda: nl.store(nl.ndarray((2,), nl.float32, buffer=nl.shared_hbm), 1.0))


def test_transposes() -> None:
    np.testing.assert_array_equal(apply(nl.transpose, X), X.T)
    np.testing.assert_array_equal(run(lambda: get(nl.load_transpose2d(put(X, nl.shared_hbm)))), X.T)
    assert run(lambda: nl.is_psum(nl.transpose(put(X))))
    with pytest.raises(ValueError, match=r"nl.transpose x has shape \(2, 3, 4\)"):
        apply(nl.transpose, np.zeros((2, 3, 4), np.float32))


@pytest.mark.parametrize("transpose_x", [False, True])
def test_matmul(transpose_x: bool) -> None:
    a = RNG.integers(-4, 4, (16, 8)).astype(np.float32)
    b = RNG.integers(-4, 4, (16 if transpose_x else 8, 20)).astype(np.float32)
    exact = (a.T if transpose_x else a) @ b
    np.testing.assert_array_equal(apply(nl.matmul, a, b, transpose_x=transpose_x), exact)
    narrow = apply(
        nl.matmul,
        a.astype(ml_dtypes.bfloat16),
        b.astype(ml_dtypes.bfloat16),
        transpose_x=transpose_x,
    )
    assert narrow.dtype == np.float32
    np.testing.assert_array_equal(narrow, exact)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int32, np.uint8])
def test_broadcast_to(dtype: Any) -> None:
    raw = RNG.integers(0, 2**31 if dtype is np.int32 else 120, (1, 600))
    row = raw.astype(dtype)
    result = apply(nl.broadcast_to, row, (9, 600))
    assert result.dtype == row.dtype
    np.testing.assert_array_equal(result, np.broadcast_to(row, (9, 600)))
    column = np.ascontiguousarray(row[:, :7].reshape(7, 1))
    np.testing.assert_array_equal(
        apply(nl.broadcast_to, column, (7, 3)), np.broadcast_to(column, (7, 3))
    )

    def same() -> bool:
        tile = put(column)
        return nl.broadcast_to(tile, (7, 1)) is tile

    assert run(same)
    with pytest.raises(ValueError, match="only axes of length 1 stretch"):
        apply(nl.broadcast_to, X, (5, 24))


def test_expand_dims() -> None:
    assert run(lambda: nl.expand_dims(put(X), 1).shape) == (5, 1, 12)
    assert run(lambda: nl.expand_dims(put(X), -1).shape) == (5, 12, 1)


def test_gather_flattened() -> None:
    index = RNG.integers(0, 12, (5, 7)).astype(np.uint32)
    exact = np.take_along_axis(X, index.astype(np.int64), axis=1)
    np.testing.assert_array_equal(apply(nl.gather_flattened, X, index), exact)
    np.testing.assert_array_equal(apply(nl.gather_flattened, X, index.astype(np.int32)), exact)


# --- random -----------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["trn1", "trn3"])
def test_random_numbers_follow_the_seed(target: str) -> None:
    @nki.jit(platform_target=target)
    def kernel(seed: Any) -> Any:
        out = nl.ndarray((2, 128, 64), nl.float32, buffer=nl.shared_hbm)
        nl.random_seed(nl.load(seed))
        for i in range(2):
            nl.store(out[i], nl.rand((128, 64), nl.float32))
        return out

    first, again = (kernel(np.array([[7]], np.uint32)) for _ in range(2))
    other = kernel(np.array([[8]], np.uint32))
    np.testing.assert_array_equal(first, again)
    assert (first != other).mean() > 0.99
    assert (first[0] != first[1]).mean() > 0.99
    assert first.min() >= 0
    assert first.max() < 1 or target == "trn3"
    assert abs(first.mean() - 0.5) < 0.02
    assert run(lambda: nl.random_seed(5)) is None
    with pytest.raises(TypeError, match=r"nl.rand dtype is int32"):
        run(lambda: nl.rand((1, 1), nl.int32))


@pytest.mark.parametrize("rate", [0.0, 0.25, 1.0])
def test_dropout_zeroes_and_does_not_scale(rate: float) -> None:
    ones = np.ones((128, 256), np.float32)
    result = apply(nl.dropout, ones, rate)
    assert set(np.unique(result)) <= {0.0, 1.0}
    assert abs((result == 0).mean() - rate) < 0.02


# --- element types of results -----------------------------------------------------------------

PROMOTIONS = [
    ("int32", "float16", "float16"), ("uint16", "tfloat32", "tfloat32"),
    ("float32", "tfloat32", "float32"), ("float32", "bfloat16", "float32"),
    ("float16", "bfloat16", "float32"), ("float8_e4m3", "float16", "float16"),
    ("float8_e4m3", "bfloat16", "bfloat16"), ("float8_e4m3", "float8_e5m2", "bfloat16"),
    ("int16", "int32", "int32"), ("uint8", "uint16", "uint16"), ("uint16", "int32", "int32"),
    ("int8", "uint8", "int16"), ("int8", "uint16", "int32"), ("int32", "uint32", "float32"),
    ("int8", "int8", "int8"), ("bfloat16", "bfloat16", "bfloat16"), ("bool", "int16", "int16"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other", "result"), PROMOTIONS)
def test_promotion_table(one: str, other: str, result: str) -> None:
    pair = getattr(nl, one), getattr(nl, other)
    assert promote(*pair) is promote(*pair[::-1]) is getattr(nl, result)


def test_results_follow_promotion_and_dtype() -> None:
    half, brain = X.astype(np.float16), Y.astype(ml_dtypes.bfloat16)
    assert apply(nl.add, half, brain).dtype == np.float32
    assert apply(nl.add, half, 1.5).dtype == np.float16
    assert apply(nl.add, I.astype(np.int8), 2).dtype == np.int8
    assert apply(nl.add, half, brain, dtype=nl.bfloat16).dtype == ml_dtypes.bfloat16
    with pytest.raises(TypeError, match="float8_e8m0fnu has no arithmetic"):
        promote(nl.float8_e8m0fnu, nl.float32)
