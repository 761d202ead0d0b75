"""Profiles made by hand: a tiny one to compute by hand, and realistic ones of any size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from trn3.profile import NO_INSTRUCTION, Profile, ProfileData

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

    def __init__(
        self, kernel: str, sites: list[tuple[str, int, str]], trigger_ns: int = 1000, **arch: Any
    ) -> None:
        self.kernel = kernel
        self.trigger_ps = 1000 * trigger_ns
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
            begin = max(start + self.trigger_ps, self.dma_free[engine])
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


def by_hand(**arch: Any) -> Profile:
    """Return a profile whose figures can be computed by hand.

    Time in us  0    .5   2    2.5  3    4    5    6         8         10
    DMA 0            [-- 30 kB -----]
    DMA 1                 [-- 10 kB ---]
    tensor      (waits for DMA 3 us )[matmul 2    ](hop    )(1: waits)[1]
    vector           (waits for tensor, 4 us, of 6) [ add, 2      ]
    """
    none = NO_INSTRUCTION
    us = 1_000_000
    machine = {
        "name": "toy",
        "generation": 4,
        "tensor_clock_mhz": 1000,
        "partitions": 128,
        "hbm_gbps": 100,
        "dma_engines": 4,
        "dma_engine_bytes_per_ns": 20,
        "sbuf_partition_bytes": 1024,
        "psum_partition_bytes": 512,
        **arch,
    }
    document = {
        "arch": machine,
        "kernel": "toy",
        "latency_ps": 10 * us,
        "overhead_ps": 15 * us,
        "opcodes": ["dma_copy", "nc_matmul", "tensor_tensor", "nc_matmul_mx"],
        "labels": ["", "first"],
        "sites": [["", 0, ""], ["toy.py", 3, "toy"], ["toy.py", 5, "toy"], ["toy.py", 9, "toy"]],
        "findings": [],
        "instructions": {
            "opcode": [0, 1, 2, 3],
            "engine": [DMA, TENSOR, VECTOR, TENSOR],
            "queue": [0, 0, 0, 0],
            "site": [1, 2, 3, 2],
            "label": [0, 1, 0, 0],
            "start_ps": [0, 3 * us, 6 * us, 8 * us],
            "slot_end_ps": [3 * us, 5 * us, 8 * us, 9 * us],
            "end_ps": [3 * us, 6 * us, 8 * us, 10 * us],
            "wait_ps": [0, 3 * us, 4 * us, us],
            "cause": [0, 6, 1, 2],
            "waited_on": [none, 0, 1, 2],
            "dma_bytes": [250_000, 0, 0, 0],
            "hbm_read": [200_000, 0, 0, 0],
            "hbm_write": [50_000, 0, 0, 0],
            "macs": [0, 2000 * 16384, 0, 500 * 65536],
            "peak_macs_per_cycle": [0, 16384, 0, 65536],
        },
        "transfers": {
            "instruction": [0, 0],
            "dma_engine": [0, 1],
            "start_ps": [us // 2, 2 * us],
            "end_ps": [5 * us // 2, 3 * us],
            "bytes": [30_000, 10_000],
        },
        "occupancy": {
            "time_ps": [0, 3 * us, 10 * us],
            "sbuf_bytes": [256, 512, 0],
            "psum_bytes": [0, 64, 0],
            "sbuf_peak_bytes": 512,
            "psum_peak_bytes": 64,
        },
        "critical": [0, 1, 2, 3],
    }
    return Profile(ProfileData.from_dict(document))


def empty() -> ProfileData:
    """Return the profile of a kernel that does nothing."""
    document = by_hand().data.to_dict()
    document["latency_ps"] = 0
    document["critical"] = []
    for part in ("instructions", "transfers", "occupancy"):
        for name, value in document[part].items():
            document[part][name] = [] if isinstance(value, list) else 0
    return ProfileData.from_dict(document)


@st.composite
def profile_data(draw: st.DrawFn) -> ProfileData:
    """Draw data of which nothing is known but that it does not contradict itself."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = draw(st.integers(0, 60))
    # Short times make ends meet starts and whole nanoseconds coincide.
    scale = draw(st.sampled_from([3, 900, 100_000]))
    clock = np.zeros((6, 3), np.int64)
    rows = []
    for i in range(count):
        engine, queue = int(rng.integers(6)), int(rng.integers(3))
        stream = (engine, queue if engine == DMA else 0)
        idle = int(rng.integers(scale)) * int(rng.integers(2))
        wait = int(rng.integers(idle + 1))
        start = int(clock[stream]) + idle
        slot = int(rng.integers(scale))
        clock[stream] = start + slot
        macs = int(rng.integers(2**30)) * (engine == TENSOR)
        moved = int(rng.integers(2**20)) * (engine == DMA)
        blamed = i > 0 and wait > 0 and rng.random() < 0.7
        rows.append(
            {
                "opcode": int(rng.integers(5)),
                "engine": engine,
                "queue": queue if engine == DMA else 0,
                "site": int(rng.integers(4)),
                "label": int(rng.integers(3)),
                "start_ps": start,
                "slot_end_ps": start + slot,
                "end_ps": start + int(rng.integers(2 * scale)),
                "wait_ps": wait,
                "cause": int(rng.integers(1, 12)) if wait else 0,
                "waited_on": int(rng.integers(i)) if blamed else NO_INSTRUCTION,
                "dma_bytes": moved,
                "hbm_read": moved // 2,
                "hbm_write": moved // 3,
                "macs": macs,
                "peak_macs_per_cycle": int(rng.choice([4096, 16384, 65536])) if macs else 0,
            }
        )
    transfers = []
    for i, row in enumerate(rows):
        for engine in range(int(rng.integers(4)) if row["engine"] == DMA else 0):
            begin = row["start_ps"] + int(rng.integers(scale))
            transfers.append((i, engine, begin, begin + int(rng.integers(scale)), 64 * engine))
    ends = [max(row["slot_end_ps"], row["end_ps"]) for row in rows]
    latency = max([0, *ends, *(moved[3] for moved in transfers)]) + int(rng.integers(scale))
    critical = np.flatnonzero(rng.random(count) < 0.4)
    critical = critical[np.argsort([rows[i]["start_ps"] for i in critical], kind="stable")]
    times = np.sort(rng.integers(0, latency + 1, int(rng.integers(9))))
    names = ("instruction", "dma_engine", "start_ps", "end_ps", "bytes")
    return ProfileData.from_dict(
        {
            "arch": ARCH,
            "kernel": draw(st.sampled_from(["k", "long \x1b[31m name with [bold] in it"])),
            "latency_ps": latency,
            "overhead_ps": int(rng.integers(scale)),
            "opcodes": ["nc_matmul", "tensor_tensor", "activation", "dma_copy", "new_opcode"],
            "labels": ["", "a", "β"],
            "sites": [
                ("", 0, ""),
                ("k.py", 2, "k"),
                ("a/very/long/path/" * 5 + "k.py", 3, "k"),
                ("k.py", 40, ""),
            ],
            "findings": [{"message": "x" * 300, "line": "k.py:2"}] * int(rng.integers(5)),
            "instructions": {name: [row[name] for row in rows] for name in COLUMNS},
            "transfers": dict(zip(names, columns(transfers, 5), strict=True)),
            "occupancy": {
                "time_ps": times,
                "sbuf_bytes": rng.integers(0, 9, len(times)),
                "psum_bytes": rng.integers(0, 9, len(times)),
                "sbuf_peak_bytes": 8,
                "psum_peak_bytes": 9,
            },
            "critical": critical,
        }
    )
