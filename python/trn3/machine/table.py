"""The profile as tables whose columns bear the names that Neuron Explorer gives them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trn3.machine.data import CAUSES, DMA, ENGINES, NO_INSTRUCTION
from trn3.machine.intervals import union_length

if TYPE_CHECKING:
    import pandas as pd

    from trn3.machine.profile import Profile

TableName: TypeAlias = Literal["Instruction", "DmaPacket", "Summary"]
#: A column of values for each name, all of one length.
Table: TypeAlias = dict[str, NDArray[Any]]


def table(profile: Profile, name: str) -> Table:
    """Return a table by its name."""
    if name not in TABLES:
        message = f"table is {name!r}, must be one of {', '.join(TABLES)}"
        raise ValueError(message)
    return TABLES[name](profile)


def dataframe(profile: Profile, name: TableName) -> pd.DataFrame:
    """Return a table as a pandas data frame."""
    try:
        import pandas as pd
    except ImportError as error:
        message = "to_dataframe needs pandas: pip install 'trn3[dataframe]'; tables() needs none"
        raise ImportError(message) from error
    return pd.DataFrame(profile.table(name))


def _nanoseconds(picoseconds: NDArray[np.uint64]) -> NDArray[np.int64]:
    # Their times are whole nanoseconds. Cut off, not rounded, ends stay before the starts that
    # follow them.
    return (picoseconds // 1000).astype(np.int64)


def _spans(start: NDArray[np.uint64], end: NDArray[np.uint64]) -> Table:
    starts, ends = _nanoseconds(start), _nanoseconds(end)
    return {"start_ts": starts, "end_ts": ends, "duration_ns": ends - starts}


def _names(names: Sequence[str], places: NDArray[Any]) -> NDArray[np.object_]:
    # The empty name keeps an array of no instructions an array of texts.
    texts = np.array([*names, ""], dtype=object)
    return np.take(texts, places)


def _positions(group: NDArray[Any]) -> NDArray[np.int64]:
    """Return for each entry how many equal ones stand before it."""
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(group)])
    counts = np.diff(np.append(first, len(group)))
    positions = np.empty(len(group), np.int64)
    positions[order] = np.arange(len(group)) - np.repeat(first, counts)
    return positions


def _instruction(profile: Profile) -> Table:
    data, instructions = profile.data, profile.data.instructions
    places = [f"{file}:{line}" if line else "" for file, line, _ in data.sites]
    flops = 2 * instructions.macs.astype(np.int64)
    # FLOP of 16-bit matmuls that would have taken as long: theirs run at one a cell and cycle.
    cells = float(data.arch["partitions"]) ** 2
    peak = np.where(instructions.macs > 0, instructions.peak_macs_per_cycle, 1)
    return {
        **_spans(instructions.start_ps, instructions.end_ps),
        "engine": _names(ENGINES, instructions.engine),
        "opcode": _names(data.opcodes, instructions.opcode),
        "id": np.arange(len(instructions)),
        "pc": _positions(instructions.engine),
        "evt_wait_time_ns": _nanoseconds(instructions.wait_ps),
        "nki_source_location": _names(places, instructions.site),
        "hbm_read_bytes": instructions.hbm_read.astype(np.int64),
        "hbm_write_bytes": instructions.hbm_write.astype(np.int64),
        "raw_flops": flops,
        "adjusted_flops": np.rint(flops * (cells / peak)).astype(np.int64),
        "trn3_label": _names(data.labels, instructions.label),
        "trn3_slot_end_ts": _nanoseconds(instructions.slot_end_ps),
        "trn3_wait_cause": _names(CAUSES, instructions.cause),
        "trn3_waited_on_id": np.where(
            instructions.waited_on == NO_INSTRUCTION, -1, instructions.waited_on.astype(np.int64)
        ),
        "trn3_dma_queue": np.where(instructions.engine == DMA, instructions.queue.astype(int), -1),
        "trn3_dma_bytes": instructions.dma_bytes.astype(np.int64),
    }


def _dma_packet(profile: Profile) -> Table:
    transfers, instructions = profile.data.transfers, profile.data.instructions
    lasted = (transfers.end_ps - transfers.start_ps).astype(np.float64)
    rate = np.divide(transfers.bytes * 1e12, lasted, out=np.zeros_like(lasted), where=lasted > 0)
    return {
        **_spans(transfers.start_ps, transfers.end_ps),
        "id": np.arange(len(transfers)),
        "packet_idx": _positions(transfers.instruction),
        "packet_aggregation_id": transfers.instruction.astype(np.int64),
        "engine_idx": transfers.dma_engine.astype(np.int64),
        "transfer_bytes": transfers.bytes.astype(np.int64),
        "throughput": rate,
        "queue_idx": instructions.queue[transfers.instruction].astype(np.int64),
    }


def _summary(profile: Profile) -> Table:
    data, instructions, transfers = profile.data, profile.data.instructions, profile.data.transfers
    roofline = profile.roofline()
    moves = int(np.count_nonzero(instructions.engine == DMA))
    lasted = instructions.slot_end_ps - instructions.start_ps
    ends = np.concatenate([instructions.slot_end_ps, transfers.end_ps])
    starts = np.concatenate([instructions.start_ps, transfers.start_ps])
    active = union_length(starts, ends) / 1e12
    row: dict[str, float] = {
        "total_time": data.latency_ps / 1e12,
        "total_active_time": active,
        "total_active_time_percent": 100e12 * active / data.latency_ps if data.latency_ps else 0.0,
        "hardware_flops": 2 * profile.macs,
        "mfu_estimated_percent": 100 * profile.mfu,
        "mbu_estimated_percent": 100 * profile.mbu,
        "mm_arithmetic_intensity": (
            math.nan if math.isinf(profile.arithmetic_intensity) else profile.arithmetic_intensity
        ),
        "peak_flops_bandwidth_ratio": 1e3 * roofline.compute_tflops / roofline.hbm_gbps,
        "hbm_read_bytes": profile.hbm_read_bytes,
        "hbm_write_bytes": profile.hbm_write_bytes,
        "dma_transfer_count": moves,
        "dma_transfer_total_bytes": profile.dma_bytes,
        "dma_transfer_average_bytes": profile.dma_bytes / moves if moves else 0.0,
        "dma_packet_time": float(profile.dma_engine_us.sum()) / 1e6,
        "trn3_overhead_time": data.overhead_ps / 1e12,
        "trn3_sbuf_peak_bytes": profile.sbuf_peak_bytes,
        "trn3_psum_peak_bytes": profile.psum_peak_bytes,
    }
    for total in profile.engines():
        if total.engine == "dma":
            row["dma_active_time"] = total.busy_us / 1e6
            row["dma_active_time_percent"] = 100 * total.busy_share
            continue
        rows = instructions.engine == ENGINES.index(total.engine)
        name = f"{total.engine}_engine"
        row[f"{name}_instruction_count"] = total.instructions
        row[f"{name}_instruction_time"] = int(lasted[rows].sum()) / 1e12
        row[f"{name}_active_time"] = total.busy_us / 1e6
        row[f"{name}_active_time_percent"] = 100 * total.busy_share
    return {name: np.array([value]) for name, value in row.items()}


#: What makes each table.
TABLES: dict[TableName, Callable[[Profile], Table]] = {
    "Instruction": _instruction,
    "DmaPacket": _dma_packet,
    "Summary": _summary,
}
