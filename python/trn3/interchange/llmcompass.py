"""A system for LLMCompass: devices of cores with systolic arrays, and their links."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trn3.facts.spec import spec_of
from trn3.interchange.exported import ExportDocument, ExportError
from trn3.interchange.levels import dimensions, load
from trn3.system.base import System

#: A PCIe transaction of the links, in bytes (choice): PCIe 6 sends flits of 256, 236 of them data.
FLIT_BYTES, HEADER_BYTES, PAYLOAD_BYTES = 256, 20, 236


def llmcompass(system: str | Path | System) -> ExportDocument:
    """Return a system as LLMCompass's description of hardware.

    One of its cores is one NeuronCore: its array, its vector engine's 128 lanes, SBUF as the core's
    SRAM. The format knows one global buffer and one sort of link, so those are the chip's SBUF
    and the innermost level of the fabric.

    Parameters
    ----------
    system
        A name such as ``"gen2"``, a spec file, or a system of trn3.

    Returns
    -------
    ExportDocument
        JSON with ``name``, ``device_count``, ``interconnect`` and ``device``.

    Raises
    ------
    ExportError
        If parts of the system have failed, or its chip has no NeuronCores.
    """
    asked = load(system)
    found, notes = dimensions(asked)
    facts = asked.spec().facts
    chip = facts.part("chip") or facts
    spec = spec_of(chip)
    core = spec.parts.get("core")
    if core is None:
        message = (
            f"{asked.name}: {chip.name} has no core in the published figures; "
            "allowed: systems of Trainium chips"
        )
        raise ExportError(message)
    inner = found[0]
    count = 1
    for dimension in found:
        count *= dimension.size
    clock = core["clock_tensor"].si
    chiplets = int(spec["compute_chiplets"].number) if "compute_chiplets" in spec else 1
    cores = int(spec["cores"].number) // chiplets
    stacks = int(spec["hbm_stacks"].number) if "hbm_stacks" in spec else 1
    pins = 1024
    lanes = int(core["pe_cols"].number)
    links = 1 if inner.kind == "switch" else 2 if inner.kind == "ring" else inner.size - 1
    sbuf = core["sbuf"].si
    content: dict[str, Any] = {
        "name": asked.title,
        "device_count": count,
        "interconnect": {
            "link": {
                "name": f"NeuronLink {inner.name}",
                "bandwidth_per_direction_byte": inner.rate,
                "bandwidth_both_directions_byte": 2 * inner.rate,
                "latency_second": inner.latency,
                "flit_size_byte": FLIT_BYTES,
                "header_size_byte": HEADER_BYTES,
                "max_payload_size_byte": PAYLOAD_BYTES,
            },
            "link_count_per_device": links,
            "topology": "RING" if inner.kind == "ring" else "FC",
        },
        "device": {
            "frequency_Hz": clock,
            "compute_chiplet_count": chiplets,
            "compute_chiplet": {
                "physical_core_count": cores,
                "core_count": cores,
                "process_node": str(spec["process"].value) if "process" in spec else "",
                "core": {
                    "sublane_count": 1,
                    "systolic_array": {
                        "array_width": lanes,
                        "array_height": int(core["pe_rows"].number),
                        "data_type": "fp16",
                        "mac_per_cycle": 1,
                    },
                    "vector_unit": {
                        "vector_width": lanes,
                        # Its own clock, in cycles of the one clock that the format has.
                        "flop_per_cycle": core["tflops_vector_fp32"].si / (lanes * clock),
                        "data_type": "fp32",
                        "int32_count": lanes,
                        "fp16_count": 0,
                        "fp32_count": lanes,
                        "fp64_count": 0,
                    },
                    "register_file": {
                        "num_reg_files": 1,
                        "num_registers": int(core["psum"].si) // 4,
                        "register_bitwidth": 32,
                        "num_rdwr_ports": 2,
                    },
                    "SRAM_KB": sbuf / 1024,
                },
            },
            "memory_protocol": "HBM3E" if chip.name == "trainium3" else "HBM",
            "io": {
                "process_node": str(spec["process"].value) if "process" in spec else "",
                "global_buffer_MB": sbuf * cores * chiplets / 2**20,
                "physical_global_buffer_MB": sbuf * cores * chiplets / 2**20,
                "global_buffer_bandwidth_per_cycle_byte": spec["dma_bandwidth"].si / clock,
                "memory_channel_physical_count": stacks,
                "memory_channel_active_count": stacks,
                "pin_count_per_channel": pins,
                "bandwidth_per_pin_bit": spec["hbm_bandwidth"].si * 8 / (stacks * pins),
            },
            "memory": {"total_capacity_GB": spec["hbm_capacity"].si / 2**30},
        },
    }
    return ExportDocument(
        asked.title,
        content,
        (
            "one of its cores is one NeuronCore, in BF16",
            "sizes in MB and GB are MiB and GiB: so its reader takes them",
            "the format has one clock: rates of other engines are per cycle of the tensor engine",
            f"one sort of link: the {inner.name} level; the others are left out"
            if len(found) > 1
            else f"links are those of the {inner.name} level",
            "the global buffer is the chip's SBUF at the rate of its DMA engines",
            *notes,
        ),
        "json",
    )
