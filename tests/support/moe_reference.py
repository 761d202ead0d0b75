"""Mixtures of experts in float64, and blocks of tokens as kernels take them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

BF16 = ml_dtypes.bfloat16


@dataclass(frozen=True)
class Problem:
    hidden: np.ndarray
    gate_up: np.ndarray
    down: np.ndarray
    affinities: np.ndarray
    positions: np.ndarray
    experts: np.ndarray
    conditions: np.ndarray
    block: int
    blocks: int

    def output(self) -> np.ndarray:
        """By experts, without blocks."""
        x = self.hidden.astype(np.float64)
        out = np.zeros_like(x)
        for e in range(self.gate_up.shape[0]):
            gate, up = (self.gate_up[e, :, g].astype(np.float64) for g in range(2))
            g = x @ gate
            part = (g / (1 + np.exp(-g)) * (x @ up)) @ self.down[e].astype(np.float64)
            out += part * self.affinities[:, e : e + 1].astype(np.float64)
        return out


def problem(
    tokens: int = 256,
    hidden: int = 256,
    width: int = 192,
    experts: int = 4,
    k: int = 2,
    block: int = 128,
    spare: int = 2,
    dtype: Any = BF16,
    index: Any = np.int32,
    pad: int = -1,
    seed: int = 0,
) -> Problem:
    """Return tokens with k experts each; blocks at the end are empty."""
    rng = np.random.default_rng(seed)
    affinities = np.zeros((tokens, experts), np.float32)
    for t in range(tokens):
        chosen = rng.choice(experts, k, replace=False)
        affinities[t, chosen] = rng.random(k) + 0.25
    positions, owners = [], []
    for e in range(experts):
        mine = np.flatnonzero(affinities[:, e])
        for first in range(0, mine.size, block):
            part = mine[first : first + block]
            positions.append(np.concatenate([part, np.full(block - part.size, pad)]))
            owners.append(e)
    used = len(owners)
    positions += [np.full(block, pad)] * spare
    owners += [experts - 1] * spare
    conditions = np.array([1] * used + [0] * (spare + 1), np.int32)
    scale = 1 / np.sqrt(hidden)
    return Problem(
        hidden=rng.normal(size=(tokens, hidden)).astype(dtype),
        gate_up=(rng.normal(size=(experts, hidden, 2, width)) * scale).astype(dtype),
        down=(rng.normal(size=(experts, width, hidden)) / np.sqrt(width)).astype(dtype),
        affinities=affinities,
        positions=np.concatenate(positions).astype(index),
        experts=np.array(owners, np.int32)[:, None],
        conditions=conditions,
        block=block,
        blocks=len(owners),
    )
