"""Casts from and to float32, beside ml_dtypes, torch where it is installed, and NumPy one-liners.

Shows the conversions at the speed of the cache and of the memory. Where no cache holds the arrays
they are set beside a memcpy that moves as many bytes, read and written together, on as many
threads: into mapped memory for rows with `out=`, else into a fresh array on both sides, as `astype`
always makes one. The stochastic cast draws its own random bits and is set beside the *nearest* cast
of ml_dtypes, the usual NumPy trick (add 16 random bits, cut 16 bits off) and, as what it can be as
fast as, the slower of its two parts: that memcpy, and the draws alone. Speed of light: memory
bandwidth, for arrays that no cache holds.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from comparison import Comparison, Normal, Rival, Work, estimate, memcpy
from trn3 import numerics

SIZES = {"256 KiB, in cache": 1 << 16, "64 MiB": 1 << 24, "64 MiB, out=": 1 << 24}
QUICK = 1 << 10
LANES = 128


def same_bytes(compare: Comparison, size: str, moved: int) -> list[Rival]:
    """Return the memcpy that moves as many bytes, for arrays that no cache holds."""
    if "cache" in size:
        return []
    copy = memcpy(moved, compare.threads, fresh="out" not in size)
    return [Rival("memcpy of the same bytes", copy, goal=0.9)]


@pytest.mark.parametrize("size", SIZES)
def bench_cast_bf16(compare: Comparison, normal: Normal, size: str, quick: bool) -> None:
    count = QUICK if quick else SIZES[size]
    x = normal(count)
    bf16: Any = ml_dtypes.bfloat16
    out = np.zeros(count, bf16) if "out" in size else None
    goal = 5.0 if "cache" in size else 1.7
    compare(
        f"cast float32 -> bf16, {size}",
        lambda: numerics.cast(x, bf16, out=out),
        [
            Rival("ml_dtypes astype", lambda: x.astype(bf16), goal=goal),
            *same_bytes(compare, size, 6 * count),
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
    out = np.zeros(count, e4m3fn) if "out" in size else None
    rivals = [Rival("ml_dtypes astype", lambda: x.astype(e4m3fn), goal=15.0)]
    if torch is not None:
        x_torch = torch.from_numpy(x)
        rivals.append(Rival("torch to", lambda: x_torch.to(torch.float8_e4m3fn), goal=2.0))
    compare(
        f"cast float32 -> e4m3fn, {size}",
        lambda: numerics.cast(x, e4m3fn, out=out),
        [*rivals, *same_bytes(compare, size, 5 * count)],
        Work(1e-9 * 5 * count, "GB/s", "" if "cache" in size else "memory"),
    )


@pytest.mark.parametrize("size", [size for size in SIZES if "cache" not in size])
@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn"])
def bench_cast_to_float32(
    compare: Comparison, normal: Normal, name: str, size: str, quick: bool
) -> None:
    count = QUICK if quick else SIZES[size]
    x = normal(count).astype(getattr(ml_dtypes, name))
    out = np.zeros(count, np.float32) if "out" in size else None
    moved = x.nbytes + 4 * count
    compare(
        f"cast {name} -> float32, 64 MiB written" + (", out=" if "out" in size else ""),
        lambda: numerics.cast(x, np.float32, out=out),
        same_bytes(compare, size, moved),
        Work(1e-9 * moved, "GB/s", "memory"),
    )


def bench_cast_stochastic(
    compare: Comparison, normal: Normal, generator: np.random.Generator, quick: bool
) -> None:
    x = normal(LANES, 8 if quick else 1 << 15)
    bf16: Any = ml_dtypes.bfloat16
    rng, other = numerics.Xorwow.seed(1, lanes=LANES), numerics.Xorwow.seed(2, lanes=LANES)

    def one_liner() -> object:
        bits = x.view(np.uint32) + generator.integers(0, 1 << 16, x.shape, dtype=np.uint32)
        return (bits >> np.uint32(16)).astype(np.uint16).view(bf16)

    parts = {
        "memcpy of the same bytes": memcpy(6 * x.size, compare.threads, fresh=True),
        "the draws alone": lambda: other.uint32(x.shape[1]),
    }
    seconds = {label: 0.0 if quick else estimate(part) for label, part in parts.items()}
    slower = max(seconds, key=seconds.__getitem__)
    compare(
        f"cast float32 -> bf16 stochastic, {x.nbytes >> 20} MiB, draws included",
        lambda: numerics.cast(x, bf16, rounding="stochastic", rng=rng),
        [
            Rival("ml_dtypes astype, nearest", lambda: x.astype(bf16), goal=1.5),
            Rival("NumPy one-liner", one_liner, goal=12.0),
            Rival(f"{slower}, the slower of its parts", parts[slower], goal=0.9),
        ],
        Work(1e-9 * 6 * x.size, "GB/s"),
    )
