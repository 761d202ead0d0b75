"""Products that quantise their operands, against the same steps one by one."""

from __future__ import annotations

import json
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from trn3.graph import GraphError
from trn3.graph.alone import run_alone
from trn3.graph.mx_config import MxDotConfig, MxOperand, MxRecipe
from trn3.graph.writing import TensorType
from trn3.numerics import Xorwow, cast, matmul_mx, prune, quantize_mx

FORMATS = ("float8_e4m3fn", "float8_e5m2", "float4_e2m1fn")
RULES = ("trn3", "ocp", "rceil")


def numbers(*shape: int, seed: int = 0, dtype: Any = np.float32) -> NDArray[Any]:
    """Numbers of many magnitudes, so that blocks differ and some clip."""
    generator = np.random.default_rng(seed)
    spread = np.exp2(generator.integers(-6, 6, shape))
    return (generator.standard_normal(shape) * spread).astype(dtype)


def dot(
    x: NDArray[Any],
    w: NDArray[Any],
    recipe: MxRecipe,
    *,
    seed: int | None = None,
    counts: bool = False,
    **more: Any,
) -> list[NDArray[Any]]:
    attributes = {"contracting": [[x.ndim - 1], [w.ndim - 2]], **recipe.attributes(), **more}
    batch = len(more.get("batch", [[]])[0])
    shape = (*x.shape[:-1], *w.shape[batch:-2], w.shape[-1])
    kinds = [TensorType(x.dtype.name, shape)]
    if counts:
        kinds.append(TensorType("float32", (2,)))
    operands = [x, w] if seed is None else [x, w, np.array(seed, np.uint32)]
    return run_alone("mx_dot", operands, kinds, json.dumps(attributes))


def quantized(x: NDArray[Any], format: str, rule: str, axis: int, rng: Any = None) -> Any:  # noqa: A002
    rounding: Any = "nearest" if rng is None else "stochastic"
    options: dict[str, Any] = {"scale_rule": rule, "rounding": rounding, "rng": rng}
    return quantize_mx(x, getattr(ml_dtypes, format), axis=axis, **options)


@pytest.mark.parametrize("left", FORMATS)
@pytest.mark.parametrize("right", FORMATS)
@pytest.mark.parametrize("rule", RULES)
def test_bits_are_those_of_quantisation_and_product(left: str, right: str, rule: str) -> None:
    x, w = numbers(5, 640), numbers(640, 7, seed=1)
    found = dot(x, w, MxRecipe(MxOperand(left, rule), MxOperand(right, rule)))[0]
    expected = matmul_mx(quantized(x, left, rule, -1), quantized(w, right, rule, -2))
    assert found.tobytes() == expected.tobytes()


def test_default_rules_are_those_of_numerics() -> None:
    x, w = numbers(3, 64), numbers(64, 4, seed=1)
    for name in FORMATS:
        kind = getattr(ml_dtypes, name)
        found = dot(x, w, MxRecipe(MxOperand(name), MxOperand(name)))[0]
        expected = matmul_mx(quantize_mx(x, kind), quantize_mx(w, kind, axis=-2))
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
def test_batches_odd_lengths_and_narrow_types(dtype: Any) -> None:
    """A contraction of 45 is 64 with zeros; the result is rounded once."""
    x, w = numbers(2, 3, 45, dtype=dtype), numbers(2, 45, 4, seed=1, dtype=dtype)
    found = dot(x, w, MxRecipe(), batch=[[0], [0]])[0]
    wide_x = np.zeros((2, 3, 64), dtype)
    wide_w = np.zeros((2, 64, 4), dtype)
    wide_x[..., :45], wide_w[:, :45] = x, w
    name = "float8_e4m3fn"
    product = matmul_mx(quantized(wide_x, name, "trn3", -1), quantized(wide_w, name, "trn3", -2))
    assert found.tobytes() == cast(product, dtype).tobytes()


