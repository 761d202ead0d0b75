"""Single instructions: how long they last, and how far apart dependent ones start."""

from __future__ import annotations

from typing import Any

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from trn3.validation.experiments._registry import Figures, experiment
from trn3.validation.experiments.measure import KernelRun


@experiment
def tensor_tensor(
    hardware: str, *, partitions: int, elements: int, dtype: str, one_in_psum: bool
) -> Figures:
    """Measure VectorE's sum of two tiles."""

    def kernel() -> None:
        kind: Any = getattr(nl, dtype)
        place = nl.psum if one_in_psum else nl.sbuf
        first = nl.ndarray((partitions, elements), kind, buffer=nl.sbuf)
        second = nl.ndarray((partitions, elements), kind, buffer=place)
        result = nl.ndarray((partitions, elements), kind, buffer=nl.sbuf)
        nisa.tensor_tensor(result, first, second, op=nl.add, name="sum")

    return {"duration": KernelRun(kernel, hardware)["sum"].duration}


@experiment
def activation(hardware: str, *, partitions: int, elements: int, dtype: str) -> Figures:
    """Measure ScalarE's exp, each depending on the one before."""

    def kernel() -> None:
        tile = nl.ndarray((partitions, elements), getattr(nl, dtype), buffer=nl.sbuf)
        nisa.activation(tile, op=nl.exp, data=tile, name="first")
        nisa.activation(tile, op=nl.exp, data=tile, name="second")

    run = KernelRun(kernel, hardware)
    return {
        "duration": run["second"].duration,
        "spacing": run["second"].start - run["first"].start,
        "table_load": run["first"].start,
    }


@experiment
def matmul(
    hardware: str, *, contraction: int, columns: int, length: int, dtype: str, operands: int
) -> Figures:
    """Measure a matmul: its moving pass, its stationary load, and the spacing of a stream of them.

    ``operands`` is the number of array instructions that the hardware's profile shows for one
    matmul: float32 comes as two of half the passes each.
    """

    def kernel() -> None:
        kind: Any = getattr(nl, dtype)
        stationary = nl.ndarray((contraction, columns), kind, buffer=nl.sbuf)
        moving = nl.ndarray((contraction, length), kind, buffer=nl.sbuf)
        results = [nl.ndarray((columns, length), nl.float32, buffer=nl.psum) for _ in range(2)]
        nisa.memset(stationary, 0, engine=nisa.vector_engine, name="operand")
        for i in range(8):
            nisa.nc_matmul(results[i % 2], stationary, moving, accumulate=i > 1, name=f"matmul {i}")

    run = KernelRun(kernel, hardware)
    wait = _spec(run, "semaphore_ns")
    first, last = run["matmul 0"], run["matmul 7"]
    pass_ns = last.slot_end - last.start
    return {
        # An instruction of a part of the passes has the whole of the fixed latency.
        "duration": pass_ns / operands + last.duration - pass_ns,
        "load_duration": first.start - run["operand"].end - wait,
        "spacing": (last.start - run["matmul 6"].start) / operands,
    }


def _spec(run: KernelRun, key: str) -> float:
    return float(run.profile.data.arch[key])


__all__ = ["activation", "matmul", "tensor_tensor"]
