"""Stack of SBUF addresses, as decode kernels budget it."""

import nki.isa as nisa
import nki.language as nl

from .common_types import sizeinbytes
from .kernel_assert import kernel_assert


class SbufManager(nl.NKIObject):
    """Addresses from both ends of a region of SBUF."""

    def __init__(self, sb_lower_bound, sb_upper_bound, prefix=""):
        self.lower = sb_lower_bound
        self.upper = sb_upper_bound
        self.stack_top = sb_lower_bound
        self.heap_bottom = sb_upper_bound
        self.scopes = []
        self.prefix = prefix
        self.count = 0
        kernel_assert(
            sb_upper_bound <= nl.tile_size.total_available_sbuf_size,
            f"{sb_upper_bound} bytes do not fit",
        )

    def open_scope(self, name=""):
        """Remember the stack."""
        self.scopes.append(self.stack_top)

    def close_scope(self):
        """Drop what the scope allocated."""
        self.stack_top = self.scopes.pop()

    def _bytes(self, shape, dtype):
        n = sizeinbytes(dtype)
        for extent in shape[1:]:
            n = n * extent
        return n

    def alloc_stack(self, shape, dtype, name=None, base_partition=0, align=4):
        """Tile that lives until its scope closes."""
        self.stack_top = (self.stack_top + align - 1) // align * align
        n = self._bytes(shape, dtype)
        kernel_assert(
            self.stack_top + n <= self.heap_bottom, f"SBUF stack OOM: {n} bytes for {name}"
        )
        tile = nl.ndarray(
            shape,
            dtype=dtype,
            buffer=nl.sbuf,
            name=f"{self.prefix}{name}_{self.count}" if name is not None else None,
            address=(base_partition, self.stack_top),
        )
        self.count += 1
        self.stack_top += n
        return tile

    def alloc_heap(self, shape, dtype, name=None):
        """Tile that lives until the end."""
        n = (self._bytes(shape, dtype) + 3) // 4 * 4
        self.heap_bottom = (self.heap_bottom - n) // 4 * 4
        kernel_assert(self.heap_bottom >= self.stack_top, "SBUF heap OOM")
        return nl.ndarray(
            shape, dtype=dtype, buffer=nl.sbuf, name=name, address=(0, self.heap_bottom)
        )


def psum_tile(shape, dtype, bank, name=None):
    """Tile at the start of a bank."""
    return nl.ndarray(
        shape,
        dtype=dtype,
        buffer=nl.psum,
        name=name,
        address=(0, bank * nl.tile_size.psum_bank_fmax_bytes),
    )


def zeros_on_gpsimd(tile):
    """Clear a tile without VectorE."""
    nisa.memset(dst=tile, value=0.0, engine=nisa.gpsimd_engine)
    return tile
