"""Iteration over an axis in tiles, the last one smaller."""

from dataclasses import dataclass
from typing import Optional

import nki.language as nl


@dataclass
class TiledRangeIterator(nl.NKIObject):
    """One tile: where it begins, how long it is, and which one it is."""

    size: int
    index: int
    start_offset: int
    end_offset: int = 0

    def __post_init__(self):
        self.end_offset = self.start_offset + self.size

    def ds(self):
        return nl.ds(self.start_offset, self.size)


def TiledRange(size, tile_size: int, start: Optional[int] = None):
    """Return the tiles of a number, or of a tile of a coarser range."""
    first = 0
    if isinstance(size, TiledRangeIterator):
        first = size.start_offset
        size = size.size
    if start is not None:
        first = first + start
    tiles = []
    for index in range((size + tile_size - 1) // tile_size):
        begin = index * tile_size
        tiles.append(TiledRangeIterator(min(tile_size, size - begin), index, first + begin))
    return tiles
