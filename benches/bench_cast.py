"""Casts from float32, beside ml_dtypes, torch where it is installed, and NumPy one-liners.

Shows the conversions at the speed of the cache and of the memory; each side writes a fresh array,
as `astype` always does. The stochastic cast draws its own random bits and is set beside the
*nearest* cast of ml_dtypes and the usual NumPy trick: add 16 random bits, cut 16 bits off. Speed of
light: memory bandwidth, for arrays that no cache holds.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from comparison import Comparison, Normal, Rival, Work
from trn3 import numerics

SIZES = {"256 KiB, in cache": 1 << 16, "64 MiB": 1 << 24}
QUICK = 1 << 10
LANES = 128


@pytest.mark.parametrize("size", SIZES)
def bench_cast_bf16(compare: Comparison, normal: Normal, size: str, quick: bool) -> None:
    count = QUICK if quick else SIZES[size]
    x = normal(count)
    bf16: Any = ml_dtypes.bfloat16
    compare(
        f"cast float32 -> bf16, {size}",
        lambda: numerics.cast(x, bf16),
        [
            Rival(
                "ml_dtypes astype",
                lambda: x.astype(bf16),
                goal=5.0 if "cache" in size else 1.7,
            )
        ],
        Work(1e-9 * 6 * count, "GB/s", "" if "cache" in size else "memory"),
    )


@pytest.mark.parametrize("size", SIZES)
def bench_cast_e4m3fn(
    compare: Comparison, normal: Normal, torch: ModuleType | None, size: str, quick: bool
) -> None:
    count = QUICK if quick else SIZES[size]
    x = normal(count)
    e4m3fn: Any = ml_dtypes.float8_e4m3fn
    rivals = [Rival("ml_dtypes astype", lambda: x.astype(e4m3fn), goal=15.0)]
    if torch is not None:
        x_torch = torch.from_numpy(x)
        rivals.append(Rival("torch to", lambda: x_torch.to(torch.float8_e4m3fn), goal=2.0))
    compare(
        f"cast float32 -> e4m3fn, {size}",
        lambda: numerics.cast(x, e4m3fn),
        rivals,
        Work(1e-9 * 5 * count, "GB/s", "" if "cache" in size else "memory"),
    )


def bench_cast_stochastic(
    compare: Comparison, normal: Normal, generator: np.random.Generator, quick: bool
) -> None:
    x = normal(LANES, 8 if quick else 1 << 15)
    bf16: Any = ml_dtypes.bfloat16
    rng = numerics.Xorwow.seed(1, lanes=LANES)

    def one_liner() -> object:
        bits = x.view(np.uint32) + generator.integers(0, 1 << 16, x.shape, dtype=np.uint32)
        return (bits >> np.uint32(16)).astype(np.uint16).view(bf16)

    compare(
        f"cast float32 -> bf16 stochastic, {x.nbytes >> 20} MiB, draws included",
        lambda: numerics.cast(x, bf16, rounding="stochastic", rng=rng),
        [
            Rival("ml_dtypes astype, nearest", lambda: x.astype(bf16), goal=1.5),
            Rival("NumPy one-liner", one_liner, goal=12.0),
        ],
        Work(1e-9 * 6 * x.size, "GB/s"),
    )
