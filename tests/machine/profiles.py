"""Profiles made by hand: a tiny one to compute by hand, and realistic ones of any size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trn3.machine import NO_INSTRUCTION, Profile, ProfileData

ARCH = {
    "name": "trn3",
    "generation": 4,
    "tensor_clock_mhz": 2400,
    "partitions": 128,
    "hbm_gbps": 612.5,
    "dma_engines": 16,
    "dma_engine_bytes_per_ns": 33,
    "sbuf_partition_bytes": 262144,
    "psum_partition_bytes": 16384,
}
TENSOR, VECTOR, SCALAR, GPSIMD, SYNC, DMA = range(6)
COLUMNS = (
    *("opcode", "engine", "queue", "site", "label", "start_ps", "slot_end_ps", "end_ps", "wait_ps"),
    *("cause", "waited_on", "dma_bytes", "hbm_read", "hbm_write", "macs", "peak_macs_per_cycle"),
)


class Recorder:
    """A small in-order machine: issues instructions by their dependencies and records a profile."""

    def __init__(self, kernel: str, sites: list[tuple[str, int, str]], **arch: Any) -> None:
        self.kernel = kernel
        self.arch = {**ARCH, **arch}
        self.sites = sites
        self.opcodes: list[str] = []
        self.labels: list[str] = [""]
        self.rows: list[dict[str, int]] = []
        self.transfers: list[tuple[int, int, int, int, int]] = []
        self.occupancy: list[tuple[int, int, int]] = []
        self.findings: list[dict[str, Any]] = []
        self.free: dict[tuple[int, int], int] = {}
        self.dma_free = [0] * 16

    def issue(
        self,
        opcode: str,
        engine: int,
        site: int,
        slot: int,
        latency: int,
        after: list[int] | None = None,
        queue: int = 0,
        label: str = "",
        values: Mapping[str, int] | None = None,
    ) -> int:
        """Issue one instruction; times in nanoseconds. Returns its number."""
        if opcode not in self.opcodes:
            self.opcodes.append(opcode)
        if label not in self.labels:
            self.labels.append(label)
        number = len(self.rows)
        stream = (engine, queue if engine == DMA else 0)
        free = self.free.get(stream, 0)
        start, waited_on, cause = free, NO_INSTRUCTION, 0
        for earlier in after or []:
            ready = self.rows[earlier]["end_ps"] + 30_000
            if ready > start:
                start, waited_on = ready, earlier
                other = self.rows[earlier]["engine"]
                cause = 7 if other == engine else 1 + other
        end = start + 1000 * latency
        if engine == DMA:
            end = self._transfer(number, start, (values or {})["dma_bytes"])
        slot_end = end if engine == DMA else start + 1000 * slot
        self.free[stream] = slot_end
        self.rows.append(
            {
                **dict.fromkeys(COLUMNS, 0),
                "opcode": self.opcodes.index(opcode),
                "engine": engine,
                "queue": queue,
                "site": site,
                "label": self.labels.index(label),
                "start_ps": start,
                "slot_end_ps": slot_end,
                "end_ps": end,
                "wait_ps": start - free if cause else 0,
                "cause": cause if start > free else 0,
                "waited_on": waited_on,
                **(values or {}),
            }
        )
        return number

    def _transfer(self, number: int, start: int, size: int) -> int:
        end = start
        for engine in range(16):
            begin = max(start + 1_000_000, self.dma_free[engine])
            share = size // 16
            done = begin + int(50_000 + share / 33 * 1000)
            self.dma_free[engine] = done
            self.transfers.append((number, engine, begin, done, share))
            end = max(end, done)
        return end

    def occupy(self, time_ps: int, sbuf: int, psum: int) -> None:
        """Record bytes in use."""
        self.occupancy.append((time_ps, sbuf, psum))

    def data(self) -> ProfileData:
        """Return what was recorded."""
        last = max(range(len(self.rows)), key=lambda i: self.rows[i]["end_ps"])
        critical = [last]
        while (before := self._before(critical[-1])) is not None:
            critical.append(before)
        occupancy = sorted(self.occupancy)
        return ProfileData.from_dict(
            {
                "arch": self.arch,
                "kernel": self.kernel,
                "latency_ps": max(row["end_ps"] for row in self.rows),
                "overhead_ps": 15_000_000,
                "opcodes": self.opcodes,
                "labels": self.labels,
                "sites": self.sites,
                "findings": self.findings,
                "instructions": {name: [row[name] for row in self.rows] for name in COLUMNS},
                "transfers": dict(
                    zip(
                        ("instruction", "dma_engine", "start_ps", "end_ps", "bytes"),
                        columns(self.transfers, 5),
                        strict=True,
                    )
                ),
                "occupancy": {
                    **dict(
                        zip(
                            ("time_ps", "sbuf_bytes", "psum_bytes"),
                            columns(occupancy, 3),
                            strict=True,
                        )
                    ),
                    "sbuf_peak_bytes": max((row[1] for row in occupancy), default=0),
                    "psum_peak_bytes": max((row[2] for row in occupancy), default=0),
                },
                "critical": critical[::-1],
            }
        )

    def _before(self, number: int) -> int | None:
        row = self.rows[number]
        if row["waited_on"] != NO_INSTRUCTION:
            return row["waited_on"]
        same = [
            i
            for i in range(max(0, number - 40), number)
            if self.rows[i]["engine"] == row["engine"] and self.rows[i]["queue"] == row["queue"]
        ]
        return same[-1] if same else None


def columns(rows: Sequence[tuple[int, ...]], width: int) -> list[NDArray[np.int64]]:
    return list(np.array(rows, np.int64).reshape(-1, width).T)


def attention(tiles: int, *, buffers: int = 2, findings: bool = False) -> Profile:
    """Return a kernel of `tiles` steps: load, matmul, exponential, transpose, matmul, store."""
    path = "kernels/attention.py"
    sites = [("", 0, "")] + [(path, line, "attention") for line in (31, 38, 40, 44, 47, 52, 58, 63)]
    recorder = Recorder("attention", sites)
    peak, macs = 128 * 128, 128 * 128 * 512
    stores: list[int] = []
    used = 0
    for tile in range(tiles):
        after = [stores[tile - buffers]] if tile >= buffers else []
        size = 128 * 512 * 2
        queue = tile % 2
        moved = {"dma_bytes": size, "hbm_read": size}
        k = recorder.issue("dma_copy", DMA, 1, 70, 0, after, queue, f"k{tile % 4}", moved)
        v = recorder.issue("dma_copy", DMA, 2, 70, 0, after, queue + 2, values=moved)
        used = min(tile + 1, buffers) * 4096
        recorder.occupy(recorder.rows[k]["start_ps"], 8192 + used, 2048 if tile else 0)
        work = {"macs": macs, "peak_macs_per_cycle": peak}
        s = recorder.issue("nc_matmul", TENSOR, 3, 213, 393, [k], values=work)
        m = recorder.issue("tensor_reduce", VECTOR, 4, 533, 653, [s])
        p = recorder.issue("activation", SCALAR, 5, 427, 723, [s, m])
        t = recorder.issue("nc_transpose", TENSOR, 6, 213, 393, [p])
        c = recorder.issue("tensor_copy", VECTOR, 6, 267, 387, [t])
        recorder.occupy(recorder.rows[c]["start_ps"], 12288 + used, 4096)
        o = recorder.issue("nc_matmul", TENSOR, 7, 213, 393, [c, v], values=work)
        r = recorder.issue("tensor_tensor", GPSIMD, 8, 640, 790, [o])
        recorder.issue("register_move", SYNC, 8, 30, 30, [])
        stores.append(
            recorder.issue(
                "dma_copy",
                DMA,
                8,
                70,
                0,
                [r],
                4,
                values={"dma_bytes": size // 4, "hbm_write": size // 4},
            )
        )
    recorder.occupy(max(row["end_ps"] for row in recorder.rows), 0, 0)
    if findings:
        recorder.findings.append(
            {
                "kind": "uninitialised read",
                "message": "tensor_tensor reads bytes of o_tile that nothing wrote",
                "line": f"{path}:63",
            }
        )
    return Profile(recorder.data())
