"""Dense products in the systolic order, beside BLAS, which is free to choose its order.

Shows that keeping every chain in ascending k costs nothing: the rival is NumPy's sgemm (OpenBLAS
with the kernels of this CPU) on the same values, and torch's bfloat16 product where torch is
installed and has kernels for it. Speed of light: for bfloat16 the rate of bfloat16 dot products where trn3 uses them, else
that of float32 multiply-adds, which also bounds float32. `make bench` runs the bfloat16 rows again
with TRN3_SIMD=avx512 and TRN3_SIMD=avx2, the latter beside OpenBLAS's AVX2 kernels.
"""

from __future__ import annotations

from types import ModuleType

import ml_dtypes
import numpy as np
import pytest

import trn3
from comparison import Comparison, Normal, Rival, Work
from trn3 import numerics

# m, k, n
SIZES = {
    "256": (256, 256, 256),
    "512": (512, 512, 512),
    "1024": (1024, 1024, 1024),
    "2048": (2048, 2048, 2048),
    "4096x1024": (4096, 1024, 4096),
}
QUICK = (48, 160, 40)
#: Shares of the limit to reach: from 1024 on, and at 512; by multiply-adds from 2048 on.
SHARE, SHARE_OF_512 = 0.88, 0.80
#: Ratios to reach where the dot product does twice the work of a multiply-add, and where not.
BESIDE_SGEMM, BESIDE_TORCH = 1.9, 1.05
BESIDE_SGEMM_BY_MULTIPLY_ADDS = 1.0
FLOAT32_BESIDE_SGEMM = 0.95

sized = pytest.mark.parametrize("size", SIZES.values(), ids=list(SIZES))


def has_dot() -> bool:
    """Return whether bfloat16 dot products are used: where they are slow, they are not unasked."""
    return trn3.simd_level() == "avx512bf16"


def has_kernels_of_torch() -> bool:
    """Return whether torch has kernels of bfloat16 here; it has none of AVX2.

    Elsewhere its products are a hundred times slower than anything else, and take minutes.
    """
    return trn3.simd_level().startswith("avx512")


def speed_of_light() -> str:
    """Return which instruction bounds a product of narrow types."""
    return "bf16_dot" if has_dot() else "fma"


def share_of(size: tuple[int, int, int], dot: bool) -> float | None:
    """Return the share of the limit that a product of a size is to reach."""
    least = min(size)
    if least >= (1024 if dot else 2048) or size == SIZES["4096x1024"]:
        return SHARE
    return SHARE_OF_512 if dot and least == 512 else None


@sized
def bench_matmul_bf16(
    compare: Comparison,
    normal: Normal,
    torch: ModuleType | None,
    size: tuple[int, int, int],
    forced: str,
    quick: bool,
) -> None:
    m, k, n = QUICK if quick else size
    a, b = normal(m, k).astype(ml_dtypes.bfloat16), normal(k, n).astype(ml_dtypes.bfloat16)
    a_float, b_float = a.astype(np.float32), b.astype(np.float32)
    out, blas_out = np.empty((m, n), np.float32), np.empty((m, n), np.float32)
    large = min(size) >= 1024
    beside = BESIDE_SGEMM if has_dot() else BESIDE_SGEMM_BY_MULTIPLY_ADDS
    # Asked for where it is slow, the dot product is there to be looked at.
    slow = forced == "avx512bf16"
    sgemm = Rival(
        "NumPy sgemm",
        lambda: np.matmul(a_float, b_float, out=blas_out),
        goal=beside if large and not slow else None,
    )
    rivals = [sgemm]
    if torch is not None and not forced and has_kernels_of_torch():
        a_torch = torch.from_numpy(a_float).bfloat16()
        b_torch = torch.from_numpy(b_float).bfloat16()
        torch_out = torch.empty((m, n), dtype=torch.bfloat16)
        rivals.append(
            Rival(
                "torch bf16",
                lambda: torch.matmul(a_torch, b_torch, out=torch_out),
                goal=BESIDE_TORCH if large and has_dot() else None,
            )
        )
    compare(
        f"matmul bf16, {m}x{k}x{n}",
        lambda: numerics.matmul(a, b, out=out),
        rivals,
        Work(2e-9 * m * k * n, "GFLOP/s", speed_of_light(), share_of(size, has_dot())),
    )


@sized
def bench_matmul_float32(
    compare: Comparison, normal: Normal, size: tuple[int, int, int], quick: bool
) -> None:
    m, k, n = QUICK if quick else size
    a, b = normal(m, k), normal(k, n)
    out, blas_out = np.empty((m, n), np.float32), np.empty((m, n), np.float32)
    goal = FLOAT32_BESIDE_SGEMM if min(size) >= 1024 else None
    compare(
        f"matmul float32, {m}x{k}x{n}",
        lambda: numerics.matmul(a, b, out=out),
        [Rival("NumPy sgemm", lambda: np.matmul(a, b, out=blas_out), goal=goal)],
        Work(2e-9 * m * k * n, "GFLOP/s", "fma", share_of(size, dot=False)),
    )
