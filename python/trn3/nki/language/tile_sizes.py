"""Sizes of memories and tiles, as kernels ask for them."""

from __future__ import annotations

import os
from typing import Final

from trn3.nki.ranks.context import current_figures
from trn3.nki.values.suggestions import or_nearest

__all__ = ["tile_size"]

# A float32 takes four bytes of a bank, whatever the machine.
_FLOAT32_BYTES: Final = 4


class _TileSize:
    """Sizes of the current target's memories and tiles, inside kernels and out."""

    __slots__ = ()

    @property
    def pmax(self) -> int:
        """Partitions of SBUF and PSUM."""
        return current_figures()["partitions"]

    @property
    def psum_bank_fmax_bytes(self) -> int:
        """Bytes of a PSUM bank, in one partition."""
        return current_figures()["psum_bank_bytes"]

    @property
    def psum_bank_fmax(self) -> int:
        """Float32 elements of a PSUM bank, in one partition."""
        return self.psum_bank_fmax_bytes // _FLOAT32_BYTES

    @property
    def psum_fmax(self) -> int:
        """Older name of `psum_bank_fmax`."""
        return self.psum_bank_fmax

    @property
    def psum_fmax_bytes(self) -> int:
        """Older name of `psum_bank_fmax_bytes`."""
        return self.psum_bank_fmax_bytes

    @property
    def psum_num_banks(self) -> int:
        """PSUM banks that kernels may use.

        One fewer where DMA transposes run on TensorE (``NKI_DMA_TRANSPOSE_AS_PE_TRANSPOSE=true``,
        gen3 on).
        """
        figures = current_figures()
        wanted = os.environ.get("NKI_DMA_TRANSPOSE_AS_PE_TRANSPOSE", "").lower() in ("1", "true")
        return figures["psum_banks"] - (1 if wanted and figures.generation >= 3 else 0)

    @property
    def gemm_stationary_fmax(self) -> int:
        """Most columns of a matmul's stationary operand."""
        return current_figures()["stationary_columns"]

    @property
    def gemm_moving_fmax(self) -> int:
        """Columns of a matmul's moving operand that every generation takes: one float32 bank."""
        return self.psum_bank_fmax

    @property
    def bn_stats_fmax(self) -> int:
        """Most elements per partition that bn_stats takes."""
        return current_figures()["bn_stats_elements"]

    @property
    def sbuf_size_bytes(self) -> int:
        """Bytes of SBUF, all partitions."""
        figures = current_figures()
        return figures["partitions"] * figures["sbuf_partition_bytes"]

    @property
    def sbuf_fmax_bytes(self) -> int:
        """Bytes of a partition of SBUF that kernels may use."""
        figures = current_figures()
        return figures["sbuf_partition_bytes"] - figures["sbuf_reserved_bytes"]

    @property
    def sbuf_fmax(self) -> int:
        """Float32 elements of a partition of SBUF that kernels may use."""
        return self.sbuf_fmax_bytes // _FLOAT32_BYTES

    @property
    def total_available_sbuf_size(self) -> int:
        """Older name of `sbuf_fmax_bytes`."""
        return self.sbuf_fmax_bytes

    @property
    def psum_min_align(self) -> int:
        """Alignment of PSUM addresses in bytes: one float32 (**choice**)."""
        return _FLOAT32_BYTES

    @property
    def sbuf_min_align(self) -> int:
        """Alignment of SBUF addresses in bytes: none (**choice**)."""
        return 1

    def __getattr__(self, name: str) -> int:
        known = [each for each in dir(type(self)) if not each.startswith("_")]
        hint = or_nearest(name, known)
        message = f"nl.tile_size has no {name!r}{hint}; allowed: {', '.join(known)}"
        raise AttributeError(message)


tile_size: Final = _TileSize()
