"""Kernels in models of torch: they stay themselves, with gradients of the user's own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

import trn3.torch
from trn3.graph import GraphError

nki: Any = pytest.importorskip("trn3.nki")
nl: Any = pytest.importorskip("trn3.nki.language")

if not hasattr(torch._dynamo, "nonstrict_trace"):
    pytest.skip("this torch breaks graphs at kernels", allow_module_level=True)

FILE = Path(__file__).name


@pytest.fixture(autouse=True)
def _fresh() -> Any:
    """Forget what torch compiled: it counts per line of code."""
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


@nki.jit
def scaled(x: Any, y: Any, scale: float = 2.0, dtype: Any = None) -> Any:
    """Return x * y * scale, and how large that is."""
    out = nl.ndarray(x.shape, dtype or x.dtype, buffer=nl.shared_hbm)
    total = nl.ndarray((x.shape[0], 1), nl.float32, buffer=nl.shared_hbm)
    product = nl.multiply(nl.multiply(nl.load(x), nl.load(y)), scale)
    nl.store(out, product)
    nl.store(total, nl.sum(product, axis=[1]))
    return out, total


@nki.jit
def halves(x: Any) -> Any:
    """Return twice x, of which each program makes its rows."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    rows = x.shape[0] // nl.num_programs(0)
    first = nl.program_id(0) * rows
    tile = nl.load(x[first : first + rows])
    nl.store(out[first : first + rows], nl.multiply(tile, 2.0))
    return out


@nki.jit
def count_up(x: Any, by: Any) -> Any:
    """Add to x where it lies."""
    nl.store(x, nl.add(nl.load(x), nl.load(by)))
    return x


X = torch.randn(4, 6)
Y = torch.cos(X)


def layer(x: Any, y: Any) -> Any:
    out, total = scaled(torch.sin(x), y, scale=3.0)
    return out + 1, total.sum()


def rows_of(cost: Any) -> list[Any]:
    return [row for row in cost.account() if row.operation.startswith("custom_call")]


def compiled(f: Any, **options: Any) -> Any:
    """Compile without a graph break, or fail."""
    return torch.compile(
        f, fullgraph=True, backend=trn3.torch.backend.trn3_backend, options=options
    )


def same_bits(one: Any, other: Any) -> bool:
    pair = [each.detach().contiguous().reshape(-1).view(torch.uint8) for each in (one, other)]
    return one.dtype == other.dtype and torch.equal(*pair)


def test_a_kernel_is_run_by_itself() -> None:
    """Its values are those of its own run, whichever way the model runs, without a graph break."""
    out, total = compiled(layer)(X, Y)
    sine = trn3.torch.compile(torch.sin)(X)
    alone = scaled(sine, Y, scale=3.0)
    assert same_bits(out, trn3.torch.compile(lambda x: x + 1)(alone[0]))
    assert same_bits(total, trn3.torch.compile(torch.sum)(alone[1]))
    (found, cost) = trn3.torch.profile(layer, X, Y)
    assert same_bits(found[0], out)
    assert not cost.breaks


def test_its_own_time_stands_in_that_of_the_step() -> None:
    """One row of the account, as long as a run of the kernel by itself, on the model's machine."""
    for arch in (None, "trn2"):
        _, step = trn3.torch.profile(layer, X, Y, arch=arch)
        (row,) = rows_of(step)
        _, alone = nki.profile(scaled, X, Y, scale=3.0, arch=arch)
        assert (row.template, row.is_fallback) == ("kernel", False)
        assert row.busy_us == pytest.approx(alone.latency_us, rel=1e-6)
        assert Path(row.line.rpartition(":")[0]).name == FILE
        assert step.latency_us > alone.latency_us


