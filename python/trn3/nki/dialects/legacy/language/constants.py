"""Figures of element types and memories, imported as ``neuronxcc.nki.language.constants``."""

from __future__ import annotations

from typing import Any, Final

from trn3.nki.language.tile_sizes import tile_size
from trn3.nki.values.neuron_dtypes import sizeinbytes

__all__ = ["psum_min_align", "sbuf_min_align", "sizeinbytes"]

#: Alignment of addresses in bytes, that of `nl.tile_size`.
sbuf_min_align: Final = tile_size.sbuf_min_align
psum_min_align: Final = tile_size.psum_min_align


def __dir__() -> list[str]:
    return sorted({*globals(), *(name for name in dir(tile_size) if not name.startswith("_"))})


def __getattr__(name: str) -> Any:
    # Sizes of tiles differ by target and are read when they are asked for.
    return getattr(tile_size, name)
