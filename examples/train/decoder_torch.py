"""The decoder of `decoder_jax` in plain torch: the same layers, the same names, the same sums."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from initial_weights import initial_weights
from training_recipes import DecoderSize, TrainingRecipe
from trn3.torch import MXLinear


class Block(nn.Module):  # type: ignore[misc, unused-ignore]
    """Attention, and what follows it."""

    def __init__(self, size: DecoderSize, layers: dict[str, nn.Module]) -> None:
        super().__init__()
        self.heads = size.heads
        self.norm_in = nn.RMSNorm(size.width, eps=1e-6)
        self.norm_up = nn.RMSNorm(size.width, eps=1e-6)
        self.qkv, self.out = layers["qkv"], layers["out"]
        self.up, self.down = layers["up"], layers["down"]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add to ``[batch, length, width]``."""
        batch, length, width = x.shape
        heads = self.qkv(self.norm_in(x)).view(batch, length, self.heads, -1).transpose(1, 2)
        queries, keys, values = heads.chunk(3, dim=-1)
        mixed = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        wide = functional.gelu(self.up(self.norm_up(x)), approximate="tanh")
        added: torch.Tensor = x + self.down(wide)
        return added


class Decoder(nn.Module):  # type: ignore[misc, unused-ignore]
    """A decoder whose linear layers are quantised where the recipe says so."""

    def __init__(self, recipe: TrainingRecipe, size: DecoderSize, words: int) -> None:
        super().__init__()
        layers: dict[str, nn.Module] = {}
        for stream, name in enumerate(size.linear_layers()):
            inputs, outputs = size.shapes(words)[name]
            config = recipe.config(name)
            layers[name] = (
                nn.Linear(inputs, outputs, bias=False)
                if config is None
                else MXLinear(inputs, outputs, bias=False, config=config, stream=stream)
            )
        self.table = nn.Parameter(torch.empty(words, size.width))
        self.places = nn.Parameter(torch.empty(size.context, size.width))
        parts = ("qkv", "out", "up", "down")
        own = ({part: layers[f"{place}.{part}"] for part in parts} for place in range(size.layers))
        self.blocks = nn.ModuleList(Block(size, block) for block in own)
        self.norm = nn.RMSNorm(size.width, eps=1e-6)
        self.head = layers["head"]

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the mean surprise at each next token of ``[batch, context + 1]``, in nats."""
        given, wanted = tokens[:, :-1], tokens[:, 1:]
        # Of products and comparisons, as in JAX, so that gradients are the same sums.
        words = torch.arange(len(self.table))
        x = (given[..., None] == words).to(self.table.dtype) @ self.table
        x = x + self.places[: given.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x)).float()
        is_wanted = wanted[..., None] == words
        picked = torch.where(is_wanted, functional.log_softmax(logits, dim=-1), 0.0)
        return -picked.sum(-1).mean()

    def draw_from(self, seed: int) -> None:
        """Give every quantised layer the seed of its next draws."""
        for module in self.modules():
            if isinstance(module, MXLinear):
                module.draws.fill_(seed)


def new_decoder(recipe: TrainingRecipe, size: DecoderSize, words: int, seed: int) -> Decoder:
    """Make a decoder in float32 that starts from the numbers that JAX's starts from."""
    model = Decoder(recipe, size, words)
    drawn = initial_weights(size, words, seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            # Blocks have their numbers in front: "blocks.0.up.weight" is "0.up".
            array = drawn[name.removeprefix("blocks.").removesuffix(".weight")]
            is_linear = name.endswith(".weight") and array.ndim == 2
            parameter.copy_(torch.from_numpy(array.T if is_linear else array))
    return model


def refuse_unknown(recipe: TrainingRecipe, ranks: int) -> None:
    """Refuse what this laboratory has in JAX alone."""
    found: Any = None
    if recipe.rounding != "nearest":
        found = f"recipe {recipe.name} has rounding = {recipe.rounding!r} of weights"
    elif ranks != 1:
        found = f"ranks is {ranks}"
    if found:
        message = f"{found}, which the decoder in torch does not have; allowed: --framework jax"
        raise ValueError(message)
