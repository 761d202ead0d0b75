"""Sample kernels called from NumPy, JAX and torch, also inside what those compile or derive."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import trn3.nki.language as nl
from support.samples import near, normal
from trn3 import nki

TYPES = ["float32", "float16", "bfloat16", "int32", "int16", "int8", "uint8"]


@nki.jit
def tensor_add(a_input: Any, b_input: Any) -> Any:
    a_tile, b_tile = nl.load(a_input), nl.load(b_input)
    c_output = nl.ndarray(a_input.shape, dtype=a_input.dtype, buffer=nl.shared_hbm)
    nl.store(c_output, value=nl.add(a_tile, b_tile))
    return c_output


@nki.jit
def sum_and_difference(pair: Any, scale: float = 1.0) -> Any:
    a_tile, b_tile = (nl.load(item) for item in pair)
    results = []
    for function in (nl.add, nl.subtract):
        out = nl.ndarray(pair[0].shape, dtype=pair[0].dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.multiply(function(a_tile, b_tile), scale))
        results.append(out)
    return {"sum": results[0], "difference": results[1], "scale": scale}


@pytest.mark.parametrize("dtype", [*TYPES, "uint16", "uint32"])
def test_numpy_gets_numpy(dtype: str) -> None:
    a = np.ones((4, 3), getattr(ml_dtypes, dtype, dtype))
    c = tensor_add(a, a)
    assert type(c) is np.ndarray
    assert c.dtype == a.dtype
    assert (c == a + a).all()


@pytest.mark.parametrize("dtype", [*TYPES, "uint16", "uint32", "float8_e4m3fn", "float8_e5m2"])
def test_jax_gets_jax_with_and_without_jit(dtype: str) -> None:
    jax = pytest.importorskip("jax")
    a = jax.numpy.ones((4, 3), dtype=dtype)
    for call in (tensor_add, jax.jit(tensor_add), jax.jit(tensor_add[2])):
        c = call(a, a)
        assert isinstance(c, jax.Array)
        assert c.dtype == a.dtype
        assert (c.astype("float32") == 2).all()


def test_jax_computes_around_a_kernel() -> None:
    jax = pytest.importorskip("jax")

    @jax.jit
    def around(a: Any, b: Any) -> Any:
        found = sum_and_difference((a * 2, b), scale=0.5)
        assert found["scale"] == 0.5
        return found["sum"] + 1, found["difference"]

    a, b = normal(5, 7), normal(5, 7, seed=1)
    total, difference = around(a, b)
    near(np.asarray(total), (2 * a + b) / 2 + 1)
    near(np.asarray(difference), (2 * a - b) / 2)


def test_jax_maps_a_kernel_over_an_axis() -> None:
    jax = pytest.importorskip("jax")
    a, b = normal(3, 5, 7), normal(3, 5, 7, seed=1)
    near(np.asarray(jax.vmap(tensor_add)(a, b)), a + b)
    _, sums = jax.lax.scan(lambda carry, item: (carry, tensor_add(item, carry)), a[0], b)
    near(np.asarray(sums), b + a[0])


def test_errors_of_a_kernel_inside_jit_name_the_argument() -> None:
    jax = pytest.importorskip("jax")
    with pytest.raises(ValueError, match=r"partition dimension 129 exceeds maximum 128"):
        jax.jit(tensor_add)(np.zeros((129, 2), np.float32), np.zeros((129, 2), np.float32))


@pytest.mark.parametrize("dtype", [*TYPES, "float8_e4m3fn", "float8_e5m2"])
def test_torch_gets_torch(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    a = torch.ones((4, 3)).to(getattr(torch, dtype))
    c = tensor_add(a, a)
    assert isinstance(c, torch.Tensor)
    assert c.dtype == a.dtype
    assert (c.to(torch.float32) == 2).all()


def test_torch_strides_and_parameters_are_taken() -> None:
    torch = pytest.importorskip("torch")
    a = torch.arange(12, dtype=torch.float32).reshape(3, 4).T
    assert torch.equal(tensor_add(a, a), 2 * a)
    parameter = torch.nn.Parameter(torch.ones(3, 3))
    assert torch.equal(tensor_add(parameter, parameter), torch.full((3, 3), 2.0))


def test_torch_derives_through_a_kernel_of_its_own() -> None:
    torch = pytest.importorskip("torch")

    @nki.jit
    def product(a: Any, b: Any) -> Any:
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.multiply(nl.load(a), nl.load(b)))
        return out

    class Product(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            ctx.save_for_backward(a, b)
            return product(a, b)

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            a, b = ctx.saved_tensors
            return product(upstream, b), product(upstream, a)

    a, b = (torch.tensor(normal(6, 5, seed=seed), requires_grad=True) for seed in (0, 1))
    Product.apply(a, b).sum().backward()
    torch.testing.assert_close(a.grad, b.detach())
    torch.testing.assert_close(b.grad, a.detach())
