"""Fixtures of the benches: thread counts on both sides, sizes, the comparison itself."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
import threadpoolctl
from numpy.typing import NDArray

import trn3
from comparison import Benchmark, Comparison, Normal

# None where it is not installed: its rows are then left out.
TORCH = importlib.import_module("torch") if importlib.util.find_spec("torch") else None


@pytest.fixture
def torch() -> ModuleType | None:
    """Return torch, or None: its rows are then left out."""
    return TORCH


@pytest.fixture
def quick(benchmark: Benchmark) -> bool:
    """Whether this is a test that the bench works, at a small size, and no measurement."""
    return not benchmark.enabled


@pytest.fixture
def generator() -> np.random.Generator:
    """Return a generator of the same values each time."""
    return np.random.default_rng(20251202)


@pytest.fixture(params=[1, 2], ids=["1-thread", "2-threads"])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """Give trn3, NumPy's BLAS and torch the same number of threads."""
    count: int = request.param
    before = trn3.get_num_threads()
    trn3.set_num_threads(count)
    torch_before = TORCH.get_num_threads() if TORCH else 0
    if TORCH:
        TORCH.set_num_threads(count)
    with threadpoolctl.threadpool_limits(limits=count, user_api="blas"):
        yield count
    if TORCH:
        TORCH.set_num_threads(torch_before)
    trn3.set_num_threads(before)


@pytest.fixture
def forced() -> str:
    """Return the level that TRN3_SIMD asks for, if any; most goals are set for the best level."""
    return os.environ.get("TRN3_SIMD", "")


@pytest.fixture
def compare(benchmark: Benchmark, threads: int) -> Comparison:
    """Return what measures and records one row."""
    return Comparison(benchmark, threads, trn3.simd_level())


@pytest.fixture
def normal(generator: np.random.Generator) -> Normal:
    """Return a maker of standard normal float32 arrays of a given shape."""

    def make(*shape: int) -> NDArray[np.float32]:
        return generator.standard_normal(shape, dtype=np.float32)

    return make
