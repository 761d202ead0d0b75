"""Train a decoder from scratch by a recipe, on one simulated core or on data-parallel ranks.

    python examples/train/train_jax.py --recipe mxfp8 --size small --steps 100

Needs JAX: ``pip install "trn3[jax]"``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

import trn3.jax
from decoder_jax import cast, loss, new_state, step_of
from language import Tokens
from training_recipes import DecoderSize, TrainingRecipe
from training_run import main

if TYPE_CHECKING:
    from trn3.graph import StepProfile


class JaxTrainer:
    """A decoder in JAX, and how it takes a step."""

    def __init__(
        self, recipe: TrainingRecipe, size: DecoderSize, words: int, seed: int, ranks: int = 1
    ) -> None:
        if size.batch % ranks:
            message = f"ranks is {ranks}; a batch of {size.batch} has to be shared evenly"
            raise ValueError(message)
        self.state = new_state(recipe, size, words, seed)
        self._tokens = (size.batch, size.context + 1)
        self._step: Any = trn3.jax.compile(step_of(recipe, size, ranks))
        # As the hardware would run it: nothing counts there.
        self._timed: Any = trn3.jax.compile(step_of(recipe, size, ranks, counts=False))

        def value(weights: dict[str, jax.Array], tokens: jax.Array) -> jax.Array:
            return loss(cast(weights, recipe), None, tokens, jnp.uint32(0), recipe, size)

        self._loss: Any = trn3.jax.compile(value)

    def step(self, tokens: Tokens, count: int, rate: float, seed: int) -> tuple[float, float, Any]:
        """Learn from ``[batch, context + 1]`` tokens: loss, gradients' norm, shares clipped."""
        numbers = (np.float32(count), np.float32(rate), np.uint32(seed))
        self.state, value, norm, clipped = self._step(self.state, tokens, *numbers)
        return float(value), float(norm), np.asarray(clipped)

    def loss(self, tokens: Tokens) -> float:
        """Return the loss without learning, on one core."""
        return float(self._loss(self.state["weights"], tokens))

    def time(self) -> StepProfile:
        """Time a step, without computing its values; of several ranks it is that of each."""
        tokens = np.zeros(self._tokens, np.int32)
        numbers = (np.float32(1), np.float32(1e-3), np.uint32(0))
        step: StepProfile = self._timed.time(self.state, tokens, *numbers)
        return step


if __name__ == "__main__":
    main(JaxTrainer, __doc__ or "")
