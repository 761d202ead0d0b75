"""NKI kernels on a simulated NeuronCore.

`jit` makes a function a kernel; calling it runs it. Kernels are plain Python that calls
`trn3.nki.language` (``nl``) and `trn3.nki.isa` (``nisa``). `install` registers this package as
``nki``, so that kernels written for that name run unmodified.

Environment variables: ``NEURON_PLATFORM_TARGET_OVERRIDE``, or without it ``NKI_NC_VERSION``, names
the target (``trn3`` by default); ``TRN3_NKI_VERSION`` the NKI version where versions differ;
``TRN3_COMPILE`` the level of the compiler (`simulate`);
``TRN3_NKI_NARROW64=1`` lets 64-bit arrays pass, converted to 32 bits;
``NKI_PRECISE_FP=0`` keeps float32 values in tensors of every floating-point type;
``NEURON_RT_STOCHASTIC_ROUNDING_EN=1`` rounds results of engines stochastically, from
``NEURON_RT_STOCHASTIC_ROUNDING_SEED`` (`simulate`);
``NEURON_RT_DEBUG_OUTPUT_DIR`` a folder for what `device_print` shows;
``NEURON_LOGICAL_NC_CONFIG`` cores that a runtime would join, which brackets are compared with;
``NKI_DMA_TRANSPOSE_AS_PE_TRANSPOSE=true`` reserves a PSUM bank; ``TRN3_NKI_STRICT=1`` refuses
kernels that the hardware compiler would refuse (`lint`). ``NKI_SIMULATOR=1``, by which the vendor's
package simulates, holds always: another value, which asks for a device, is warned of.
"""

from __future__ import annotations

import contextlib
import importlib
from typing import TYPE_CHECKING, Any

from trn3.nki import collectives, dtype, experimental, isa, language, simulator, tensor, typing
from trn3.nki.dialects.vendor.aliases import install, uninstall
from trn3.nki.language import assignment as tensors
from trn3.nki.launch.debugging import last_findings
from trn3.nki.launch.jit import Kernel, jit, simulate
from trn3.nki.launch.multirank import profile_ranks, simulate_ranks, spmd
from trn3.nki.launch.observers import Launched, observing
from trn3.nki.launch.profiling import baremetal, benchmark, profile, simulate_kernel, trace
from trn3.nki.lint import lint
from trn3.nki.ranks.gang import DeadlockError

if TYPE_CHECKING:
    from trn3.nki import language as builtin  # noqa: F401  as an attribute
    from trn3.nki.dialects.legacy import compiler as compiler
    from trn3.nki.launch.checking import CheckedRun
    from trn3.nki.launch.differences import Diff, DiffRow, diff
    from trn3.nki.launch.golden import GoldenShapeError, ResultCheck, ResultTolerance
    from trn3.nki.launch.programs import Program as Program
    from trn3.nki.launch.recording import (
        record,
        record_cores,
        record_ranks,
        replay_cores,
        replay_ranks,
    )

__all__ = [
    "CheckedRun",
    "DeadlockError",
    "Diff",
    "DiffRow",
    "FrameworkKernel",
    "GoldenShapeError",
    "Kernel",
    "Launched",
    "ResultCheck",
    "ResultTolerance",
    "baremetal",
    "benchmark",
    "collectives",
    "cpu_simulate",
    "diff",
    "dtype",
    "experimental",
    "install",
    "isa",
    "jit",
    "language",
    "last_findings",
    "lint",
    "observing",
    "profile",
    "profile_ranks",
    "record",
    "record_cores",
    "record_ranks",
    "replay_cores",
    "replay_ranks",
    "simulate",
    "simulate_kernel",
    "simulate_ranks",
    "simulator",
    "spmd",
    "tensor",
    "tensors",
    "trace",
    "typing",
    "uninstall",
]

#: Older name of `simulate`.
cpu_simulate = simulate
#: Name of `Kernel` in NKI 0.1 and 0.2.
FrameworkKernel = Kernel


def __dir__() -> list[str]:
    own = (name for name in globals() if name.startswith("__"))
    return sorted({*__all__, "builtin", "compiler", *own})


if not TYPE_CHECKING:  # to checkers a name that is misspelt shall be an error

    def __getattr__(name: str) -> Any:
        # Reports need more imports than running kernels does.
        if name in ("Diff", "DiffRow", "diff"):
            return getattr(importlib.import_module("trn3.nki.launch.differences"), name)
        if name == "CheckedRun":
            return importlib.import_module("trn3.nki.launch.checking").CheckedRun
        if name in ("GoldenShapeError", "ResultCheck", "ResultTolerance"):
            return getattr(importlib.import_module("trn3.nki.launch.golden"), name)
        if name in ("record", "record_cores", "record_ranks", "replay_cores", "replay_ranks"):
            return getattr(importlib.import_module("trn3.nki.launch.recording"), name)
        if name == "compiler":
            # Decorators and allocators of older kernels, imported as ``nki.compiler``.
            return importlib.import_module("trn3.nki.dialects.legacy.compiler")
        if name == "builtin":
            # What the older simulator's tree calls it.
            return language
        message = f"module {__name__!r} has no attribute {name!r}"
        if not name.startswith("_"):
            # Modules that lay here in an earlier release, which warn.
            with contextlib.suppress(ModuleNotFoundError):
                return importlib.import_module(f"trn3.nki.{name}")
        raise AttributeError(message)
