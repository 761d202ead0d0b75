"""Kernels on two cores that several files of tests run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from trn3 import nki

P, F = 128, 256
RNG = np.random.default_rng(5)


def halves(dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return RNG.standard_normal((2, P, F)).astype(dtype)


def line_of(file: str, text: str) -> str:
    """Return `file:line` of the line of a file that holds a text."""
    lines = Path(file).read_text().splitlines()
    found = [i for i, line in enumerate(lines, 1) if text in line and "line_of" not in line]
    return f"{file}:{found[0]}"


def tile_of(shape: tuple[int, ...], dtype: Any = nl.float32) -> Any:
    return nl.ndarray(shape, dtype, buffer=nl.sbuf)


@nki.jit
def split(x: Any) -> Any:
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    cores = nl.num_programs(0)
    for i in range(nl.program_id(0), x.shape[0], cores):
        nl.store(out[i], nl.multiply(nl.load(x[i]), 2.0))
    return out


@nki.jit
def swap_by_barrier(x: Any) -> Any:
    scratch = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, name="scratch")
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    own = nl.program_id(0)
    nisa.dma_copy(scratch[own], x[own])
    nisa.core_barrier(scratch, (0, 1))
    nisa.dma_copy(out[own], scratch[1 - own])
    return out


@nki.jit
def swap_by_sendrecv(x: Any, gpsimd: bool = False) -> Any:
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    own = nl.program_id(0)
    mine = nl.load(x[own])
    theirs = tile_of(mine.shape, mine.dtype)
    nisa.sendrecv(
        src=mine,
        dst=theirs,
        send_to_rank=1 - own,
        recv_from_rank=1 - own,
        pipe_id=0,
        dma_engine=nisa.dma_engine.gpsimd_dma if gpsimd else nisa.dma_engine.dma,
    )
    nl.store(out[own], theirs)
    return out
