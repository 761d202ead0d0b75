"""Random bits, beside NumPy's PCG64.

Shows 128 lanes of xorwow, one or four generators each, filling a fresh array, beside
`Generator.integers` over the whole range of uint32, which runs on one thread, and beside a memcpy
of as many bytes: the draws are only written, the copy reads half of its bytes and writes the other
half into a fresh array, on as many threads.
"""

from __future__ import annotations

import numpy as np
import pytest

from comparison import Comparison, Rival, Work, memcpy
from trn3 import numerics

LANES = 128
DRAWS = 1 << 15
QUICK = 1 << 4


@pytest.mark.parametrize("generators", [1, 4])
def bench_xorwow_uint32(
    compare: Comparison, generator: np.random.Generator, generators: int, quick: bool
) -> None:
    draws = QUICK if quick else DRAWS
    rng = numerics.Xorwow.seed(1, lanes=LANES, generators=generators)
    shape = (LANES, draws)
    compare(
        f"Xorwow.uint32, 128 lanes x {generators}, {LANES * draws * 4 >> 20} MiB",
        lambda: rng.uint32(draws),
        [
            Rival(
                "numpy PCG64 integers",
                lambda: generator.integers(0, 1 << 32, shape, dtype=np.uint32),
                goal=6.0,
            ),
            Rival(
                "memcpy of the same bytes",
                memcpy(4 * LANES * draws, compare.threads, fresh=True),
                goal=0.9,
            ),
        ],
        Work(1e-9 * LANES * draws, "Gdraw/s"),
    )
