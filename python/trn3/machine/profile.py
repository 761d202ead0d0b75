"""What a run of a kernel cost, and why: figures, and the doors to tables, traces and pictures."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from trn3.files import write_bytes, write_files
from trn3.machine.data import CAUSES, DMA, ENGINES, ProfileData
from trn3.machine.findings import Finding, PrecisionLoss, losses
from trn3.machine.intervals import sum_by_bin, union_length
from trn3.machine.results import (
    Busy,
    CriticalStep,
    EngineName,
    EngineTotal,
    LineTotal,
    Roofline,
    location,
)

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

    from trn3.machine.table import Table, TableName

FORMAT = "trn3-profile"
FORMAT_VERSION = 1
PS_PER_US = 1e6


class Profile:
    """What one run of a kernel on one NeuronCore cost, and why.

    Times run from the start of the busy window, which `latency_us` measures; what starting and
    ending a kernel costs is apart from it, in `overhead_us`.

    Parameters
    ----------
    data
        What the machine recorded.

    Examples
    --------
    A kernel of one matmul, 1 us long, in an array of 128 x 128 at 1 GHz:

    >>> from trn3.machine import Profile, ProfileData
    >>> zero = [0]
    >>> data = ProfileData.from_dict({
    ...     "arch": {"name": "toy", "generation": 4, "tensor_clock_mhz": 1000, "partitions": 128,
    ...              "hbm_gbps": 100, "dma_engines": 16, "dma_engine_bytes_per_ns": 10,
    ...              "sbuf_partition_bytes": 262144, "psum_partition_bytes": 16384},
    ...     "kernel": "toy", "latency_ps": 1_000_000, "overhead_ps": 0, "opcodes": ["nc_matmul"],
    ...     "labels": [""], "sites": [("toy.py", 3, "toy")], "findings": [],
    ...     "instructions": {
    ...         "opcode": zero, "engine": zero, "queue": zero, "site": zero, "label": zero,
    ...         "start_ps": zero, "slot_end_ps": [500_000], "end_ps": [1_000_000],
    ...         "wait_ps": zero, "cause": zero, "waited_on": [0xFFFF_FFFF], "dma_bytes": zero,
    ...         "hbm_read": zero, "hbm_write": zero, "macs": [128 * 128 * 250],
    ...         "peak_macs_per_cycle": [128 * 128]},
    ...     "transfers": {name: [] for name in
    ...         ("instruction", "dma_engine", "start_ps", "end_ps", "bytes")},
    ...     "occupancy": {"time_ps": [], "sbuf_bytes": [], "psum_bytes": [],
    ...         "sbuf_peak_bytes": 0, "psum_peak_bytes": 0},
    ...     "critical": zero,
    ... })
    >>> profile = Profile(data)
    >>> profile.latency_us, profile.busy("tensor"), profile.mfu
    (1.0, Busy(us=0.5, share=0.5), 0.25)
    """

    def __init__(self, data: ProfileData) -> None:
        self.data = data

    def __repr__(self) -> str:
        count = len(self.data.instructions)
        return f"<Profile of {self.data.kernel}: {self.latency_us:.3f} us, {count} instructions>"

    @property
    def cores(self) -> tuple[Profile, ...]:
        """The profile of each core that ran: this one alone, unless the launch had several."""
        return (self,)

    @property
    def latency_us(self) -> float:
        """Length of the busy window, in microseconds."""
        return self.data.latency_ps / PS_PER_US

    @property
    def overhead_us(self) -> float:
        """What starting and ending a kernel costs beside the latency, in microseconds."""
        return self.data.overhead_ps / PS_PER_US

    @property
    def findings(self) -> list[Finding]:
        """What the run found to complain of."""
        return [Finding.of(finding) for finding in self.data.findings]

    @property
    def precision(self) -> tuple[PrecisionLoss, ...]:
        """What each line's instructions lost of their results' precision, worst first.

        Empty unless the run had a shadow: ``trn3.nki.profile(..., shadow=True)``.
        """
        return tuple(losses(self.data.precision))

    def _total(self, name: str) -> int:
        return int(getattr(self.data.instructions, name).sum(dtype=np.uint64))

    @property
    def macs(self) -> int:
        """Multiply-accumulate operations of all matmuls."""
        return self._total("macs")

    @property
    def dma_bytes(self) -> int:
        """Bytes that DMA instructions moved."""
        return self._total("dma_bytes")

    @property
    def hbm_read_bytes(self) -> int:
        """Bytes read from HBM."""
        return self._total("hbm_read")

    @property
    def hbm_write_bytes(self) -> int:
        """Bytes written to HBM."""
        return self._total("hbm_write")

    @property
    def sbuf_peak_bytes(self) -> int:
        """The most bytes of an SBUF partition in use at a time."""
        return self.data.occupancy.sbuf_peak_bytes

    @property
    def psum_peak_bytes(self) -> int:
        """The most bytes of a PSUM partition in use at a time."""
        return self.data.occupancy.psum_peak_bytes

    @cached_property
    def ideal_matmul_us(self) -> float:
        """How long all matmuls would take at the peak of their element types, in microseconds."""
        instructions = self.data.instructions
        rows = np.flatnonzero(instructions.macs)
        cycles = instructions.macs[rows] / instructions.peak_macs_per_cycle[rows]
        return float(cycles.sum() / self.data.arch["tensor_clock_mhz"])

    @property
    def mfu(self) -> float:
        """Model FLOPs utilisation: `ideal_matmul_us` as part of the latency."""
        return self.ideal_matmul_us / self.latency_us if self.data.latency_ps else 0.0

    @property
    def mbu(self) -> float:
        """Memory bandwidth utilisation: HBM bytes as part of what HBM gives in the latency."""
        room = self.latency_us * self.data.arch["hbm_gbps"] * 1e3
        return (self.hbm_read_bytes + self.hbm_write_bytes) / room if room else 0.0

    @cached_property
    def dma_engine_us(self) -> NDArray[np.float64]:
        """How long each DMA engine moved bytes, in microseconds."""
        transfers = self.data.transfers
        busy = np.zeros(int(self.data.arch["dma_engines"]))
        for engine in range(len(busy)):
            rows = np.flatnonzero(transfers.dma_engine == engine)
            busy[engine] = union_length(transfers.start_ps[rows], transfers.end_ps[rows])
        return busy / PS_PER_US

    @property
    def dma_efficiency(self) -> float | None:
        """Bytes moved as part of what DMA engines at work could move; None without transfers."""
        transfers = self.data.transfers
        # Each transfer for itself: those of two queues may overlap on one engine.
        picoseconds = int((transfers.end_ps - transfers.start_ps).sum(dtype=np.uint64))
        room = picoseconds / 1e3 * self.data.arch["dma_engine_bytes_per_ns"]
        moved = int(transfers.bytes.sum(dtype=np.uint64))
        return moved / room if room else None

    @property
    def arithmetic_intensity(self) -> float:
        """FLOP of matmuls per byte of HBM traffic; infinite without traffic, 0 without matmuls."""
        traffic = self.hbm_read_bytes + self.hbm_write_bytes
        if not self.macs:
            return 0.0
        return 2 * self.macs / traffic if traffic else math.inf

    def roofline(self) -> Roofline:
        """Return where the kernel stands under the ceilings of the machine."""
        arch = self.data.arch
        if self.macs:
            compute = 2 * self.macs / self.ideal_matmul_us / 1e6
        else:
            compute = 2 * arch["partitions"] ** 2 * arch["tensor_clock_mhz"] / 1e6
        hbm = float(arch["hbm_gbps"])
        dma = float(arch["dma_engines"] * arch["dma_engine_bytes_per_ns"])
        memory = min(hbm, dma)
        ridge = compute * 1e3 / memory
        intensity = self.arithmetic_intensity
        bound: Literal["compute", "memory", "none"] = "none"
        ceiling: Literal["tensor engine", "HBM", "DMA engines", "none"] = "none"
        if self.macs and intensity >= ridge:
            bound, ceiling = "compute", "tensor engine"
        elif self.hbm_read_bytes + self.hbm_write_bytes:
            bound, ceiling = "memory", "HBM" if hbm <= dma else "DMA engines"
        return Roofline(
            intensity=intensity,
            achieved_tflops=2 * self.macs / self.latency_us / 1e6 if self.data.latency_ps else 0.0,
            compute_tflops=compute,
            hbm_gbps=hbm,
            dma_gbps=dma,
            ridge=ridge,
            bound=bound,
            ceiling=ceiling,
            attainable_tflops=min(compute, intensity * memory / 1e3),
        )

    @cached_property
    def _engines(self) -> dict[str, EngineTotal]:
        instructions, transfers = self.data.instructions, self.data.transfers
        pairs = instructions.engine.astype(np.intp) * len(CAUSES) + instructions.cause
        shape = (len(ENGINES), len(CAUSES))
        waits = np.bincount(pairs, instructions.wait_ps, math.prod(shape)).reshape(shape)
        totals: dict[str, EngineTotal] = {}
        for number, name in enumerate(ENGINES):
            rows = np.flatnonzero(instructions.engine == number)
            spans = (instructions.start_ps[rows], instructions.slot_end_ps[rows])
            if number == DMA:
                spans = (transfers.start_ps, transfers.end_ps)
            busy = union_length(*spans) / PS_PER_US
            waited = float(waits[number].sum()) / PS_PER_US
            totals[name] = EngineTotal(
                engine=_engine(number),
                instructions=len(rows),
                busy_us=busy,
                busy_share=busy / self.latency_us if self.data.latency_ps else 0.0,
                wait_us=waited,
                waits=_by_cause(waits[number] / PS_PER_US),
                idle_us=max(self.latency_us - busy - (0.0 if number == DMA else waited), 0.0),
            )
        return totals

    def engines(self) -> list[EngineTotal]:
        """Return what each engine did, in the order of `ENGINES`."""
        return list(self._engines.values())

    def _engine(self, engine: str) -> EngineTotal:
        if engine not in self._engines:
            message = f"engine is {engine!r}, must be one of {', '.join(ENGINES)}"
            raise ValueError(message)
        return self._engines[engine]

    def busy(self, engine: EngineName) -> Busy:
        """Return how long an engine held its issue slot; of ``dma``, how long any byte moved."""
        total = self._engine(engine)
        return Busy(total.busy_us, total.busy_share)

    def waits(self, engine: EngineName) -> dict[str, float]:
        """Return how long an engine stood waiting, by cause, in microseconds, longest first.

        Causes are those of `CAUSES`. Time before the first and after the last instruction is no
        wait. Of ``dma`` the waits of all queues are summed, and may exceed the latency.
        """
        return dict(self._engine(engine).waits)

    @cached_property
    def _critical_parts(self) -> NDArray[np.int64]:
        """Picoseconds of the critical path up to the next step's start, or the last one's end."""
        instructions, critical = self.data.instructions, self.data.critical
        if not len(critical):
            return np.zeros(0, np.int64)
        start = instructions.start_ps[critical].astype(np.int64)
        return np.diff(start, append=np.int64(instructions.end_ps[critical[-1]]))

    @cached_property
    def critical_engine_us(self) -> dict[str, float]:
        """How much of the critical path each engine holds, in microseconds."""
        engines = self.data.instructions.engine[self.data.critical]
        parts = np.bincount(engines, self._critical_parts, len(ENGINES)) / PS_PER_US
        return dict(zip(ENGINES, parts.tolist(), strict=True))

    def critical_path(self) -> list[CriticalStep]:
        """Return the instructions that decide the latency, by rising start."""
        return [self._critical_step(i) for i in self.data.critical.tolist()]

    def _critical_step(self, i: int) -> CriticalStep:
        data, instructions = self.data, self.data.instructions
        file, line, _ = data.sites[instructions.site[i]]
        return CriticalStep(
            instruction=i,
            engine=_engine(instructions.engine[i]),
            opcode=data.opcodes[instructions.opcode[i]],
            location=location(file, line),
            start_us=int(instructions.start_ps[i]) / PS_PER_US,
            end_us=int(instructions.end_ps[i]) / PS_PER_US,
        )

    def lines(self) -> list[LineTotal]:
        """Return what each line of the kernel cost, costliest first.

        **(choice)** The costliest line holds most of the critical path, and among equals most time
        in issue slots: only the critical path, made shorter, makes the kernel faster.
        """
        data, instructions = self.data, self.data.instructions
        site, count = instructions.site, len(data.sites)
        numbers = np.bincount(site, minlength=count)
        slots = np.bincount(site, instructions.slot_end_ps - instructions.start_ps, count)
        critical = np.bincount(site[data.critical], self._critical_parts, count)
        traffic = np.bincount(site, instructions.hbm_read + instructions.hbm_write, count)
        pairs = site.astype(np.intp) * len(CAUSES) + instructions.cause
        waits = np.bincount(pairs, instructions.wait_ps, count * len(CAUSES)).reshape(count, -1)
        order = np.lexsort((np.arange(count), -slots, -critical))
        totals = []
        for i in order[numbers[order] > 0].tolist():
            file, line, function = data.sites[i]
            totals.append(
                LineTotal(
                    file=file,
                    line=line,
                    function=function,
                    instructions=int(numbers[i]),
                    critical_us=float(critical[i]) / PS_PER_US,
                    slot_us=float(slots[i]) / PS_PER_US,
                    wait_us=float(waits[i].sum()) / PS_PER_US,
                    waits=_by_cause(waits[i] / PS_PER_US),
                    hbm_bytes=int(traffic[i]),
                )
            )
        return totals

    def hbm_bytes_by_bin(self, edges_ps: NDArray[np.number[Any]]) -> NDArray[np.float64]:
        """Return the HBM bytes, read and written, that move between the edges, in picoseconds.

        An instruction's bytes are spread over its transfers by their size, and each transfer's
        evenly over its time; without transfers, over the time from start to end.
        """
        instructions, transfers = self.data.instructions, self.data.transfers
        traffic = (instructions.hbm_read + instructions.hbm_write).astype(np.float64)
        moved = np.bincount(transfers.instruction, transfers.bytes, len(instructions))
        rate = np.divide(traffic, moved, out=np.zeros_like(traffic), where=moved > 0)
        shares = transfers.bytes * rate[transfers.instruction]
        (alone,) = np.nonzero((moved == 0) & (traffic > 0))
        return sum_by_bin(transfers.start_ps, transfers.end_ps, shares, edges_ps) + sum_by_bin(
            instructions.start_ps[alone], instructions.end_ps[alone], traffic[alone], edges_ps
        )

    def verdict(self) -> str:
        """Return in plain words what binds the kernel and what to look at first."""
        from trn3.machine.verdict import verdict

        return verdict(self)

    def summary(self) -> RenderableType:
        """Return a table for people, which fits 100 columns: ``rich.print(profile.summary())``."""
        from trn3.machine.summary import summary

        return summary(self)

    def figures(self) -> dict[str, Any]:
        """Return every figure as plain data, with units in the names; what is infinite is None."""
        roofline = asdict(self.roofline())
        if math.isinf(self.arithmetic_intensity):
            roofline["intensity"] = None
        return {
            "kernel": self.data.kernel,
            "arch": self.data.arch["name"],
            "latency_us": self.latency_us,
            "overhead_us": self.overhead_us,
            "instructions": len(self.data.instructions),
            "verdict": self.verdict(),
            "mfu": self.mfu,
            "mbu": self.mbu,
            "dma_efficiency": self.dma_efficiency,
            "macs": self.macs,
            "dma_bytes": self.dma_bytes,
            "hbm_read_bytes": self.hbm_read_bytes,
            "hbm_write_bytes": self.hbm_write_bytes,
            "sbuf_peak_bytes": self.sbuf_peak_bytes,
            "psum_peak_bytes": self.psum_peak_bytes,
            "roofline": roofline,
            "engines": [asdict(total) for total in self.engines()],
            "lines": [asdict(total) for total in self.lines()],
            "findings": [asdict(finding) for finding in self.findings],
            "precision": [asdict(loss) for loss in self.precision],
        }

    def to_dict(self) -> dict[str, Any]:
        """Return figures and raw data as dicts, lists, strings and numbers, ready for JSON."""
        return {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "figures": self.figures(),
            "data": self.data.to_dict(),
        }

    def _json(self) -> bytes:
        return json.dumps(self.to_dict(), separators=(",", ":"), allow_nan=False).encode()

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write `to_dict` as JSON; the file appears when it is complete.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        write_bytes(path, [self._json()])

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return the profile that `to_dict` gave; its figures are formed anew from the data.

        Raises
        ------
        TypeError, ValueError
            If it is no such document, or its parts contradict each other.
        """
        found = (document.get("format"), document.get("version"))
        if found != (FORMAT, FORMAT_VERSION):
            message = (
                f"format {found[0]!r}, version {found[1]!r}; this version of trn3 reads "
                f"{FORMAT!r}, version {FORMAT_VERSION}"
            )
            raise ValueError(message)
        if "cores" in document:
            from trn3.machine.logical import from_cores

            return from_cores(document["cores"])  # type: ignore[return-value]
        return cls(ProfileData.from_dict(document.get("data", {})))

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> Self:
        """Read the profile that `to_json` wrote.

        Raises
        ------
        OSError
            If the file cannot be read.
        ValueError
            If it holds no profile; the message names the file.
        """
        raw = Path(path).read_bytes()
        try:
            document = json.loads(raw)
            if not isinstance(document, dict):
                message = f"a JSON {type(document).__name__}, must be an object"
                raise TypeError(message)
            return cls.from_dict(document)
        except (TypeError, ValueError, RecursionError) as error:
            message = f"{os.fspath(path)}: no profile: {error}"
            raise ValueError(message) from error

    def table(self, name: TableName = "Instruction") -> Table:
        """Return one of `tables` by its name.

        Raises
        ------
        ValueError
            If there is no table of this name.
        """
        from trn3.machine.table import table

        return table(self, name)

    def tables(self) -> dict[TableName, Table]:
        """Return ``Instruction``, ``DmaPacket`` and ``Summary``, with Neuron Explorer's columns.

        Each table is a dict from column to array. Times are nanoseconds in the first two, as there,
        and seconds in ``Summary``. A column of theirs that the machine does not know is left out,
        never filled with a guess; columns of our own begin with ``trn3_``.
        """
        from trn3.machine.table import TABLES, table

        return {name: table(self, name) for name in TABLES}

    def to_dataframe(self, table: TableName = "Instruction") -> pd.DataFrame:
        """Return one of `tables` as a pandas data frame.

        Raises
        ------
        ImportError
            If pandas is not installed; `tables` needs none.
        """
        from trn3.machine.table import dataframe

        return dataframe(self, table)

    def to_perfetto(self, path: str | os.PathLike[str]) -> None:
        """Write a native Perfetto trace, for the Perfetto UI; the file appears when complete.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        from trn3.machine.perfetto_trace import trace

        write_bytes(path, trace([self]))

    def plot(self, path: str | os.PathLike[str]) -> list[Path]:
        """Draw the timeline and the roofline, and return the files written.

        Parameters
        ----------
        path
            A directory, for ``timeline.png`` and ``roofline.png`` in it; or a file ending in .png,
            .svg or .pdf, for both in one picture.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If the file has another ending.
        OSError
            If a file cannot be written; none has appeared then.
        """
        from trn3.machine.figures import writers

        todo = writers(self, Path(path))
        write_files(todo)
        return list(todo)

    def save(self, directory: str | os.PathLike[str]) -> list[Path]:
        """Write trace.perfetto, timeline.png, roofline.png and profile.json into a directory.

        Returns
        -------
        list of Path
            The files: all four, or an error and none.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        OSError
            If a file cannot be written, or there is no such directory.
        """
        from trn3.machine.figures import writers
        from trn3.machine.perfetto_trace import trace

        directory = Path(directory)
        if not directory.is_dir():
            message = f"{directory}: is no directory"
            raise NotADirectoryError(message)
        todo = {
            directory / "trace.perfetto": lambda file: file.write_bytes(b"".join(trace([self]))),
            directory / "profile.json": lambda file: file.write_bytes(self._json()),
            **writers(self, directory),
        }
        write_files(todo)
        return list(todo)


def _engine(number: int) -> EngineName:
    return ENGINES[number]


def _by_cause(waits: NDArray[np.float64]) -> dict[str, float]:
    """Return the causes that took any time, longest first."""
    order = np.argsort(-waits, kind="stable")
    return {CAUSES[i]: float(waits[i]) for i in order.tolist() if waits[i]}
