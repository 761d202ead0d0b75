"""Single DMA transfers and streams of them."""

from __future__ import annotations

from typing import Any

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from trn3.validation.experiments._registry import Figures, experiment
from trn3.validation.experiments.measure import InstructionSpan, KernelRun


@experiment
def transfer(
    hardware: str, *, partitions: int, elements: int, dtype: str, route: str, mode: str
) -> Figures:
    """Measure one load or store of a tile, and ScalarE's use of what came."""

    def kernel() -> None:
        kind: Any = getattr(nl, dtype)
        far = nl.ndarray((partitions, elements), kind, buffer=nl.hbm)
        near = nl.ndarray((partitions, elements), kind, buffer=nl.sbuf)
        descriptors = getattr(nisa.dge_mode, mode)
        if route == "store":
            nisa.dma_copy(dst=far, src=near, dge_mode=descriptors, name="transfer")
            return
        nisa.dma_copy(dst=near, src=far, dge_mode=descriptors, name="transfer")
        # A copy needs no function table, whose load would hide the wait.
        nisa.activation(near, op=nl.copy, data=near, name="use")

    run = KernelRun(kernel, hardware)
    moved = run["transfer"]
    found = {
        "start": moved.start,
        "whole": moved.duration,
        "engine_time": max(end - start for _, start, end, _ in moved.shares()),
    }
    if route == "load":
        found["use"] = run["use"].start - moved.end
    return found


@experiment
def descriptors(hardware: str, *, partitions: int, pieces: int, piece_bytes: int) -> Figures:
    """Measure one descriptor of a load whose every piece has its own."""

    def kernel() -> None:
        wide = nl.ndarray((partitions, pieces, 4 * piece_bytes), nl.uint8, buffer=nl.hbm)
        near = nl.ndarray((partitions, pieces, piece_bytes), nl.uint8, buffer=nl.sbuf)
        nisa.dma_copy(dst=near, src=wide[:, :, 0:piece_bytes], name="transfer")

    moved = KernelRun(kernel, hardware)["transfer"]
    start_end = [(start, end, size) for _, start, end, size in moved.shares()]
    times = [(end - start) / (size / piece_bytes) for start, end, size in start_end]
    return {"descriptor_time": sum(times) / len(times)}


def _stream(
    hardware: str, partitions: int, elements: int, count: int, mode: str, engine: str
) -> tuple[InstructionSpan, InstructionSpan]:
    def kernel() -> None:
        far = nl.ndarray((partitions, elements), nl.uint8, buffer=nl.hbm)
        # Tiles of their own, as far as there is room, so that transfers wait for their queue alone.
        room = min(count, nl.tile_size.sbuf_fmax_bytes // elements)
        tiles = [nl.ndarray((partitions, elements), nl.uint8, buffer=nl.sbuf) for _ in range(room)]
        for i in range(count):
            nisa.dma_copy(
                dst=tiles[i % room],
                src=far,
                dge_mode=getattr(nisa.dge_mode, mode),
                engine=getattr(nisa.engine, engine),
                name=f"transfer {i}",
            )

    run = KernelRun(kernel, hardware)
    # The first half fills the queues.
    return run[f"transfer {count // 2}"], run[f"transfer {count - 1}"]


@experiment
def stream(
    hardware: str,
    *,
    partition_bytes: int,
    partitions: int = 128,
    count: int = 64,
    mode: str = "unknown",
    engine: str = "unknown",
) -> Figures:
    """Measure loads of a tile one after another: their spacing and the bytes they bring."""
    first, last = _stream(hardware, partitions, partition_bytes, count, mode, engine)
    spacing = (last.start - first.start) / (count - 1 - count // 2)
    return {"spacing": spacing, "rate": partitions * partition_bytes / spacing}


@experiment
def relative_throughput(
    hardware: str, *, partition_bytes: int, against: int, partitions: int = 128
) -> Figures:
    """Measure the throughput of loads of one size beside that of another."""

    def rate(size: int) -> float:
        return stream(hardware, partition_bytes=size, partitions=partitions)["rate"]

    return {"relative": rate(partition_bytes) / rate(against)}


@experiment
def transpose(hardware: str, *, rows: int, columns: int, route: str) -> Figures:
    """Measure a transposing transfer's engine time beside that of a copy of the same bytes."""

    def kernel() -> None:
        place = nl.hbm if route == "load" else nl.sbuf
        source = nl.ndarray((rows, columns), nl.bfloat16, buffer=place)
        straight = nl.ndarray((columns, rows), nl.bfloat16, buffer=place)
        turned = nl.ndarray((columns, rows), nl.bfloat16, buffer=nl.sbuf)
        copied = nl.ndarray((columns, rows), nl.bfloat16, buffer=nl.sbuf)
        nisa.dma_transpose(dst=turned, src=source, name="transpose")
        nisa.dma_copy(dst=copied, src=straight, name="copy")

    run = KernelRun(kernel, hardware)

    def time(label: str) -> float:
        return sum(end - start for _, start, end, _ in run[label].shares())

    return {"share": time("copy") / time("transpose")}
