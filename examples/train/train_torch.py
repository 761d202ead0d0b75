"""Train the decoder in torch from scratch by a recipe, on one simulated core.

    python examples/train/train_torch.py --recipe mxfp8 --size small --steps 100

Needs torch: ``pip install "trn3[torch]"``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

import trn3.torch
from decoder_torch import new_decoder, refuse_unknown
from language import Tokens
from training_recipes import FIRST, SECOND, SMALL, DecoderSize, TrainingRecipe
from training_run import main

if TYPE_CHECKING:
    from trn3.graph import StepProfile


def slope_of(weight: torch.nn.Parameter) -> torch.Tensor:
    """Return a gradient that a backward pass has left."""
    assert weight.grad is not None
    return weight.grad


class TorchTrainer:
    """A decoder in torch, and how it takes a step."""

    def __init__(
        self, recipe: TrainingRecipe, size: DecoderSize, words: int, seed: int, ranks: int = 1
    ) -> None:
        refuse_unknown(recipe, ranks)
        self._tokens = (size.batch, size.context + 1)
        self._keeps = recipe.masters
        self.model = new_decoder(recipe, size, words, seed)
        masters = [weight.detach().clone() for weight in self.model.parameters()]
        self._masters = [torch.nn.Parameter(weight) for weight in masters]
        self.model.to(getattr(torch, recipe.dtype))
        self._rate = torch.tensor(0.0)
        self._optimiser = torch.optim.Adam(
            self._masters, self._rate, (FIRST, SECOND), SMALL, foreach=False
        )
        self._loss: Any = trn3.torch.compile(self.model)
        self._update: Any = trn3.torch.compile(self._optimiser.step)

    def step(self, tokens: Tokens, count: int, rate: float, seed: int) -> tuple[float, float, Any]:
        """Learn from ``[batch, context + 1]`` tokens: loss, gradients' norm, shares clipped."""
        del count  # The optimiser counts.
        self.model.train().draw_from(seed)
        value = self._learn(torch.from_numpy(tokens), rate)
        slopes = [slope_of(weight) for weight in self._masters]
        norm = torch.stack([slope.square().sum() for slope in slopes]).sum().sqrt()
        # MXLinear does not count.
        return value.item(), norm.item(), np.full((3, 2), np.nan)

    def _learn(self, tokens: torch.Tensor, rate: float) -> torch.Tensor:
        weights = list(self.model.parameters())
        value: torch.Tensor = self._loss(tokens)
        value.backward()
        with torch.no_grad():
            for weight, master in zip(weights, self._masters, strict=True):
                if not self._keeps:
                    master.copy_(weight)
                master.grad, weight.grad = slope_of(weight).float(), None
            self._rate.fill_(rate)
            self._update()
            for weight, master in zip(weights, self._masters, strict=True):
                weight.copy_(master)
        return value.detach()

    def loss(self, tokens: Tokens) -> float:
        """Return the loss without learning."""
        self.model.eval().draw_from(0)
        with torch.no_grad():
            value: float = self._loss(torch.from_numpy(tokens)).item()
        return value

    def time(self) -> StepProfile:
        """Time a step, without computing its values; what torch itself does takes no time."""
        # Its parts are compiled, each by itself.
        learn = trn3.torch.compile(torch.compiler.disable(self._learn))
        return learn.time(torch.zeros(self._tokens, dtype=torch.int32), 0.0)


if __name__ == "__main__":
    main(TorchTrainer, __doc__ or "")
