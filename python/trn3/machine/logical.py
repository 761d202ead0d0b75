"""What a run on several cores of a logical core cost: the profiles of its cores, and their sums."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trn3.files import write_bytes, write_files
from trn3.machine.data import CAUSES, ENGINES, NO_INSTRUCTION, ProfileData
from trn3.machine.findings import Finding, PrecisionLoss, by_loss, losses
from trn3.machine.profile import FORMAT, FORMAT_VERSION, PS_PER_US, Profile
from trn3.machine.results import CriticalStep, EngineTotal, LineTotal, Roofline

if TYPE_CHECKING:
    from rich.console import RenderableType

    from trn3.machine.table import Table, TableName


class LogicalProfile(Profile):
    """What one run on several NeuronCores cost, and why.

    All cores start at time 0; the latency is that of the core that ends last, whose critical path
    and `data` these are. Counts (instructions, bytes, FLOP) are sums over the cores, utilisations
    are of all cores together, and **(choice)** an engine's times are means over the cores, so that
    they stay comparable with the latency.

    Parameters
    ----------
    cores
        The profile of each core, in order of their numbers.
    """

    def __init__(self, cores: Sequence[Profile]) -> None:
        last = max(range(len(cores)), key=lambda number: (cores[number].data.latency_ps, -number))
        super().__init__(cores[last].data)
        self._cores = tuple(cores)
        self._last = last

    @property
    def cores(self) -> tuple[Profile, ...]:
        """The profile of each core."""
        return self._cores

    def __repr__(self) -> str:
        count = sum(len(core.data.instructions) for core in self._cores)
        return (
            f"<Profile of {self.data.kernel} on {len(self._cores)} cores: "
            f"{self.latency_us:.3f} us, {count} instructions>"
        )

    @property
    def findings(self) -> list[Finding]:
        """What the run found to complain of, core by core; ``core`` says on which."""
        return [
            Finding.of(finding, number)
            for number, core in enumerate(self._cores)
            for finding in core.data.findings
        ]

    @property
    def precision(self) -> tuple[PrecisionLoss, ...]:
        """What each line's instructions lost on each core, worst first; see `Profile`."""
        return tuple(
            by_loss(
                loss
                for number, core in enumerate(self._cores)
                for loss in losses(core.data.precision, number)
            )
        )

    def _total(self, name: str) -> int:
        return sum(core._total(name) for core in self._cores)

    @property
    def sbuf_peak_bytes(self) -> int:
        """The most bytes of an SBUF partition in use at a time, of any core."""
        return max(core.sbuf_peak_bytes for core in self._cores)

    @property
    def psum_peak_bytes(self) -> int:
        """The most bytes of a PSUM partition in use at a time, of any core."""
        return max(core.psum_peak_bytes for core in self._cores)

    @cached_property
    def ideal_matmul_us(self) -> float:
        """How long all matmuls would take at peak, shared evenly by the cores, in microseconds."""
        return sum(core.ideal_matmul_us for core in self._cores) / len(self._cores)

    @property
    def mbu(self) -> float:
        """Memory bandwidth utilisation: HBM bytes as part of what HBM gives all cores."""
        return super().mbu / len(self._cores)

    @cached_property
    def dma_engine_us(self) -> NDArray[np.float64]:
        """How long each DMA engine moved bytes, in microseconds: those of core 0 first."""
        return np.concatenate([core.dma_engine_us for core in self._cores])

    @property
    def dma_efficiency(self) -> float | None:
        """Bytes moved as part of what DMA engines at work could move; None without transfers."""
        moved = room = 0.0
        for core in self._cores:
            share = core.dma_efficiency
            if share:
                bytes_moved = float(core.data.transfers.bytes.sum(dtype=np.uint64))
                moved, room = moved + bytes_moved, room + bytes_moved / share
        return moved / room if room else None

    def roofline(self) -> Roofline:
        """Return where the kernel stands under the ceilings of all cores together."""
        import dataclasses

        one, count = super().roofline(), len(self._cores)
        if self.macs:
            compute = 2 * self.macs / self.ideal_matmul_us / 1e6
        else:
            compute = one.compute_tflops * count
        # A core's ridge is that of all: both sides grow with their number.
        memory = min(one.hbm_gbps, one.dma_gbps) * count
        ridge = compute * 1e3 / memory
        attainable = min(compute, one.intensity * memory / 1e3)
        bound, ceiling = one.bound, one.ceiling
        if self.macs and one.intensity >= ridge:
            bound, ceiling = "compute", "tensor engine"
        elif self.hbm_read_bytes + self.hbm_write_bytes:
            bound, ceiling = "memory", "HBM" if one.hbm_gbps <= one.dma_gbps else "DMA engines"
        return dataclasses.replace(
            one,
            compute_tflops=compute,
            hbm_gbps=one.hbm_gbps * count,
            dma_gbps=one.dma_gbps * count,
            ridge=ridge,
            bound=bound,
            ceiling=ceiling,
            attainable_tflops=attainable,
        )

    @cached_property
    def _engines(self) -> dict[str, EngineTotal]:
        totals: dict[str, EngineTotal] = {}
        count = len(self._cores)
        for name in ENGINES:
            parts = [core._engines[name] for core in self._cores]
            busy = sum(part.busy_us for part in parts) / count
            waited = sum(part.wait_us for part in parts) / count
            totals[name] = EngineTotal(
                engine=parts[0].engine,
                instructions=sum(part.instructions for part in parts),
                busy_us=busy,
                busy_share=busy / self.latency_us if self.latency_us else 0.0,
                wait_us=waited,
                waits=_merged([part.waits for part in parts], count),
                idle_us=max(self.latency_us - busy - (0.0 if name == "dma" else waited), 0.0),
            )
        return totals

    @cached_property
    def _critical_steps(self) -> list[tuple[int, int]]:
        """Core and instruction of each step to the end; where a core waited, the other's."""
        data = [core.data for core in self._cores]
        meetings = [_meetings(each) for each in data]
        core, path = self._last, self.data.critical.tolist()
        steps: list[tuple[int, int]] = []
        while path:
            steps = [(core, step) for step in path] + steps
            first, of = path[0], data[core].instructions
            path = []
            if CAUSES[of.cause[first]] == "other core":
                place = meetings[core].index(first)
                # The later core did not wait there; with two cores it is the other one.
                core = 1 - core
                path = _path_to(data[core], meetings[core][place])
                # Its meeting is this step itself, seen from the other side.
                path.pop()
        return steps

    @cached_property
    def _critical_lengths(self) -> list[int]:
        """Picoseconds of each critical step up to the next one's start, or the last one's end."""
        data = [core.data.instructions for core in self._cores]
        starts = [int(data[core].start_ps[step]) for core, step in self._critical_steps]
        ends = starts[1:] + [
            int(data[core].end_ps[step]) for core, step in self._critical_steps[-1:]
        ]
        return [max(end - start, 0) for start, end in zip(starts, ends, strict=True)]

    @cached_property
    def critical_engine_us(self) -> dict[str, float]:
        """How much of the critical path each engine holds, on whichever core, in microseconds."""
        held: dict[str, float] = {name: 0.0 for name in ENGINES}  # noqa: C420 keys are plain text
        for (core, step), length in zip(self._critical_steps, self._critical_lengths, strict=True):
            engine = self._cores[core].data.instructions.engine[step]
            held[ENGINES[engine]] += length / PS_PER_US
        return held

    def critical_path(self) -> list[CriticalStep]:
        """Return the instructions that decide the latency, by rising start, of all cores.

        Where a core waited for the other one, the path goes on there.
        """
        return [self._cores[core]._critical_step(step) for core, step in self._critical_steps]

    def lines(self) -> list[LineTotal]:
        """Return what each line of the kernel cost on all cores, costliest first."""
        critical: dict[tuple[str, int, str], int] = {}
        for (core, step), length in zip(self._critical_steps, self._critical_lengths, strict=True):
            data = self._cores[core].data
            site = data.sites[data.instructions.site[step]]
            critical[site] = critical.get(site, 0) + length
        found: dict[tuple[str, int, str], list[LineTotal]] = {}
        for each in self._cores:
            for total in each.lines():
                found.setdefault((total.file, total.line, total.function), []).append(total)
        totals = [
            LineTotal(
                file=file,
                line=line,
                function=function,
                instructions=sum(part.instructions for part in parts),
                critical_us=critical.get((file, line, function), 0) / PS_PER_US,
                slot_us=sum(part.slot_us for part in parts),
                wait_us=sum(part.wait_us for part in parts),
                waits=_merged([part.waits for part in parts], 1),
                hbm_bytes=sum(part.hbm_bytes for part in parts),
            )
            for (file, line, function), parts in found.items()
        ]
        return sorted(totals, key=lambda total: (-total.critical_us, -total.slot_us))

    def hbm_bytes_by_bin(self, edges_ps: NDArray[np.number[Any]]) -> NDArray[np.float64]:
        """Return the HBM bytes of all cores that move between the edges, in picoseconds."""
        together = np.zeros(len(edges_ps) - 1)
        for core in self._cores:
            together += core.hbm_bytes_by_bin(edges_ps)
        return together

    def verdict(self) -> str:
        """Return what binds the core that ends last, and what to look at first."""
        times = ", ".join(f"{core.latency_us:.1f}" for core in self._cores)
        return (
            f"{self._cores[self._last].verdict()} (Core {self._last}, which ends last; the cores "
            f"take {times} us.)"
        )

    def summary(self) -> RenderableType:
        """Return a table for people: all cores together, then what tells them apart."""
        from rich.console import Group
        from rich.text import Text

        from trn3.machine.summary import cores

        return Group(super().summary(), Text(), cores(self._cores))

    def figures(self) -> dict[str, Any]:
        """Return every figure as plain data; ``cores`` has those of each core."""
        together = super().figures()
        together["instructions"] = sum(len(core.data.instructions) for core in self._cores)
        return {**together, "cores": [core.figures() for core in self._cores]}

    def to_dict(self) -> dict[str, Any]:
        """Return figures and raw data of all cores, ready for JSON."""
        return {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "figures": self.figures(),
            "cores": [core.data.to_dict() for core in self._cores],
        }

    def table(self, name: TableName = "Instruction") -> Table:
        """Return one of `tables`, core by core; ``trn3_core`` says which one a row is of."""
        parts = [core.table(name) for core in self._cores]
        joined = {column: np.concatenate([part[column] for part in parts]) for column in parts[0]}
        lengths = [len(next(iter(part.values()))) for part in parts]
        joined["trn3_core"] = np.repeat(np.arange(len(parts)), lengths)
        return joined

    def tables(self) -> dict[TableName, Table]:
        """Return the tables of all cores; see `Profile.tables`."""
        from trn3.machine.table import TABLES

        return {name: self.table(name) for name in TABLES}

    def to_perfetto(self, path: str | os.PathLike[str]) -> None:
        """Write a native Perfetto trace, a process for each core."""
        from trn3.machine.perfetto_trace import trace

        write_bytes(path, trace(self._cores))

    def plot(self, path: str | os.PathLike[str]) -> list[Path]:
        """Draw each core's timeline and roofline; see `Profile.plot`.

        In a directory the files are ``timeline_core0.png`` and so on; a file's name gets
        ``_core0`` and so on before its ending.
        """
        todo = self._pictures(Path(path))
        write_files(todo)
        return list(todo)

    def _pictures(self, path: Path) -> dict[Path, Any]:
        from trn3.machine.figures import writers

        return {
            file.with_stem(f"{file.stem}_core{number}"): write
            for number, core in enumerate(self._cores)
            for file, write in writers(core, path).items()
        }

    def save(self, directory: str | os.PathLike[str]) -> list[Path]:
        """Write trace.perfetto, profile.json and each core's pictures into a directory."""
        from trn3.machine.perfetto_trace import trace

        directory = Path(directory)
        if not directory.is_dir():
            message = f"{directory}: is no directory"
            raise NotADirectoryError(message)
        todo = {
            directory / "trace.perfetto": lambda file: file.write_bytes(
                b"".join(trace(self._cores))
            ),
            directory / "profile.json": lambda file: file.write_bytes(self._json()),
            **self._pictures(directory),
        }
        write_files(todo)
        return list(todo)


