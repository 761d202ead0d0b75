"""Functions of jax.numpy and jax.lax, against NumPy and JAX in float64 and against JAX's types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from jax import lax

import trn3.jax
from support.jax_values import BFLOAT16, FLOAT32, assert_close, assert_types, in_float64

X = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
POSITIVE = np.abs(X) + np.float32(0.1)
UNIT = np.tanh(X)
I = np.array([0, 2, 1], np.int32)  # noqa: E741 - indices
B = X > 0
IMAGE = np.random.default_rng(2).standard_normal((2, 6, 6, 3)).astype(np.float32)
KERNEL = np.random.default_rng(3).standard_normal((3, 3, 3, 4)).astype(np.float32)
LAYOUT = ("NHWC", "HWIO", "NHWC")

BARRIER: Any = lax.optimization_barrier

# Of one array, with the same name in NumPy.
NUMPY_NAMES = ["abs", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "cbrt"]
NUMPY_NAMES += [
    "ceil",
    "cos",
    "cosh",
    "cumsum",
    "cumprod",
    "exp",
    "exp2",
    "expm1",
    "flip",
    "floor",
    "log",
]
NUMPY_NAMES += ["log10", "log1p", "log2", "max", "mean", "median", "min", "negative", "prod"]
NUMPY_NAMES += ["ptp", "reciprocal", "rint", "sign", "sin", "sinc", "sinh", "sort", "sqrt"]
NUMPY_NAMES += ["square", "std", "sum", "tan", "tanh", "transpose", "tril", "triu", "trunc"]
NUMPY_NAMES += ["var", "argmax", "argmin", "argsort", "isfinite", "isinf", "isnan"]
NUMPY_NAMES += ["signbit", "ravel", "round", "any", "all", "count_nonzero"]
DOMAINS = dict.fromkeys(["log", "log10", "log1p", "log2", "sqrt", "reciprocal"], POSITIVE)
DOMAINS |= dict.fromkeys(["arccos", "arcsin", "arctanh"], UNIT * np.float32(0.9))
DOMAINS |= {"arccosh": POSITIVE + 1}

FUNCTIONS: dict[str, tuple[Callable[..., Any], Any]] = {
    # Elements
    "add": (lambda x: x + x[0], (X,)),
    "divide": (lambda x, y: x / y, (X, POSITIVE)),
    "power": (lambda x: x**1.7, (POSITIVE,)),
    "integer power": (lambda x: (x**3, x**-2), (X,)),
    "power of integers": (lambda i: i**3, (I,)),
    "remainder": (lambda x: (x % 0.3, lax.rem(x, jnp.full_like(x, 0.3))), (X,)),
    "floor division": (lambda i: (i // 2, -i // 2, i % 2), (I,)),
    "atan2": (jnp.arctan2, (X, POSITIVE)),
    "clip": (lambda x: jnp.clip(x, -0.5, 0.5), (X,)),
    "where": (lambda b, x: jnp.where(b, x, 0), (B, X)),
    "bits": (lambda i: (i & 3, i | 4, i ^ 5, ~i, i << 2, i >> 1), (I,)),
    "counts of bits": (lambda i: (lax.population_count(i), lax.clz(i)), (I,)),
    "bitcast": (lambda i: lax.bitcast_convert_type(i, jnp.float32), (I + 2**30,)),
    "wrapping": (lambda i: (i.astype(jnp.int8) * 100, i.astype(jnp.uint32) - 1), (I,)),
    "reduce_precision": (lambda x: lax.reduce_precision(x.astype(jnp.float32), 8, 7), (X,)),
    "float8": (lambda x: x.astype(jnp.float8_e4m3fn).astype(jnp.float32), (X,)),
    "erf": (lambda x: (lax.erf(x), lax.erfc(x), lax.erf_inv(x * 0.3)), (X,)),
    "gamma": (lambda x: (lax.lgamma(x), lax.digamma(x)), (POSITIVE,)),
    "bessel": (jax.scipy.special.i0e, (X,)),
    # Activations
    "gelu": (lambda x: (jax.nn.gelu(x), jax.nn.gelu(x, approximate=False)), (X,)),
    "silu": (lambda x: (jax.nn.silu(x), jax.nn.softplus(x), jax.nn.elu(x)), (X,)),
    "softmax": (lambda x: (jax.nn.softmax(x), jax.nn.log_softmax(x)), (X,)),
    "logsumexp": (lambda x: jax.nn.logsumexp(x, axis=0), (X,)),
    "standardize": (jax.nn.standardize, (X,)),
    "one_hot": (lambda i: jax.nn.one_hot(i, 4), (I,)),
    # Moves
    "concatenate": (lambda x: jnp.concatenate([x, x[::-1]]), (X,)),
    "pad": (lambda x: jnp.pad(x, ((1, 0), (2, 1)), constant_values=3), (X,)),
    "stride": (lambda x: x[1:, ::2], (X,)),
    "roll": (lambda x: jnp.roll(x, 1, axis=1), (X,)),
    "tile": (lambda x: jnp.tile(x, (2, 1)), (X,)),
    "stack": (lambda x: jnp.stack([x, x], axis=1), (X,)),
    "index": (lambda x, i: (x[i], x[i, i], x[i[0]]), (X, I)),
    "index outside": (
        lambda x, i: (x[i + 2], x.at[i + 2].get(mode="fill", fill_value=7.0)),
        (X, I),
    ),
    "take_along_axis": (lambda x, i: jnp.take_along_axis(x, i[:, None], 1), (X, I)),
    "at": (
        lambda x, i: (x.at[i].add(1.0), x.at[i].multiply(2.0), x.at[i].set(5.0), x.at[i].max(0.0)),
        (X, I),
    ),
    "at outside": (lambda x, i: x.at[i + 2].set(0.0, mode="drop"), (X, I)),
    "segment_sum": (lambda x, i: jax.ops.segment_sum(x, i // 2, 2), (X, I)),
    "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (i[0], i[1]), (2, 2)), (X, I)),
    "dynamic_update_slice": (
        lambda x, i: lax.dynamic_update_slice(x, x[:2, :2], (i[1], i[2])),
        (X, I),
    ),
    # Sums, orders, products
    "argmax": (lambda x: (jnp.argmax(x, axis=1), jnp.argmin(x, axis=0)), (np.round(X),)),
    "argmax of integers": (jnp.argmax, (I,)),
    "sort by two": (lambda x: lax.sort((jnp.round(x), x), num_keys=2), (X,)),
    "sort down": (lambda x: jnp.sort(x, descending=True), (X,)),
    "top_k": (lambda x: lax.top_k(x, 2), (X,)),
    "searchsorted": (lambda x: jnp.searchsorted(jnp.sort(x[0]), x[1]), (X,)),
    "cumsum": (lambda x: (jnp.cumsum(x, axis=1), jnp.cumsum(x, axis=0)), (X,)),
    "cummax": (lambda x: (lax.cummax(x), lax.cummin(x, axis=1, reverse=True)), (X,)),
    "max_pool": (
        jax.value_and_grad(
            lambda a: lax.reduce_window(
                a, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME"
            ).sum()
        ),
        (IMAGE,),
    ),
    "avg_pool": (
        jax.value_and_grad(
            lambda a: jnp.square(
                lax.reduce_window(a, 0.0, lax.add, (1, 3, 2, 1), (1, 2, 2, 1), "VALID")
            ).sum()
        ),
        (IMAGE,),
    ),
    "reductions by any function": (
        lambda x: (
            lax.reduce(x, x.dtype.type(0), lambda a, b: jnp.sqrt(a * a + b * b), (0,)),
            lax.reduce((x, x), (x[0, 0], x[0, 1]), lambda a, b: (a[0] + b[0], a[1] * b[1]), (0, 1)),
            lax.reduce(x[:, :0], x[0, 0], jnp.logaddexp, (1,)),
            lax.reduce(x, -x.dtype.type(np.inf), jnp.logaddexp, (1,)),
        ),
        (X,),
    ),
    "the last of a row": (
        lambda x: lax.reduce(x, x.dtype.type(7), lambda a, b: jnp.where(b == 7, a, b), (1,)),
        (np.arange(35, dtype=np.float32).reshape(5, 7),),
    ),
    "cumlogsumexp": (
        lambda x: (lax.cumlogsumexp(x, 1), lax.cumlogsumexp(x, 0, reverse=True)),
        (X,),
    ),
    "forward gradients of max_pool": (
        lambda a, b: jax.jvp(
            lambda a: lax.reduce_window(
                a, -jnp.inf, lax.max, (1, 3, 2, 1), (1, 2, 1, 1), "SAME", (1, 2, 1, 1), (1, 1, 2, 1)
            ),
            (a,),
            (b,),
        ),
        (IMAGE, np.cos(IMAGE)),
    ),
    "approx_max_k": (lambda x: (lax.approx_max_k(x, 2), lax.approx_min_k(x.T, 2)), (X,)),
    "unique": (lambda i: jnp.unique(i // 2, size=3, fill_value=9), (I,)),
    "associative_scan": (lambda x: lax.associative_scan(jnp.add, x), (X,)),
    "matmul": (lambda x: x @ x.T, (X,)),
    "matmul of integers": (lambda i: i[:, None] @ i[None], (I,)),
    "matmul of batches": (lambda x: jnp.matmul(x[:, :, None], x[:, None]), (X,)),
    "einsum": (lambda x: jnp.einsum("ij,kj,k->i", x, x, x[:, 0]), (X,)),
    "tensordot": (lambda a, b: jnp.tensordot(a, b, ((3,), (2,))), (IMAGE, KERNEL)),
    "norm": (jnp.linalg.norm, (X,)),
    "attention": (
        lambda a: jax.nn.dot_product_attention(a, a, a, is_causal=True),
        (IMAGE.reshape(2, 6, 6, 3),),
    ),
    "convolution": (
        lambda a, b: lax.conv_general_dilated(a, b, (2, 1), "SAME", dimension_numbers=LAYOUT),
        (IMAGE, KERNEL),
    ),
    "dilated convolution": (
        lambda a, b: lax.conv_general_dilated(
            a, b, (1, 1), ((0, 1), (2, 0)), (2, 1), (1, 2), dimension_numbers=LAYOUT
        ),
        (IMAGE, KERNEL),
    ),
    "grouped convolution": (
        lambda a, b: lax.conv_general_dilated(
            a, b[:, :, :1, :3], (1, 1), "SAME", dimension_numbers=LAYOUT, feature_group_count=3
        ),
        (IMAGE, KERNEL),
    ),
    "transposed convolution": (
        lambda a, b: lax.conv_transpose(a, b, (2, 2), "SAME"),
        (IMAGE, KERNEL),
    ),
    "gradients of a convolution": (
        jax.grad(
            lambda a, b: jnp.sin(
                lax.conv_general_dilated(a, b, (2, 2), "SAME", dimension_numbers=LAYOUT)
            ).sum(),
            (0, 1),
        ),
        (IMAGE, KERNEL),
    ),
    "one-dimensional convolution": (lambda x: jnp.convolve(x[0], x[1]), (X,)),
    # Loops and cases
    "scan": (lambda x: lax.scan(lambda c, a: (c * 0.9 + a, c.sum()), x[0], x), (X,)),
    "reverse scan": (lambda x: lax.scan(lambda c, a: (c + a, c), x[0], x, reverse=True), (X,)),
    "map": (lambda x: lax.map(jnp.sum, x), (X,)),
    "fori_loop": (lambda x: lax.fori_loop(0, 5, lambda i, c: c * 0.5 + x[i % 3], x[0]), (X,)),
    "nested loops": (
        lambda x: lax.fori_loop(
            0, 3, lambda i, c: lax.fori_loop(0, i, lambda j, d: d + x[i, j], c), x[0, 0]
        ),
        (X,),
    ),
    "while_loop": (
        lambda x: lax.while_loop(lambda c: c.sum() < 50, lambda c: c * 1.5, x),
        (POSITIVE,),
    ),
    "while_loop of a batch": (
        jax.vmap(lambda v: lax.while_loop(lambda c: c < v.sum(), lambda c: c + 0.75, v[0])),
        (POSITIVE,),
    ),
    "cond": (lambda x: lax.cond(x[0, 0] > 0, x.sum, lambda: 2 * x.mean()), (X,)),
    "cond otherwise": (lambda x: lax.cond(x[0, 0] > 9, x.sum, x.mean), (X,)),
    "switch": (
        lambda i, x: [
            lax.switch(n, [lambda v: v, lambda v: v * 2, lambda v: v + x.sum()], x[0])
            for n in (i[0], i[1], i[2] + 5, i[0] - 3)
        ],
        (I, X),
    ),
    "cond of a batch": (
        jax.vmap(lambda v: lax.cond(v[0] > 0, v.sum, v.prod)),
        (X,),
    ),
    # Transformations
    "grad": (jax.grad(lambda x: (jnp.tanh(x) ** 2).sum()), (X,)),
    "grad of scan": (
        jax.grad(lambda x: lax.scan(lambda c, a: (jnp.tanh(c + a), c.sum()), x[0], x)[1].sum()),
        (X,),
    ),
    "grad of index": (jax.grad(lambda x, i: (x[i] ** 2).sum()), (X, I)),
    "grad of remat": (jax.grad(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)).sum())), (X,)),
    "custom_vjp": (jax.grad(lambda x: jax.nn.relu(x).sum()), (X,)),
    "hessian": (jax.hessian(lambda v: (v**3).sum()), (X[0],)),
    "jacfwd": (jax.jacfwd(lambda v: jnp.exp(v) * v[0]), (X[0],)),
    "vmap": (jax.vmap(lambda v: v @ v), (X,)),
    "optimization_barrier": (lambda x: BARRIER((x, x + 1)), (X,)),
}


@pytest.mark.parametrize("name", NUMPY_NAMES)
def test_functions_of_one_array_are_those_of_numpy(name: str) -> None:
    """NumPy computes in float64."""
    x = DOMAINS.get(name, X)
    found = trn3.jax.compile(getattr(jnp, name))(x)
    assert_types(found, getattr(jnp, name)(x))
    assert_close(found, getattr(np, name)(x.astype(np.float64)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_those_of_jax_in_float64(name: str) -> None:
    function, args = FUNCTIONS[name]
    found = trn3.jax.compile(function)(*args)
    assert_types(found, jax.jit(function)(*args))
    assert_close(found, in_float64(function, *args))


BFLOAT16_NAMES = ["power", "gelu", "softmax", "matmul", "einsum", "scan", "grad", "index"]
BFLOAT16_NAMES += ["convolution", "attention", "argmax", "sort down", "cond"]


@pytest.mark.parametrize("name", BFLOAT16_NAMES)
def test_bfloat16_stays_bfloat16(name: str) -> None:
    function, args = FUNCTIONS[name]
    narrow = [jnp.asarray(x, jnp.bfloat16) if x.dtype == np.float32 else x for x in args]
    found = trn3.jax.compile(function)(*narrow)
    assert_types(found, jax.jit(function)(*narrow))
    assert_close(found, in_float64(function, *narrow), BFLOAT16)


@pytest.mark.parametrize(
    "draw",
    [
        lambda key: jax.random.bits(key, (9,)),
        lambda key: jax.random.bits(key, (3, 5), jnp.uint16),
        lambda key: jax.random.key_data(jax.random.split(key, 3)),
        lambda key: jax.random.randint(key, (9,), -3, 7),
        lambda key: jax.random.bernoulli(key, 0.3, (9,)),
        lambda key: jax.random.permutation(key, 9),
    ],
)
def test_random_bits_are_those_of_jax(draw: Callable[[Any], Any]) -> None:
    """Keys and counters are integers, which are exact."""
    key = jax.random.key(7)
    np.testing.assert_array_equal(trn3.jax.compile(draw)(key), draw(key))


@pytest.mark.parametrize(
    "draw",
    [
        lambda key: jax.random.normal(key, (9,)),
        lambda key: jax.random.normal(key, (9,), jnp.bfloat16),
        lambda key: jax.random.truncated_normal(key, -1, 1, (9,)),
        lambda key: jax.random.gumbel(key, (9,)),
        lambda key: jax.random.categorical(key, jnp.arange(5.0), shape=(9,)),
    ],
)
def test_random_numbers_are_those_of_jax(draw: Callable[[Any], Any]) -> None:
    key = jax.random.key(7)
    found = trn3.jax.compile(draw)(key)
    assert_types(found, draw(key))
    assert_close(found, draw(key), BFLOAT16 if found.dtype == jnp.bfloat16 else FLOAT32)


def test_random_bits_of_the_other_generator_are_those_of_jax() -> None:
    """Its states are of 64 bits, which are held as pairs of 32."""
    key = jax.random.key(7, impl="rbg")

    def draw(key: Any) -> Any:
        first, second = jax.random.split(key)
        return jax.random.bits(first, (3, 5)), jax.random.uniform(second, (9,))

    for found, expected in zip(trn3.jax.compile(draw)(key), draw(key), strict=True):
        np.testing.assert_array_equal(found, expected)


@settings(max_examples=6)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.data())
def test_any_shape(shape: list[int], data: st.DataObject) -> None:
    """Broadcasts, reductions along any axes, and products by any axis, empty arrays included."""
    axes = data.draw(st.sets(st.integers(0, len(shape) - 1)))
    axis = data.draw(st.integers(0, len(shape) - 1))
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)

    def function(x: Any) -> Any:
        y = x - x.mean(axis=axis, keepdims=True) if x.shape[axis] else x
        total = jnp.exp(y).sum(axis=tuple(axes))
        return total, jnp.tensordot(x, x, (axis, axis)), jnp.moveaxis(y, axis, 0).reshape(-1)

    found = trn3.jax.compile(function)(x)
    assert_types(found, jax.jit(function)(x))
    assert_close(found, in_float64(function, x))
