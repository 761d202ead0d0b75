"""The laboratory's programs on a decoder of a few thousand parameters."""

from __future__ import annotations

import dataclasses
import math
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax", reason="the extra jax is not installed")
pytest.importorskip("jax.ffi", reason="this JAX has no jax.ffi, which mx_dot needs")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "train"
sys.path.insert(0, str(EXAMPLES))

from language import MarkovLanguage, TextLanguage  # noqa: E402
from orderings import PublishedOrdering, judge  # noqa: E402
from step_costs import cost_of  # noqa: E402
from train_jax import JaxTrainer  # noqa: E402
from training_recipes import SIZES, DecoderSize, TrainingRecipe, names  # noqa: E402
from training_run import rate_at, train  # noqa: E402

TINY = SIZES["tiny"]
LANGUAGE = MarkovLanguage.of(8, 0)


def test_one_recipe_learns_in_20_steps_and_repeats_itself() -> None:
    """MXFP4 with random signs and stochastic rounding: the same bits from the same seed."""
    recipe = TrainingRecipe.read("mxfp4_hadamard")
    first = train(JaxTrainer, recipe, TINY, LANGUAGE, 20, seed=0)
    assert len(first.losses) == len(first.norms) == 20
    assert np.mean(first.losses[-3:]) < first.losses[0] - 0.2
    assert LANGUAGE.entropy() < first.held_out < first.losses[0] - 0.2
    assert np.asarray(first.clipped).shape == (20, 3, 2)
    # Scales are rounded up, so nothing is clipped.
    assert np.max(first.clipped) == 0
    again = JaxTrainer(recipe, TINY, LANGUAGE.words, seed=0)
    tokens = LANGUAGE.sentences(20 * TINY.batch, TINY.context + 1, seed=0)[: TINY.batch]
    value, norm, _ = again.step(tokens, 1, rate_at(0, 20), 0)
    assert (value, norm) == (first.losses[0], first.norms[0])


@pytest.mark.parametrize("name", names())
def test_every_recipe_takes_a_step(name: str) -> None:
    recipe = TrainingRecipe.read(name)
    size = dataclasses.replace(TINY, width=16, context=8, batch=2)
    trainer = JaxTrainer(recipe, size, LANGUAGE.words, seed=1)
    kept = {weight.dtype for weight in trainer.state["weights"].values()}
    assert kept == {np.dtype("float32") if recipe.masters else np.asarray(0, recipe.dtype).dtype}
    before = {key: np.asarray(value) for key, value in trainer.state["weights"].items()}
    tokens = LANGUAGE.sentences(2, 9, seed=1)
    value, norm, clipped = trainer.step(tokens, 1, 1e-2, 3)
    assert abs(value - math.log(8)) < 1
    assert 0 < norm < 100
    assert (clipped > 0).any() == (name in {"mxfp8_ocp", "mxfp4_naive"})
    after = trainer.state["weights"]
    assert all((np.asarray(after[key]) != before[key]).any() for key in before)
    assert {weight.dtype for weight in after.values()} == kept


def test_ranks_take_the_step_that_one_core_takes() -> None:
    """In float32, whose sums differ by roundings alone."""
    recipe = TrainingRecipe.read("float32")
    tokens = LANGUAGE.sentences(TINY.batch, TINY.context + 1, seed=2)
    found = []
    for ranks in (1, 4):
        trainer = JaxTrainer(recipe, TINY, LANGUAGE.words, seed=0, ranks=ranks)
        value, norm, _ = trainer.step(tokens, 1, 1e-3, 0)
        found.append((value, norm, np.asarray(trainer.state["first"]["0.up"])))
    (one, norm, moment), (four, other_norm, other_moment) = found
    assert four == pytest.approx(one, rel=1e-5)
    assert other_norm == pytest.approx(norm, rel=1e-4)
    np.testing.assert_allclose(other_moment, moment, atol=1e-5 * np.abs(moment).max())
    with pytest.raises(ValueError, match="ranks is 3; a batch of 4 has to be shared evenly"):
        JaxTrainer(recipe, TINY, LANGUAGE.words, seed=0, ranks=3)


def test_ranks_draw_apart_and_learn_together() -> None:
    """Stochastic rounding by rank; the state that comes out is one."""
    recipe = TrainingRecipe.read("mxfp4_hadamard")
    size = dataclasses.replace(TINY, width=32, context=8)
    tokens = np.repeat(LANGUAGE.sentences(1, 9, seed=2), 4, axis=0)
    trainer = JaxTrainer(recipe, size, LANGUAGE.words, seed=0, ranks=4)
    value, norm, _ = trainer.step(tokens, 1, 1e-3, 0)
    alone = JaxTrainer(recipe, dataclasses.replace(size, batch=1), LANGUAGE.words, seed=0)
    same, other_norm, _ = alone.step(tokens[:1], 1, 1e-3, 0)
    # The same sentence on every rank: forward rounds to nearest, gradients do not.
    assert value == pytest.approx(same, rel=1e-6)
    assert norm != pytest.approx(other_norm, rel=1e-4)
    assert trainer.state["weights"]["0.up"].shape == size.shapes(8)["0.up"]


