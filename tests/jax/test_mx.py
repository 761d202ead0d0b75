"""`trn3.jax.mx_dot` and its gradients, compiled and called back, against NumPy's own steps."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import trn3.jax
from trn3.graph import GraphError
from trn3.jax import MxDotConfig, MxOperand, MxRecipe, mx_dot, prune, stochastic_convert
from trn3.jax.conversion import convert
from trn3.jax.lowering import TracingFunction
from trn3.numerics import Xorwow, cast, matmul, matmul_mx, prune as pruned_array, quantize_mx

pytest.importorskip("jax.ffi", reason="this JAX has no jax.ffi, which mx_dot needs")

FILE = Path(__file__).name
SEED = np.uint32(5)


def numbers(*shape: int, seed: int, dtype: Any = np.float32) -> NDArray[Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def product(
    lhs: NDArray[Any], rhs: NDArray[Any], recipe: MxRecipe | None, stream: int = 0
) -> NDArray[Any]:
    """Multiply [m, k] by [k, n], both filled up, in the recipe's formats."""
    if recipe is None:
        return np.asarray(matmul(lhs, rhs))
    rng = Xorwow.seed(stream * 2**32 + int(SEED))
    filled = -lhs.shape[1] % 32
    parts = []
    wide = (np.pad(lhs, ((0, 0), (0, filled))), np.pad(rhs, ((0, filled), (0, 0))))
    for array, side, axis in zip(wide, (recipe.lhs, recipe.rhs), (-1, -2), strict=True):
        draws: Any = {"rounding": "stochastic", "rng": rng}
        options: Any = draws if side.rounding == "stochastic" else {}
        dtype = getattr(ml_dtypes, side.format)
        rule: Any = side.scale_rule
        parts.append(quantize_mx(array, dtype, axis=axis, scale_rule=rule, **options))
    return np.asarray(matmul_mx(*parts))


CONFIGS = {
    "e4m3": MxDotConfig.of("float8_e4m3fn", scale_rule="rceil"),
    "e5m2 gradients": MxDotConfig.of("float8_e4m3fn", gradients="float8_e5m2"),
    "forward only": MxDotConfig.of("float4_e2m1fn", backward=False),
    "stochastic": MxDotConfig.of("float4_e2m1fn", scale_rule="rceil", rounding="stochastic"),
    "mixed": MxDotConfig(
        MxRecipe(MxOperand("float8_e5m2", "ocp"), MxOperand("float4_e2m1fn", "trn3")),
        None,
        MxRecipe(rhs=MxOperand("float8_e5m2", "rceil", "stochastic")),
    ),
}


def all_three(x: Any, w: Any, g: Any, config: MxDotConfig) -> Any:
    def function(x: Any, w: Any) -> Any:
        return mx_dot(x, w, config, seed=SEED, stream=7)

    y, pull = jax.vjp(function, x, w)
    return y, *pull(g)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_each_product_has_its_own_recipe(name: str, dtype: Any) -> None:
    config = CONFIGS[name]
    x, w = numbers(2, 3, 48, seed=1, dtype=dtype), numbers(48, 10, seed=2, dtype=dtype)
    g = numbers(2, 3, 10, seed=3, dtype=dtype)
    found = trn3.jax.compile(lambda x, w, g: all_three(x, w, g, config))(x, w, g)
    rows, up = x.reshape(6, 48), g.reshape(6, 10)
    expected = (
        product(rows, w, config.forward, 21).reshape(2, 3, 10),
        product(up, w.T, config.input_gradient, 22).reshape(2, 3, 48),
        product(rows.T, up, config.weight_gradient, 23),
    )
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == dtype
        assert np.asarray(one).tobytes() == other.astype(dtype).tobytes()


@pytest.mark.parametrize("name", ["e4m3", "stochastic"])
def test_bits_are_the_same_eager_and_jitted(name: str) -> None:
    config = CONFIGS[name]
    x, w, g = numbers(4, 40, seed=1), numbers(40, 6, seed=2), numbers(4, 6, seed=3)
    compiled = trn3.jax.compile(lambda x, w, g: all_three(x, w, g, config))(x, w, g)
    eager = all_three(x, w, g, config)
    jitted = jax.jit(lambda x, w, g: all_three(x, w, g, config))(x, w, g)
    for values in zip(compiled, eager, jitted, strict=True):
        assert len({np.asarray(value).tobytes() for value in values}) == 1


def test_gradients_are_near_the_straight_formulas() -> None:
    """Of a loss in float64, whose products round nothing."""
    x, w = numbers(8, 64, seed=1), numbers(64, 16, seed=2)
    config = CONFIGS["e4m3"]
    found = trn3.jax.compile(jax.grad(lambda w: jnp.tanh(mx_dot(x, w, config)).sum()))(w)
    y = x.astype(float) @ w.astype(float)
    exact = x.T.astype(float) @ (1 - np.tanh(y) ** 2)
    assert 0 < np.abs(found - exact).max() < 0.2 * np.abs(exact).max()


def test_the_graph_has_one_operation_a_product() -> None:
    args = numbers(4, 32, seed=1), numbers(32, 6, seed=2), numbers(4, 6, seed=3)
    traced = TracingFunction(lambda x, w, g: all_three(x, w, g, CONFIGS["e4m3"])).trace(args, {})
    operations = json.loads(convert(traced.module()).text)["operations"]
    assert [operation["op"] for operation in operations] == ["mx_dot"] * 3
    contracting = [operation["attributes"]["contracting"] for operation in operations]
    assert contracting == [[[1], [0]], [[1], [1]], [[0], [0]]]


