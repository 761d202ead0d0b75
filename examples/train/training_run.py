"""A run of training, whatever framework takes its steps: data, rates, history, command line."""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from language import Language, MarkovLanguage, TextLanguage, Tokens
from training_recipes import SIZES, DecoderSize, TrainingRecipe, names

if TYPE_CHECKING:
    from trn3.graph import StepProfile

WORDS, LANGUAGE_SEED = 16, 0
RATE, WARM_UP = 3e-3, 0.1
# Batches that the loss is measured on that counts: none of them is trained on.
HELD_OUT, HELD_OUT_SEED = 8, 1 << 30


@dataclass
class TrainingHistory:
    """What a run of training gave, step by step; shares clipped are NaN where nobody counts."""

    recipe: str
    seed: int
    losses: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    clipped: list[list[list[float]]] = field(default_factory=list)
    held_out: float = math.nan
    seconds: float = 0.0


class Trainer(Protocol):
    """A decoder in some framework, and how it takes a step."""

    def step(self, tokens: Tokens, count: int, rate: float, seed: int) -> tuple[float, float, Any]:
        """Learn from ``[batch, context + 1]`` tokens: loss, gradients' norm, shares clipped."""
        ...

    def loss(self, tokens: Tokens) -> float:
        """Return the loss without learning."""
        ...

    def time(self) -> StepProfile:
        """Time a step on the simulated hardware, without computing its values."""
        ...


# Of a recipe, a size, a number of words, a seed and a number of ranks.
MakesTrainer = Callable[[TrainingRecipe, DecoderSize, int, int, int], Trainer]


def language_of(text: Path | None) -> Language:
    """Return the language of a file, or the made one."""
    return TextLanguage.of(text) if text else MarkovLanguage.of(WORDS, LANGUAGE_SEED)


def rate_at(step: int, steps: int) -> float:
    """Return the rate of a step: up in a straight line, then down along a cosine to a tenth."""
    warm = max(1, round(WARM_UP * steps))
    if step < warm:
        return RATE * (step + 1) / warm
    share = (step - warm) / max(1, steps - warm)
    return RATE * (0.1 + 0.45 * (1 + math.cos(math.pi * share)))


def train(
    make: MakesTrainer,
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
    trainer = make(recipe, size, language.words, seed, ranks)
    history = TrainingHistory(recipe.name, seed)
    length = size.context + 1
    sentences = language.sentences(steps * size.batch, length, seed)
    for step, tokens in enumerate(sentences.reshape(steps, size.batch, length)):
        rate = rate_at(step, steps)
        # Steps of all seeds draw differently.
        value, norm, clipped = trainer.step(tokens, step + 1, rate, seed << 20 | step)
        history.losses.append(value)
        history.norms.append(norm)
        history.clipped.append(clipped.tolist())
        if every and (step % every == 0 or step == steps - 1):
            print(f"  step {step:5}  loss {value:.4f}  gradient norm {norm:.3f}", flush=True)
    kept = language.sentences(HELD_OUT * size.batch, length, HELD_OUT_SEED)
    batches = kept.reshape(HELD_OUT, size.batch, length)
    history.held_out = float(np.mean([trainer.loss(batch) for batch in batches]))
    history.seconds = time.monotonic() - started
    return history


def main(make: MakesTrainer, about: str) -> None:
    """Train as the command line says."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--recipe", default="mxfp8", help=f"of {', '.join(names())}, or a file")
    parser.add_argument("--size", default="small", choices=SIZES)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=1, help="data-parallel, sharing each batch")
    parser.add_argument("--text", type=Path, help="a file to learn; a made language if not given")
    parser.add_argument("--out", type=Path, help="a file for the history, as JSON")
    given = parser.parse_args()
    recipe, size = TrainingRecipe.read(given.recipe), SIZES[given.size]
    language = language_of(given.text)
    count = size.parameters(language.words)
    print(f"{recipe.title}; {count:,} parameters, {given.ranks} ranks, seed {given.seed}")
    every = max(1, given.steps // 10)
    history = train(make, recipe, size, language, given.steps, given.seed, given.ranks, every)
    best = language.entropy()
    known = "" if best is None else f"; the best there is: {best:.4f}"
    print(f"  loss of sentences not seen: {history.held_out:.4f}{known}")
    print(f"  {history.seconds / given.steps:.2f} s a step of this host")
    if given.out:
        given.out.write_text(json.dumps(asdict(history)))
