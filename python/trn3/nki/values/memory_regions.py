"""Where tensors lie: on chip, or in HBM."""

from __future__ import annotations

import enum
from typing import Any, TypeAlias

from trn3._trn3 import machine
from trn3._trn3.machine import NkiTensor
from trn3.nki.values.element_types import ALL, canonicalise

__all__ = [
    "Buffer",
    "MemoryRegion",
    "hbm",
    "is_hbm",
    "is_on_chip",
    "is_psum",
    "is_sbuf",
    "private_hbm",
    "psum",
    "region_of",
    "sbuf",
    "shared_hbm",
]


class MemoryRegion(enum.Enum):
    """Which memory a tensor lies in."""

    #: On chip, 128 partitions; every engine reads and writes it.
    sbuf = "sbuf"
    #: On chip, results of matmuls; 8 banks of 2 KiB a partition.
    psum = "psum"
    #: HBM of one core.
    private_hbm = "private_hbm"
    #: HBM that the cores of a logical core share; results lie here.
    shared_hbm = "shared_hbm"
    #: Another name of `private_hbm`.
    hbm = "private_hbm"  # noqa: PIE796 an alias is meant

    code: int  # number of the memory in the machine


for _code, _region in enumerate(MemoryRegion):
    _region.code = _code

sbuf = MemoryRegion.sbuf
psum = MemoryRegion.psum
private_hbm = MemoryRegion.private_hbm
hbm = MemoryRegion.private_hbm
shared_hbm = MemoryRegion.shared_hbm

_hooks = machine.hooks()
_hooks.update({f"dtype:{dtype.name}": dtype for dtype in ALL})
_hooks.update({f"buffer:{region.value}": region for region in MemoryRegion})
_hooks["dtype_name"] = lambda spelling: canonicalise(spelling).name

Buffer: TypeAlias = MemoryRegion | str


def region_of(buffer: Any) -> MemoryRegion:
    """Return the memory that is meant, or that a tensor lies in.

    Raises
    ------
    TypeError
        If it is none.
    """
    if isinstance(buffer, NkiTensor):
        buffer = buffer.buffer
    if isinstance(buffer, MemoryRegion):
        return buffer
    if isinstance(buffer, str) and buffer in MemoryRegion.__members__:
        return MemoryRegion[buffer]
    allowed = ", ".join(f"nl.{name}" for name in MemoryRegion.__members__)
    message = f"buffer is {buffer!r}; allowed: {allowed}"
    raise TypeError(message)


def is_sbuf(buffer: Buffer | NkiTensor) -> bool:
    """Return whether a memory, or a tensor's memory, is SBUF."""
    return region_of(buffer) is sbuf


def is_psum(buffer: Buffer | NkiTensor) -> bool:
    """Return whether a memory, or a tensor's memory, is PSUM."""
    return region_of(buffer) is psum


def is_hbm(buffer: Buffer | NkiTensor) -> bool:
    """Return whether a memory, or a tensor's memory, is HBM, shared or private."""
    return region_of(buffer).code >= private_hbm.code


def is_on_chip(buffer: Buffer | NkiTensor) -> bool:
    """Return whether a memory, or a tensor's memory, is SBUF or PSUM."""
    return not is_hbm(buffer)
