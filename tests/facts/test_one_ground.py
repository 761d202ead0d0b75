"""One fact, one home: machines and systems say the same of a chip, whoever is asked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from trn3.facts.spec import Spec, spec_of
from trn3.machine import arch

MACHINES = {"trn1": "trainium1", "trn2": "trainium2", "trn3": "trainium3"}
#: An entry of a machine; what the facts call it, of the chip or (with ``core.``) of its core; and
#: what one unit of the entry is in base units. Rates of lanes are given for all 128 of them.
SAME = (
    ("cores", "cores", 1), ("hbm_bytes", "hbm_capacity", 1), ("hbm_gbps", "hbm_bandwidth", 1e9),
    ("partitions", "core.pe_rows", 1), ("stationary_columns", "core.pe_cols", 1),
    ("sbuf_partition_bytes", "core.sbuf", 128), ("tensor_clock_mhz", "core.clock_tensor", 1e6),
    ("vector_clock_mhz", "core.clock_vector", 1e6), ("scalar_clock_mhz", "core.clock_scalar", 1e6),
    ("gpsimd_clock_mhz", "core.clock_gpsimd", 1e6), ("float32_passes", "core.fp32_passes", 1),
    ("double_row_elements", "core.fp8_k_per_pe", 1), ("mx_elements", "core.mx_k_per_pe", 1),
    ("dma_engines", "core.dma_engines", 1), ("dma_engine_bytes_per_ns", "core.dma_engine_bw", 1e9),
    ("hardware_dge", "core.dge_instances", 1),
    ("dma_hardware_dge_ns", "core.dge_issue_latency", 1e-9),
    ("gpsimd_dma_bytes_per_ns", "core.gpsimd_dma_bw_way", 1e9),
    ("dma_transpose_share", "core.dma_transpose_efficiency_hbm", 1),
    ("dma_transpose_share_sbuf", "core.dma_transpose_efficiency_sbuf", 1),
    ("throttle_start", "core.tensor_didt_start_fraction", 1),
    ("throttle_ramp_ns", "core.tensor_didt_ramp", 1e-9),
    ("vector_copy_rate_16bit", "core.vector_elems_16bit", 128),
    ("vector_copy_rate_32bit", "core.vector_elems_32bit", 128),
    ("scalar_copy_rate_16bit", "core.scalar_elems_16bit", 128),
    ("scalar_rate", "core.scalar_elems_32bit", 128), ("gpsimd_rate", "core.gpsimd_elems", 128),
    ("vector_exponential_rate_16bit", "core.exp_speedup_vs_scalar", 1),
    ("vector_quantize_rate", "core.quantize_mx_rate", 1),
    ("vector_rand2_rate", "core.prng_words", 1),
)  # fmt: skip


def figure(spec: Spec, name: str) -> float | None:
    """Return a figure of a chip or of its core in base units; None where nothing is published."""
    role, dot, key = name.rpartition(".")
    held = spec.parts[role] if dot else spec
    return held[key].si if key in held and held[key].is_number else None


def differences(machine: str, chip: str) -> Iterator[str]:
    described, spec = arch(machine), spec_of(chip)
    for entry, name, unit in SAME:
        published = figure(spec, name)
        if published is not None and described[entry] != pytest.approx(published / unit, rel=1e-9):
            yield f"{machine}.{entry} is {described[entry]:g}, {chip}.{name} {published / unit:g}"
    array = 2 * described["partitions"] ** 2 * described["tensor_clock_mhz"] * 1e6
    for dtype, at_once in (
        ("bf16", 1.0),
        ("fp32", 1 / described["float32_passes"]),
        ("fp8", described["double_row_elements"]),
        ("mxfp8", described["mx_elements"]),
        ("mxfp4", described["mx_elements"]),
        ("sparse", described["sparse_elements"]),
    ):
        peak = array * at_once * described["cores"]
        derived = figure(spec, f"tflops_{dtype}")
        # Of rates that are no more than that of bf16 nothing need be published.
        if (peak > array * described["cores"] or derived) and peak != pytest.approx(derived):
            there = "is not there" if derived is None else f"is {derived / 1e12:g}"
            yield (
                f"{machine}: array x clock gives {peak / 1e12:g} TFLOPS of {dtype}, "
                f"{chip}.tflops_{dtype} {there}"
            )


def test_machines_and_systems_say_the_same() -> None:
    assert not [line for machine, chip in MACHINES.items() for line in differences(machine, chip)]


@pytest.mark.parametrize("chip", MACHINES.values())
def test_every_figure_of_both_is_compared(chip: str) -> None:
    """The comparison would pass on chips without figures."""
    spec = spec_of(chip)
    assert sum(figure(spec, name) is not None for _, name, _ in SAME) >= 13
