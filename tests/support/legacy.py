"""What tests of the legacy dialect share: kernels made of a function of tiles, their arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import trn3.nki.dialects.legacy as nki
import trn3.nki.dialects.legacy.language as nl


def run(body: Callable[..., Any], *arrays: Any) -> Any:
    """Return what a body makes of tiles of the arrays."""

    @nki.jit
    def kernel(*tensors: Any) -> Any:
        result = body(*(nl.load(tensor) for tensor in tensors))
        made: Any = nl.ndarray
        out = made(result.shape, result.dtype, buffer=nl.shared_hbm)
        nl.store(out, result)
        return out

    return kernel(*arrays)


def values(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(0.5, 3.0, shape).astype(dtype)
