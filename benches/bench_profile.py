"""What it costs to keep what a profile is made of: records, the graph of dependences, tensors.

Two cores that share HBM are timed whether or not somebody wants to know, since what both write is
decided by time. The same run without a profile is therefore the rival; its ratio to the profiled
run is the part that was there before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from comparison import Comparison, Rival, Work
from trn3 import nki

STEPS, QUICK = 25_000, 500


ALONE = pytest.mark.parametrize("threads", [1], ids=["1-thread"], indirect=True)


@nki.jit
def tiles(x: Any, steps: int) -> Any:
    """Issue four instructions a step, on tiles of SBUF in turn."""
    cores, core = nl.num_programs(0), nl.program_id(0)
    out = nl.ndarray((cores, *x.shape), x.dtype, buffer=nl.shared_hbm)
    held = [nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf) for _ in range(4)]
    for step in range(steps):
        tile = held[step % 4]
        nisa.dma_copy(dst=tile, src=x)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.activation(dst=held[(step + 1) % 4], op=nl.exp, data=tile)
        nisa.dma_copy(dst=out[core], src=tile)
    return out


@ALONE
def bench_what_a_profile_keeps(compare: Comparison, quick: bool) -> None:
    steps = (QUICK if quick else STEPS) // 2
    x = np.ones((128, 512), np.float32)

    def run(*, is_kept: bool) -> None:
        cores = tiles[2].cores(None, values=False, timing=is_kept)
        tiles[2].launch(cores, [x, steps], {})

    without = Rival("timed, nothing kept", lambda: run(is_kept=False))
    work = Work(8 * steps, "instructions")
    compare("profile: run", lambda: run(is_kept=True), [without], work)