class Gate(torch.autograd.Function):
    """A product by a kernel, forward and backward."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x, y)
        return scaled(x, y, scale=1.0)[0]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        x, y = ctx.saved_tensors
        return scaled(gradients[0], y, scale=1.0)[0], gradients[0] * x


@torch.library.custom_op("trn3_test_kernels::gate", mutates_args=())
def gate(x: torch.Tensor, y: torch.Tensor, scale: float) -> torch.Tensor:
    return scaled(x, y, scale)[0]  # type: ignore[no-any-return]


@gate.register_fake
def _(x: Any, y: Any, scale: float) -> Any:
    return torch.empty_like(x)


gate.register_autograd(
    lambda ctx, g: (gate(g, ctx.saved_tensors[1], ctx.scale), g * ctx.saved_tensors[0], None),
    setup_context=lambda ctx, inputs, output: (
        ctx.save_for_backward(*inputs[:2]),
        setattr(ctx, "scale", inputs[2]),
    ),
)


@pytest.mark.parametrize("product", [Gate.apply, lambda x, y: gate(x, y, 1.0)])
def test_gradients_are_the_users(product: Any) -> None:
    """Of a function, or registered with an operator; the kernel of each direction is itself."""
    x, y = X.clone().requires_grad_(), Y.clone().requires_grad_()

    def loss(x: Any, y: Any) -> Any:
        return torch.square(product(x.sin(), y)).sum()

    compiled(loss)(x, y).backward()
    sine = x.detach().sin()
    torch.testing.assert_close(y.grad, 2 * sine * sine * Y)
    torch.testing.assert_close(x.grad, 2 * sine * Y * Y * x.detach().cos())

    def step() -> None:
        loss(x, y).backward()

    _, cost = trn3.torch.profile(step)
    assert len(rows_of(cost)) == 2


def test_without_a_gradient_backward_is_refused() -> None:
    """Where it is asked for: forward, the model can be used."""
    x = X.clone().requires_grad_()
    out = compiled(lambda x: scaled(x, Y)[0].sum())(x)
    assert out.item() == pytest.approx(scaled(X, Y)[0].sum().item(), rel=1e-5)
    with pytest.raises(
        GraphError, match="kernel scaled has no gradient of its own; allowed: one by"
    ):
        out.backward()
    eager = torch.compile(lambda x: scaled(x, Y)[0].sum(), fullgraph=True, backend="aot_eager")(x)
    with pytest.raises(NotImplementedError, match="scaled has no gradient of its own"):
        eager.backward()


def test_static_arguments_are_part_of_the_kernel() -> None:
    """Numbers, text, element types; others are calls of their own."""
    by = compiled(lambda x, scale: scaled(x, Y, scale)[0])
    for scale in (2, 0.5, 3):
        assert same_bits(by(X, scale), scaled(X, Y, scale)[0])
    narrow = compiled(lambda x: scaled(x, x, dtype=nl.bfloat16))(X)[0]
    assert narrow.dtype is torch.bfloat16
    assert same_bits(narrow, scaled(X, X, dtype=nl.bfloat16)[0])
    half = X.bfloat16()
    assert same_bits(compiled(lambda x: scaled(x, x)[0])(half), scaled(half, half)[0])


def test_brackets() -> None:
    """Cores of a logical core, and grids."""
    wide = torch.randn(8, 16)
    for found in (compiled(lambda x: halves[2](x) + 0), compiled(lambda x: halves[4, 1](x) + 0)):
        assert same_bits(found(wide), 2 * wide)


def test_what_a_kernel_writes_to_is_written() -> None:
    """Arguments change where they lie, as they do eagerly; a result that is one is that one."""
    total = torch.nn.Buffer(torch.zeros(4, 6))
    model = torch.nn.Module()
    model.register_buffer("total", total)

    def forward(x: Any) -> Any:
        again = count_up(model.total, x)
        return again + model.total

    f = compiled(forward)
    assert same_bits(f(X), X + X)
    assert same_bits(f(X), (X + X) + (X + X))
    assert same_bits(model.total, X + X)
    both = X.clone()
    found = compiled(lambda x: count_up(x, x))(both)
    assert same_bits(found, 2 * X)
    assert same_bits(both, 2 * X)


def test_other_backends_run_it_eagerly() -> None:
    for backend in ("eager", "aot_eager"):
        found = torch.compile(layer, fullgraph=True, backend=backend)(X, Y)
        assert all(map(same_bits, found, layer(X, Y)))


def test_what_a_kernel_refuses_is_refused() -> None:
    """By the kernel itself, with its own words; so are types that it does not take."""
    with pytest.raises(TypeError, match=re.escape("dtype int64, which no engine has")):
        trn3.torch.compile(lambda x: count_up(x, x))(torch.ones(4, 4, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"broadcast|shape"):
        trn3.torch.compile(lambda x: scaled(x, x.T)[0])(X)


def test_an_operator_that_cannot_be_gone_through_is_refused() -> None:
    """With the reason of its own."""

    @torch.library.custom_op("trn3_test_kernels::opaque", mutates_args=())
    def opaque(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(x.numpy() + 1)

    opaque.register_fake(torch.empty_like)
    with pytest.raises(GraphError, match=r"opaque: is no operation of graphs; within, .*numpy"):
        compiled(lambda x: opaque(x) * 2)(X)
