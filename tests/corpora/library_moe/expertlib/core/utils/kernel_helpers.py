"""What most kernels need."""

from dataclasses import dataclass

import nki.isa as nisa
import nki.language as nl

from .kernel_assert import kernel_assert

NUM_QUADRANTS = 4
QUADRANT = 32


def div_ceil(n, d):
    """Quotient rounded up."""
    return (n + d - 1) // d


def get_verified_program_sharding_info(kernel_name="", sharded_dims=(0, 1), max_sharding=None):
    """Number of axes, of cores, and this core."""
    grid_ndim = nl.program_ndim()
    kernel_assert(grid_ndim in sharded_dims, f"{kernel_name}: {grid_ndim} axes")
    n_prgs = nl.num_programs(axes=0) if grid_ndim != 0 else 1
    prg_id = nl.program_id(axis=0) if grid_ndim != 0 else 0
    if max_sharding != None:  # noqa: E711
        kernel_assert(n_prgs <= max_sharding, f"{kernel_name}: {n_prgs} cores")
    return grid_ndim, n_prgs, prg_id


def stream_shuffle_broadcast(src, dst):
    """Copy partition 0 of src to all partitions of dst."""
    dst_npar = dst.shape[0]
    free_dim = dst.shape[1]
    mask = [0] * QUADRANT
    for i in range(div_ceil(dst_npar, QUADRANT)):
        rows = min(QUADRANT, dst_npar - i * QUADRANT)
        nisa.nc_stream_shuffle(
            src=src[0:1, :], dst=dst[nl.ds(i * QUADRANT, rows), :free_dim], shuffle_mask=mask
        )


def is_hbm(buffer):
    """Whether a buffer is memory of the chip."""
    return buffer in (nl.hbm, nl.shared_hbm, nl.private_hbm)


def get_max_positive_value_for_dtype(dtype):
    """Largest that is safe on all targets."""
    text = str(dtype)
    if text == str(nl.float8_e4m3) or text == "float8e4":
        return 448.0 if nisa.get_nc_version() > nisa.nc_version.gen4 else 240.0
    if dtype == nl.float8_e5m2 or dtype == "float8e5":
        return 57344.0
    kernel_assert(False, f"no bound for {dtype}")


@dataclass
class Shard(nl.NKIObject):
    """A part of a dimension."""

    offset: int
    size: int

    @property
    def end(self):
        """First element after it."""
        return self.offset + self.size


def shard_of(total, parts, part, multiple=1):
    """Balanced part of a dimension."""
    each = div_ceil(div_ceil(total, parts), multiple) * multiple
    first = min(part * each, total)
    return Shard(offset=first, size=min(each, total - first))
