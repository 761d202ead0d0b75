"""What a kernel's run on one core recorded, as a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trn3.interchange.chakra.trace import Attribute, Node, NodeType, Trace
from trn3.profile.data import DMA, ENGINES, NO_INSTRUCTION

if TYPE_CHECKING:
    from trn3.profile import Profile

PS_PER_US = 1_000_000


def from_profile(profile: Profile, *, rank: int = 0) -> Trace:
    """Return the trace of a kernel's run: one node an instruction.

    Instructions of compute engines become computation nodes, with ``num_ops`` (two for each
    multiply-accumulate) and ``tensor_size`` (bytes of HBM); DMA that reads HBM becomes a memory
    load, other DMA a memory store. An instruction waits for the one before it on its engine or DMA
    queue, and for the one that the machine saw it wait on.

    The schema counts whole microseconds, and most instructions take less: start and end are rounded
    each, so that the sum stays right, and the exact times are in ``start_ps`` and ``duration_ps``.

    Parameters
    ----------
    profile
        What ``trn3.nki.profile`` returns.
    rank
        The rank that the trace is for: an attribute of the trace.

    Returns
    -------
    Trace
        In program order.
    """
    data = profile.data
    rows = data.instructions
    last: dict[tuple[int, int], int] = {}
    nodes = []
    for i in range(len(rows)):
        engine, queue = int(rows.engine[i]), int(rows.queue[i])
        start, end = int(rows.start_ps[i]), int(rows.end_ps[i])
        read, written = int(rows.hbm_read[i]), int(rows.hbm_write[i])
        moved = int(rows.dma_bytes[i])
        if engine != DMA:
            type_ = NodeType.COMP_NODE
        else:
            type_ = NodeType.MEM_LOAD_NODE if read else NodeType.MEM_STORE_NODE
        before = last.get((engine, queue))
        last[engine, queue] = i
        waited = int(rows.waited_on[i])
        opcode = data.opcodes[int(rows.opcode[i])]
        label = data.labels[int(rows.label[i])]
        file, line, _ = data.sites[int(rows.site[i])]
        first, final = round(start / PS_PER_US), round(end / PS_PER_US)
        nodes.append(
            Node(
                i,
                f"{opcode} {label}".rstrip(),
                type_,
                ctrl_deps=() if before is None else (before,),
                data_deps=() if waited in {NO_INSTRUCTION, before} else (waited,),
                start_time_micros=first,
                duration_micros=final - first,
                attributes=(
                    Attribute("is_cpu_op", value=False),
                    Attribute("num_ops", 2 * int(rows.macs[i])),
                    Attribute("tensor_size", moved or read + written, "uint64"),
                    Attribute("engine", ENGINES[engine]),
                    Attribute("start_ps", start, "uint64"),
                    Attribute("duration_ps", end - start, "uint64"),
                    Attribute("source", f"{file}:{line}"),
                ),
            )
        )
    attributes = (
        Attribute("kernel", data.kernel),
        Attribute("arch", str(data.arch["name"])),
        Attribute("rank", rank),
        Attribute("latency_ps", data.latency_ps, "uint64"),
    )
    return Trace(tuple(nodes), attributes=attributes)
