"""Arithmetic and queries that every kernel needs."""

from dataclasses import dataclass
from typing import Any, List, Optional, Tuple

import nki.isa as nisa
import nki.language as nl

from .common_types import DTYPE_SIZE
from .kernel_assert import kernel_assert

PSUM_BANK_BYTES = 2048
NUM_HW_PSUM_BANKS = 8


def div_ceil(n, d):
    return (n + d - 1) // d


def align_to(n, d):
    return div_ceil(n, d) * d


def sizeinbytes(dtype) -> int:
    kernel_assert(str(dtype) in DTYPE_SIZE, f"size of {dtype} is unknown")
    return DTYPE_SIZE[str(dtype)]


def get_program_sharding_info() -> Tuple[int, int, int]:
    """Return (ndim, number of programs, own id); (0, 1, 0) without a grid."""
    grid_ndim = nl.program_ndim()
    n_prgs, prg_id = (nl.num_programs(axes=0), nl.program_id(axis=0)) if grid_ndim != 0 else (1, 0)
    return grid_ndim, n_prgs, prg_id


def get_verified_program_sharding_info(
    kernel_name: str, allowed_ndims: Optional[Tuple] = None, max_sharding: Optional[int] = None
):
    grid_ndim, n_prgs, prg_id = get_program_sharding_info()
    if allowed_ndims is not None:
        kernel_assert(
            grid_ndim in allowed_ndims,
            f"{kernel_name} supports grids of {allowed_ndims} axes, but got {grid_ndim}",
        )
    if max_sharding is not None:
        kernel_assert(
            n_prgs <= max_sharding,
            f"{kernel_name} supports LNC of at most {max_sharding}, but got {n_prgs}",
        )
    return grid_ndim, n_prgs, prg_id


def is_hbm_buffer(tensor: nl.ndarray) -> bool:
    return tensor.buffer in (nl.hbm, nl.shared_hbm, nl.private_hbm)


def reduce(op="mul", input: Any = None, initial_value: Any = None):
    """Fold a tuple of numbers."""
    result = initial_value
    for item in input:
        if op == "mul":
            result = result * item
        elif op == "add":
            result = result + item
        elif op == "max":
            result = max(result, item)
    return result


def get_max_positive_value_for_dtype(dtype) -> float:
    if str(dtype) in ("float8e4", str(nl.float8_e4m3)):
        return 240.0
    if dtype == nl.float8_e4m3fn:
        return 448.0
    if str(dtype) in ("float8e5", str(nl.float8_e5m2)):
        return 57344.0
    kernel_assert(False, f"no maximum is known for {dtype}")


@dataclass
class ShardedDim(nl.NKIObject):
    """What one core has of an axis."""

    size: int
    start: int
    end: int = 0

    def __post_init__(self):
        self.end = self.start + self.size


def shard_dim(size: int, n_prgs: int, prg_id: int, multiple: int = 1) -> ShardedDim:
    """Split an axis in multiples; the first cores have more."""
    tiles = div_ceil(size, multiple)
    mine = div_ceil(tiles, n_prgs)
    start = min(prg_id * mine * multiple, size)
    return ShardedDim(size=min(mine * multiple, size - start), start=start)


def load_broadcast_row(row: nl.ndarray, dst: nl.ndarray, partitions: int):
    """Put one row of HBM on every partition, by a pattern that stands still."""
    length = row.shape[-1]
    kernel_assert(dst.shape == (partitions, length), f"dst {dst.shape} for {(partitions, length)}")
    nisa.dma_copy(dst=dst, src=row.ap(pattern=[[0, partitions], [1, length]], offset=0))


def stream_shuffle_broadcast(src, dst):
    """Copy partition 0 of `src` to every partition of `dst`, 32 at a time."""
    dst_npar = dst.shape[0]
    free_dim = dst.shape[1]
    shuffle_mask = [0] * 32
    kernel_assert(dst_npar % 32 == 0, "partitions come in quadrants of 32")
    for i in range(dst_npar // 32):
        nisa.nc_stream_shuffle(
            src=src[0:1, :],
            dst=dst[i * 32 : (i + 1) * 32, 0:free_dim],
            shuffle_mask=shuffle_mask,
        )


def psum_bank_address(bank: int) -> Tuple[int, int]:
    return (0, (bank % NUM_HW_PSUM_BANKS) * PSUM_BANK_BYTES)


def names(prefix: str, items: List) -> List[str]:
    return [f"{prefix}_{i}" for i in range(len(items))]
