"""Train a decoder from scratch by a recipe, on one simulated core or on data-parallel ranks.

    python examples/train/train_jax.py --recipe mxfp8 --size small --steps 100

Needs JAX: ``pip install "trn3[jax]"``.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import trn3.jax
from decoder_jax import gradients_of, new_state, step_of, update_of
from language import Language, MarkovLanguage, TextLanguage
from training_recipes import SIZES, DecoderSize, TrainingRecipe, names
from trn3 import collectives

WORDS, LANGUAGE_SEED = 16, 0
RATE, WARM_UP = 3e-3, 0.1
# Batches that the loss is measured on that counts: none of them is trained on.
HELD_OUT, HELD_OUT_SEED = 8, 1 << 30


@dataclass
class TrainingHistory:
    """What a run of training gave, step by step."""

    recipe: str
    seed: int
    losses: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    clipped: list[list[list[float]]] = field(default_factory=list)
    held_out: float = math.nan
    seconds: float = 0.0


def rate_at(step: int, steps: int) -> float:
    """Return the rate of a step: up in a straight line, then down along a cosine to a tenth."""
    warm = max(1, round(WARM_UP * steps))
    if step < warm:
        return RATE * (step + 1) / warm
    share = (step - warm) / max(1, steps - warm)
    return RATE * (0.1 + 0.45 * (1 + math.cos(math.pi * share)))


def mean_over_ranks(gradients: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean of the ranks' gradients, added as an all-reduce of the hardware adds."""
    parts = [np.concatenate([np.ravel(value) for value in own.values()]) for own in gradients]
    summed = collectives.all_reduce(parts, "gen2", range(len(parts))).outputs[0]
    mean = summed * np.float32(1 / len(parts))
    ends = np.cumsum([value.size for value in gradients[0].values()])
    pieces = np.split(mean, ends[:-1])
    return {
        name: piece.reshape(value.shape)
        for piece, (name, value) in zip(pieces, gradients[0].items(), strict=True)
    }


class JaxTrainer:
    """A decoder, and how it takes a step."""

    def __init__(
        self, recipe: TrainingRecipe, size: DecoderSize, words: int, seed: int, ranks: int = 1
    ) -> None:
        if size.batch % ranks:
            message = f"ranks is {ranks}; a batch of {size.batch} has to be shared evenly"
            raise ValueError(message)
        self.ranks = ranks
        self.state = new_state(recipe, size, words, seed)
        self._step: Any = trn3.jax.compile(step_of(recipe, size))
        self._gradients: Any = trn3.jax.compile(gradients_of(recipe, size))
        self._update: Any = trn3.jax.compile(update_of(recipe))

    def step(self, tokens: Any, count: int, rate: float, seed: int) -> tuple[float, float, Any]:
        """Learn from ``[batch, context + 1]`` tokens: loss, gradients' norm, shares clipped."""
        numbers = (np.float32(count), np.float32(rate))
        if self.ranks == 1:
            self.state, value, norm, clipped = self._step(
                self.state, tokens, *numbers, np.uint32(seed)
            )
            return float(value), float(norm), np.asarray(clipped)
        found = []
        for rank, part in enumerate(np.split(np.asarray(tokens), self.ranks)):
            # Each rank has draws of its own.
            own = np.uint32(seed * self.ranks + rank)
            found.append(self._gradients(self.state["weights"], part, own))
        values, gradients, clipped = zip(*found, strict=True)
        mean = mean_over_ranks(list(gradients))
        self.state, norm = self._update(self.state, mean, *numbers, np.uint32(seed))
        value = float(np.mean([float(value) for value in values]))
        return value, float(norm), np.mean([np.asarray(own) for own in clipped], axis=0)

    def loss(self, tokens: Any) -> float:
        """Return the loss without learning."""
        return float(self._gradients(self.state["weights"], tokens, np.uint32(0))[0])


def train(
    recipe: TrainingRecipe,
    size: DecoderSize,
    language: Language,
    steps: int,
    seed: int,
    ranks: int = 1,
    every: int = 0,
) -> TrainingHistory:
    """Train from scratch; `every` so many steps a line is printed, if it is not 0."""
    started = time.monotonic()
    trainer = JaxTrainer(recipe, size, language.words, seed, ranks)
    history = TrainingHistory(recipe.name, seed)
    length = size.context + 1
    sentences = language.sentences(steps * size.batch, length, seed)
    for step, tokens in enumerate(sentences.reshape(steps, size.batch, length)):
        rate = rate_at(step, steps)
        # Steps of all seeds draw differently.
        value, norm, clipped = trainer.step(jnp.asarray(tokens), step + 1, rate, seed << 20 | step)
        history.losses.append(value)
        history.norms.append(norm)
        history.clipped.append(clipped.tolist())
        if every and (step % every == 0 or step == steps - 1):
            print(f"  step {step:5}  loss {value:.4f}  gradient norm {norm:.3f}", flush=True)
    kept = language.sentences(HELD_OUT * size.batch, length, HELD_OUT_SEED)
    batches = kept.reshape(HELD_OUT, size.batch, length)
    history.held_out = float(np.mean([trainer.loss(jnp.asarray(batch)) for batch in batches]))
    history.seconds = time.monotonic() - started
    return history


def main() -> None:
    """Train as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recipe", default="mxfp8", help=f"of {', '.join(names())}, or a file")
    parser.add_argument("--size", default="small", choices=SIZES)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=1, help="data-parallel, sharing each batch")
    parser.add_argument("--text", type=Path, help="a file to learn; a made language if not given")
    parser.add_argument("--out", type=Path, help="a file for the history, as JSON")
    given = parser.parse_args()
    recipe, size = TrainingRecipe.read(given.recipe), SIZES[given.size]
    language: Language = (
        TextLanguage.of(given.text) if given.text else MarkovLanguage.of(WORDS, LANGUAGE_SEED)
    )
    count = size.parameters(language.words)
    print(f"{recipe.title}; {count:,} parameters, {given.ranks} ranks, seed {given.seed}")
    every = max(1, given.steps // 10)
    history = train(recipe, size, language, given.steps, given.seed, given.ranks, every)
    best = language.entropy()
    known = "" if best is None else f"; the best there is: {best:.4f}"
    print(f"  loss of sentences not seen: {history.held_out:.4f}{known}")
    print(f"  {history.seconds / given.steps:.2f} s a step of this host")
    if given.out:
        given.out.write_text(json.dumps(asdict(history)))


if __name__ == "__main__":
    main()
