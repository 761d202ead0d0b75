"""The decoder in torch: the same weights and steps as the one in JAX, by the same recipes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "train"))

from decoder_torch import new_decoder  # noqa: E402
from initial_weights import initial_weights  # noqa: E402
from language import MarkovLanguage  # noqa: E402
from train_torch import TorchTrainer  # noqa: E402
from training_recipes import SIZES, TrainingRecipe, names  # noqa: E402
from trn3.torch import MXLinear  # noqa: E402

TINY = SIZES["tiny"]
LANGUAGE = MarkovLanguage.of(8, 0)
TOKENS = LANGUAGE.sentences(TINY.batch, TINY.context + 1, seed=2)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """torch counts compilations of its own optimisers over the whole process."""
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize(("name", "error"), [("float32", 1e-5), ("mxfp8", 2e-2)])
def test_steps_are_those_of_jax(name: str, error: float) -> None:
    """The first loss, and those after updates."""
    pytest.importorskip("jax.ffi", reason="no JAX that mx_dot runs in")
    from train_jax import JaxTrainer

    recipe = TrainingRecipe.read(name)
    one, other = (make(recipe, TINY, 8, 3) for make in (TorchTrainer, JaxTrainer))
    for step in range(3):
        value, norm, clipped = one.step(TOKENS, step + 1, 1e-2, step)
        expected, expected_norm, _ = other.step(TOKENS, step + 1, 1e-2, step)
        assert value == pytest.approx(expected, rel=error)
        assert norm == pytest.approx(expected_norm, rel=10 * error)
        assert np.isnan(clipped).all()
    assert one.loss(TOKENS) == pytest.approx(other.loss(TOKENS), rel=error)


def test_bfloat16_weights_without_masters_learn() -> None:
    trainer = TorchTrainer(TrainingRecipe.read("bf16_nearest"), TINY, 8, 0)
    losses = [trainer.step(TOKENS, step + 1, 1e-2, step)[0] for step in range(6)]
    assert losses[-1] < losses[0] - 0.2
    assert {weight.dtype for weight in trainer.model.parameters()} == {torch.bfloat16}


@pytest.mark.parametrize("name", names())
def test_every_recipe_is_built_or_refused(name: str) -> None:
    """Layers are quantised where the recipe says so; weights are those that were drawn."""
    recipe = TrainingRecipe.read(name)
    if recipe.rounding == "stochastic":
        with pytest.raises(ValueError, match=f"recipe {name} has rounding = 'stochastic'"):
            TorchTrainer(recipe, TINY, 8, 0)
        return
    model = new_decoder(recipe, TINY, 8, 0)
    layers = {"0.up": model.blocks[0].up, "head": model.head}
    for layer, module in layers.items():
        assert isinstance(module, MXLinear) == (recipe.config(layer) is not None)
        np.testing.assert_array_equal(
            module.weight.detach().numpy().T, initial_weights(TINY, 8, 0)[layer]
        )
    assert sum(weight.numel() for weight in model.parameters()) == TINY.parameters(8)


def test_ranks_are_refused() -> None:
    with pytest.raises(ValueError, match=r"ranks is 4, .* allowed: --framework jax"):
        TorchTrainer(TrainingRecipe.read("bf16"), TINY, 8, 0, ranks=4)


def test_a_step_is_timed() -> None:
    """Forward, backward and update, whose graphs follow one another; weights stay."""
    trainer = TorchTrainer(TrainingRecipe.read("bf16"), TINY, 8, 0)
    before = [weight.detach().clone() for weight in trainer.model.parameters()]
    step = trainer.time()
    assert 0 < step.latency_us < 1e4
    assert {row.operation.partition(".")[0] for row in step.account()} > {"dot_general", "sqrt"}
    assert all(map(torch.equal, before, trainer.model.parameters()))
