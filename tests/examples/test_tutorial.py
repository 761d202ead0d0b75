"""The tutorial's kernels are those of the example, and its figures are what they cost."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.kernel_files import FOLDER, kernels_of
from trn3 import nki
from trn3.profile import Profile

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "tutorial" / "first-kernel.md").read_text()
STEPS = ["first", "wide", "pipelined", "two_cores[2]"]


def kernel_of(step: str) -> Any:
    name, _, cores = step.partition("[")
    kernel = getattr(kernels_of("gate"), name)
    return kernel[int(cores.rstrip("]"))] if cores else kernel


@functools.cache
def profile_of(step: str) -> Profile:
    _, profile = nki.profile(kernel_of(step), values=False, **kernels_of("gate").inputs())
    return profile


@pytest.mark.parametrize("step", STEPS)
def test_the_table_is_current(step: str) -> None:
    (row,) = re.findall(rf"\| `{re.escape(step)}` \| ([\d.]+) us \| (\d+) % \| (\w+) \|", PAGE)
    profile = profile_of(step)
    (dma,) = [engine for engine in profile.engines() if engine.engine == "dma"]
    bound = profile.verdict().split()[2].rstrip(":")
    share = f"{100 * dma.busy_us / profile.latency_us:.0f}"
    assert row == (f"{profile.latency_us:.1f}", share, bound)


def test_the_kernels_are_those_of_the_example() -> None:
    def bare(text: str) -> str:
        without_docstrings = re.sub(r'\n +""".*?"""', "", text, flags=re.DOTALL)
        return re.sub(r"  # .*", "", without_docstrings)

    example = bare((FOLDER / "gate.py").read_text())
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    functions = [part for block in blocks for part in re.split(r"\n\n\n", block) if "def " in part]
    assert len(functions) == 5
    for function in functions:
        assert bare(function).strip() in example


@pytest.mark.parametrize("step", [*STEPS, "two_cores"])
def test_each_step_is_the_same_gate(step: str) -> None:
    gate = kernels_of("gate")
    arguments = gate.inputs(rows=512, columns=1024)
    result = kernel_of(step)(**arguments).astype(np.float64)
    golden = gate.golden(**arguments)
    # Inputs are exact; silu and the product round to bfloat16 once each.
    assert (np.abs(result - golden) <= 2.0**-7 * np.abs(golden)).all()
