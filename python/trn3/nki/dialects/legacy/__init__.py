"""The legacy dialect of NKI (0.1), imported as ``neuronxcc.nki``.

Kernels of it index tiles by `language.arange` and `language.mgrid` expressions under masks, use
operators on tiles, and call instructions that return tiles. All of it runs on the instructions of
`trn3.nki.isa`.
"""

from __future__ import annotations

from trn3.nki import collectives
from trn3.nki.dialects.legacy import compiler, isa, language, typing
from trn3.nki.dialects.legacy.kernels import (
    FrameworkKernel,
    baremetal,
    benchmark,
    jit,
    profile,
    simulate_kernel,
    trace,
)
from trn3.nki.dialects.legacy.views import Tensor
from trn3.nki.launch.profiling import BenchmarkKernel

tensor = Tensor

__all__ = [
    "BenchmarkKernel",
    "FrameworkKernel",
    "baremetal",
    "benchmark",
    "collectives",
    "compiler",
    "isa",
    "jit",
    "language",
    "profile",
    "simulate_kernel",
    "tensor",
    "trace",
    "typing",
]