def test_probes_count_what_is_clipped() -> None:
    x, w, g = numbers(4, 32, seed=1), numbers(32, 6, seed=2), numbers(4, 6, seed=3)

    def function(probe: Any, config: MxDotConfig) -> Any:
        return (mx_dot(x, w, config, probe=probe) * g).sum()

    shares = {
        rule: np.asarray(
            trn3.jax.compile(
                jax.grad(
                    lambda probe, rule=rule: function(
                        probe, MxDotConfig.of("float8_e4m3fn", scale_rule=rule)
                    )
                )
            )(np.zeros((3, 2), np.float32))
        )
        for rule in ("ocp", "rceil")
    }
    assert (shares["rceil"] == 0).all()
    # Three products, whose operands are x and w, g and w, x and g.
    for row, sides in enumerate(((x, w.T), (g, w), (x.T, g.T))):
        for column, array in enumerate(sides):
            wide = np.pad(array, ((0, 0), (0, -array.shape[1] % 32)))
            blocks = quantize_mx(wide, ml_dtypes.float8_e4m3fn, scale_rule="ocp")
            limit = 448.0 * np.repeat(blocks.scales.astype(float), 32, axis=1)
            expected = (np.abs(wide) > limit).sum() / array.size
            assert shares["ocp"][row, column] == pytest.approx(expected)
    assert (shares["ocp"] > 0).any()


def test_backward_has_the_pruned_weights() -> None:
    x, w, g = numbers(4, 32, seed=1), numbers(32, 6, seed=2), numbers(4, 6, seed=3)
    config = MxDotConfig(sparsity="4:16")
    y, dx, dw = trn3.jax.compile(lambda x, w, g: all_three(x, w, g, config))(x, w, g)
    kept = pruned_array(w, "4:16", axis=0)
    np.testing.assert_allclose(y, x @ kept, atol=1e-4)
    np.testing.assert_allclose(dx, g @ kept.T, atol=1e-4)
    np.testing.assert_allclose(dw, x.T @ g, atol=1e-4)
    # The same with a function of its own before a plain product.
    other = trn3.jax.compile(lambda x, w: x @ prune(w, "4:16"))(x, w)
    np.testing.assert_array_equal(y, other)
    gradient = jax.grad(lambda w: (prune(w, "4:16") * w).sum())(w)
    np.testing.assert_allclose(gradient, kept + w, rtol=1e-6)


def test_stochastic_conversion_has_the_draws_of_its_seed() -> None:
    x = numbers(3, 130, seed=1)

    def function(x: Any, seed: Any) -> Any:
        return stochastic_convert(x, jnp.bfloat16, seed, stream=2)

    rng = Xorwow.seed(2 * 2**32 + int(SEED))
    expected = cast(x, ml_dtypes.bfloat16, rounding="stochastic", rng=rng)
    for run in (function, jax.jit(function), trn3.jax.compile(function)):
        assert np.asarray(run(x, SEED)).tobytes() == expected.tobytes()


def test_loops_and_maps_have_products() -> None:
    x, w = numbers(3, 4, 32, seed=1), numbers(32, 32, seed=2)
    config = CONFIGS["e4m3"]

    def scanned(x: Any) -> Any:
        return jax.lax.scan(lambda c, _: (mx_dot(c, w, config), None), x, None, length=2)[0]

    once = np.asarray(mx_dot(x[0], w, config))
    twice = np.asarray(mx_dot(once, w, config))
    assert np.asarray(trn3.jax.compile(scanned)(x[0])).tobytes() == twice.tobytes()
    mapped = trn3.jax.compile(jax.vmap(lambda x: mx_dot(x, w, config)))(x)
    each = np.stack([np.asarray(mx_dot(row, w, config)) for row in x])
    assert np.asarray(mapped).tobytes() == each.tobytes()


def test_refusals() -> None:
    x, w = np.ones((2, 32), np.float32), np.ones((32, 4), np.float32)
    config = CONFIGS["e4m3"]
    with pytest.raises(ValueError, match=r"x is \(2, 32\) and w \(4, 32\); allowed"):
        mx_dot(x, w.T, config)
    with pytest.raises(TypeError, match="x is float32 and w bfloat16; allowed: floats of one"):
        mx_dot(x, w.astype(ml_dtypes.bfloat16), config)
    with pytest.raises(ValueError, match="seed is missing; the config has random signs or"):
        mx_dot(x, w, CONFIGS["stochastic"])
    with pytest.raises(ValueError, match="stream is -1; allowed: from 0"):
        mx_dot(x, w, config, stream=-1)
    with pytest.raises(TypeError, match=r"seed is int32\[2\]; allowed: uint32\[\]"):
        mx_dot(x, w, CONFIGS["stochastic"], seed=np.zeros(2, np.int32))
    with pytest.raises(TypeError, match=r"probe is float32\[2, 3\]; allowed: float32\[3, 2\]"):
        mx_dot(x, w, config, probe=np.zeros((2, 3), np.float32))


def badly_pruned(w: Any) -> Any:
    w = w + 1
    return prune(w, "4:16")


def test_refusals_of_graphs_have_the_line() -> None:
    with pytest.raises(GraphError) as caught:
        trn3.jax.compile(badly_pruned)(np.ones((30, 4), np.float32))
    line = badly_pruned.__code__.co_firstlineno + 2
    assert re.search(rf"{FILE}:{line}: prune: float32\[30, 4\] came", str(caught.value))
