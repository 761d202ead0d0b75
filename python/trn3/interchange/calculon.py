"""A system for Calculon: peaks and efficiencies by size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trn3.facts.spec import Spec, spec_of
from trn3.interchange.exported import ExportDocument
from trn3.interchange.levels import Dimension, dimensions, load
from trn3.system.base import System

GIBI = 2**30
#: Sizes at which the tables have a line: GFLOP of an operation, MB of an access.
GFLOP_STEPS = (1000, 100, 10, 1, 0.1, 0)
MB_STEPS = (100, 10, 1, 0.1, 0)
NETWORK_OPS = {"p2p": 1.0, "reduce_scatter": 1.0, "all_gather": 1.0, "all_reduce": 1.0}


def calculon(system: str | Path | System) -> ExportDocument:
    """Return a system as Calculon's description of one.

    Efficiencies are computed, not measured: of matrices from the ramp of the tensor engine's
    current limit (from `tensor_didt_start_fraction` of the peak, linearly, over `tensor_didt_ramp`;
    chips without the two figures have none), of memory from the setup time of a DMA
    (`dma_setup_latency`).

    Parameters
    ----------
    system
        A name such as ``"gen2"``, a spec file, or a system of trn3.

    Returns
    -------
    ExportDocument
        JSON with ``matrix``, ``vector``, ``mem1``, ``mem2``, ``processing_mode`` and ``networks``.

    Raises
    ------
    ExportError
        If parts of the system have failed.
    ValueError
        If its chip lacks a figure that is needed.
    """
    asked = load(system)
    found, notes = dimensions(asked)
    facts = asked.spec().facts
    chip = facts.part("chip") or facts
    spec = spec_of(chip)
    core = spec.parts.get("core")
    for key in ("tflops_bf16", "hbm_bandwidth", "hbm_capacity"):
        chip.need(key, "Calculon")
    ramp = _si(core, "tensor_didt_ramp", 0.0)
    start = _si(core, "tensor_didt_start_fraction", 1.0) if ramp else 1.0
    setup = _si(core, "dma_setup_latency", 0.0)
    bf16 = _si(spec, "tflops_bf16", 0.0)
    dtypes = {"float16": bf16, "bfloat16": bf16}
    for key in ("tflops_fp8", "tflops_mxfp8"):
        if key in spec:
            dtypes["float8"] = _si(spec, key, 0.0)
    peak = max(dtypes.values())
    hbm = _si(spec, "hbm_bandwidth", 0.0)
    bandwidth = min(hbm, _si(spec, "dma_bandwidth", hbm))
    vector = _si(core, "tflops_vector_fp32", 0.0) * _si(spec, "cores", 1.0)
    vector = vector or _si(spec, "tflops_fp32", bf16)
    ramp_note = (
        f"matrix efficiency is the ramp of the current limit: {start:g} of the peak, full after "
        f"{ramp * 1e6:g} us"
    )

    content: dict[str, Any] = {
        "matrix": {
            "tflops": _rounded(peak / 1e12),
            "gflops_efficiency": {
                dtype: [
                    [size, _rounded(rate / peak * _ramp(size * 1e9 / rate, ramp, start))]
                    for size in GFLOP_STEPS
                ]
                for dtype, rate in dtypes.items()
            },
        },
        "vector": {
            "tflops": _rounded(vector / 1e12),
            "gflops_efficiency": {dtype: [[0, 1.0]] for dtype in dtypes},
        },
        "mem1": {
            "GiB": _rounded(_si(spec, "hbm_capacity", 0.0) / GIBI),
            "GBps": _rounded(bandwidth / 1e9),
            "MB_efficiency": [[size, _filled(size * 1e6, bandwidth, setup)] for size in MB_STEPS],
        },
        # No rate to the host is published: without capacity nothing is offloaded.
        "mem2": {"GiB": 0, "GBps": _rounded(bandwidth / 1e9), "MB_efficiency": [[0, 1.0]]},
        "processing_mode": "roofline",
        "networks": _networks(found),
    }
    return ExportDocument(
        asked.title,
        content,
        (
            "one processor is one chip; peaks are array x clock",
            "memory runs at the lesser of HBM and DMA engines"
            + (f", with {setup * 1e6:g} us to set up a DMA" if setup else ""),
            ramp_note if ramp else "matrix efficiency is 1: no ramp is published for this chip",
            "mem2 has no capacity: no rate to the host is published",
            "collectives run beside computation (CC-cores), so networks use no processor",
            *notes,
        ),
        "json",
    )


def _si(spec: Spec | None, key: str, otherwise: float) -> float:
    return spec[key].si if spec is not None and key in spec else otherwise


def _networks(found: Sequence[Dimension]) -> list[dict[str, Any]]:
    networks = []
    size = 1
    for dimension in found:
        size *= dimension.size
        # Both directions of a ring serve a collective.
        ways = 2 if dimension.kind == "ring" and dimension.size > 2 else 1
        networks.append(
            {
                "bandwidth": _rounded(dimension.rate * ways / 1e9),
                "efficiency": 1.0,
                "size": size,
                "latency": _rounded(dimension.latency),
                "ops": dict(NETWORK_OPS),
                "collective_minus1_scalar": True,
                "must_be_filled": True,
                "processor_usage": 0.0,
            }
        )
    networks[-1]["must_be_filled"] = False
    return networks


def _ramp(seconds: float, ramp: float, start: float) -> float:
    """Return the mean speed over a burst whose work takes `seconds` at full speed."""
    if ramp == 0.0:
        return 1.0
    if seconds <= 0.0:
        return start
    # Work done while the speed grows from `start` to 1.
    whole = ramp * (1.0 + start) / 2.0
    if seconds >= whole:
        return seconds / (ramp + seconds - whole)
    # Speed grows linearly, so its mean is that of its first and last value.
    slope = (1.0 - start) / ramp
    return (start + math.sqrt(start * start + 2.0 * slope * seconds)) / 2.0


def _filled(size: float, bandwidth: float, setup: float) -> float:
    if setup == 0.0:
        return 1.0
    # Nothing is a whole access; a tenth of the smallest line stands for it.
    size = size or MB_STEPS[-2] * 1e5
    return _rounded(size / (size + setup * bandwidth))


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
