"""The compiler's role: what a compiled profile takes beside one as written of the same kernel.

The kernel is the plain matrix product of ``examples/optimize``, at a size of a million
instructions; what each pass takes by itself is in ``rust/compiler/benches``.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import ml_dtypes
import numpy as np
import pytest

from comparison import Comparison, Rival, Work, limit
from trn3 import nki
from trn3.cli import kernel_file
from trn3.validation.imported import vendor_names

PLAIN = Path(__file__).resolve().parents[1] / "examples" / "optimize"
ALONE = pytest.mark.parametrize("threads", [1], ids=["1-thread"], indirect=True)

# A million instructions: through the front end, through all passes (10 s of it), and timed.
SECONDS_OF_A_MILLION = 20.0


def plain(name: str) -> ModuleType:
    """Return the module of a plain kernel."""
    with vendor_names():
        return kernel_file.import_file(PLAIN / f"{name}.py")


@ALONE
def bench_compile_plain_matmul(compare: Comparison, quick: bool) -> None:
    size = 512 if quick else 14_336
    kernel = plain("matmul").matmul
    lhs, rhs = (np.zeros((size, size), ml_dtypes.bfloat16) for _ in range(2))

    def run(level: str) -> int:
        _, profile = nki.profile(kernel, lhs, rhs, arch="trn2", values=False, compile=level)
        return len(profile.data.instructions)

    count = run("as-written")
    compare(
        f"compile: plain matmul at level neuronx-cc, timing only, {size}^3",
        lambda: run("neuronx-cc"),
        [
            Rival("as written", lambda: run("as-written"), goal=0.25),
            limit(SECONDS_OF_A_MILLION * count / 1e6, f"{SECONDS_OF_A_MILLION:.0f} s a million"),
        ],
        Work(count, "instructions/s"),
    )
