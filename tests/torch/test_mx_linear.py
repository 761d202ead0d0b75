"""`trn3.torch.MXLinear`: the bits of the quantised products, forward and backward."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from trn3.numerics import matmul_mx, prune, quantize_mx  # noqa: E402
from trn3.torch.mx_linear import MxDotConfig, MXLinear, mx_dot, to_mx  # noqa: E402

E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2


def numbers(*shape: int, seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def product(left: Any, right: Any, formats: tuple[Any, Any]) -> Any:
    first, second = (np.ascontiguousarray(array) for array in (left, right))
    parts = quantize_mx(first, formats[0]), quantize_mx(second, formats[1], axis=-2)
    return matmul_mx(*parts)


def test_bits_of_the_three_products() -> None:
    x, w, g = numbers(2, 32, 64, seed=1), numbers(32, 64, seed=2), numbers(2, 32, 32, seed=3)
    given, weights = (torch.tensor(array, requires_grad=True) for array in (x, w))
    y = mx_dot(given, weights, MxDotConfig.of("float8_e4m3fn", gradients="float8_e5m2"))
    y.backward(torch.tensor(g))
    rows, up = x.reshape(64, 64), g.reshape(64, 32)
    assert y.detach().numpy().tobytes() == product(rows, w.T, (E4M3, E4M3)).tobytes()
    assert given.grad.numpy().tobytes() == product(up, w, (E5M2, E4M3)).tobytes()
    found = np.ascontiguousarray(weights.grad.numpy())
    expected = np.ascontiguousarray(product(rows.T, up, (E4M3, E5M2)).T)
    assert found.tobytes() == expected.tobytes()


def test_bits_are_those_of_jax() -> None:
    jax = pytest.importorskip("jax", reason="the extra jax is not installed")
    pytest.importorskip("jax.ffi", reason="this JAX has no jax.ffi, which mx_dot needs")
    from trn3.jax import mx_dot as jax_dot

    config = MxDotConfig.of("float4_e2m1fn", scale_rule="rceil", rounding="stochastic", hadamard=16)
    x, w, g = numbers(6, 48, seed=1), numbers(10, 48, seed=2), numbers(6, 10, seed=3)
    given, weights = (torch.tensor(array, requires_grad=True) for array in (x, w))
    y = mx_dot(given, weights, config, seed=torch.tensor(7), stream=2)
    y.backward(torch.tensor(g))
    found = jax.vjp(lambda x, w: jax_dot(x, w, config, seed=np.uint32(7), stream=2), x, w.T)
    dx, dw = found[1](g)
    pairs = ((y.detach(), found[0]), (given.grad, dx), (weights.grad, np.asarray(dw).T))
    for one, other in pairs:
        np.testing.assert_array_equal(one.numpy(), np.asarray(other))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_layers_learn(dtype: Any) -> None:
    torch.manual_seed(0)
    config = MxDotConfig.of("float8_e4m3fn", scale_rule="rceil", rounding="stochastic")
    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    model = to_mx(model.to(dtype), config)
    assert [layer.stream for layer in model if isinstance(layer, MXLinear)] == [0, 1]
    x = torch.randn(64, 32, dtype=dtype)
    wanted = x[:, :4].sum(1, keepdim=True)
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    for _ in range(30):
        optimiser.zero_grad()
        loss = (model(x) - wanted).float().square().mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 4
    assert int(model[0].draws) == 30
    model.eval()
    assert torch.equal(model(x), model(x))


def test_sparse_weights() -> None:
    x, w = numbers(4, 32, seed=1), numbers(6, 32, seed=2)
    layer = MXLinear(32, 6, bias=False, config=MxDotConfig(sparsity="4:16"))
    layer.weight.data = torch.tensor(w)
    given = torch.tensor(x, requires_grad=True)
    layer(given).sum().backward()
    kept = prune(w, "4:16", axis=1)
    np.testing.assert_allclose(layer(given).detach(), x @ kept.T, atol=1e-4)
    np.testing.assert_allclose(given.grad, np.ones((4, 6)) @ kept, atol=1e-4)
    np.testing.assert_allclose(layer.weight.grad, np.ones((6, 4)) @ x, atol=1e-4)


def test_the_operator_is_a_good_one() -> None:
    """By torch's own check: schema, fake tensors, what is traced."""
    from json import dumps

    recipe = MxDotConfig.of().forward
    assert recipe is not None
    attributes = dumps({"contracting": [[1], [1]], **recipe.attributes()})
    x, w = torch.tensor(numbers(4, 32, seed=1)), torch.tensor(numbers(6, 32, seed=2))
    tests = ("test_schema", "test_faketensor")
    torch.library.opcheck(torch.ops.trn3.mx_dot.default, (x, w, None, attributes), test_utils=tests)
    torch.library.opcheck(torch.ops.trn3.prune.default, (w, "4:16", 1), test_utils=tests)


def test_refusals() -> None:
    x, w = torch.ones(2, 32), torch.ones(4, 32)
    with pytest.raises(ValueError, match=r"x is \(2, 32\) and w \(32, 4\); allowed: "):
        mx_dot(x, w.T, MxDotConfig.of())
    with pytest.raises(TypeError, match=r"x is torch\.float64 and w torch\.float64; allowed: "):
        mx_dot(x.double(), w.double(), MxDotConfig.of())
    with pytest.raises(ValueError, match="seed is missing; the config has random signs"):
        mx_dot(x, w, MxDotConfig.of(hadamard=16))


@pytest.mark.parametrize("rounding", ["nearest", "stochastic"])
def test_models_are_one_graph(rounding: Any) -> None:
    """Dynamo follows forward and backward, and gives the bits of eager layers."""
    config = MxDotConfig.of("float4_e2m1fn", rounding=rounding, sparsity="2:4")
    layer = MXLinear(64, 32, config=config)
    x, g = (torch.tensor(numbers(16, length, seed=length)) for length in (64, 32))

    def gradient(model: Any) -> Any:
        layer.draws.fill_(5)
        layer.weight.grad = None
        model(x).backward(g)
        return layer.weight.grad

    expected = gradient(layer)
    whole = torch.compile(layer, backend="trn3", fullgraph=True, dynamic=False)
    assert torch.equal(gradient(whole), expected)
