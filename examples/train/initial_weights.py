"""The numbers that a decoder starts from, the same ones in every framework."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from training_recipes import DecoderSize


def initial_weights(size: DecoderSize, words: int, seed: int) -> dict[str, NDArray[np.float32]]:
    """Draw weights; those of linear layers are ``[inputs, outputs]``."""
    generator = np.random.default_rng(seed)
    found = {}
    for name, shape in size.shapes(words).items():
        if len(shape) == 1:
            found[name] = np.ones(shape, np.float32)
            continue
        # What adds to the residual stream starts small.
        share = (2 * size.layers) ** -0.5 if name.endswith(("out", "down")) else 1.0
        spread = 0.1 if name in {"table", "places"} else share * shape[0] ** -0.5
        drawn = generator.standard_normal(shape, np.float32)
        found[name] = drawn * np.float32(spread)
    return found