#: Instructions that cores run together.
_TOGETHER = ("core_barrier", "sendrecv")


def _meetings(data: ProfileData) -> list[int]:
    """Return the instructions that a core ran with others; the k-th is the others' k-th."""
    codes = [code for code, name in enumerate(data.opcodes) if name in _TOGETHER]
    found: list[int] = np.flatnonzero(np.isin(data.instructions.opcode, codes)).tolist()
    return found


def _path_to(data: ProfileData, last: int) -> list[int]:
    """Return the instructions that led to one, first to last: each waited for the one before."""
    path = []
    step = last
    while step != NO_INSTRUCTION:
        path.append(step)
        step = int(data.instructions.waited_on[step])
    return path[::-1]


def _merged(waits: Sequence[Mapping[str, float]], count: int) -> dict[str, float]:
    sums: dict[str, float] = {}
    for each in waits:
        for cause, time in each.items():
            sums[cause] = sums.get(cause, 0.0) + time / count
    return dict(sorted(sums.items(), key=lambda item: -item[1]))


def from_cores(documents: Sequence[Any]) -> LogicalProfile:
    """Return the profile of cores whose data stand in a document.

    Raises
    ------
    TypeError, ValueError
        If there are none, or one contradicts itself.
    """
    if not documents:
        message = "cores is empty, must have one entry or more"
        raise ValueError(message)
    return LogicalProfile([Profile(ProfileData.from_dict(each)) for each in documents])


__all__ = ["LogicalProfile", "from_cores"]
