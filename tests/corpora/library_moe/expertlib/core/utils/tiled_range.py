"""Ranges in tiles."""

import nki.language as nl


class TiledRangeIterator(nl.NKIObject):
    """One tile of a range."""

    size: int
    index: int
    start_offset: int
    end_offset: int


class TiledRange(nl.NKIObject):
    """Tiles of a range; the last may be shorter."""

    def __init__(self, size, tile_size):
        self.start = 0
        if isinstance(size, TiledRangeIterator):
            self.start = size.start_offset
            size = size.size
        self.size = size
        self.tile_size = tile_size

    def __iter__(self):
        index = 0
        done = 0
        while done < self.size:
            now = min(self.tile_size, self.size - done)
            yield TiledRangeIterator(now, index, self.start + done, self.start + done + now)
            done += now
            index += 1

    def __len__(self):
        return (self.size + self.tile_size - 1) // self.tile_size