def test_a_step_has_time_energy_and_collectives() -> None:
    """Without values, and without what counts."""
    costs = {}
    for name, ranks in (("float32", 1), ("float32", 4), ("mxfp8", 1), ("sparse", 1)):
        recipe = TrainingRecipe.read(name)
        costs[name, ranks] = cost_of(recipe, JaxTrainer(recipe, TINY, 8, 0, ranks))
    one, four = costs["float32", 1], costs["float32", 4]
    assert all(0 < cost.microseconds < 1e4 for cost in costs.values())
    assert all(0 < cost.joules < 1 for cost in costs.values())
    assert one.collective_microseconds == 0 < four.collective_microseconds < four.microseconds
    assert one.note == costs["mxfp8", 1].note == ""
    assert "GpSimdE" in costs["sparse", 1].note
    types = [TrainingRecipe.read(name).mx_type for name in ("sparse", "mxfp8", "mxfp4_naive")]
    assert types == ["bf16", "mxfp8", "mxfp4"]


def test_the_entropy_is_that_of_what_is_drawn() -> None:
    sentences = LANGUAGE.sentences(20000, 40, seed=3)
    first, second, third = sentences[:, :-2], sentences[:, 1:-1], sentences[:, 2:]
    surprise = -np.log(LANGUAGE.chances[first, second, third])
    # Words of one sentence depend on one another; sentences do not.
    error = surprise.mean(1).std() / len(sentences) ** 0.5
    assert abs(surprise.mean() - LANGUAGE.entropy()) < 4 * error < 0.02
    counts = np.zeros((8, 8))
    np.add.at(counts, (first.ravel(), second.ravel()), 1)
    np.testing.assert_allclose(counts / counts.sum(), LANGUAGE.pairs(), atol=0.01)
    uniform = MarkovLanguage.of(4, 0, sharpness=0.0)
    assert uniform.entropy() == pytest.approx(math.log(4))


def test_any_text_is_a_language(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"abracadabra" * 5)
    text = TextLanguage.of(path)
    assert (text.words, text.alphabet) == (5, b"abcdr")
    sentences = text.sentences(7, 11, seed=0)
    letters = {bytes(text.alphabet[token] for token in row) for row in sentences}
    assert all(piece in b"abracadabra" * 6 for piece in letters)
    with pytest.raises(ValueError, match="the text has 55 bytes; at least 60 are needed"):
        text.sentences(1, 60, seed=0)


def test_orderings_need_a_gap_of_twice_the_spread() -> None:
    less = [PublishedOrdering("", "a", "b")]
    same = [PublishedOrdering("", "a", "b", is_same=True)]

    def verdict(a: list[float], b: list[float], published: list[PublishedOrdering]) -> str:
        return judge({"a": a, "b": b}, published)[0].verdict

    close, far = [1.0, 1.2, 1.1], [2.0, 2.1, 2.2]
    assert verdict(close, far, less) == "agrees"
    assert verdict(far, close, less) == "disagrees"
    assert verdict(close, [1.2, 1.3, 1.4], less) == "not separated"
    assert verdict(close, [1.2, 1.3, 1.4], same) == "agrees"
    assert verdict(close, far, same) == "disagrees"
    assert verdict(close, [2.0, math.inf, 2.0], less) == "agrees"
    assert verdict([1.0, math.inf], far, less) == "disagrees"
    assert verdict([math.inf] * 2, [math.inf] * 2, less) == "not separated"
    assert judge({"a": close}, less) == []


def test_most_is_repaired_below_half_way() -> None:
    published = [PublishedOrdering("", "mended", "broken", repaired="whole")]
    losses = {"whole": [1.0, 1.01], "broken": [2.0, 2.02]}
    ends = {"agrees": [1.1, 1.11], "disagrees": [1.9, 1.91], "not separated": [1.5, 1.51]}
    for verdict, mended in ends.items():
        assert judge({**losses, "mended": mended}, published)[0].verdict == verdict
    assert judge({"mended": [1.0, 1.0], "broken": [2.0, 2.0]}, published) == []


def test_rates_rise_and_fall() -> None:
    rates = [rate_at(step, 100) for step in range(100)]
    top = rates.index(max(rates))
    assert rates[:top] == sorted(rates[:top])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert rates[-1] == pytest.approx(max(rates) / 10, rel=0.02)


def test_sizes_are_as_they_are_called() -> None:
    assert 1e6 < SIZES["million"].parameters(64) < 1.5e6
    assert 9e6 < SIZES["ten_million"].parameters(256) < 1.1e7
    assert DecoderSize(4, 1, 1, 2, 1).parameters(3) == 12 + 8 + 48 + 16 + 64 + 64 + 8 + 4 + 12


def test_recipes_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="recipe is 'mxfp6'; allowed: bf16, "):
        TrainingRecipe.read("mxfp6")
    path = tmp_path / "own.toml"
    path.write_text('title = "x"\n[weights]\ndtype = "float32"\nmasters = true\nmaster = 1\n')
    with pytest.raises(ValueError, match=r"own\.toml has master; allowed: title, weights, prod"):
        TrainingRecipe.read(str(path))


def test_layers_that_stay_high() -> None:
    recipe = TrainingRecipe.read("mxfp8_high")
    assert recipe.config("head") is None
    assert recipe.config("0.up") is None
    assert recipe.config("1.up") is recipe.products is not None
