"""Steps of models: values and gradients within the format's bounds of torch in float64."""

from __future__ import annotations

import copy
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch.nn import functional

import trn3.torch
from support.torch_values import BFLOAT16, FLOAT32, GRADIENT, assert_close, widened

# torch looks at gradients where it goes on after a break, and warns of itself.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")

HEADS, WIDTH, VOCABULARY, LENGTH = 2, 16, 11, 6


@pytest.fixture(autouse=True)
def _fresh() -> Any:
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


class Block(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.qkv = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.out = torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 32), torch.nn.Linear(32, WIDTH)

    def forward(self, x: Any) -> Any:
        shape = (*x.shape[:2], HEADS, WIDTH // HEADS)
        q, k, v = (
            part.view(shape).transpose(1, 2) for part in self.qkv(self.first(x)).chunk(3, -1)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.down(functional.gelu(self.up(self.second(x))))


class Decoder(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, WIDTH, padding_idx=0)
        self.places = torch.nn.Parameter(torch.randn(LENGTH, WIDTH) / 4)
        self.blocks = torch.nn.ModuleList([Block(), Block()])
        self.norm = torch.nn.RMSNorm(WIDTH)

    def forward(self, tokens: Any) -> Any:
        x = self.embedding(tokens[:, :-1]) + self.places
        for block in self.blocks:
            x = block(x)
        scores = self.norm(x) @ self.embedding.weight.T
        return functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())


class Images(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(8)
        self.pool = torch.nn.MaxPool2d(3, 2, 1)
        self.second = torch.nn.Conv2d(8, 8, 3, stride=2, groups=4)
        self.head = torch.nn.Linear(8 * 4, 5)

    def forward(self, x: Any) -> Any:
        x = self.pool(functional.relu(self.norm(self.first(x))))
        x = functional.adaptive_avg_pool2d(functional.silu(self.second(x)), 2)
        return self.head(functional.avg_pool2d(x, 1).flatten(1)).square().mean()


def step_of(model: Any, x: Any) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Loss, gradients and state after a step."""
    loss = model(x)
    loss.backward()
    gradients = {name: value.grad for name, value in model.named_parameters()}
    return loss, gradients, dict(model.state_dict())


@pytest.mark.parametrize("kind", [Decoder, Images])
def test_a_model_and_its_gradients(kind: Any) -> None:
    """Embedding, attention, loss; convolutions, pooling, batch norm that updates its state."""
    model = kind()
    tokens = torch.randint(VOCABULARY, (2, LENGTH + 1))
    x = tokens if kind is Decoder else torch.randn(2, 3, 13, 12)
    expected = step_of(widened(model), widened(x))
    compiled: Any = trn3.torch.compile(model)
    found = step_of(compiled, x)
    assert_close(found[0], expected[0], FLOAT32)
    assert_close(found[1], expected[1], GRADIENT)
    assert_close(found[2], expected[2], FLOAT32)
    model.eval()
    with torch.no_grad():
        assert_close(compiled(x), widened(model)(widened(x)))


@pytest.mark.parametrize("norm_first", [False, True])
def test_layers_of_torch_that_are_one_operator_when_evaluated(norm_first: bool) -> None:
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=norm_first)
    layer.eval()
    x, hidden = torch.randn(2, 5, 16), torch.zeros(2, 5, dtype=torch.bool)
    hidden[1, 3:] = True
    with torch.no_grad():
        found = trn3.torch.compile(layer)(x, src_key_padding_mask=hidden)
        expected = widened(layer)(x.double(), src_key_padding_mask=hidden)
    assert_close(found[0], expected[0])
    assert_close(found[1, :3], expected[1, :3])


@pytest.mark.parametrize(
    ("kind", "bias"), [("LSTM", True), ("LSTM", False), ("GRU", True), ("RNN", True)]
)
def test_recurrent_layers_are_captured(kind: str, bias: bool) -> None:
    """In both directions; evaluated, an LSTM is an operator of another library."""
    torch.manual_seed(0)
    model = getattr(torch.nn, kind)(8, 16, bias=bias, bidirectional=True)
    x = torch.randn(3, 2, 8)
    with torch.no_grad():
        expected, _ = model(x)
        (made, _), cost = trn3.torch.profile(model, x)
    assert cost.breaks == ()
    torch.testing.assert_close(made, expected, rtol=1e-5, atol=1e-6)
    made, _ = trn3.torch.compile(model)(x)
    made.square().sum().backward()
    slopes = [weight.grad.clone() for weight in model.parameters()]
    model.zero_grad()
    model(x)[0].square().sum().backward()
    for weight, slope in zip(model.parameters(), slopes, strict=True):
        torch.testing.assert_close(slope, weight.grad, rtol=1e-4, atol=1e-5)


def test_autocast_to_bfloat16() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 8))
    x = torch.randn(16, 64)

    @trn3.torch.compile
    def step(x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = model(x)
        return y, y.float().square().mean()

    y, loss = step(x)
    assert y.dtype == torch.bfloat16
    loss.backward()
    wide = widened(model)
    expected = wide(x.double())
    assert_close(y, expected, BFLOAT16)
    expected.square().mean().backward()
    for ours, theirs in zip(model.parameters(), wide.parameters(), strict=True):
        assert ours.grad is not None
        assert ours.grad.dtype == torch.float32
        assert_close(ours.grad, theirs.grad, 2 * BFLOAT16)
    exact = model(x)
    assert float(((y - exact).abs().max() / exact.abs().max()).detach()) > 1e-4


OPTIMISERS: list[Any] = [
    lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9, nesterov=True),
    lambda weights: torch.optim.AdamW(weights, lr=1e-2, weight_decay=0.1),
    lambda weights: torch.optim.AdamW(weights, lr=1e-2, foreach=True),
]


@pytest.mark.parametrize("make", OPTIMISERS)
def test_a_step_with_its_optimiser(make: Any) -> None:
    """Forward, backward and update compiled, state in and out by the modules' own tensors."""
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    wide = widened(model)
    x = torch.randn(12, 6)
    compiled, optimiser, reference = (
        trn3.torch.compile(model),
        make(model.parameters()),
        make(wide.parameters()),
    )
    update = trn3.torch.compile(optimiser.step)
    for _ in range(3):
        compiled(x).square().mean().backward()
        update()
        optimiser.zero_grad()
        wide(x.double()).square().mean().backward()
        reference.step()
        reference.zero_grad()
    assert_close(dict(model.state_dict()), dict(wide.state_dict()))


def test_a_step_of_everything_is_profiled() -> None:
    """Graphs of forward, backward and update follow one another; the run changes the state."""
    model = torch.nn.Linear(32, 16)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    update = trn3.torch.compile(optimiser.step)
    x, before = torch.randn(8, 32), copy.deepcopy(model)

    def step(x: Any) -> Any:
        loss = model(x).square().mean()
        loss.backward()
        update()
        return loss.detach()

    loss, cost = trn3.torch.profile(step, x)
    assert_close(loss, before(x).double().square().mean())
    assert len(cost.parts) == 3
    assert not torch.equal(before.weight, model.weight)
    products = [row for row in cost.account() if row.operation.startswith("dot_general")]
    assert len(products) == 2
