"""Sizes of the decoder whose steps of training are timed, its first weights, its optimiser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

RATE, BETAS, DECAY, EPSILON = 3e-4, (0.9, 0.95), 0.1, 1e-6


@dataclass(frozen=True, slots=True)
class Sizes:
    """A decoder and what it is given."""

    layers: int = 6
    width: int = 384
    heads: int = 6
    vocabulary: int = 512
    batch: int = 8
    length: int = 256

    @property
    def head(self) -> int:
        """Width of a head."""
        return self.width // self.heads

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of every weight."""
        width = self.width
        found: dict[str, tuple[int, ...]] = {
            "embedding": (self.vocabulary, width),
            "positions": (self.length, width),
            "norm": (width,),
        }
        for layer in range(self.layers):
            found |= {
                f"{layer}.norm_a": (width,),
                f"{layer}.qkv": (width, 3 * width),
                f"{layer}.out": (width, width),
                f"{layer}.norm_b": (width,),
                f"{layer}.up": (width, 4 * width),
                f"{layer}.down": (4 * width, width),
            }
        return found

    def weights(self, generator: np.random.Generator) -> dict[str, NDArray[np.float32]]:
        """Return the first weights: ones for gains, else normal of deviation 0.02."""
        return {
            name: np.ones(shape, np.float32)
            if "norm" in name
            else np.float32(0.02) * generator.standard_normal(shape, np.float32)
            for name, shape in self.shapes().items()
        }

    def tokens(self, generator: np.random.Generator) -> NDArray[np.int32]:
        """Return a batch, one token longer than what the decoder reads."""
        shape = (self.batch, self.length + 1)
        return generator.integers(0, self.vocabulary, shape, np.int32)

    @property
    def parameters(self) -> int:
        """How many numbers the weights are."""
        return sum(int(np.prod(shape)) for shape in self.shapes().values())

    @property
    def operations(self) -> float:
        """Multiplications and additions of the products of a step, forward and both ways back."""
        linear = self.layers * 12 * self.width**2 + self.vocabulary * self.width
        attention = self.layers * 2 * self.length * self.width
        return 6.0 * self.batch * self.length * (linear + attention)
