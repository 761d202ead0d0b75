"""Members of objects that calls give and no documented name: the objects are looked at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import trn3
from surface import small_kernels
from surface.descriptions import describe
from trn3 import nki


def record() -> dict[str, Any]:
    """Describe the types of what calls give, by the calls."""
    found = {call: describe(type(value)) for call, value in _objects()}
    for about in found.values():
        # Users get these; they do not make them.
        about.pop("signature", None)
    return found


def _objects() -> Iterator[tuple[str, object]]:
    x = small_kernels.inputs()["x"]
    program = nki.record(small_kernels.softmax, x)
    yield "nki.record(...)", program
    yield "nki.record(...).inputs[0]", program.inputs[0]
    yield "nki.record(...).run(...)", program.run({"x": x})
    yield "nki.lint(...)[0]", nki.lint(small_kernels.unportable)[0]
    benchmark = nki.benchmark(small_kernels.softmax)
    benchmark(x)
    yield "nki.benchmark(...)", benchmark
    yield "nki.benchmark(...).benchmark_result", benchmark.benchmark_result
    yield "nki.benchmark(...).benchmark_result.nc_latency", benchmark.benchmark_result.nc_latency
    # One function plans serving and training; its type says the former.
    step: Any = trn3.plan(
        "llama-3-8b", "trn1", training=trn3.Training(1024, 2048), chips=512, tp=32
    )
    yield "trn3.plan(training=...)", step
    yield "trn3.plan(training=...).layout", step.layout
    yield "trn3.plan(training=...).memory", step.memory
    yield "trn3.plan(training=...).phases[0]", step.phases[0]
    comparison = trn3.compare("gen2", "gb300")
    yield "trn3.compare(...)", comparison
    yield "trn3.compare(...).rows[0]", comparison.rows[0]
    yield "trn3.systems.load(...).facts", trn3.systems.load("gen2").facts
