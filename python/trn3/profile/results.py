"""The records that a profile's figures come in."""

from __future__ import annotations

import linecache
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from numpy.typing import NDArray

EngineName: TypeAlias = Literal["tensor", "vector", "scalar", "gpsimd", "sync", "dma"]
TableName: TypeAlias = Literal[
    "Instruction",
    "DmaPacket",
    "DmaPacketAggregated",
    "Summary",
    "Metadata",
    "StackFrame",
    "StackFrameFileLocation",
    "StackFrameFileName",
    "StackFrameFunctionName",
]
Evidence: TypeAlias = Literal["documented", "measured", "estimated"]
#: A column of values for each name, all of one length.
Table: TypeAlias = dict[str, NDArray[Any]]


class Busy(NamedTuple):
    """How long an engine worked: in microseconds, and as part of the latency, from 0 to 1."""

    us: float
    share: float


@dataclass(frozen=True, slots=True)
class BasisShare:
    """A part of a latency that rests on one figure of the machine's description.

    Attributes
    ----------
    constant
        The figure's name, as in ``trn3.machine.arch(...).entries``.
    evidence
        What the figure rests on: the vendor's documentation, measurements of the hardware, or
        neither.
    us
        Microseconds of the latency that it decides.
    """

    constant: str
    evidence: Evidence
    us: float


@dataclass(frozen=True, slots=True)
class LatencyBasis:
    """What a latency rests on; the three parts add up to it.

    Attributes
    ----------
    documented_us, measured_us, estimated_us
        Microseconds that figures of each kind decide. Clocks count as documented.
    constants
        The figures, the one that decides most first.
    rows
        The measurements that the width of the band was read off.
    """

    documented_us: float
    measured_us: float
    estimated_us: float
    constants: tuple[BasisShare, ...]
    rows: str


@dataclass(frozen=True, slots=True)
class Roofline:
    """Where the kernel stands under the ceilings of the machine.

    Attributes
    ----------
    intensity
        FLOP per byte of HBM traffic; infinite without traffic.
    achieved_tflops
        10^12 FLOP a second over the latency, counting each multiply-accumulate as two.
    compute_tflops
        The array's peak for the kernel's mix of element types; for 16-bit ones if it has no matmul.
    hbm_gbps, dma_gbps
        What HBM gives, and what all DMA engines together move, in 10^9 bytes a second.
    ridge
        The intensity, in FLOP per byte, at which the two kinds of ceiling meet.
    bound
        Under which the kernel stands: ``"compute"``, ``"memory"``, or ``"none"`` if it has neither
        matmuls nor HBM traffic.
    ceiling
        The very ceiling: ``"tensor engine"``, ``"HBM"``, ``"DMA engines"`` or ``"none"``.
    attainable_tflops
        What that ceiling allows at this intensity.
    """

    intensity: float
    achieved_tflops: float
    compute_tflops: float
    hbm_gbps: float
    dma_gbps: float
    ridge: float
    bound: Literal["compute", "memory", "none"]
    ceiling: Literal["tensor engine", "HBM", "DMA engines", "none"]
    attainable_tflops: float


@dataclass(frozen=True, slots=True)
class EngineTotal:
    """What one engine did over the busy window; times in microseconds.

    ``dma`` counts time in which at least one DMA engine moved bytes; its waits are summed over
    queues and may exceed the latency.
    """

    engine: EngineName
    instructions: int
    busy_us: float
    busy_share: float
    wait_us: float
    waits: Mapping[str, float]
    idle_us: float


@dataclass(frozen=True, slots=True)
class LineTotal:
    """What one line of the kernel cost; times in microseconds, summed over its instructions.

    ``critical_us`` is its part of the critical path: these parts add up to the path's whole length.
    ``slot_us`` is time in issue slots (of DMA instructions: in their queue).
    """

    file: str
    line: int
    function: str
    instructions: int
    critical_us: float
    slot_us: float
    wait_us: float
    waits: Mapping[str, float]
    hbm_bytes: int

    @property
    def location(self) -> str:
        """``file:line``, or ``unknown line``."""
        return location(self.file, self.line)

    @property
    def text(self) -> str:
        """What the line says now, without indentation; empty where there is no such file."""
        return linecache.getline(self.file, self.line).strip()


@dataclass(frozen=True, slots=True)
class CriticalStep:
    """One instruction of the critical path; times in microseconds from the start of the window."""

    instruction: int
    engine: EngineName
    opcode: str
    location: str
    start_us: float
    end_us: float


def location(file: str, line: int) -> str:
    """Return a line of the kernel as text.

    >>> location("matmul.py", 12), location("", 0)
    ('matmul.py:12', 'unknown line')
    """
    return f"{file}:{line}" if line else "unknown line"
