"""Allocation of SBUF by hand: a stack with scopes from below, a heap from above, and rotating tiles."""

from dataclasses import dataclass, field
from typing import List, Optional, Tuple

import nki.language as nl

from .kernel_assert import kernel_assert
from .kernel_helpers import align_to, div_ceil, sizeinbytes
from .logger import Logger, get_logger


@dataclass
class Scope(nl.NKIObject):
    """A scope of the stack; with interleaving, its allocations come round after that many."""

    start: int
    name: str = ""
    interleave_degree: int = 1
    cur_section: int = 0
    section_start: int = 0
    section_peak: int = 0


def _bytes_per_partition(shape, dtype) -> int:
    elements = 1
    for length in shape[1:]:
        elements = elements * length
    return elements * sizeinbytes(dtype)


class SbufManager(nl.NKIObject):
    """Stack and heap in ``[lower, upper)`` bytes of each partition."""

    def __init__(
        self,
        sb_lower_bound: int,
        sb_upper_bound: int,
        logger: Optional[Logger] = None,
        use_auto_alloc: bool = False,
    ):
        kernel_assert(
            sb_lower_bound <= sb_upper_bound, f"{sb_lower_bound} is beyond {sb_upper_bound}"
        )
        self.lower = sb_lower_bound
        self.upper = sb_upper_bound
        self.stack_curr_addr = sb_lower_bound
        self.heap_curr_addr = sb_upper_bound
        self.scopes: List[Scope] = []
        self.heap: List[Tuple[int, nl.ndarray]] = []
        self.logger = logger if logger is not None else get_logger("SBM")
        self.use_auto_alloc = use_auto_alloc
        self.prefix = ""
        self.counter = 0

    def set_name_prefix(self, prefix: str):
        self.prefix = prefix

    def _name(self, name: Optional[str]) -> str:
        self.counter = self.counter + 1
        return f"{self.prefix}{name if name is not None else 'tile'}_{self.counter}"

    def open_scope(self, name: str = "", interleave_degree: int = 1):
        self.scopes.append(
            Scope(
                start=self.stack_curr_addr,
                name=name,
                interleave_degree=interleave_degree,
                section_start=self.stack_curr_addr,
                section_peak=self.stack_curr_addr,
            )
        )
        self.logger.debug(f"open {name} at {self.stack_curr_addr}")

    def increment_section(self):
        scope = self.scopes[-1]
        scope.section_peak = max(scope.section_peak, self.stack_curr_addr)
        scope.cur_section = scope.cur_section + 1
        if scope.cur_section % scope.interleave_degree == 0:
            self.stack_curr_addr = scope.start

    def close_scope(self):
        kernel_assert(len(self.scopes) > 0, "no scope is open")
        scope = self.scopes.pop()
        self.stack_curr_addr = scope.start

    def alloc_stack(
        self,
        shape,
        dtype,
        buffer=nl.sbuf,
        name: Optional[str] = None,
        base_partition: int = 0,
        align: Optional[int] = None,
    ) -> nl.ndarray:
        kernel_assert(buffer == nl.sbuf, f"the stack is in SBUF, not {buffer}")
        if self.use_auto_alloc:
            return nl.ndarray(shape, dtype, buffer=nl.sbuf, name=self._name(name), address=None)
        size = _bytes_per_partition(shape, dtype)
        address = align_to(self.stack_curr_addr, align if align is not None else sizeinbytes(dtype))
        kernel_assert(
            address + size <= self.heap_curr_addr,
            f"Out of SBUF: `{name}` of {size} bytes at {address}, the heap is at {self.heap_curr_addr}",
        )
        self.stack_curr_addr = address + size
        return nl.ndarray(
            shape, dtype, buffer=nl.sbuf, name=self._name(name), address=(base_partition, address)
        )

    def alloc_heap(self, shape, dtype, buffer=nl.sbuf, name=None) -> nl.ndarray:
        if self.use_auto_alloc:
            return nl.ndarray(shape, dtype, buffer=buffer, name=self._name(name), address=None)
        size = align_to(_bytes_per_partition(shape, dtype), 4)
        kernel_assert(
            self.heap_curr_addr - size >= self.stack_curr_addr,
            f"Out of SBUF: heap `{name}` of {size} bytes, the stack is at {self.stack_curr_addr}",
        )
        self.heap_curr_addr = self.heap_curr_addr - size
        tile = nl.ndarray(
            shape, dtype, buffer=buffer, name=self._name(name), address=(0, self.heap_curr_addr)
        )
        self.heap.append((size, tile))
        return tile

    def pop_heap(self):
        if self.use_auto_alloc:
            return
        size, _ = self.heap.pop()
        self.heap_curr_addr = self.heap_curr_addr + size

    def alloc(self, shape, dtype, buffer=nl.sbuf, name=None, base_partition=0, align=None):
        return self.alloc_stack(shape, dtype, buffer, name, base_partition, align)

    def get_free_space(self) -> int:
        return self.heap_curr_addr - self.stack_curr_addr


def create_auto_alloc_manager(logger: Optional[Logger] = None) -> SbufManager:
    return SbufManager(0, nl.tile_size.total_available_sbuf_size, logger, use_auto_alloc=True)


@dataclass
class ModularAllocator(nl.NKIObject):
    """Tiles by index: a block list whose addresses come round."""

    initial_address: int = 0
    current: int = field(default=0)

    def __post_init__(self):
        self.current = self.initial_address

    def alloc_sbuf_tensor(
        self,
        shape: tuple,
        dtype,
        block_dim: Optional[List[int]] = None,
        num_free_tiles: Optional[List[int]] = None,
        base_partition: int = 0,
        align_to: Optional[int] = None,
    ):
        """Return a tile, or nested lists of them in `block_dim`, `num_free_tiles` of each axis apart."""
        size = _bytes_per_partition(shape, dtype)
        boundary = align_to if align_to is not None else sizeinbytes(dtype)
        start = div_ceil(self.current, boundary) * boundary
        if block_dim is None:
            self.current = start + size
            return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf, address=(base_partition, start))
        kernel_assert(
            num_free_tiles is None or len(num_free_tiles) == len(block_dim),
            f"num_free_tiles {num_free_tiles} for block_dim {block_dim}",
        )
        apart = num_free_tiles if num_free_tiles is not None else block_dim
        total = 1
        for count in apart:
            total = total * count
        self.current = start + total * size
        return self._nest(shape, dtype, block_dim, apart, 0, 0, start, size, base_partition)

    def _nest(self, shape, dtype, block_dim, apart, axis, linear, start, size, base_partition):
        if axis == len(block_dim):
            return nl.ndarray(
                shape, dtype=dtype, buffer=nl.sbuf, address=(base_partition, start + linear * size)
            )
        blocks = []
        for i in range(block_dim[axis]):
            inner = linear * apart[axis] + (i % apart[axis])
            blocks.append(
                self._nest(
                    shape, dtype, block_dim, apart, axis + 1, inner, start, size, base_partition
                )
            )
        return blocks