def test_stochastic_rounding_draws_lhs_first() -> None:
    x, w = numbers(6, 96), numbers(96, 5, seed=1)
    side = MxOperand("float4_e2m1fn", "rceil", "stochastic")
    found = dot(x, w, MxRecipe(side, side), seed=9, stream=3)[0]
    rng = Xorwow.seed(3 * 2**32 + 9)
    left = quantized(x, side.format, "rceil", -1, rng)
    right = quantized(w, side.format, "rceil", -2, rng)
    assert found.tobytes() == matmul_mx(left, right).tobytes()
    again = dot(x, w, MxRecipe(side, side), seed=9, stream=3)[0]
    others = [dot(x, w, MxRecipe(side, side), seed=seed, stream=3)[0] for seed in (8, 10)]
    assert again.tobytes() == found.tobytes()
    assert all(other.tobytes() != found.tobytes() for other in others)


def test_stochastic_rounding_is_right_on_average() -> None:
    x, w = numbers(4, 64), numbers(64, 4, seed=1)
    side = MxOperand("float4_e2m1fn", "rceil", "stochastic")
    runs = [dot(x, w, MxRecipe(side, side), seed=seed)[0].astype(float) for seed in range(400)]
    exact = x.astype(float) @ w.astype(float)
    nearest = MxOperand("float4_e2m1fn", "rceil")
    once = dot(x, w, MxRecipe(nearest, nearest))[0]
    error = np.abs(np.mean(runs, axis=0) - exact)
    assert (error < 5 * np.std(runs, axis=0) / 400**0.5 + 1e-3).all()
    assert error.max() < np.abs(once - exact).max()


def hadamard(length: int) -> NDArray[np.float64]:
    """Sylvester's matrix."""
    matrix = np.ones((1, 1))
    while len(matrix) < length:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix


