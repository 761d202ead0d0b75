"""Claims that the simulated core shows."""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from trn3.checkpoint import BLOCK
from trn3.validation.claims._bits import bits
from trn3.validation.claims._registry import Figures, claim
from trn3.validation.experiments.measure import KernelRun

#: Long and short tiles: what an element takes is free of what an instruction takes.
SHORT: Final = 512
LONG: Final = 4096

# The elements of the two formats, and the scale of eight bits that a block shares.
MXFP8: Final = ml_dtypes.float8_e4m3fn
MXFP4: Final = ml_dtypes.float4_e2m1fn
SCALE: Final = ml_dtypes.float8_e8m0fnu


@claim("exponential")
def _exponential() -> Figures:
    def kernel() -> None:
        for length in (SHORT, LONG):
            tile = nl.ndarray((128, length), nl.bfloat16, buffer=nl.sbuf)
            nisa.exponential(tile, tile, name=f"vector {length}")
            nisa.activation(tile, op=nl.exp, data=tile, name=f"scalar {length}")

    run = KernelRun(kernel, "trn3")

    def growth(engine: str) -> float:
        return run[f"{engine} {LONG}"].duration - run[f"{engine} {SHORT}"].duration

    return {"bfloat16, time of an element": growth("scalar") / growth("vector")}


@claim("mxfp4-no-faster")
def _mxfp4_no_faster() -> Figures:
    def kernel() -> None:
        for dtype in ("float8_e4m3fn_x4", "float4_e2m1fn_x4"):
            kind: Any = getattr(nl, dtype)
            stationary = nl.ndarray((128, 128), kind, buffer=nl.sbuf)
            moving = nl.ndarray((128, 512), kind, buffer=nl.sbuf)
            scales = nl.ndarray((128, 512), nl.uint8, buffer=nl.sbuf)
            result = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
            nisa.nc_matmul_mx(
                result, stationary, moving, scales[:, 0:128], scales, name=f"matmul {dtype}"
            )

    run = KernelRun(kernel, "trn3")

    wide, narrow, shared = (bits(dtype) for dtype in (MXFP8, MXFP4, SCALE))
    scale = shared / BLOCK
    return {
        "matmul on the simulated array, MXFP8 over MXFP4": run["matmul float8_e4m3fn_x4"].duration
        / run["matmul float4_e2m1fn_x4"].duration,
        "elements' bytes, MXFP4 over MXFP8": narrow / wide,
        "bytes with scales, MXFP4 over MXFP8": (narrow + scale) / (wide + scale),
    }


@claim("accumulate-dma")
def _accumulate_dma() -> Figures:
    def kernel() -> None:
        source = nl.ndarray((128, LONG), nl.float32, buffer=nl.hbm)
        tile = nl.ndarray((128, LONG), nl.float32, buffer=nl.sbuf)
        nisa.dma_compute(tile, [source, tile], reduce_op=nl.add, name="add")
        nisa.dma_copy(tile, source, name="copy")

    def share(hardware: str) -> float:
        run = KernelRun(kernel, hardware)

        def time(label: str) -> float:
            return sum(end - start for _, start, end, _ in run[label].shares())

        return time("copy") / time("add")

    return {
        "Trainium3, share of a copy's rate": share("trn3"),
        "Trainium2, share of a copy's rate": share("trn2"),
    }
