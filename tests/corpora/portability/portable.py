# mypy: ignore-errors
"""What published kernels are made of; compilers take all of it, and so does the lint."""

import math
from dataclasses import dataclass
from enum import Enum
from typing import Optional

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

P = nl.tile_size.pmax
SIZES = {nl.float32: 4, nl.bfloat16: 2, 3: "three"}
FUNCTIONS = {"copy": nl.copy, "silu": nl.silu}
largest = lambda sizes: max(sizes)  # of the host


class Mode(Enum):
    SINGLE = 1
    DOUBLE = 2


FACTORS = {Mode.SINGLE: 1.0, Mode.DOUBLE: 2.0}


def kernel_assert(condition, text):
    assert condition, f"[NCC_INKI016] Kernel validation exception: {text}"


@dataclass
class Config(nl.NKIObject):
    tile: int
    mode: Mode = Mode.SINGLE
    scale: Optional[nl.ndarray] = None

    def __post_init__(self):
        kernel_assert(self.tile > 0, "tile is positive")


class Tile(nl.NKIObject):
    start: int
    size: int


class TiledRange(nl.NKIObject):
    def __init__(self, total, size):
        self.total = total
        self.size = size

    def __iter__(self):
        tiles = []
        for index in range(math.ceil(self.total / self.size)):
            start = index * self.size
            tiles.append(Tile(start=start, size=min(self.size, self.total - start)))
        return iter(tiles)


class Allocator(nl.NKIObject):
    def __init__(self):
        self.taken = 0

    def take(self, shape, dtype, name=None):
        place = self.taken
        count = 1
        for length in shape[1:]:
            count *= length
        self.taken = self.taken + count * SIZES[dtype]
        return nl.ndarray(shape, dtype, buffer=nl.sbuf, address=(0, place), name=name)


def my_share(total: int) -> "tuple[int, int]":
    cores = nl.num_programs(axes=0) if nl.program_ndim() != 0 else 1
    number = nl.program_id(axis=0) if nl.program_ndim() != 0 else 0
    size = total // cores
    return number * size, size


def load(dst: nl.ndarray, src: "nl.ndarray | tuple[int, ...]"):
    if isinstance(dst, list):
        for i in range(len(dst)):
            nisa.dma_copy(dst=dst[i], src=src[i])
    elif hasattr(dst, "shape"):
        nisa.dma_copy(dst=dst, src=src)


@nki.jit(mode="trace", debug_kernel=True)
def scaled(x: nl.ndarray, config: Config = None, names: tuple = ("a", "b")):
    """Multiply by the mode's factor, a tile at a time, each core its share."""
    rows, columns = x.shape
    kernel_assert(config != None and columns % 2 == 0, f"columns are even, not {columns}")
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="out")
    first, share = my_share(rows)
    allocator = Allocator()
    settings = {"mode": config.mode, "factor": FACTORS[config.mode]}
    blocks = [[0, columns // 2], [columns // 2, columns // 2]]
    for tile in TiledRange(share, min(config.tile, P)):
        parts = []
        for i in range(2):
            part = allocator.take(
                (tile.size, columns // 2), nl.float32, name=f"{names[i]}_{tile.start}"
            )
            parts.append([part])
        rows_here = nl.ds(first + tile.start, tile.size)
        for i in nl.affine_range(2):
            start, size = blocks[i][0], blocks[i][1]
            load(parts[i][0], x[rows_here, nl.ds(start, size)])
            nisa.tensor_scalar(
                parts[i][0][:, 0:size], parts[i][0], op0=nl.multiply, operand0=settings["factor"]
            )
            nisa.dma_copy(dst=out[rows_here, start : start + size], src=parts[i][0])
    print(f"mode {settings['mode']}")
    return out


@nki.jit
def looped(x, count):
    """Loops that only the device knows the end of."""
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    index = nl.ndarray((1, 1), nl.int32, buffer=nl.sbuf)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.memset(index, value=0)
    nisa.memset(tile, value=0.0)
    left = nisa.register_alloc(count)
    for i in nl.dynamic_range(0, left):
        nisa.dma_copy(dst=tile, src=x)
        if isinstance(i, int):
            nisa.memset(index, int(i))

    def body(step):
        nisa.register_store(index, step)
        nisa.dma_copy(dst=out, src=tile)

    nl.fori_loop(0, 2, body)
    more = nisa.register_alloc(1)
    while more:
        nisa.register_move(more, 0)
    with nl.no_reorder():
        for _ in nl.static_range(2):
            nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def gathered(x, index):
    """Rows by an index tile."""
    count = index.shape[0]
    rows = nl.ndarray((count, 1), nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=rows, src=index)
    tile = nl.ndarray((count, x.shape[1]), x.dtype, buffer=nl.sbuf)
    pattern = [[x.shape[1], count], [1, x.shape[1]]]
    nisa.dma_copy(dst=tile, src=x.ap(pattern, vector_offset=rows), oob_mode=nisa.oob_mode.skip)
    out = nl.ndarray(tile.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def golden(x):
    return np.array(x)