@pytest.mark.parametrize("length", [16, 32])
def test_hadamard_turns_both_sides_by_one_matrix(length: int) -> None:
    """Against the matrix in float64, whose blocks are quantised: near, as roundings may differ."""
    x, w = numbers(6, 70), numbers(70, 5, seed=1)
    recipe = MxRecipe(MxOperand(), MxOperand(), length)
    found = dot(x, w, recipe, seed=4, stream=2)[0]
    draws = Xorwow.seed(2 * 2**32 + 4).uint32(1)[:length, 0]
    signs = np.where(draws >> 31, -1.0, 1.0)
    turn = np.kron(np.eye(96 // length), np.diag(signs) @ hadamard(length) / length**0.5)
    wide_x, wide_w = np.zeros((6, 96)), np.zeros((96, 5))
    wide_x[:, :70], wide_w[:70] = x, w
    left, right = (wide_x @ turn).astype(np.float32), (turn.T @ wide_w).astype(np.float32)
    name = "float8_e4m3fn"
    expected = matmul_mx(quantized(left, name, "trn3", -1), quantized(right, name, "trn3", -2))
    scale = np.abs(x) @ np.abs(w)
    assert (np.abs(found - expected) < 2e-3 * scale).all()
    # The product itself is what it was.
    exact = x.astype(float) @ w.astype(float)
    assert np.abs(found - exact).max() < 0.05 * scale.max()
    assert np.abs(found - exact).max() > 0


def test_hadamard_spreads_what_one_element_would_take() -> None:
    """One element of a block, a thousand times the others: without the transform they are lost."""
    x = np.full((4, 64), 1.0, np.float32)
    x[:, ::32] = 1000
    w = np.where(np.arange(64) % 32 == 0, 0, 1).astype(np.float32)[:, None]
    side = MxOperand("float4_e2m1fn", "rceil", "stochastic")
    plain = dot(x, w, MxRecipe(MxOperand("float4_e2m1fn"), MxOperand("float4_e2m1fn")))[0]
    runs = [dot(x, w, MxRecipe(side, side, 32), seed=seed)[0] for seed in range(200)]
    assert (plain == 0).all()
    assert abs(np.mean(runs) - 62) < 5 * np.std(runs) / 800**0.5


def test_operands_that_were_kept_along_the_free_axis_are_rounded_twice() -> None:
    x, w = numbers(45, 64), numbers(64, 40, seed=1)
    side = MxOperand("float8_e4m3fn", "ocp", blocks="free")
    found = dot(x, w, MxRecipe(side, side))[0]

    def kept(array: NDArray[Any], axis: int) -> NDArray[Any]:
        wide = np.zeros((64, 64), np.float32)
        wide[: array.shape[0], : array.shape[1]] = array
        values = quantized(wide, side.format, "ocp", axis).dequantize()
        return np.ascontiguousarray(values[: array.shape[0], : array.shape[1]])

    left = quantized(kept(x, 0), side.format, "ocp", -1)
    right = quantized(kept(w, 1), side.format, "ocp", -2)
    assert found.tobytes() == matmul_mx(left, right).tobytes()


def test_the_stationary_side_may_be_sparse() -> None:
    x, w = numbers(5, 64), numbers(64, 6, seed=1)
    found = dot(x, w, MxRecipe(), sparsity="4:16")[0]
    name = "float8_e4m3fn"
    left, right = quantized(x, name, "trn3", -1), quantized(prune(w, "4:16"), name, "trn3", -2)
    assert found.tobytes() == matmul_mx(left, right).tobytes()
    kinds = [TensorType("float32", (5, 6))]
    attributes = {"contracting": [[1], [0]], "sparsity": "4:16"}
    whole = run_alone("mx_dot", [x, w], kinds, json.dumps(attributes))[0]
    exact = x.astype(float) @ prune(w, "4:16").astype(float)
    np.testing.assert_allclose(whole, exact, atol=1e-4 * np.abs(exact).max())
    # 40 k are 48 with zeros, and none of these is among what stays.
    odd = run_alone("mx_dot", [x[:, :40], w[:40]], kinds, json.dumps(attributes))[0]
    filled = np.zeros((48, 6), np.float32)
    filled[:40] = w[:40]
    exact = x[:, :40].astype(float) @ prune(filled, "4:16")[:40].astype(float)
    np.testing.assert_allclose(odd, exact, atol=1e-4 * np.abs(exact).max())


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", FORMATS)
def test_clipped_elements_are_counted(name: str, rule: str) -> None:
    x, w = numbers(9, 45), numbers(45, 8, seed=1)
    side = MxOperand(name, rule)
    _, clipped = dot(x, w, MxRecipe(side, side), counts=True)
    largest = float(ml_dtypes.finfo(getattr(ml_dtypes, name)).max)
    shares = []
    for array in (x, w.T):
        wide = np.zeros((len(array), 64), np.float32)
        wide[:, :45] = array
        scales = quantized(wide, name, rule, -1).scales.astype(np.float64)
        limit = np.repeat(scales, 32, axis=1)[:, :45] * largest
        shares.append((np.abs(array) > limit).mean())
    np.testing.assert_allclose(clipped, shares, rtol=1e-6)
    assert (clipped > 0).all() == (rule == "ocp")


@pytest.mark.parametrize(
    ("attributes", "operands", "text"),
    [
        ({"hadamard": 8}, 3, r"mx_dot: hadamard is 8; allowed: \[0, 16, 32\]"),
        ({"hadamard": 16}, 2, r"mx_dot: 2 operands came; it has 3, lhs, rhs and a seed"),
        ({}, 3, r"mx_dot: 3 operands came; it has 2, lhs and rhs: nothing of it is random"),
        (
            {"hadamard": 16, "sparsity": "4:16"},
            3,
            r"hadamard is 16; allowed with .* sparse",
        ),
        ({"rhs": None}, 2, r"mx_dot: one side is quantised and the other is not"),
        ({"sparsity": "3:16"}, 2, r"mx_dot: attributes: .*3:16.*allowed: 4:16"),
        ({"lhs": {"format": "bfloat16", "scale_rule": "ocp"}}, 2, r"format is bfloat16; allowed: "),
        ({"contracting": [[0], [0]]}, 2, r"mx_dot: contracting axes have lengths \[4\]"),
    ],
)
def test_refusals(attributes: dict[str, Any], operands: int, text: str) -> None:
    given = [numbers(4, 64), numbers(64, 5), np.array(1, np.uint32)][:operands]
    base = {"contracting": [[1], [0]], **MxRecipe().attributes(), **attributes}
    with pytest.raises(GraphError, match=text):
        run_alone("mx_dot", given, [TensorType("float32", (4, 5))], json.dumps(base))


def test_seeds_and_integers_are_refused() -> None:
    x, w = numbers(4, 64), numbers(64, 5)
    kinds = [TensorType("float32", (4, 5))]
    base = {"contracting": [[1], [0]], **MxRecipe(hadamard=16).attributes()}
    with pytest.raises(GraphError, match=r"the seed is int32\[\]; allowed: uint32\[\]"):
        run_alone("mx_dot", [x, w, np.array(1, np.int32)], kinds, json.dumps(base))
    base = {"contracting": [[1], [0]]}
    with pytest.raises(GraphError, match=r"int32\[4, 64\] came; allowed: floats"):
        run_alone("mx_dot", [x.astype(np.int32), w], kinds, json.dumps(base))


def test_stochastic_conversion_has_the_draws_of_its_seed() -> None:
    x = numbers(7, 300)
    kinds = [TensorType("bfloat16", (7, 300))]
    operands = [x, np.array(5, np.uint32)]
    found = run_alone("stochastic_convert", operands, kinds, '{"stream": 2}')[0]
    rng = Xorwow.seed(2 * 2**32 + 5)
    expected = cast(x, ml_dtypes.bfloat16, rounding="stochastic", rng=rng)
    assert found.tobytes() == expected.tobytes()
    with pytest.raises(GraphError, match=r"the seed is float32\[\]; allowed: uint32\[\]"):
        run_alone("stochastic_convert", [x, np.float32(5)], kinds, "{}")


def test_pruning_keeps_the_largest() -> None:
    w = numbers(4, 32, 3, dtype=ml_dtypes.bfloat16)
    kinds = [TensorType("bfloat16", w.shape)]
    found = run_alone("prune", [w], kinds, '{"pattern": "4:16", "axis": 1}')[0]
    assert found.tobytes() == prune(w, "4:16", axis=1).tobytes()
    with pytest.raises(GraphError, match=r"axis 2; allowed: an axis whose length is a multiple"):
        run_alone("prune", [w], kinds, '{"pattern": "4:16", "axis": 2}')


def test_configurations_are_read_and_refused() -> None:
    config = MxDotConfig.read(
        {
            "forward": {"lhs": {"format": "float8_e5m2"}, "hadamard": 16},
            "sparsity": None,
        }
    )
    assert config.forward == MxRecipe(MxOperand("float8_e5m2"), MxOperand(), 16)
    assert (config.is_random, config.input_gradient) == (True, None)
    every = MxDotConfig.of("float4_e2m1fn", rounding="stochastic", blocks="free")
    assert every.forward == MxRecipe(MxOperand("float4_e2m1fn"), MxOperand("float4_e2m1fn"))
    assert every.weight_gradient is not None
    assert every.weight_gradient.lhs.blocks == "free"
    assert every.weight_gradient.rhs.blocks == "contraction"
    for table, text in (
        ({"forwards": {}}, "a recipe has forwards; allowed: the arguments"),
        ({"elements": "float8"}, "format is 'float8'; allowed: 'float8_e4m3fn'"),
        ({"elements": "float4_e2m1fn", "hadamard": 7}, "hadamard is 7; allowed: 0, 16, 32"),
        ({"sparsity": "5:16"}, "sparsity is '5:16'; allowed: None, '4:16'"),
    ):
        with pytest.raises(ValueError, match=text):
            MxDotConfig.read(table)
