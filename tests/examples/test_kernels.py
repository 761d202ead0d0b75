"""Every example kernel against its golden: exact where the arithmetic is, else within roundings.

A bound is made of what the kernel rounds: `BF16` and `F32` are half a unit in the last place,
relative, of what is rounded to these types. Sums are bounded by their terms' magnitudes.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from support.kernel_files import kernels_of
from trn3 import nki, numerics

BF16, F32 = 2.0**-8, 2.0**-24
Array = NDArray[Any]


def run(file: str, kernel: str, **sizes: Any) -> tuple[dict[str, Any], Any, Any]:
    """Run a kernel on small made inputs; return arguments, result and golden."""
    module = kernels_of(file)

    def companion(suffix: str) -> Any:
        return getattr(module, f"{kernel}_{suffix}", None) or getattr(module, suffix)

    arguments = companion("inputs")(**sizes)
    golden = companion("golden")(**{k: v for k, v in arguments.items() if k != "seeds"})
    return arguments, getattr(module, kernel)(**arguments), golden


def check(got: Array, want: Array, bound: Array | float) -> None:
    """Check that no element is further off than its bound."""
    off = np.abs(got.astype(np.float64) - want)
    assert got.shape == want.shape
    worst = np.unravel_index(np.argmax(off - bound), off.shape)
    assert (off <= bound).all(), (
        f"at {worst}: {got[worst]} for {want[worst]}, {(off - bound)[worst]} beyond the bound"
    )


def wide(*arrays: Array) -> tuple[Array, ...]:
    return tuple(array.astype(np.float64) for array in arrays)


MATMULS = ["tiled", "hoisted", "blocked_free", "blocked", "balanced"]


@pytest.mark.parametrize("step", MATMULS)
def test_matmul_sums_within_the_order_of_blocks(step: str) -> None:
    arguments, result, golden = run("matmul", step, M=256, K=512, N=1024)
    left, right = wide(arguments["lhsT"], arguments["rhs"])
    terms = np.abs(left).T @ np.abs(right)
    check(result, golden, BF16 * np.abs(golden) + 512 * F32 * terms)


@pytest.mark.parametrize("step", MATMULS)
def test_matmul_of_one_block_of_k_is_that_of_numerics(step: str) -> None:
    arguments, result, _ = run("matmul", step, M=256, K=512, N=1024)
    exact = numerics.matmul(arguments["lhsT"].T, arguments["rhs"])
    assert np.array_equal(result, exact.astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize("step", ["blocked", "balanced"])
def test_matmul_of_several_blocks(step: str) -> None:
    module = kernels_of("matmul")
    arguments = module.inputs(M=256, K=512, N=1024)
    result = getattr(module, step)(**arguments, tiles_m=1, tiles_n=1, tiles_k=2)
    golden = module.golden(**arguments)
    left, right = wide(arguments["lhsT"], arguments["rhs"])
    check(result, golden, BF16 * np.abs(golden) + 512 * F32 * (np.abs(left).T @ np.abs(right)))


def test_mxfp8_is_that_of_numerics() -> None:
    arguments, result, golden = run("mx_matmul", "mxfp8", M=256, K=1024, N=512)
    left = numerics.quantize_mx(arguments["lhsT"].T.astype(np.float32), "float8_e4m3fn", axis=-1)
    right = numerics.quantize_mx(arguments["rhs"].astype(np.float32), "float8_e4m3fn", axis=-2)
    assert np.array_equal(result, numerics.matmul_mx(left, right))
    terms = np.abs(left.dequantize().astype(np.float64)) @ np.abs(
        right.dequantize().astype(np.float64)
    )
    check(result, golden, 1024 * F32 * terms)


def test_mxfp4_weights_is_that_of_numerics() -> None:
    arguments, result, golden = run("mx_matmul", "mxfp4_weights", M=128, K=1024, N=512)
    weight = kernels_of("mx_matmul").mxfp8_inputs(128, 1024, 512)["lhsT"].astype(np.float32)
    left = numerics.quantize_mx(weight.T, "float4_e2m1fn", axis=-1)
    right = numerics.quantize_mx(arguments["x"].astype(np.float32), "float8_e4m3fn", axis=-2)
    assert np.array_equal(result, numerics.matmul_mx(left, right))
    terms = np.abs(left.dequantize().astype(np.float64)) @ np.abs(
        right.dequantize().astype(np.float64)
    )
    check(result, golden, 1024 * F32 * terms)


@pytest.mark.parametrize("tokens", [128, 200])
def test_rmsnorm(tokens: int) -> None:
    _, result, golden = run("norms", "rmsnorm", tokens=tokens, features=256)
    # A sum of 256 squares, its root, two products: all in float32.
    check(result, golden, (BF16 + 300 * F32) * np.abs(golden))


@pytest.mark.parametrize("tokens", [128, 200])
def test_layernorm(tokens: int) -> None:
    arguments, result, golden = run("norms", "layernorm", tokens=tokens, features=768)
    terms = np.abs(golden - arguments["bias"]) + np.abs(arguments["bias"])
    # The mean is off by a rounding a term of at most 4 sigma each.
    mean = 400 * F32 * np.abs(arguments["weight"])
    check(result, golden, BF16 * np.abs(golden) + 400 * F32 * terms + mean)


@pytest.mark.parametrize("rows", [128, 200])
def test_softmax(rows: int) -> None:
    _, result, golden = run("softmax", "softmax", rows=rows, columns=256)
    # Powers, their sum (of rounded powers) and the quotient.
    check(result, golden, (3 * BF16 + 300 * F32) * golden)


@pytest.mark.parametrize("tokens", [128, 200])
def test_rope(tokens: int) -> None:
    arguments, result, golden = run("rope", "rope", tokens=tokens, heads=2, size=64)
    first, second = np.split(np.abs(arguments["x"].astype(np.float64)), 2, axis=-1)
    terms = np.concatenate([first + second, first + second], axis=-1)
    check(result, golden, BF16 * np.abs(golden) + 3 * F32 * terms)


def test_swiglu() -> None:
    arguments, result, golden = run("mlp", "swiglu", tokens=640, features=256, hidden=384)
    x, gate, up, down = wide(*(arguments[name] for name in ("x", "gate", "up", "down")))
    gated = gate.T @ x
    middle = np.abs(gated / (1 + np.exp(-gated)) * (up.T @ x))
    noise = 600 * F32 * (np.abs(gate).T @ np.abs(x)) * (1 + np.abs(up).T @ np.abs(x))
    rounded = np.abs(down).T @ (BF16 * middle + noise)
    check(
        result,
        golden,
        BF16 * (np.abs(golden) + rounded) + rounded + 400 * F32 * np.abs(down).T @ middle,
    )


def attention(arguments: dict[str, Any], *, causal: bool) -> tuple[Array, Array, Array, Array]:
    """Return q, k, v in float64 and the attention weights."""
    q, k, v = wide(*(arguments[name] for name in "qkv"))
    scores = q.T @ k / np.sqrt(q.shape[0])
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape, bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return q, k, v, weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("causal", [True, False])
def test_flash_attention_forward(causal: bool) -> None:
    module = kernels_of("flash_attention")
    arguments = module.forward_inputs(tokens=256, size=64)
    result, logsum = module.forward(**arguments, causal=causal)
    golden, golden_logsum = module.forward_golden(**arguments, causal=causal)
    *_, v, weights = attention(arguments, causal=causal)
    # Weights are rounded before they are summed and before they mix values.
    check(result, golden, BF16 * np.abs(golden) + (2 * BF16 + 1e-5) * weights @ np.abs(v))
    check(logsum, golden_logsum, BF16 + 1e-5)


@pytest.mark.parametrize("causal", [True, False])
def test_flash_attention_backward(causal: bool) -> None:
    module = kernels_of("flash_attention")
    arguments = module.backward_inputs(tokens=256, size=64)
    if not causal:
        out, logsum = module.forward_golden(*(arguments[name] for name in "qkv"), causal=False)
        arguments |= {
            "out": out.astype(arguments["out"].dtype),
            "logsum": logsum.astype(np.float32),
        }
    results = module.backward(**arguments, causal=causal)
    goldens = module.backward_golden(**arguments, causal=causal)
    q, k, v, weights = attention(arguments, causal=causal)
    out, grad = wide(arguments["out"], arguments["grad"])
    spread = np.abs(grad @ v.T - (out * grad).sum(axis=1, keepdims=True))
    scores = weights * spread / np.sqrt(q.shape[0])
    # Weights are rounded once, what is made of them again, and so is each gradient.
    slack = 1e-5 + 2 * BF16
    terms = (scores @ np.abs(k).T, scores.T @ np.abs(q).T, weights.T @ np.abs(grad))
    for result, golden, term in zip(results, goldens, terms, strict=True):
        check(result, golden, BF16 * np.abs(golden) + slack * term + 1e-5)


@pytest.mark.parametrize("tokens", [128, 200])
def test_topk_router(tokens: int) -> None:
    _, (weights, experts), (golden, order) = run("router", "topk_router", tokens=tokens, experts=64)
    assert np.array_equal(experts, order)
    # An exponential, a sum of four, a quotient.
    check(weights, golden, 16 * F32 * golden)


def test_topk_router_of_equal_logits_takes_each_expert_once() -> None:
    module = kernels_of("router")
    weights, experts = module.topk_router(np.zeros((128, 16), np.float32))
    assert (experts == np.arange(4)).all()
    assert (weights == 0.25).all()


@pytest.mark.parametrize("chunk", [96, 512, 2048])
def test_cumsum_adds_in_order(chunk: int) -> None:
    module = kernels_of("scan")
    arguments = module.cumsum_inputs(rows=200, columns=512)
    result = module.cumsum(**arguments, chunk=chunk)
    assert np.array_equal(result, np.cumsum(arguments["x"], axis=1, dtype=np.float32))


def test_selective_scan() -> None:
    arguments, result, golden = run("scan", "selective_scan", channels=128, tokens=64, states=4)
    module = kernels_of("scan")
    magnitudes = {name: np.abs(arguments[name]) for name in ("u", "B", "C")}
    terms = module.selective_scan_golden(**{**arguments, **magnitudes})
    # Every step multiplies what was there by one more rounded exponential.
    check(result, golden, 8 * 64 * F32 * terms)


def test_depthwise_conv() -> None:
    arguments, result, golden = run("stencils", "depthwise_conv", channels=200, tokens=96, taps=4)
    module = kernels_of("stencils")
    terms = module.depthwise_conv_golden(np.abs(arguments["x"]), np.abs(arguments["weight"]))
    check(result, golden, BF16 * np.abs(golden) + 8 * F32 * terms)


@pytest.mark.parametrize("pool", [2, 4])
def test_average_pool_is_exact(pool: int) -> None:
    module = kernels_of("stencils")
    arguments = module.average_pool_inputs(channels=128, height=8, width=12)
    result = module.average_pool(**arguments, pool=pool)
    golden = module.average_pool_golden(**arguments, pool=pool)
    assert np.array_equal(result, golden.astype(np.float32).astype(ml_dtypes.bfloat16))


def test_adam_step_rounds_to_neighbours_and_without_bias() -> None:
    arguments, (weight, mean, square), goldens = run("adam", "adam_step", rows=128, columns=512)
    exact, golden_mean, golden_square = goldens
    old = np.abs(arguments["mean"]) + np.abs(arguments["grad"].astype(np.float64))
    check(mean, golden_mean, 4 * F32 * old)
    check(square, golden_square, 8 * F32 * golden_square)
    got = weight.astype(np.float64)
    unit = 2.0 ** (np.floor(np.log2(np.abs(exact))) - 7)
    off = (got - exact) / unit
    # The kernel rounds what it has in float32, 16 bits finer than the result.
    assert np.abs(off).max() < 1 + 2.0**-12
    assert (got != arguments["weight"].astype(np.float64)).any()
    # Each rounding's deviation is at most half a unit: five of the mean's.
    assert abs(off.mean()) < 5 * 0.5 / np.sqrt(off.size)
    nearest = exact.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)
    assert 0.05 < (got != nearest).mean() < 0.45


def test_adam_step_with_the_same_seeds_is_the_same() -> None:
    module = kernels_of("adam")
    arguments = module.inputs(rows=128, columns=64)
    first, second = module.adam_step(**arguments)[0], module.adam_step(**arguments)[0]
    other = module.adam_step(**{**arguments, "seeds": arguments["seeds"][::-1]})[0]
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


def test_sparse_mlp_is_that_of_numerics() -> None:
    arguments, result, golden = run(
        "sparse_mlp", "sparse_mlp", tokens=128, features=512, hidden=512
    )
    module = kernels_of("sparse_mlp")
    up, down = module.dense_weights(**{k: v for k, v in arguments.items() if k != "x"})
    pattern = module.PATTERN
    hidden = numerics.matmul_sparse(arguments["x"].T, numerics.compress(up, pattern))
    middle = np.maximum(hidden, 0).astype(ml_dtypes.bfloat16)
    exact = numerics.matmul_sparse(middle, numerics.compress(down, pattern))
    assert np.array_equal(result, exact.T.astype(ml_dtypes.bfloat16))
    x, up, down = wide(arguments["x"], up, down)
    terms = np.abs(down).T @ (np.abs(up).T @ np.abs(x))
    check(
        result,
        golden,
        BF16 * (np.abs(golden) + np.abs(down).T @ np.maximum(up.T @ x, 0) * 2) + 600 * F32 * terms,
    )


@pytest.mark.parametrize(("tokens", "features", "padded"), [(256, 256, 32), (640, 128, 128)])
def test_encoder_attention(tokens: int, features: int, padded: int) -> None:
    sizes = {"tokens": tokens, "features": features, "length": 20, "padded": padded}
    arguments, result, golden = run("encoder", "attention", **sizes)
    x, output = wide(arguments["x"], arguments["output"])
    q, k, v = (  # [tiles, heads, tokens, 32]
        (wide(arguments[name])[0].T @ x + arguments[f"{name}_bias"])
        .reshape(features // 32, 32, tokens // 128, 128)
        .transpose(2, 0, 3, 1)
        for name in ("query", "key", "value")
    )
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(32) + arguments["mask"].reshape(-1, 1, 128, 128)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    # Queries and keys are rounded: so far are scores off, and weights twice that, by their sum.
    spread = (2 * BF16 + 1e-5) * np.abs(q) @ np.abs(k).swapaxes(-1, -2) / np.sqrt(32)
    spread = np.where(weights > 0, spread, 0).max(axis=-1, keepdims=True)
    # Weights and values are rounded, and so is what they make.
    mixed = (np.expm1(2 * spread) + 4 * BF16) * (weights @ np.abs(v))
    rounded = np.abs(output).T @ mixed.transpose(1, 3, 0, 2).reshape(features, tokens)
    check(result, golden, rounded)
    assert np.abs(result - golden).max() < 0.01 * np.abs(golden).max()
    assert result.dtype == np.float32


def test_encoder_attention_of_large_scores_stays_finite() -> None:
    module = kernels_of("encoder")
    arguments = module.attention_inputs(tokens=128, features=128, dtype=np.float32)
    arguments["x"] *= 12  # some scores exceed 500, far beyond what exp takes
    result, golden = module.attention(**arguments), module.attention_golden(**arguments)
    assert np.linalg.norm(result - golden) < 1e-4 * np.linalg.norm(golden)


def test_encoder_attention_sees_neither_padding_nor_other_sentences() -> None:
    module = kernels_of("encoder")
    arguments = module.attention_inputs(tokens=256, features=128, length=20, padded=32)
    before = module.attention(**arguments)
    changed = arguments["x"].copy()
    changed[:, 20:64] *= 3  # the first sentence's padding and all of the second
    after = module.attention(**{**arguments, "x": changed})
    assert np.array_equal(before[:, :20], after[:, :20])
    assert np.array_equal(before[:, 64:], after[:, 64:])
    assert not np.array_equal(before[:, 32:52], after[:, 32:52])


@pytest.mark.parametrize("shape", [(4, 48), (3, 32)])
def test_encoder_mask_refuses_sentences_that_fill_no_tile(shape: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=r"real is \(\d, \d+\)"):
        kernels_of("encoder").attention_mask(np.ones(shape, bool))


@pytest.mark.parametrize(("dtype", "rounding"), [(ml_dtypes.bfloat16, BF16), (np.float32, F32)])
@pytest.mark.parametrize("tokens", [128, 640])
def test_encoder_mlp(tokens: int, dtype: Any, rounding: float) -> None:
    sizes = {"tokens": tokens, "features": 128, "hidden": 256, "dtype": dtype}
    arguments, result, golden = run("encoder", "mlp", **sizes)
    x, up, down = wide(*(arguments[name] for name in ("x", "up", "down")))
    hidden = up.T @ x + arguments["up_bias"]
    middle = np.abs(hidden) * np.vectorize(math.erfc)(-hidden / np.sqrt(2)) / 2
    # GELU is nowhere steeper than 1.13.
    noise = 1.2 * 130 * F32 * (np.abs(up).T @ np.abs(x) + np.abs(arguments["up_bias"]))
    terms = np.abs(down).T @ middle + np.abs(arguments["down_bias"])
    check(result, golden, np.abs(down).T @ (rounding * middle + noise) + 260 * F32 * terms)
    # Roundings are independent: together far below their bound, and below approximations of GELU.
    assert np.linalg.norm(result - golden) < 4 * rounding * np.linalg.norm(golden)


#: The kernels that use what only gen4 has.
GEN4 = {"mxfp8", "mxfp4_weights", "softmax", "adam_step"}
SMALL = [
    ("matmul", "balanced", {"M": 256, "K": 256, "N": 512}),
    ("mx_matmul", "mxfp8", {"M": 128, "K": 512, "N": 512}),
    ("mx_matmul", "mxfp4_weights", {"M": 128, "K": 512, "N": 512}),
    ("norms", "rmsnorm", {"tokens": 128, "features": 256}),
    ("norms", "layernorm", {"tokens": 128, "features": 256}),
    ("softmax", "softmax", {"rows": 128, "columns": 256}),
    ("rope", "rope", {"tokens": 128}),
    ("mlp", "swiglu", {"tokens": 128, "features": 128, "hidden": 256}),
    ("flash_attention", "forward", {"tokens": 256}),
    ("flash_attention", "backward", {"tokens": 256}),
    ("encoder", "attention", {"tokens": 256, "features": 128}),
    ("encoder", "mlp", {"tokens": 128, "features": 128, "hidden": 256}),
    ("router", "topk_router", {"tokens": 128}),
    ("scan", "cumsum", {"columns": 512}),
    ("scan", "selective_scan", {"channels": 128, "tokens": 64, "states": 2}),
    ("stencils", "depthwise_conv", {"channels": 128, "tokens": 64}),
    ("stencils", "average_pool", {"height": 8, "width": 8}),
    ("adam", "adam_step", {"rows": 128, "columns": 64}),
    ("sparse_mlp", "sparse_mlp", {"tokens": 128, "features": 512, "hidden": 512}),
]


@pytest.mark.parametrize(("file", "kernel", "sizes"), SMALL, ids=[kernel for _, kernel, _ in SMALL])
def test_kernel_takes_the_time_that_it_takes_without_values(
    file: str, kernel: str, sizes: dict[str, int]
) -> None:
    module = kernels_of(file)
    arguments = getattr(module, f"{kernel}_inputs", getattr(module, "inputs", None))(**sizes)
    result, profile = nki.profile(getattr(module, kernel), arch="trn3", strict=True, **arguments)
    nothing, timed = nki.profile(getattr(module, kernel), arch="trn3", values=False, **arguments)
    assert result is not None
    assert nothing is None
    assert profile.data.findings == timed.data.findings == ()
    assert profile.data.latency_ps == timed.data.latency_ps > 0


@pytest.mark.parametrize(("file", "kernel", "sizes"), SMALL, ids=[kernel for _, kernel, _ in SMALL])
def test_kernel_on_trn2_runs_or_names_what_trn2_lacks(
    file: str, kernel: str, sizes: dict[str, int]
) -> None:
    module = kernels_of(file)
    arguments = getattr(module, f"{kernel}_inputs", getattr(module, "inputs", None))(**sizes)
    if kernel in GEN4:
        with pytest.raises(nki.isa.NkiValidationError, match=r"gen4|gen3"):
            nki.profile(getattr(module, kernel), arch="trn2", values=False, **arguments)
        return
    _, profile = nki.profile(getattr(module, kernel), arch="trn2", values=False, **arguments)
    assert profile.data.latency_ps > 0
